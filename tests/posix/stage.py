# SPDX-License-Identifier: Apache-2.0
"""What a case is and what it can use. A case is a function over a Stage: a fresh folder on the file
system under test, objects of every type, other users, and checks. Tables of cases are functions
with one row of arguments for each case. A case knows nothing of the file system it runs on: the
same one runs on the reference."""

import errno
import os
import stat
import time
from dataclasses import dataclass, field

import calls

KINDS = ("regular", "directory", "fifo", "block", "character", "socket", "symlink")
TYPES = {"regular": stat.S_IFREG, "directory": stat.S_IFDIR, "fifo": stat.S_IFIFO,
         "block": stat.S_IFBLK, "character": stat.S_IFCHR, "socket": stat.S_IFSOCK,
         "symlink": stat.S_IFLNK}
TICK_SECONDS = 0.012  # longer than the step of the kernel's coarse clock
RELEASE_SECONDS = 10  # until a file system has been told that a file was closed


@dataclass(frozen=True)
class User:
    id: int
    group: int
    groups: tuple = field(default=())


ALICE = User(40001, 40001, (40011, 40012))
BOB = User(40002, 40002, (40012,))
CAROL = User(40003, 40003)


class Failed(Exception):
    """A check of a case did not hold."""


@dataclass(frozen=True)
class Case:
    name: str
    function: object
    row: tuple
    read_only: bool


CASES = []


def case(name):
    """Registers a function as one case."""
    def register(function):
        CASES.append(Case(name, function, (), False))
        return function
    return register


def each(name, rows, read_only=False):
    """Registers a function for every row; the row's leading strings fill the name's places."""
    def register(function):
        for row in rows:
            row = row if isinstance(row, tuple) else (row,)
            CASES.append(Case(name.format(*row), function, row, read_only))
        return function
    return register


def name_of(number):
    return errno.errorcode.get(number, str(number)) if number else "success"


def error_of(call, *arguments, **named):
    try:
        call(*arguments, **named)
    except OSError as error:
        return error.errno
    return 0


def as_user(user, work):
    """Runs `work` in a child of other ids; the error number it met, or 0."""
    child = os.fork()
    if child == 0:
        number = 255
        try:
            os.setgroups(list(user.groups))
            os.setresgid(user.group, user.group, user.group)
            os.setresuid(user.id, user.id, user.id)
            number = error_of(work)
        finally:
            os._exit(number)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def make_socket(path):
    calls.mknod(path, stat.S_IFSOCK | 0o644)


MAKERS = {"regular": calls.write_file,
          "directory": os.mkdir,
          "fifo": lambda path: os.mkfifo(path, 0o644),
          "block": lambda path: calls.mknod(path, stat.S_IFBLK | 0o644, os.makedev(7, 201)),
          "character": lambda path: calls.mknod(path, stat.S_IFCHR | 0o644, os.makedev(1, 3)),
          "socket": make_socket,
          "symlink": lambda path: os.symlink("nowhere", path)}


class Stage:
    """A folder of its own for one case. `outside` is a folder on another file system."""

    def __init__(self, folder, outside):
        self.folder = folder
        self.outside = outside

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def make(self, kind, name="x", mode=None, owner=None, group=None):
        """An object of that type; its owner's group unless another is given."""
        path = self.path(name)
        MAKERS[kind](path)
        if owner is not None or group is not None:
            user = 0 if owner is None else owner.id
            other = 0 if owner is None else owner.group
            os.lchown(path, user, other if group is None else group)
        if mode is not None:
            os.chmod(path, mode)
        return path

    def equal(self, found, expected, what="value"):
        if found != expected:
            raise Failed(f"{what} is {found!r}, expected {expected!r}")

    def true(self, holds, what):
        if not holds:
            raise Failed(what)

    def becomes_true(self, holds, what):
        """Waits for what follows the close of a file: FUSE sends RELEASE in the background, so that
        close(2) returns before the file system knows of it."""
        limit = time.monotonic() + RELEASE_SECONDS
        while not holds():
            self.true(time.monotonic() < limit, what)
            time.sleep(TICK_SECONDS)

    def fails(self, number, call, *arguments, user=None, **named):
        """Checks that the call fails with that error; 0: that it succeeds. Or any of several."""
        if user is None:
            found = error_of(call, *arguments, **named)
        else:
            found = as_user(user, lambda: call(*arguments, **named))
        numbers = number if isinstance(number, tuple) else (number,)
        if found not in numbers:
            name = getattr(call, "__name__", "call")
            wanted = " or ".join(name_of(one) for one in numbers)
            raise Failed(f"{name} answers {name_of(found)}, expected {wanted}")

    def succeeds(self, call, *arguments, user=None, **named):
        self.fails(0, call, *arguments, user=user, **named)

    def mode(self, path):
        return stat.S_IMODE(os.lstat(path).st_mode)

    def is_owned(self, path, user, group):
        facts = os.lstat(path)
        self.equal((facts.st_uid, facts.st_gid), (user, group), "owner and group")

    def is_kind(self, path, kind):
        self.equal(stat.S_IFMT(os.lstat(path).st_mode), TYPES[kind], "file type")

    def has_mode(self, path, mode):
        self.true(self.mode(path) == mode, f"mode is {self.mode(path):o}, expected {mode:o}")

    def has_links(self, path, count):
        self.equal(os.lstat(path).st_nlink, count, "link count")

    def exists(self, path):
        self.true(os.path.lexists(path), f"{os.path.basename(path)} is gone")

    def is_absent(self, path):
        self.fails(errno.ENOENT, os.lstat, path)

    def watch(self, *paths):
        """Notes the times of paths, then waits until the clock has moved."""
        noted = {path: times_of(path) for path in paths}
        time.sleep(TICK_SECONDS)
        return noted

    def changed(self, noted, path, letters):
        """Checks that since `noted` exactly the times in `letters` (of "amc") are newer."""
        found = "".join(letter for letter, old, new in zip("amc", noted[path], times_of(path))
                        if new > old)
        older = [letter for letter, old, new in zip("amc", noted[path], times_of(path))
                 if new < old]
        self.true(not older, f"times {older} of {os.path.basename(path)} went back")
        self.equal(found, letters, f"set of changed times of {os.path.basename(path)}")


def times_of(path):
    facts = os.fstat(path) if isinstance(path, int) else os.lstat(path)
    return facts.st_atime_ns, facts.st_mtime_ns, facts.st_ctime_ns
