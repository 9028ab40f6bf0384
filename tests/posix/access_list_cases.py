# SPDX-License-Identifier: Apache-2.0
"""POSIX access control lists: entries for users and groups, the mask, lists that a directory hands
down, and their meeting with chmod and the umask. Lists are written as bytes; no tool is needed."""

import errno
import os

import calls
from calls import ACCESS_LIST, DEFAULT_LIST, access_list
from stage import ALICE, BOB, CAROL, case, each


def opens(path, flags):
    return calls.open_and_close(path, flags)


def give(path, *entries, name=ACCESS_LIST):
    os.setxattr(path, name, access_list(*entries))


@case("list: an entry for a user decides, limited by the mask")
def named_user(stage):
    path = stage.make("regular", "x", 0o600)
    give(path, ("user::", 6), ("user", ALICE.id, 6), ("user", BOB.id, 0), ("group::", 4),
         ("mask", 6), ("other", 4))
    stage.has_mode(path, 0o664)
    stage.succeeds(opens, path, os.O_RDWR, user=ALICE)
    stage.fails(errno.EACCES, opens, path, os.O_RDONLY, user=BOB)
    stage.succeeds(opens, path, os.O_RDONLY, user=CAROL)
    stage.fails(errno.EACCES, opens, path, os.O_WRONLY, user=CAROL)
    os.chmod(path, 0o644)
    stage.fails(errno.EACCES, opens, path, os.O_RDWR, user=ALICE)
    stage.succeeds(opens, path, os.O_RDONLY, user=ALICE)
    os.chmod(path, 0o660)
    stage.succeeds(opens, path, os.O_RDWR, user=ALICE)


@case("list: an entry for a group, main or another of the caller")
def named_group(stage):
    path = stage.make("regular", "x", 0o600)
    give(path, ("user::", 6), ("group::", 0), ("group", BOB.groups[0], 4), ("mask", 7),
         ("other", 0))
    stage.succeeds(opens, path, os.O_RDONLY, user=BOB)
    stage.succeeds(opens, path, os.O_RDONLY, user=ALICE)
    stage.fails(errno.EACCES, opens, path, os.O_WRONLY, user=ALICE)
    stage.fails(errno.EACCES, opens, path, os.O_RDONLY, user=CAROL)


@case("list: one that the mode can say is kept as the mode alone")
def minimal(stage):
    path = stage.make("regular", "x", 0o600)
    give(path, ("user::", 6), ("group::", 4), ("other", 1))
    stage.has_mode(path, 0o641)
    stage.equal(os.listxattr(path), [], "names")
    stage.fails(errno.ENODATA, os.getxattr, path, ACCESS_LIST)


@case("list: chmod changes the mask, not the group's entry")
def mask_and_mode(stage):
    path = stage.make("regular", "x", 0o600)
    give(path, ("user::", 6), ("user", ALICE.id, 6), ("group::", 4), ("mask", 6), ("other", 0))
    os.chmod(path, 0o710)
    expected = access_list(("user::", 7), ("user", ALICE.id, 6), ("group::", 4), ("mask", 1),
                           ("other", 0))
    stage.equal(os.getxattr(path, ACCESS_LIST), expected, "list")
    os.removexattr(path, ACCESS_LIST)
    stage.equal(os.listxattr(path), [], "names")


HANDED_DOWN = [("user::", 7), ("user", ALICE.id, 7), ("group::", 5), ("mask", 7), ("other", 5)]


@case("list: a directory hands its default down to a file, in place of the umask")
def file_inherits(stage):
    folder = stage.make("directory", "d", 0o755)
    give(folder, *HANDED_DOWN, name=DEFAULT_LIST)
    os.umask(0o077)
    calls.open_and_close(stage.path("d/x"), os.O_CREAT | os.O_WRONLY, 0o664)
    stage.has_mode(stage.path("d/x"), 0o664)
    expected = access_list(("user::", 6), ("user", ALICE.id, 7), ("group::", 5), ("mask", 6),
                           ("other", 4))
    stage.equal(os.getxattr(stage.path("d/x"), ACCESS_LIST), expected, "list")
    stage.succeeds(opens, stage.path("d/x"), os.O_RDWR, user=ALICE)
    stage.fails(errno.ENODATA, os.getxattr, stage.path("d/x"), DEFAULT_LIST)


@case("list: a directory hands its default down to a directory, and so on")
def directory_inherits(stage):
    folder = stage.make("directory", "d", 0o755)
    give(folder, *HANDED_DOWN, name=DEFAULT_LIST)
    os.umask(0o077)
    os.makedirs(stage.path("d/e/f"))
    for name in ("d/e", "d/e/f"):
        stage.equal(os.getxattr(stage.path(name), DEFAULT_LIST), access_list(*HANDED_DOWN),
                    "default list")
        stage.has_mode(stage.path(name), 0o775)
    stage.succeeds(os.mkdir, stage.path("d/e/f/g"), user=ALICE)


@each("list: the default and the umask for a {}", [
    ("fifo", lambda path: os.mkfifo(path, 0o666)),
    ("socket", lambda path: calls.mknod(path, 0o140666)),
    ("file by mknod", lambda path: calls.mknod(path, 0o100666))])
def others_inherit(stage, _, make):
    folder = stage.make("directory", "d", 0o755)
    give(folder, *HANDED_DOWN, name=DEFAULT_LIST)
    os.umask(0o077)
    make(stage.path("d/x"))
    stage.has_mode(stage.path("d/x"), 0o664)


@case("list: a default that the mode can say gives the mode alone")
def minimal_default(stage):
    folder = stage.make("directory", "d", 0o755)
    give(folder, ("user::", 7), ("group::", 5), ("other", 0), name=DEFAULT_LIST)
    os.umask(0)
    calls.open_and_close(stage.path("d/x"), os.O_CREAT | os.O_WRONLY, 0o666)
    stage.has_mode(stage.path("d/x"), 0o640)
    stage.equal(os.listxattr(stage.path("d/x")), [], "names")


@case("list: symbolic links have none and take none")
def symlink_has_none(stage):
    folder = stage.make("directory", "d", 0o755)
    give(folder, *HANDED_DOWN, name=DEFAULT_LIST)
    os.symlink("a", stage.path("d/s"))
    stage.has_mode(stage.path("d/s"), 0o777)
    stage.equal(os.listxattr(stage.path("d/s"), follow_symlinks=False), [], "names")


@case("list: only the owner sets it")
def owner_sets(stage):
    path = stage.make("regular", "x", 0o666, ALICE)
    rights = (("user::", 6), ("user", BOB.id, 6), ("group::", 4), ("mask", 6), ("other", 0))
    stage.fails(errno.EPERM, give, path, *rights, user=BOB)
    stage.succeeds(give, path, *rights, user=ALICE)
    stage.succeeds(os.removexattr, path, ACCESS_LIST, user=ALICE)


@case("list: EINVAL for nonsense, EACCES for a default on a file")
def refused(stage):
    path = stage.make("regular")
    for wrong in (b"\2\0\0\0\1", b"\3\0\0\0", access_list(("user::", 6)),
                  access_list(("user::", 6), ("user", 1, 6), ("group::", 4), ("other", 0)),
                  access_list(("group::", 6), ("user::", 4), ("other", 0))):
        stage.fails((errno.EINVAL, errno.EOPNOTSUPP), os.setxattr, path, ACCESS_LIST, wrong)
    stage.fails(errno.EACCES, give, path, *HANDED_DOWN, name=DEFAULT_LIST)


@case("list: set-group-id goes when one who is not in the group sets a list")
def group_bit(stage):
    path = stage.make("regular", "x", owner=ALICE, group=CAROL.group)
    os.chmod(path, 0o2755)
    stage.succeeds(give, path, ("user::", 7), ("user", BOB.id, 6), ("group::", 5), ("mask", 7),
                   ("other", 5), user=ALICE)
    stage.has_mode(path, 0o775)
