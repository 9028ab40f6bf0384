# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a path, for every call that takes one: absent, too long, looping, through
something that is no directory or may not be searched; and the last components that are special."""

import errno
import os

import calls
from path_calls import ALL, EXISTING, NEW, OF_THE_LINK, prepare
from stage import ALICE, KINDS, each, case

PATH_MAX = 4096


def of_length(stage, length, name="x"):
    """A path of that many bytes to a name in the stage's folder."""
    end = "/" + name
    rest = length - len(stage.folder) - len(end)
    return stage.folder + "/." * (rest // 2) + "/" * (rest % 2) + end


@each("{}: ENOENT for an absent directory in the path", ALL)
def absent_prefix(stage, name):
    prepare(stage)
    stage.fails(errno.ENOENT, ALL[name], stage, stage.path("absent/x"))


@each("{}: ENOENT for an empty path", ALL)
def empty_path(stage, name):
    prepare(stage)
    stage.fails(errno.ENOENT, ALL[name], stage, "")


@each("{}: ENOENT for an absent name", EXISTING)
def absent_name(stage, name):
    prepare(stage)
    stage.fails(errno.ENOENT, ALL[name], stage, stage.path("absent"))


@each("{}: ENOENT through a dangling symbolic link", EXISTING)
def dangling_link(stage, name):
    prepare(stage)
    path = stage.make("symlink")
    if name == "setxattr" or name not in OF_THE_LINK:
        stage.fails(errno.ENOENT, ALL[name], stage, path)
    elif name == "rmdir":
        stage.fails(errno.ENOTDIR, ALL[name], stage, path)
    else:
        stage.succeeds(ALL[name], stage, path)


@each("{}: ENOTDIR through a {}", [(name, kind) for name in ALL
                                   for kind in ("regular", "fifo", "character")])
def not_a_directory(stage, name, kind):
    prepare(stage)
    stage.fails(errno.ENOTDIR, ALL[name], stage, os.path.join(stage.make(kind), "y"))


@each("{}: ENAMETOOLONG for a component of 256 bytes", ALL)
def long_component(stage, name):
    prepare(stage)
    stage.fails(errno.ENAMETOOLONG, ALL[name], stage, stage.path("n" * 256))
    stage.fails(errno.ENAMETOOLONG, ALL[name], stage, stage.path("n" * 256, "x"))


@each("{}: a component of 255 bytes is not too long", ALL)
def longest_component(stage, name):
    prepare(stage)
    stage.fails(0 if name in NEW else errno.ENOENT, ALL[name], stage, stage.path("n" * 255))


@each("{}: ENAMETOOLONG for a path of 4096 bytes", ALL)
def long_path(stage, name):
    prepare(stage)
    stage.fails(errno.ENAMETOOLONG, ALL[name], stage, of_length(stage, PATH_MAX))


@each("{}: a path of 4095 bytes is not too long", ALL)
def longest_path(stage, name):
    prepare(stage)
    stage.fails(0 if name in NEW else errno.ENOENT, ALL[name], stage,
                of_length(stage, PATH_MAX - 1))


@each("{}: ELOOP for a loop of symbolic links in the path", ALL)
def loop_in_path(stage, name):
    prepare(stage)
    os.symlink("b", stage.path("a"))
    os.symlink("a", stage.path("b"))
    stage.fails(errno.ELOOP, ALL[name], stage, stage.path("a/x"))


@each("{}: ELOOP for a loop of symbolic links", [name for name in EXISTING
                                                 if name not in OF_THE_LINK])
def loop(stage, name):
    prepare(stage)
    os.symlink("b", stage.path("a"))
    os.symlink("a", stage.path("b"))
    stage.fails(errno.ELOOP, ALL[name], stage, stage.path("a"))


@each("{}: EACCES where the directory may not be searched", ALL)
def no_search(stage, name):
    prepare(stage, ALICE)
    folder = stage.make("directory", "d", owner=ALICE)
    path = stage.make("regular", "d/x", owner=ALICE) if name in EXISTING else stage.path("d/x")
    os.chmod(folder, 0o666)
    stage.fails(errno.EACCES, ALL[name], stage, path, user=ALICE)


@each("{}: EEXIST over a {}", [(name, kind) for name in NEW for kind in KINDS
                               if name not in ("creat", "rename to")])
def something_there(stage, name, kind):
    prepare(stage)
    path = stage.make(kind)
    inode = os.lstat(path).st_ino
    stage.fails(errno.EEXIST, ALL[name], stage, path)
    stage.is_kind(path, kind)
    stage.equal(os.lstat(path).st_ino, inode, "inode")


@each("{}: follows a symbolic link in the path", ALL)
def link_in_path(stage, name):
    prepare(stage)
    os.mkdir(stage.path("d"))
    os.symlink("d", stage.path("s"))
    kind = {"rmdir": "directory", "chdir": "directory", "opendir": "directory",
            "readlink": "symlink"}.get(name, "regular")
    if name in EXISTING:
        stage.make(kind, "d/x")
    stage.succeeds(ALL[name], stage, stage.path("s/x"))


ENDINGS = [
    ("stat", "file/", errno.ENOTDIR), ("lstat", "file/", errno.ENOTDIR),
    ("open for reading", "file/", errno.ENOTDIR), ("unlink", "file/", errno.ENOTDIR),
    ("rmdir", "file/", errno.ENOTDIR), ("truncate", "file/", errno.ENOTDIR),
    ("chmod", "file/", errno.ENOTDIR), ("rename from", "file/", errno.ENOTDIR),
    ("link from", "file/", errno.ENOTDIR), ("creat", "new/", errno.EISDIR),
    ("mkdir", "new/", 0), ("mkfifo", "new/", errno.ENOENT), ("symlink", "new/", errno.ENOENT),
    ("mknod of a file", "new/", errno.ENOENT), ("link to", "new/", errno.ENOENT),
    ("rename to", "new/", errno.ENOTDIR), ("rename to", "file/", errno.ENOTDIR),
    ("rename from", "folder/", 0), ("rmdir", "folder/", 0),
    ("unlink", "folder/", errno.EISDIR), ("lstat", "to_folder/", 0),
    ("unlink", "to_folder/", errno.ENOTDIR), ("rmdir", "to_folder/", errno.ENOTDIR),
    ("mkdir", "dangling", errno.EEXIST), ("mkdir", "dangling/", errno.EEXIST),
    ("creat", "dangling", 0), ("creat with O_EXCL", "dangling", errno.EEXIST),
    ("rmdir", ".", errno.EINVAL), ("rmdir", "..", errno.ENOTEMPTY),
    ("rmdir", "folder/.", errno.EINVAL), ("rmdir", "folder/..", errno.ENOTEMPTY),
    ("unlink", ".", errno.EISDIR), ("unlink", "..", errno.EISDIR),
    ("mkdir", ".", errno.EEXIST), ("mkdir", "..", errno.EEXIST),
    ("mkfifo", ".", errno.EEXIST), ("symlink", "..", errno.EEXIST),
    ("link to", ".", errno.EEXIST), ("creat", ".", errno.EISDIR),
    ("rename from", ".", errno.EBUSY), ("rename from", "..", errno.EBUSY),
    ("rename from", "folder/.", errno.EBUSY), ("rename from", "folder/..", errno.EBUSY),
    ("rename to", ".", errno.EBUSY), ("rename to", "..", errno.EBUSY),
    ("rename with NOREPLACE to", ".", errno.EEXIST),
]


@each("{}: last component {}", ENDINGS)
def endings(stage, name, end, number):
    prepare(stage)
    stage.make("regular", "file")
    stage.make("directory", "folder")
    os.symlink("folder", stage.path("to_folder"))
    os.symlink("absent", stage.path("dangling"))
    stage.fails(number, ALL[name], stage, stage.folder + "/" + end)


@case("forty symbolic links in a row are followed, forty-one are not")
def many_links(stage):
    stage.make("regular", "0")
    for number in range(1, 42):
        os.symlink(str(number - 1), stage.path(str(number)))
    stage.succeeds(os.stat, stage.path("40"))
    stage.fails(errno.ELOOP, os.stat, stage.path("41"))


@case("names: every byte but '/' and NUL")
def any_bytes(stage):
    folder = os.fsencode(stage.folder)
    names = sorted(bytes([number]) + b"x" for number in range(1, 256) if number != ord("/"))
    for name in names:
        calls.write_file(os.path.join(folder, name), name)
    stage.equal(sorted(os.listdir(folder)), names, "listing")
    for name in names:
        stage.equal(calls.read_file(os.path.join(folder, name)), name, "content")


@case("names: case and normal forms are distinct")
def distinct_names(stage):
    names = ["a", "A", "\u00e9", "e\u0301", " ", "  ", "...", "-", "a ", "a."]
    for name in names:
        stage.make("regular", name)
    stage.equal(sorted(os.listdir(stage.folder)), sorted(names), "listing")
