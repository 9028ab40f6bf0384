# SPDX-License-Identifier: Apache-2.0
"""What a new object is: type, mode under the umask, owner, group (of the caller, or of a directory
with set-group-id), links, size; and what becomes of the directory that it is in."""

import errno
import os
import socket
import stat

import calls
from stage import ALICE, CAROL, KINDS, TYPES, case, each

CREATORS = {
    "open": lambda path, mode: os.close(os.open(path, os.O_CREAT | os.O_WRONLY, mode)),
    "open with O_EXCL": lambda path, mode: os.close(
        os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode)),
    "mkdir": os.mkdir,
    "mkfifo": os.mkfifo,
    "mknod of a file": lambda path, mode: calls.mknod(path, stat.S_IFREG | mode),
    "mknod of a socket": lambda path, mode: calls.mknod(path, stat.S_IFSOCK | mode),
    "mknod of a block device": lambda path, mode: calls.mknod(path, stat.S_IFBLK | mode, 0x700),
    "mknod of a character device": lambda path, mode: calls.mknod(path, stat.S_IFCHR | mode, 0x103),
}
UNPRIVILEGED = [name for name in CREATORS if "device" not in name]


@each("{}: mode {:o} under umask {:o}", [(name, mode, mask) for name in CREATORS for mode, mask in (
    (0o777, 0o022), (0o755, 0), (0o151, 0o070), (0o345, 0o501), (0o345, 0o777), (0, 0))])
def mode_and_umask(stage, name, mode, mask):
    os.umask(mask)
    CREATORS[name](stage.path("x"), mode)
    stage.has_mode(stage.path("x"), mode & ~mask)


@each("{}: special bits of the mode", CREATORS)
def special_bits(stage, name):
    CREATORS[name](stage.path("x"), 0o7755)
    stage.has_mode(stage.path("x"), 0o1755 if name == "mkdir" else 0o7755)


@each("{}: ids of the caller", UNPRIVILEGED)
def ids_of_caller(stage, name):
    os.chmod(stage.folder, 0o777)
    stage.succeeds(CREATORS[name], stage.path("x"), 0o644, user=ALICE)
    stage.is_owned(stage.path("x"), ALICE.id, ALICE.group)
    CREATORS[name](stage.path("y"), 0o644)
    stage.is_owned(stage.path("y"), 0, 0)


@each("{}: group of a directory with set-group-id", UNPRIVILEGED)
def group_of_directory(stage, name):
    os.chown(stage.folder, 0, CAROL.group)
    os.chmod(stage.folder, 0o2777)
    stage.succeeds(CREATORS[name], stage.path("x"), 0o755, user=ALICE)
    stage.is_owned(stage.path("x"), ALICE.id, CAROL.group)
    stage.has_mode(stage.path("x"), 0o2755 if name == "mkdir" else 0o755)
    if name == "mkdir":
        stage.succeeds(os.mkdir, stage.path("x/y"), user=ALICE)
        stage.is_owned(stage.path("x/y"), ALICE.id, CAROL.group)
        stage.has_mode(stage.path("x/y"), 0o2755)


@each("{}: set-group-id is refused to one who is not in the group", [
    name for name in UNPRIVILEGED if name != "mkdir"])
def group_bit_refused(stage, name):
    os.chown(stage.folder, 0, CAROL.group)
    os.chmod(stage.folder, 0o2777)
    stage.succeeds(CREATORS[name], stage.path("x"), 0o2755, user=ALICE)
    stage.has_mode(stage.path("x"), 0o755)
    os.chown(stage.folder, 0, ALICE.groups[0])
    stage.succeeds(CREATORS[name], stage.path("y"), 0o2755, user=ALICE)
    stage.has_mode(stage.path("y"), 0o2755)


@case("symlink: ids of the caller, group of a directory with set-group-id")
def symlink_ids(stage):
    os.chmod(stage.folder, 0o777)
    stage.succeeds(os.symlink, "a", stage.path("x"), user=ALICE)
    stage.is_owned(stage.path("x"), ALICE.id, ALICE.group)
    os.chown(stage.folder, 0, CAROL.group)
    os.chmod(stage.folder, 0o2777)
    stage.succeeds(os.symlink, "a", stage.path("y"), user=ALICE)
    stage.is_owned(stage.path("y"), ALICE.id, CAROL.group)


@each("new {}: type, size, links", KINDS)
def new_object(stage, kind):
    path = stage.make(kind)
    facts = os.lstat(path)
    stage.equal(stat.S_IFMT(facts.st_mode), TYPES[kind], "type")
    stage.equal(facts.st_nlink, 2 if kind == "directory" else 1, "link count")
    if kind != "directory":
        stage.equal(facts.st_size, len("nowhere") if kind == "symlink" else 0, "size")
    stage.equal(facts.st_dev, os.stat(stage.folder).st_dev, "device")
    with os.scandir(stage.folder) as entries:
        found = [(entry.name, entry.inode(), entry.is_dir(follow_symlinks=False),
                  entry.is_symlink()) for entry in entries]
    stage.equal(found, [("x", facts.st_ino, kind == "directory", kind == "symlink")], "listing")


@each("a directory's link count after making and removing a {} in it", KINDS)
def links_of_directory(stage, kind):
    path = stage.make(kind)
    stage.has_links(stage.folder, 3 if kind == "directory" else 2)
    os.rmdir(path) if kind == "directory" else os.unlink(path)
    stage.has_links(stage.folder, 2)


@each("mknod: device numbers {}, {}", [(1, 3), (0, 1), (259, 65537), (4095, 1048575), (255, 255)])
def device_numbers(stage, high, low):
    device = os.makedev(high, low)
    for name, kind in (("b", stat.S_IFBLK), ("c", stat.S_IFCHR)):
        calls.mknod(stage.path(name), kind | 0o600, device)
        stage.equal(os.lstat(stage.path(name)).st_rdev, device, "device number")


@case("mknod: EPERM for devices by others than root, EINVAL and EPERM for other types")
def mknod_refused(stage):
    os.chmod(stage.folder, 0o777)
    path = stage.path("x")
    stage.fails(errno.EPERM, calls.mknod, path, stat.S_IFCHR | 0o666, 0x103, user=ALICE)
    stage.fails(errno.EPERM, calls.mknod, path, stat.S_IFBLK | 0o666, 0x700, user=ALICE)
    stage.fails(errno.EPERM, calls.mknod, path, stat.S_IFDIR | 0o755)
    stage.fails(errno.EINVAL, calls.mknod, path, stat.S_IFLNK | 0o777)
    stage.fails(errno.EINVAL, calls.mknod, path, 0o170000)
    stage.is_absent(path)


@case("mknod: no type means a regular file")
def mknod_without_type(stage):
    calls.mknod(stage.path("x"), 0o640)
    stage.is_kind(stage.path("x"), "regular")


@case("devices and pipes work")
def special_files_work(stage):
    with open(stage.make("character"), "r+b", buffering=0) as null:
        stage.equal(null.write(b"gone"), 4, "written")
        stage.equal(null.read(1), b"", "read")
    path = stage.make("fifo", "pipe")
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(path, os.O_WRONLY)
    os.write(writer, b"through")
    stage.equal(os.read(reader, 100), b"through", "read")
    os.close(reader)
    stage.fails(errno.EPIPE, os.write, writer, b"x")
    os.close(writer)


@case("sockets: bind, connect, permission, EADDRINUSE, use after a move")
def sockets(stage):
    os.chdir(stage.folder)
    server = socket.socket(socket.AF_UNIX)
    server.bind("s")
    server.listen(5)
    stage.is_kind(stage.path("s"), "socket")
    stage.has_mode(stage.path("s"), 0o755)

    def connect(name="s"):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(name)

    stage.succeeds(connect)
    stage.fails(errno.EACCES, connect, user=ALICE)
    os.chmod("s", 0o777)
    stage.succeeds(connect, user=ALICE)
    stage.fails(errno.EADDRINUSE, socket.socket(socket.AF_UNIX).bind, "s")
    os.rename("s", "t")
    stage.succeeds(connect, "t")
    server.close()
    stage.fails(errno.ECONNREFUSED, connect, "t")
    stage.fails(errno.ENXIO, os.open, "t", os.O_RDONLY)


SYMLINK_LENGTHS = (1, 59, 60, 100, 200, 255, 256, 1023, 4000, 4095)


@each("symlink: a target of {} bytes", SYMLINK_LENGTHS)
def symlink_length(stage, length):
    target = "t" * length
    os.symlink(target, stage.path("x"))
    stage.equal(os.readlink(stage.path("x")), target, "target")
    stage.equal(os.lstat(stage.path("x")).st_size, length, "size")
    stage.has_mode(stage.path("x"), 0o777)


@case("symlink: ENAMETOOLONG for a target of 4096 bytes, ENOENT for an empty one")
def symlink_refused(stage):
    stage.fails(errno.ENAMETOOLONG, os.symlink, "t" * 4096, stage.path("x"))
    stage.fails(errno.ENOENT, os.symlink, "", stage.path("x"))
    stage.is_absent(stage.path("x"))


@each("readlink: EINVAL for a {}", [kind for kind in KINDS if kind != "symlink"])
def readlink_refused(stage, kind):
    stage.fails(errno.EINVAL, os.readlink, stage.make(kind))


@case("listing: 3000 names, each once, with type and inode")
def long_listing(stage):
    expected = {}
    for number in range(3000):
        kind = KINDS[number % 7] if number < 700 else "regular"
        path = stage.make(kind, f"name{number}")
        expected[f"name{number}"] = os.lstat(path).st_ino
    with os.scandir(stage.folder) as entries:
        found = [(entry.name, entry.inode()) for entry in entries]
    stage.equal(len(found), len(expected), "number of names")
    stage.equal(dict(found), expected, "listing")


@case("statvfs: names to 255 bytes, space that shrinks and comes back")
def statistics(stage):
    before = os.statvfs(stage.folder)
    stage.equal(before.f_namemax, 255, "longest name")
    with open(stage.path("x"), "wb") as file:
        file.write(bytes(8 << 20))
        os.fsync(file.fileno())
    during = os.statvfs(stage.folder)
    used = (before.f_bfree - during.f_bfree) * before.f_frsize
    stage.true(8 << 20 <= used <= 12 << 20, f"8 MiB use {used} bytes")
    stage.true(0 < during.f_bavail <= during.f_bfree <= during.f_blocks, "wrong order of counts")
