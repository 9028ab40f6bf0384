# SPDX-License-Identifier: Apache-2.0
"""rename in its three forms, over every pair of types, within a directory and between two."""

import errno
import os

import calls
from calls import RENAME_EXCHANGE, RENAME_NOREPLACE, renameat2
from stage import ALICE, BOB, KINDS, case, each

PAIRS = [(old, new) for old in KINDS for new in KINDS]
FOLDERS = ("", "d/")


def verdict(source, target):
    """What replacing `target` by `source` gives."""
    if source == "directory" and target != "directory":
        return errno.ENOTDIR
    if source != "directory" and target == "directory":
        return errno.EISDIR
    return 0


def inode_of(path):
    return os.lstat(path).st_ino


def links_are_right(stage, *folders):
    """Each folder's link count is two more than the directories in it."""
    for folder in folders:
        with os.scandir(folder) as entries:
            count = sum(entry.is_dir(follow_symlinks=False) for entry in entries)
        stage.has_links(folder, 2 + count)


@each("rename: a {} to a new name in the same directory and in another", KINDS)
def to_new_name(stage, kind):
    path = stage.make(kind)
    inode = inode_of(path)
    os.mkdir(stage.path("d"))
    for name in ("y", "d/x", "d/z", "x"):
        new = stage.path(name)
        os.rename(path, new)
        stage.is_absent(path)
        stage.is_kind(new, kind)
        stage.equal(inode_of(new), inode, "inode")
        links_are_right(stage, stage.folder, stage.path("d"))
        if kind == "directory":
            stage.equal(inode_of(new + "/.."), inode_of(os.path.dirname(new)), "inode of ..")
        path = new


@each("rename: a {} over a {}, {}", [(*pair, word, folder) for pair in PAIRS for word, folder in (
    ("in one directory", ""), ("in another directory", "d/"))])
def over(stage, source, target, _, folder):
    os.mkdir(stage.path("d"))
    old, new = stage.make(source), stage.make(target, folder + "y")
    inodes = inode_of(old), inode_of(new)
    number = verdict(source, target)
    stage.fails(number, os.rename, old, new)
    if number == 0:
        stage.is_absent(old)
        stage.equal(inode_of(new), inodes[0], "inode")
        stage.is_kind(new, source)
    else:
        stage.equal((inode_of(old), inode_of(new)), inodes, "inodes")
    links_are_right(stage, stage.folder, stage.path("d"))


@each("rename: exchanges a {} and a {}", PAIRS)
def exchange(stage, source, target):
    os.mkdir(stage.path("d"))
    for folder in FOLDERS:
        old, new = stage.make(source, "a" + folder[:1]), stage.make(target, folder + "b")
        inodes = inode_of(old), inode_of(new)
        renameat2(old, new, RENAME_EXCHANGE)
        stage.equal((inode_of(new), inode_of(old)), inodes, "inodes")
        stage.is_kind(old, target)
        stage.is_kind(new, source)
        links_are_right(stage, stage.folder, stage.path("d"))
        for path in (old, new):
            if os.path.isdir(path) and not os.path.islink(path):
                stage.equal(inode_of(path + "/.."), inode_of(os.path.dirname(path)), "..")


@each("rename: NOREPLACE moves a {} and refuses to replace it", KINDS)
def no_replace(stage, kind):
    path = stage.make(kind)
    renameat2(path, stage.path("y"), RENAME_NOREPLACE)
    stage.is_absent(path)
    stage.make("regular")
    stage.fails(errno.EEXIST, renameat2, path, stage.path("y"), RENAME_NOREPLACE)
    stage.is_kind(stage.path("y"), kind)
    stage.is_kind(path, "regular")


@each("rename: a {} over itself does nothing", KINDS)
def over_itself(stage, kind):
    path = stage.make(kind)
    os.rename(path, path)
    stage.is_kind(path, kind)
    renameat2(path, path, RENAME_EXCHANGE)
    stage.fails(errno.EEXIST, renameat2, path, path, RENAME_NOREPLACE)


@each("rename: over another name of the same {} does nothing",
      [kind for kind in KINDS if kind != "directory"])
def over_own_link(stage, kind):
    path = stage.make(kind)
    os.link(path, stage.path("y"), follow_symlinks=False)
    os.rename(path, stage.path("y"))
    stage.exists(path)
    stage.has_links(path, 2)


@each("rename: over one of two names of a {}", [kind for kind in KINDS if kind != "directory"])
def over_linked(stage, kind):
    old, new = stage.make("regular"), stage.make(kind, "y")
    os.link(new, stage.path("z"), follow_symlinks=False)
    os.rename(old, new)
    stage.has_links(stage.path("z"), 1)
    stage.is_kind(stage.path("z"), kind)
    stage.is_kind(new, "regular")


@each("rename: ENOTEMPTY over a directory with a {} in it", KINDS)
def over_full(stage, kind):
    old, new = stage.make("directory"), stage.make("directory", "y")
    stage.make(kind, "y/z")
    stage.fails((errno.ENOTEMPTY, errno.EEXIST), os.rename, old, new)
    stage.exists(old)
    stage.exists(stage.path("y/z"))


@case("rename: EINVAL into the directory itself, ENOTEMPTY over what it is in")
def into_itself(stage):
    os.makedirs(stage.path("a/b/c"))
    for name in ("a/x", "a/b/x", "a/b/c/x", "a/b/c"):
        stage.fails(errno.EINVAL, os.rename, stage.path("a"), stage.path(name))
    stage.fails(errno.EINVAL, renameat2, stage.path("a"), stage.path("a/x"), RENAME_NOREPLACE)
    stage.fails(errno.EINVAL, renameat2, stage.path("a"), stage.path("a/b"), RENAME_EXCHANGE)
    stage.fails(errno.EINVAL, renameat2, stage.path("a/b/c"), stage.path("a"), RENAME_EXCHANGE)
    stage.fails(errno.ENOTEMPTY, os.rename, stage.path("a/b"), stage.path("a"))
    stage.fails(errno.ENOTEMPTY, os.rename, stage.path("a/b/c"), stage.path("a"))
    stage.make("regular", "a/b/f")
    stage.fails(errno.ENOTEMPTY, os.rename, stage.path("a/b/f"), stage.path("a"))


@case("rename: flags that make no sense are EINVAL")
def wrong_flags(stage):
    old, new = stage.make("regular"), stage.make("regular", "y")
    stage.fails(errno.EINVAL, renameat2, old, new, RENAME_NOREPLACE | RENAME_EXCHANGE)
    stage.fails(errno.EINVAL, renameat2, old, new, 1 << 10)


@case("rename: exchange with an absent name is ENOENT")
def exchange_absent(stage):
    path = stage.make("regular")
    stage.fails(errno.ENOENT, renameat2, path, stage.path("y"), RENAME_EXCHANGE)
    stage.fails(errno.ENOENT, renameat2, stage.path("y"), path, RENAME_EXCHANGE)


@each("rename: EXDEV for a {} to another file system", KINDS)
def across(stage, kind):
    path = stage.make(kind)
    stage.fails(errno.EXDEV, os.rename, path, os.path.join(stage.outside, "across"))
    stage.exists(path)


@case("rename: a directory that its caller may not write stays in its directory")
def unwritable_directory(stage):
    for name in ("a", "b"):
        stage.make("directory", name, owner=ALICE)
    path = stage.make("directory", "a/x", 0o555, owner=ALICE)
    stage.fails(errno.EACCES, os.rename, path, stage.path("b/x"), user=ALICE)
    stage.succeeds(os.rename, path, stage.path("a/y"), user=ALICE)
    os.chmod(stage.path("a/y"), 0o755)
    stage.succeeds(os.rename, stage.path("a/y"), stage.path("b/x"), user=ALICE)


@case("rename: another user's directory is not moved to another place")
def others_directory(stage):
    for name in ("a", "b"):
        stage.make("directory", name, 0o777)
    path = stage.make("directory", "a/x", 0o755, BOB)
    stage.fails(errno.EACCES, os.rename, path, stage.path("b/x"), user=ALICE)
    stage.succeeds(os.rename, path, stage.path("a/y"), user=ALICE)


@case("rename: a replaced file that is open lives on")
def replaced_file(stage):
    calls.write_file(stage.path("x"), b"new")
    calls.write_file(stage.path("y"), b"old")
    file = os.open(stage.path("y"), os.O_RDWR)
    os.rename(stage.path("x"), stage.path("y"))
    stage.equal(os.fstat(file).st_nlink, 0, "link count")
    stage.equal(os.pread(file, 10, 0), b"old", "content")
    os.pwrite(file, b"still", 0)
    stage.equal(os.pread(file, 10, 0), b"still", "content")
    os.close(file)
    stage.equal(calls.read_file(stage.path("y")), b"new", "content")


@case("rename: a replaced directory that is current has no links left")
def replaced_directory(stage):
    stage.make("directory", "x")
    stage.make("directory", "y")
    os.chdir(stage.path("y"))
    os.rename(stage.path("x"), stage.path("y"))
    stage.equal(os.stat(".").st_nlink, 0, "link count")
    stage.fails(errno.ENOENT, os.mkdir, "z")


@case("rename: an open file and a current directory follow their object")
def follows(stage):
    os.makedirs(stage.path("a/b"))
    os.mkdir(stage.path("c"))
    file = os.open(stage.path("a/b/f"), os.O_RDWR | os.O_CREAT)
    os.chdir(stage.path("a/b"))
    os.rename(stage.path("a/b"), stage.path("c/d"))
    os.write(file, b"moved")
    os.close(file)
    stage.equal(os.path.realpath(os.getcwd()), os.path.realpath(stage.path("c/d")), "cwd")
    stage.equal(calls.read_file("../d/f"), b"moved", "content")
    stage.equal(inode_of(".."), inode_of(stage.path("c")), "inode of ..")


@case("rename: the symbolic link moves, not what it points to")
def moves_link(stage):
    stage.make("regular")
    os.symlink("x", stage.path("s"))
    os.rename(stage.path("s"), stage.path("t"))
    stage.equal(os.readlink(stage.path("t")), "x", "target")
    os.rename(stage.path("x"), stage.path("y"))
    stage.fails(errno.ENOENT, os.stat, stage.path("t"))
    os.rename(stage.path("y"), stage.path("t"))
    stage.is_kind(stage.path("t"), "regular")


@case("rename: names of 255 bytes, and one that differs in its last byte")
def long_names(stage):
    old, new = stage.path("n" * 255), stage.path("n" * 254 + "m")
    calls.write_file(old, b"1")
    calls.write_file(new, b"2")
    renameat2(old, new, RENAME_EXCHANGE)
    stage.equal((calls.read_file(old), calls.read_file(new)), (b"2", b"1"), "contents")
    os.rename(old, new)
    stage.equal(os.listdir(stage.folder), ["n" * 254 + "m"], "listing")
