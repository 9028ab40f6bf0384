# SPDX-License-Identifier: Apache-2.0
"""Which of the three times of which object each call changes, and that it changes no other;
utimensat with its range, precision and permission."""

import errno
import mmap
import os
import time

import calls
from calls import UTIME_NOW, UTIME_OMIT, utimensat
from stage import ALICE, BOB, KINDS, TYPES, case, each, times_of

COARSE_CLOCK = 5
OLD = (1_000_000_000, 123_456_789)


def prepare(stage):
    """Objects for a call to work on: d/x with a second name, d/e, and an empty directory f."""
    os.mkdir(stage.path("d"))
    os.mkdir(stage.path("f"))
    os.mkdir(stage.path("d/e"))
    calls.write_file(stage.path("d/x"), b"content")
    os.link(stage.path("d/x"), stage.path("link"))
    os.symlink("x", stage.path("d/s"))
    for name in ("d", "f", "d/e", "d/x", "d/s"):
        utimensat(stage.path(name), (2_000_000_000, 1), UTIME_OMIT, calls.AT_SYMLINK_NOFOLLOW)


def with_file(work, flags=os.O_RDWR):
    def call(at):
        file = os.open(at("d/x"), flags)
        work(file)
        os.close(file)
    return call


def map_and_write(file):
    with mmap.mmap(file, 7) as memory:
        memory[0] = 65
        memory.flush()


# The call, and the times that change: of d, of d/x (seen by its other name), of others.
CHANGES = {
    "creat": (lambda at: calls.write_file(at("d/new")), {"d": "mc"}),
    "creat of what is there": (lambda at: calls.write_file(at("d/x")), {}),
    "mkdir": (lambda at: os.mkdir(at("d/new")), {"d": "mc"}),
    "mkfifo": (lambda at: os.mkfifo(at("d/new")), {"d": "mc"}),
    "mknod": (lambda at: calls.mknod(at("d/new"), TYPES["character"], 0x103), {"d": "mc"}),
    "symlink": (lambda at: os.symlink("a", at("d/new")), {"d": "mc"}),
    "link": (lambda at: os.link(at("link"), at("d/new")), {"d": "mc", "link": "c"}),
    "unlink": (lambda at: os.unlink(at("d/x")), {"d": "mc", "link": "c"}),
    "rmdir": (lambda at: os.rmdir(at("d/e")), {"d": "mc"}),
    "rename in a directory": (lambda at: os.rename(at("d/x"), at("d/new")),
                              {"d": "mc", "link": "c"}),
    "rename of a directory": (lambda at: os.rename(at("f"), at("d/f")), {".": "mc", "d": "mc"}),
    "rename between directories": (lambda at: os.rename(at("d/x"), at("f/x")),
                                   {"d": "mc", "f": "mc", "link": "c"}),
    "rename over a linked file": (lambda at: os.rename(at("d/s"), at("d/x")),
                                  {"d": "mc", "link": "c"}),
    "rename over a directory": (lambda at: os.rename(at("f"), at("d/e")),
                                {".": "mc", "d": "mc"}),
    "exchange": (lambda at: calls.renameat2(at("d/x"), at("f"), calls.RENAME_EXCHANGE),
                 {".": "mc", "d": "mc", "link": "c"}),
    "rename to the same file": (lambda at: os.rename(at("d/x"), at("link")), {}),
    "chmod": (lambda at: os.chmod(at("d/x"), 0o600), {"link": "c"}),
    "chmod to the same mode": (lambda at: os.chmod(at("d/x"), 0o644), {"link": "c"}),
    "chmod of a directory": (lambda at: os.chmod(at("f"), 0o700), {"f": "c"}),
    "chown": (lambda at: os.chown(at("d/x"), 5, 6), {"link": "c"}),
    "chown to the same ids": (lambda at: os.chown(at("d/x"), 0, 0), {"link": "c"}),
    "truncate to less": (lambda at: calls.truncate(at("d/x"), 3), {"link": "mc"}),
    "truncate to more": (lambda at: calls.truncate(at("d/x"), 5000), {"link": "mc"}),
    "ftruncate": (with_file(lambda file: os.ftruncate(file, 3)), {"link": "mc"}),
    "ftruncate to the same size": (with_file(lambda file: os.ftruncate(file, 7)),
                                   {"link": "mc"}),
    "open with O_TRUNC": (with_file(lambda file: None, os.O_RDWR | os.O_TRUNC), {"link": "mc"}),
    "open for writing": (with_file(lambda file: None, os.O_WRONLY), {}),
    "write": (with_file(lambda file: os.write(file, b"C"), os.O_WRONLY), {"link": "mc"}),
    "write of nothing": (with_file(lambda file: os.write(file, b""), os.O_WRONLY), {}),
    "append": (with_file(lambda file: os.write(file, b"C"), os.O_WRONLY | os.O_APPEND),
               {"link": "mc"}),
    "fallocate of more": (with_file(lambda file: os.posix_fallocate(file, 0, 9000), os.O_RDWR),
                          {"link": "mc"}),
    "write through a mapping": (with_file(map_and_write), {"link": "mc"}),
    "setxattr": (lambda at: os.setxattr(at("d/x"), "user.a", b"1"), {"link": "c"}),
    "utimensat of atime": (lambda at: utimensat(at("d/x"), OLD, UTIME_OMIT), {"link": "c"}),
    "utimensat of nothing": (lambda at: utimensat(at("d/x"), UTIME_OMIT, UTIME_OMIT), {}),
    "fsync": (with_file(os.fsync), {}),
    "stat": (lambda at: os.stat(at("d/x")), {}),
    "access": (lambda at: os.access(at("d/x"), os.R_OK), {}),
}


@each("times: {}", CHANGES)
def changes(stage, name):
    prepare(stage)
    call, expected = CHANGES[name]
    paths = {"." if one == "." else one: stage.path(one) for one in (".", "d", "f", "link", "d/e")}
    noted = stage.watch(*paths.values())
    if name == "utimensat of atime":
        noted[paths["link"]] = (noted[paths["link"]][0] // 10, *noted[paths["link"]][1:])
        expected = {"link": "ac"}
    inodes = {one: os.lstat(path).st_ino for one, path in paths.items()}
    call(stage.path)
    for one, path in paths.items():
        if os.path.lexists(path) and os.lstat(path).st_ino == inodes[one]:
            stage.changed(noted, path, expected.get(one, ""))
    time.sleep(0.001)
    calls.sync_all(stage.folder)
    for one, path in paths.items():
        if os.path.lexists(path) and os.lstat(path).st_ino == inodes[one]:
            stage.changed(noted, path, expected.get(one, ""))


@case("times: truncate to the same size changes both times of the file, or none")
def truncate_to_same_size(stage):
    # A kernel that caches writes for FUSE keeps the times itself, and none is its answer here.
    prepare(stage)
    path = stage.path("d/x")
    noted = stage.watch(path, stage.path("d"))
    calls.truncate(path, 7)
    now = times_of(path)
    stage.equal(now[1] > noted[path][1], now[2] > noted[path][2], "change of one time alone")
    stage.changed(noted, stage.path("d"), "")


FAILURES = {
    "mkdir": (lambda at: os.mkdir(at("d/x")), errno.EEXIST),
    "creat": (lambda at: calls.open_and_close(at("d/x"), os.O_CREAT | os.O_EXCL), errno.EEXIST),
    "symlink": (lambda at: os.symlink("a", at("d/x")), errno.EEXIST),
    "mkfifo": (lambda at: os.mkfifo(at("d/x")), errno.EEXIST),
    "link": (lambda at: os.link(at("link"), at("d/e")), errno.EEXIST),
    "unlink": (lambda at: os.unlink(at("d/e")), errno.EISDIR),
    "rmdir": (lambda at: os.rmdir(at("d")), errno.ENOTEMPTY),
    "rmdir of a file": (lambda at: os.rmdir(at("d/x")), errno.ENOTDIR),
    "rename": (lambda at: os.rename(at("f"), at("d")), errno.ENOTEMPTY),
    "rename over a directory": (lambda at: os.rename(at("d/x"), at("d/e")), errno.EISDIR),
    "truncate": (lambda at: calls.truncate(at("d/x"), -1), errno.EINVAL),
}


@each("times: a failing {} changes none", FAILURES)
def failing_changes_none(stage, name):
    prepare(stage)
    call, number = FAILURES[name]
    paths = [stage.path(one) for one in (".", "d", "f", "link", "d/e")]
    noted = stage.watch(*paths)
    stage.fails(number, call, stage.path)
    for path in paths:
        stage.changed(noted, path, "")


@case("times: calls that another user may not make change none")
def refused_changes_none(stage):
    prepare(stage)
    paths = [stage.path(one) for one in ("d", "f", "link")]
    noted = stage.watch(*paths)
    for call, *arguments in ((os.chmod, 0o600), (os.chown, BOB.id, KEEP_GROUP),
                             (calls.truncate, 1), (os.unlink,)):
        stage.fails((errno.EPERM, errno.EACCES), call, stage.path("d/x"), *arguments, user=BOB)
    for path in paths:
        stage.changed(noted, path, "")


KEEP_GROUP = -1


@each("times: a new {} has the time of its making", KINDS)
def new_times(stage, kind):
    time.sleep(0.01)
    before = time.clock_gettime_ns(COARSE_CLOCK)
    path = stage.make(kind)
    after = time.clock_gettime_ns(time.CLOCK_REALTIME)
    times = times_of(path)
    stage.true(all(before <= one <= after for one in times),
               f"times {times} are not between {before} and {after}")
    folder = times_of(stage.folder)
    stage.true(all(before <= one <= after for one in folder[1:]),
               f"the directory's times {folder[1:]} are not between {before} and {after}")


READS = {
    "reading a file": lambda at: calls.read_file(at("d/x")),
    "listing a directory": lambda at: os.listdir(at("d")),
    "reading a symbolic link": lambda at: os.readlink(at("d/s")),
    "reading of a mapping": lambda at: with_file(
        lambda file: mmap.mmap(file, 7, access=mmap.ACCESS_READ)[0])(at),
}
READ_PATHS = {"listing a directory": "d", "reading a symbolic link": "d/s"}


@each("times: {} changes the time of access alone", READS)
def access_time(stage, name):
    prepare(stage)
    path = stage.path(READ_PATHS.get(name, "d/x"))
    utimensat(path, OLD, UTIME_OMIT, calls.AT_SYMLINK_NOFOLLOW)
    noted = stage.watch(path)
    READS[name](stage.path)
    stage.changed(noted, path, "a")


# Seconds from the epoch to the end of 2106's 32 bits, and nanoseconds.
MOMENTS = [(0, 0), (0, 1), (1, 999_999_999), (951_868_800, 500_000_000),
           ((1 << 31) - 1, 999_999_999), (1 << 31, 1), ((1 << 32) - 1, 999_999_999),
           (4_102_444_800, 123_456_789)]


@each("utimensat: a {} keeps second {} and nanosecond {}",
      [(kind, *moment) for kind in ("regular", "directory", "symlink") for moment in MOMENTS])
def precise(stage, kind, seconds, nanoseconds):
    path = stage.make(kind)
    other = (seconds // 2 + 1, 999_999_999 - nanoseconds)
    for accessed, modified in (((seconds, nanoseconds), other), (other, (seconds, nanoseconds))):
        utimensat(path, accessed, modified, calls.AT_SYMLINK_NOFOLLOW)
        expected = tuple(one[0] * 10**9 + one[1] for one in (accessed, modified))
        stage.equal(times_of(path)[:2], expected, "times")
        calls.sync_all(stage.folder)
        stage.equal(times_of(path)[:2], expected, "times")


@each("utimensat: sets the times of a {}, not of a link to it",
      [kind for kind in KINDS if kind != "symlink"])
def follows(stage, kind):
    path = stage.make(kind)
    os.symlink("x", stage.path("s"))
    noted = stage.watch(stage.path("s"))
    utimensat(stage.path("s"), OLD, OLD)
    stage.equal(times_of(path)[:2], (OLD[0] * 10**9 + OLD[1],) * 2, "times")
    stage.equal(times_of(stage.path("s"))[1:], noted[stage.path("s")][1:], "times of the link")


@case("utimensat: UTIME_NOW and UTIME_OMIT")
def now_and_omit(stage):
    path = stage.make("regular")
    utimensat(path, OLD, OLD)
    noted = stage.watch(path)
    utimensat(path, UTIME_OMIT, UTIME_NOW)
    stage.changed(noted, path, "mc")
    noted = stage.watch(path)
    utimensat(path, UTIME_NOW, UTIME_OMIT)
    stage.changed(noted, path, "ac")
    noted = stage.watch(path)
    utimensat(path, None, None)
    stage.changed(noted, path, "amc")


@case("utimensat: nanoseconds out of range are EINVAL")
def wrong_nanoseconds(stage):
    path = stage.make("regular")
    for wrong in ((1, 1_000_000_000), (1, -1), (1, 1 << 40)):
        stage.fails(errno.EINVAL, utimensat, path, wrong, OLD)
        stage.fails(errno.EINVAL, utimensat, path, OLD, wrong)


# Times to set, mode of ALICE's file, and what she and BOB get.
PERMISSIONS = [
    ("both now, not writable", (None, None), 0o444, 0, errno.EACCES),
    ("both now, writable", (None, None), 0o666, 0, 0),
    ("both UTIME_NOW, writable", (UTIME_NOW, UTIME_NOW), 0o666, 0, 0),
    ("both UTIME_NOW, not writable", (UTIME_NOW, UTIME_NOW), 0o444, 0, errno.EACCES),
    ("both given, writable", (OLD, OLD), 0o666, 0, errno.EPERM),
    ("both given, not writable", (OLD, OLD), 0o444, 0, errno.EPERM),
    ("one now and one kept, writable", (UTIME_NOW, UTIME_OMIT), 0o666, 0, errno.EPERM),
    ("one kept and one now, writable", (UTIME_OMIT, UTIME_NOW), 0o666, 0, errno.EPERM),
    ("one given and one now, writable", (OLD, UTIME_NOW), 0o666, 0, errno.EPERM),
    ("both kept, not writable", (UTIME_OMIT, UTIME_OMIT), 0o444, 0, 0),
]


@each("utimensat: {}, {}", [(row[0], kind, *row[1:]) for row in PERMISSIONS
                            for kind in ("regular", "directory")])
def permission(stage, _, kind, times, mode, for_owner, for_other):
    path = stage.make(kind, mode=mode, owner=ALICE)
    stage.fails(for_owner, utimensat, path, *times, user=ALICE)
    stage.fails(for_other, utimensat, path, *times, user=BOB)


@case("times: a write is seen in the time of change by every name and descriptor at once")
def seen_everywhere(stage):
    prepare(stage)
    file = os.open(stage.path("d/x"), os.O_RDWR)
    noted = stage.watch(stage.path("link"))
    os.write(file, b"new")
    newest = os.fstat(file).st_mtime_ns
    stage.equal(os.stat(stage.path("link")).st_mtime_ns, newest, "time of change")
    stage.changed(noted, stage.path("link"), "mc")
    os.fsync(file)
    os.close(file)
    stage.equal(os.stat(stage.path("link")).st_mtime_ns, newest, "time of change after closing")


@case("times: set after a write, they stay as set when the data go to disk")
def set_after_write(stage):
    path = stage.path("x")
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    os.write(file, b"content" * 1000)
    utimensat(path, OLD, OLD)
    os.fsync(file)
    os.close(file)
    calls.sync_all(stage.folder)
    stage.equal(times_of(path)[:2], (OLD[0] * 10**9 + OLD[1],) * 2, "times")
