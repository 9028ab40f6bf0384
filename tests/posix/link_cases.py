# SPDX-License-Identifier: Apache-2.0
"""link, unlink and rmdir: link counts, what stays of an object that is open, and refusals."""

import errno
import os

import calls
from stage import ALICE, KINDS, case, each

NOT_DIRECTORIES = [kind for kind in KINDS if kind != "directory"]


@each("link: a second name of a {}", NOT_DIRECTORIES)
def second_name(stage, kind):
    path = stage.make(kind)
    new = stage.path("y")
    os.link(path, new, follow_symlinks=False)
    stage.equal(os.lstat(new).st_ino, os.lstat(path).st_ino, "inode")
    stage.has_links(path, 2)
    os.lchown(new, 5, 6)
    stage.is_owned(path, 5, 6)
    os.mkdir(stage.path("d"))
    os.link(new, stage.path("d/z"), follow_symlinks=False)
    stage.has_links(path, 3)
    os.unlink(path)
    stage.has_links(new, 2)
    os.unlink(stage.path("d/z"))
    stage.has_links(new, 1)
    stage.is_kind(new, kind)


@case("link: EPERM for a directory, also for root")
def link_directory(stage):
    stage.fails(errno.EPERM, os.link, stage.make("directory"), stage.path("y"))
    stage.fails(errno.EPERM, os.link, stage.path("x"), stage.path("y"), user=ALICE)
    stage.has_links(stage.path("x"), 2)


@case("link: of a symbolic link, and of what it points to")
def link_symlink(stage):
    path = stage.make("regular")
    os.symlink("x", stage.path("s"))
    calls.linkat(stage.path("s"), stage.path("of_link"), 0)
    calls.linkat(stage.path("s"), stage.path("of_file"), calls.AT_SYMLINK_FOLLOW)
    stage.is_kind(stage.path("of_link"), "symlink")
    stage.has_links(stage.path("s"), 2)
    stage.equal(os.lstat(stage.path("of_file")).st_ino, os.stat(path).st_ino, "inode")


@case("link: EXDEV to another file system")
def link_across(stage):
    path = stage.make("regular")
    stage.fails(errno.EXDEV, os.link, path, os.path.join(stage.outside, "x"))
    calls.write_file(os.path.join(stage.outside, "y"))
    stage.fails(errno.EXDEV, os.link, os.path.join(stage.outside, "y"), stage.path("y"))


@case("link: ENOENT for an open file without a name")
def link_unlinked(stage):
    path = stage.make("regular")
    file = os.open(path, os.O_RDWR)
    os.unlink(path)
    stage.fails(errno.ENOENT, calls.linkat, f"/proc/self/fd/{file}", path,
                calls.AT_SYMLINK_FOLLOW)
    os.close(file)


@case("link: a thousand names")
def many_links(stage):
    path = stage.make("regular")
    for number in range(1000):
        os.link(path, stage.path(str(number)))
    stage.has_links(path, 1001)
    for number in range(1000):
        os.unlink(stage.path(str(number)))
    stage.has_links(path, 1)


@each("unlink: a {}", NOT_DIRECTORIES)
def unlink(stage, kind):
    path = stage.make(kind)
    os.unlink(path)
    stage.is_absent(path)
    stage.equal(os.listdir(stage.folder), [], "listing")
    stage.fails(errno.ENOENT, os.unlink, path)


@case("unlink: EISDIR for a directory, empty or not")
def unlink_directory(stage):
    path = stage.make("directory")
    stage.fails(errno.EISDIR, os.unlink, path)
    stage.make("regular", "x/y")
    stage.fails(errno.EISDIR, os.unlink, path)
    stage.exists(stage.path("x/y"))


@case("unlink: an open file lives on, with no link")
def unlinked_file(stage):
    path = stage.make("regular")
    os.link(path, stage.path("y"))
    file = os.open(path, os.O_RDWR)
    os.write(file, b"before")
    os.unlink(path)
    stage.equal(os.fstat(file).st_nlink, 1, "link count")
    os.unlink(stage.path("y"))
    stage.equal(os.fstat(file).st_nlink, 0, "link count")
    os.write(file, b" after")
    os.fsync(file)
    os.pwrite(file, b"far", 1 << 20)
    stage.equal(os.pread(file, 20, 0)[:12], b"before after", "content")
    os.ftruncate(file, 3)
    stage.equal(os.pread(file, 20, 0), b"bef", "content")
    stage.equal(os.fstat(file).st_size, 3, "size")
    calls.write_file(path, b"another")
    stage.true(os.stat(path).st_ino != os.fstat(file).st_ino, "the inode is in use")
    again = os.open(f"/proc/self/fd/{file}", os.O_RDONLY)
    stage.equal(os.read(again, 20), b"bef", "content")
    os.close(again)
    os.close(file)
    stage.equal(calls.read_file(path), b"another", "content")


@case("unlink: one user's open file, unlinked by another")
def unlinked_by_other(stage):
    os.chmod(stage.folder, 0o777)
    path = stage.make("regular", owner=ALICE)
    with open(path, "r+b") as file:
        stage.succeeds(os.unlink, path, user=ALICE)
        file.write(b"kept")
        file.flush()
        stage.equal(os.pread(file.fileno(), 9, 0), b"kept", "content")


@case("unlink: space of a big file comes back when it is closed")
def space_comes_back(stage):
    calls.sync_all(stage.folder)
    before = os.statvfs(stage.folder).f_bfree

    def used():
        facts = os.statvfs(stage.folder)
        return (before - facts.f_bfree) * facts.f_frsize

    path = stage.path("x")
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    os.write(file, bytes(16 << 20))
    os.fsync(file)
    os.unlink(path)
    calls.sync_all(stage.folder)
    stage.true(used() >= 15 << 20, "freed while it was open")
    os.close(file)
    stage.becomes_true(lambda: used() < 2 << 20, "not freed after closing")


@case("rmdir: an empty directory")
def rmdir(stage):
    path = stage.make("directory")
    os.rmdir(path)
    stage.is_absent(path)
    stage.has_links(stage.folder, 2)
    stage.fails(errno.ENOENT, os.rmdir, path)


@each("rmdir: ENOTDIR for a {}", NOT_DIRECTORIES)
def rmdir_other(stage, kind):
    path = stage.make(kind)
    stage.fails(errno.ENOTDIR, os.rmdir, path)
    stage.exists(path)


@each("rmdir: ENOTEMPTY with a {} inside", KINDS)
def rmdir_full(stage, kind):
    path = stage.make("directory", "d")
    inner = stage.make(kind, "d/x")
    stage.fails(errno.ENOTEMPTY, os.rmdir, path)
    stage.exists(inner)
    os.rmdir(inner) if kind == "directory" else os.unlink(inner)
    stage.succeeds(os.rmdir, path)


@case("rmdir: ENOTDIR for a symbolic link to a directory")
def rmdir_link(stage):
    stage.make("directory", "d")
    os.symlink("d", stage.path("s"))
    stage.fails(errno.ENOTDIR, os.rmdir, stage.path("s"))


@case("rmdir: a directory that held 500 names and lost them")
def rmdir_emptied(stage):
    path = stage.make("directory", "d")
    for number in range(500):
        stage.make("regular", f"d/{number}")
    stage.fails(errno.ENOTEMPTY, os.rmdir, path)
    for number in range(500):
        os.unlink(stage.path("d", str(number)))
    stage.equal(os.listdir(path), [], "listing")
    stage.succeeds(os.rmdir, path)


@case("rmdir: the current directory goes; nothing can be made in it")
def rmdir_current(stage):
    path = stage.make("directory")
    os.chdir(path)
    os.rmdir(path)
    stage.equal(os.stat(".").st_nlink, 0, "link count")
    stage.equal(os.listdir("."), [], "listing")
    for call, *arguments in ((os.getcwd,), (os.mkdir, "y"), (os.mkfifo, "y"),
                             (calls.write_file, "y"), (os.symlink, "a", "y"), (os.stat, "y"),
                             (os.link, stage.make("regular", "f"), "y"),
                             (os.rename, stage.path("f"), "y")):
        stage.fails(errno.ENOENT, call, *arguments)
    stage.succeeds(os.chdir, "..")


@case("rmdir: EBUSY for a mount point")
def rmdir_mount_point(stage):
    root = stage.folder
    while not os.path.ismount(root):
        root = os.path.dirname(root)
    stage.fails(errno.EBUSY, os.rmdir, root)
