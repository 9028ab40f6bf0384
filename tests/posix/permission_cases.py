# SPDX-License-Identifier: Apache-2.0
"""Who may read, write and search: the first class that a caller belongs to (owner, group by the
main or another group, others) decides alone. And what a directory's bits allow to do with names."""

import errno
import os

import calls
from path_calls import NEW, ALL, prepare
from stage import ALICE, BOB, CAROL, KINDS, User, case, each

READ, WRITE, SEARCH = 4, 2, 1
# A caller of each class of an object of ALICE and of the group 40012, and where its bits stand.
CLASSES = {"owner": (ALICE, 6), "main group": (User(40009, 40012), 3),
           "another group": (BOB, 3), "others": (CAROL, 0)}
GROUP = 40012
TRIPLES = [(name, kind, bits) for name in CLASSES for kind in ("file", "directory")
           for bits in range(8)]


def expected(bits, wanted):
    return 0 if bits & wanted == wanted else errno.EACCES


@each("permission of {} for a {} with bits {}", TRIPLES)
def class_decides(stage, name, kind, bits):
    user, shift = CLASSES[name]
    mode = (0o777 & ~(7 << shift)) | bits << shift
    if kind == "file":
        path = stage.make("regular", "x", mode, ALICE, GROUP)
        stage.fails(expected(bits, READ), calls.open_and_close, path, os.O_RDONLY, user=user)
        stage.fails(expected(bits, WRITE), calls.open_and_close, path, os.O_WRONLY, user=user)
        stage.fails(expected(bits, READ | WRITE), calls.open_and_close, path, os.O_RDWR, user=user)
        stage.fails(expected(bits, WRITE), calls.truncate, path, 0, user=user)
        stage.fails(expected(bits, SEARCH), may_execute, path, user=user)
        return
    path = stage.make("directory", "d", owner=ALICE, group=GROUP)
    stage.make("regular", "d/x", owner=user)
    os.chmod(path, mode)
    stage.fails(expected(bits, READ), os.listdir, path, user=user)
    stage.fails(expected(bits, SEARCH), os.stat, os.path.join(path, "x"), user=user)
    stage.fails(expected(bits, SEARCH), os.chdir, path, user=user)
    stage.fails(expected(bits, WRITE | SEARCH), os.mkdir, os.path.join(path, "y"), user=user)
    stage.fails(expected(bits, WRITE | SEARCH), os.unlink, os.path.join(path, "x"), user=user)


def may_execute(path):
    if not os.access(path, os.X_OK):
        raise PermissionError(errno.EACCES, "not executable")


@each("{}: EACCES where the directory may not be written", NEW)
def no_new_name(stage, name):
    prepare(stage, ALICE)
    folder = stage.make("directory", "d", owner=ALICE)
    os.chmod(folder, 0o555)
    stage.fails(errno.EACCES, ALL[name], stage, stage.path("d/x"), user=ALICE)
    os.chmod(folder, 0o755)
    stage.succeeds(ALL[name], stage, stage.path("d/x"), user=ALICE)


@each("{} of a {}: EACCES where the directory may not be written",
      [(name, kind) for name in ("unlink", "rename from", "exchange") for kind in KINDS])
def no_removal(stage, name, kind):
    if (name, kind) == ("unlink", "directory"):
        name = "rmdir"
    prepare(stage, ALICE)
    folder = stage.make("directory", "d", owner=ALICE)
    path = stage.make(kind, "d/x", owner=ALICE)
    os.chmod(folder, 0o555)
    stage.fails(errno.EACCES, ALL[name], stage, path, user=ALICE)
    stage.is_kind(path, kind)
    os.chmod(folder, 0o755)
    stage.succeeds(ALL[name], stage, path, user=ALICE)


@each("{}: EACCES where the other directory may not be written",
      ["rename from", "link from", "exchange"])
def no_target(stage, name):
    prepare(stage, ALICE)
    path = stage.make("regular", owner=ALICE)
    os.chmod(stage.folder, 0o777)
    os.chmod(stage.path("other"), 0o555)
    stage.fails(errno.EACCES, ALL[name], stage, path, user=ALICE)


@case("a name can be removed by who may write the directory, whoever owns the file")
def removal_of_others_files(stage):
    stage.make("directory", "d", 0o777)
    path = stage.make("regular", "d/x", 0o000, CAROL)
    stage.succeeds(os.unlink, path, user=ALICE)


@case("a directory without read permission hides its names but not the objects")
def search_only(stage):
    folder = stage.make("directory", "d", 0o711)
    path = stage.make("regular", "d/x", 0o644)
    stage.fails(errno.EACCES, os.listdir, folder, user=ALICE)
    stage.succeeds(calls.read_file, path, user=ALICE)


@case("a file that is open stays open when its permission goes")
def open_file_keeps_permission(stage):
    path = stage.make("regular", "x", 0o600, ALICE)

    def work():
        file = os.open(path, os.O_RDWR)
        os.chmod(path, 0)
        os.write(file, b"still")
        os.ftruncate(file, 3)
        if os.pread(file, 9, 0) != b"sti":
            raise OSError(errno.EIO, "content")
        if not os.access(path, os.F_OK) or os.access(path, os.R_OK):
            raise OSError(errno.EIO, "access")

    stage.succeeds(work, user=ALICE)


@case("root may do everything but execute what nobody may")
def root_may(stage):
    path = stage.make("regular", "x", 0o000, ALICE)
    stage.succeeds(calls.open_and_close, path, os.O_RDWR)
    stage.equal(os.access(path, os.X_OK), False, "may execute")
    os.chmod(path, 0o001)
    stage.equal(os.access(path, os.X_OK), True, "may execute")
    stage.make("directory", "d", 0o000, ALICE)
    stage.make("regular", "d/y")
    stage.equal(os.listdir(stage.path("d")), ["y"], "listing")


@case("permission changes at once for a directory that was searched before")
def fresh_permission(stage):
    folder = stage.make("directory", "d", 0o755)
    path = stage.make("regular", "d/x", 0o644)
    for _ in range(3):
        stage.succeeds(os.stat, path, user=ALICE)
        os.chmod(folder, 0o700)
        stage.fails(errno.EACCES, os.stat, path, user=ALICE)
        os.chmod(folder, 0o755)
    os.chown(folder, ALICE.id, ALICE.group)
    os.chmod(folder, 0o700)
    stage.succeeds(os.stat, path, user=ALICE)
