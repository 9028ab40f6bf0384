# SPDX-License-Identifier: Apache-2.0
"""open(2): every flag, on every type; and what may be done with the descriptor."""

import errno
import fcntl
import os
import shutil
import subprocess

import calls
from calls import open_and_close
from stage import ALICE, BOB, KINDS, case, each

PLAIN = ("regular", "directory", "fifo", "socket", "symlink")


@each("open: O_CREAT | O_EXCL is EEXIST on a {}", KINDS)
def exclusive(stage, kind):
    stage.fails(errno.EEXIST, open_and_close, stage.make(kind),
                os.O_CREAT | os.O_EXCL | os.O_RDWR)


@each("open: O_DIRECTORY is ENOTDIR on a {}", [kind for kind in KINDS if kind != "directory"])
def only_directory(stage, kind):
    path = stage.make(kind)
    number = (errno.ENOENT, errno.ENOTDIR) if kind == "symlink" else errno.ENOTDIR
    stage.fails(number, open_and_close, path, os.O_RDONLY | os.O_DIRECTORY)


@each("open: O_NOFOLLOW on a symbolic link to a {} is ELOOP", KINDS)
def no_follow(stage, kind):
    stage.make(kind)
    os.symlink("x", stage.path("s"))
    stage.fails(errno.ELOOP, open_and_close, stage.path("s"), os.O_RDONLY | os.O_NOFOLLOW)


@each("open: flags {} on a directory are EISDIR", [
    ("O_WRONLY", os.O_WRONLY), ("O_RDWR", os.O_RDWR), ("O_TRUNC", os.O_RDONLY | os.O_TRUNC),
    ("O_CREAT", os.O_RDONLY | os.O_CREAT), ("O_WRONLY and O_TRUNC", os.O_WRONLY | os.O_TRUNC)])
def directory_flags(stage, _, flags):
    stage.fails(errno.EISDIR, open_and_close, stage.make("directory"), flags)


@case("open: O_TRUNC empties, with any access mode, and keeps the inode")
def truncates(stage):
    path = stage.path("x")
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_RDONLY, os.O_WRONLY | os.O_CREAT,
                  os.O_WRONLY | os.O_APPEND):
        calls.write_file(path, b"content")
        inode = os.stat(path).st_ino
        noted = stage.watch(path)
        open_and_close(path, flags | os.O_TRUNC)
        stage.equal(os.stat(path).st_size, 0, "size")
        stage.equal(os.stat(path).st_ino, inode, "inode")
        stage.equal(calls.read_file(path), b"", "content")
        stage.true(os.stat(path).st_mtime_ns > noted[path][1], "the time of change is old")


@case("open: O_TRUNC needs permission to write")
def truncates_with_permission(stage):
    path = stage.make("regular", "x", 0o444, ALICE)
    os.truncate(path, 9)
    stage.fails(errno.EACCES, open_and_close, path, os.O_RDONLY | os.O_TRUNC, user=ALICE)
    stage.equal(os.stat(path).st_size, 9, "size")


@case("open: O_APPEND writes at the end, wherever the position is")
def appends(stage):
    path = stage.path("x")
    calls.write_file(path, b"12")
    first = os.open(path, os.O_RDWR | os.O_APPEND)
    second = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.write(first, b"34")
    os.write(second, b"56")
    os.lseek(first, 0, os.SEEK_SET)
    os.write(first, b"78")
    stage.equal(os.lseek(first, 0, os.SEEK_CUR), 8, "position")
    stage.equal(os.pread(first, 20, 0), b"12345678", "content")
    os.close(first)
    os.close(second)


@case("open: a new file of mode 0 can be written through its descriptor")
def new_without_permission(stage):
    os.chmod(stage.folder, 0o777)
    path = stage.path("x")

    def work():
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0)
        os.write(file, b"content")
        os.close(file)

    stage.succeeds(work, user=ALICE)
    stage.has_mode(path, 0)
    stage.equal(calls.read_file(path), b"content", "content")
    stage.fails(errno.EACCES, open_and_close, path, os.O_RDONLY, user=ALICE)


@case("open: O_CREAT on a file that is there changes neither mode nor ids")
def creating_again(stage):
    path = stage.make("regular", "x", 0o606, ALICE)
    open_and_close(path, os.O_CREAT | os.O_WRONLY, 0o777)
    stage.has_mode(path, 0o606)
    stage.is_owned(path, ALICE.id, ALICE.group)
    os.chmod(stage.folder, 0o555)
    stage.succeeds(open_and_close, path, os.O_CREAT | os.O_WRONLY, user=BOB)


@case("open: O_CREAT through a dangling symbolic link makes its target")
def creating_through_link(stage):
    os.mkdir(stage.path("d"))
    os.symlink("d/target", stage.path("s"))
    calls.write_file(stage.path("s"), b"content")
    stage.equal(calls.read_file(stage.path("d/target")), b"content", "content")
    stage.is_kind(stage.path("s"), "symlink")


@case("open: a pipe without a reader is ENXIO, a socket always")
def no_such_partner(stage):
    path = stage.make("fifo")
    stage.fails(errno.ENXIO, open_and_close, path, os.O_WRONLY | os.O_NONBLOCK)
    stage.succeeds(open_and_close, path, os.O_RDONLY | os.O_NONBLOCK)
    stage.fails(errno.ENXIO, open_and_close, stage.make("socket", "s"), os.O_RDWR)


@case("open: a device without a driver is ENXIO")
def no_driver(stage):
    calls.mknod(stage.path("c"), 0o020666, os.makedev(4000, 7))
    calls.mknod(stage.path("b"), 0o060666, os.makedev(4000, 7))
    stage.fails(errno.ENXIO, open_and_close, stage.path("c"), os.O_RDONLY)
    stage.fails(errno.ENXIO, open_and_close, stage.path("b"), os.O_RDONLY)


@case("open: O_NOATIME only by the owner")
def no_access_time(stage):
    path = stage.make("regular", "x", 0o666, ALICE)
    stage.succeeds(open_and_close, path, os.O_RDONLY | os.O_NOATIME, user=ALICE)
    stage.fails(errno.EPERM, open_and_close, path, os.O_RDONLY | os.O_NOATIME, user=BOB)


@each("open: O_PATH on a {} gives no access to its content", PLAIN)
def path_only(stage, kind):
    path = stage.make(kind, mode=None if kind == "symlink" else 0)
    file = os.open(path, os.O_PATH | os.O_NOFOLLOW)
    stage.equal(os.fstat(file).st_ino, os.lstat(path).st_ino, "inode")
    stage.fails(errno.EBADF, os.read, file, 1)
    stage.fails(errno.EBADF, os.write, file, b"x")
    stage.fails(errno.EBADF, os.fchmod, file, 0o777)
    stage.fails(errno.EBADF, os.fchown, file, 1, 1)
    stage.fails((errno.EBADF, errno.EINVAL), os.ftruncate, file, 0)
    os.close(file)


@case("open: O_TMPFILE makes a file without a name, link gives it one; or it is EOPNOTSUPP")
def without_name(stage):
    try:
        file = os.open(stage.folder, os.O_TMPFILE | os.O_RDWR, 0o640)
    except OSError as error:
        stage.equal(error.errno, errno.EOPNOTSUPP, "error")
        return
    os.write(file, b"content")
    stage.equal(os.fstat(file).st_nlink, 0, "link count")
    stage.equal(os.listdir(stage.folder), [], "listing")
    calls.linkat(f"/proc/self/fd/{file}", stage.path("x"), calls.AT_SYMLINK_FOLLOW)
    stage.has_links(stage.path("x"), 1)
    stage.has_mode(stage.path("x"), 0o640)
    os.close(file)
    stage.equal(calls.read_file(stage.path("x")), b"content", "content")


@case("open: O_DIRECTORY | O_CREAT is EINVAL")
def directory_and_create(stage):
    stage.fails(errno.EINVAL, open_and_close, stage.path("x"), os.O_DIRECTORY | os.O_CREAT)


@each("open: {} works on a file", ["O_SYNC", "O_DSYNC", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC",
                                   "O_LARGEFILE", "O_NOFOLLOW", "O_NOATIME"])
def harmless(stage, name):
    path = stage.path("x")
    file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, name))
    os.write(file, b"content")
    stage.equal(os.pread(file, 20, 0), b"content", "content")
    os.close(file)


@case("descriptors: reading needs O_RDONLY, writing O_WRONLY")
def descriptor_access(stage):
    path = stage.path("x")
    calls.write_file(path, b"content")
    reader, writer = os.open(path, os.O_RDONLY), os.open(path, os.O_WRONLY)
    stage.fails(errno.EBADF, os.write, reader, b"x")
    stage.fails(errno.EBADF, os.pwrite, reader, b"x", 3)
    stage.fails(errno.EBADF, os.read, writer, 1)
    stage.fails(errno.EBADF, os.pread, writer, 1, 0)
    stage.fails((errno.EBADF, errno.EINVAL), os.ftruncate, reader, 1)
    stage.fails(errno.EBADF, os.posix_fallocate, reader, 0, 10)
    os.close(reader)
    os.close(writer)
    for call, *arguments in ((os.fsync,), (os.fstat,), (os.ftruncate, 1), (os.read, 1),
                             (os.fchown, 1, 1), (os.fdatasync,), (os.lseek, 0, 0)):
        stage.fails(errno.EBADF, call, reader, *arguments)


@case("descriptors: of a directory, no reading and no writing")
def descriptor_of_directory(stage):
    file = os.open(stage.make("directory"), os.O_RDONLY)
    stage.fails(errno.EISDIR, os.read, file, 1)
    stage.fails(errno.EBADF, os.write, file, b"x")
    stage.fails(errno.EINVAL, os.ftruncate, file, 0)
    stage.fails(errno.EBADF, os.posix_fallocate, file, 0, 1)
    stage.succeeds(os.fsync, file)
    os.close(file)
    file = os.open(stage.make("regular", "y"), os.O_RDONLY)
    stage.fails(errno.ENOTDIR, os.stat, "x", dir_fd=file)
    os.close(file)


@case("lseek: behind the end, before the start, holes")
def seeks(stage):
    file = os.open(stage.path("x"), os.O_RDWR | os.O_CREAT)
    os.pwrite(file, b"a" * 65536, 0)
    os.pwrite(file, b"b" * 65536, 1 << 20)
    stage.equal(os.lseek(file, -5, os.SEEK_END), (1 << 20) + 65531, "position")
    stage.equal(os.lseek(file, 1 << 40, os.SEEK_SET), 1 << 40, "position")
    stage.fails(errno.EINVAL, os.lseek, file, -1, os.SEEK_SET)
    stage.equal(os.lseek(file, 0, os.SEEK_HOLE), 65536, "hole")
    stage.equal(os.lseek(file, 65536, os.SEEK_DATA), 1 << 20, "data")
    stage.equal(os.lseek(file, 1 << 20, os.SEEK_HOLE), (1 << 20) + 65536, "hole")
    stage.fails(errno.ENXIO, os.lseek, file, 2 << 20, os.SEEK_DATA)
    os.close(file)
    pipe = os.open(stage.make("fifo", "p"), os.O_RDONLY | os.O_NONBLOCK)
    stage.fails(errno.ESPIPE, os.lseek, pipe, 0, os.SEEK_SET)
    os.close(pipe)


@case("ETXTBSY: a program that runs is not written, one that is written does not run")
def busy_program(stage):
    path = stage.path("program")
    shutil.copy("/bin/sleep", path)
    os.chmod(path, 0o755)
    with subprocess.Popen([path, "30"]) as process:
        try:
            stage.fails(errno.ETXTBSY, open_and_close, path, os.O_WRONLY)
            stage.fails(errno.ETXTBSY, open_and_close, path, os.O_RDWR)
            stage.fails(errno.ETXTBSY, calls.truncate, path, 10)
            stage.succeeds(os.unlink, path)
        finally:
            process.kill()
    shutil.copy("/bin/true", path)
    os.chmod(path, 0o755)
    file = os.open(path, os.O_RDWR)
    stage.fails(errno.ETXTBSY, subprocess.run, [path], check=True)
    os.close(file)
    stage.succeeds(subprocess.run, [path], check=True)


@case("programs: EACCES without execution, set-user-id counts")
def programs(stage):
    path = stage.path("program")
    shutil.copy("/usr/bin/id", path)
    os.chmod(path, 0o644)
    stage.fails(errno.EACCES, subprocess.run, [path])
    os.chown(path, ALICE.id, ALICE.group)
    os.chmod(path, 0o4755)
    done = subprocess.run([path, "-u"], capture_output=True, text=True, check=True)
    stage.equal(done.stdout.strip(), str(ALICE.id), "effective user")
    os.chmod(path, 0o2755)
    done = subprocess.run([path, "-g"], capture_output=True, text=True, check=True)
    stage.equal(done.stdout.strip(), str(ALICE.group), "effective group")


@case("locks: of records and of whole files, between processes")
def locks(stage):
    path = stage.path("x")
    calls.write_file(path, b"content")
    with open(path, "r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX, 3, 0)

        def lock_record(start):
            with open(path, "r+b") as other:
                fcntl.lockf(other, fcntl.LOCK_EX | fcntl.LOCK_NB, 2, start)

        os.chmod(path, 0o666)
        stage.fails((errno.EAGAIN, errno.EACCES), lock_record, 1, user=ALICE)
        stage.succeeds(lock_record, 3, user=ALICE)
        fcntl.flock(file, fcntl.LOCK_SH)
        with open(path, "rb") as other:
            stage.fails(errno.EAGAIN, fcntl.flock, other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            stage.succeeds(fcntl.flock, other, fcntl.LOCK_SH | fcntl.LOCK_NB)
