# SPDX-License-Identifier: Apache-2.0
"""A sticky directory: a name in it goes only by the owner of the object, of the directory, or
root."""

import errno
import os

import calls
from stage import ALICE, BOB, KINDS, case, each

OWNERS = [("own", "own"), ("own", "other's"), ("other's", "own"), ("other's", "other's")]
ROWS = [(*owners, kind) for owners in OWNERS for kind in KINDS]


def owner_of(word):
    return ALICE if word == "own" else BOB


def make(stage, folder):
    """A sticky directory `d`; the path of the object that the case puts there."""
    stage.make("directory", "d", owner=owner_of(folder))
    os.chmod(stage.path("d"), 0o1777)
    return stage.path("d/x")


def verdict(folder, owner):
    return 0 if "own" in (folder, owner) else errno.EPERM


@each("sticky: remove from {} directory {} {}", ROWS)
def remove(stage, folder, owner, kind):
    path = make(stage, folder)
    stage.make(kind, "d/x", owner=owner_of(owner))
    call = os.rmdir if kind == "directory" else os.unlink
    stage.fails(verdict(folder, owner), call, path, user=ALICE)
    stage.equal(os.path.lexists(path), verdict(folder, owner) != 0, "presence")


@each("sticky: rename from {} directory {} {}", ROWS)
def rename_from(stage, folder, owner, kind):
    path = make(stage, folder)
    stage.make(kind, "d/x", owner=owner_of(owner))
    # Moving a directory to another one writes its "..": so it stays here.
    stage.fails(verdict(folder, owner), os.rename, path, stage.path("d/y"), user=ALICE)
    stage.equal(os.path.lexists(path), verdict(folder, owner) != 0, "presence")


@each("sticky: rename over, in {} directory, {} {}", ROWS)
def rename_over(stage, folder, owner, kind):
    path = make(stage, folder)
    stage.make(kind, "d/x", owner=owner_of(owner))
    source = stage.make(kind, "d/source", owner=ALICE)
    inode = os.lstat(source).st_ino
    stage.fails(verdict(folder, owner), os.rename, source, path, user=ALICE)
    stage.equal(os.lstat(path).st_ino == inode, verdict(folder, owner) == 0, "replacement")


@each("sticky: exchange, in {} directory, with {} {}", ROWS)
def exchange(stage, folder, owner, kind):
    path = make(stage, folder)
    stage.make(kind, "d/x", owner=owner_of(owner))
    source = stage.make(kind, "d/source", owner=ALICE)
    stage.fails(verdict(folder, owner), calls.renameat2, source, path, calls.RENAME_EXCHANGE,
                user=ALICE)


@case("sticky: does not matter for new names, links and content")
def other_changes(stage):
    stage.make("directory", "d", 0o1777)
    path = stage.make("regular", "d/x", 0o666, BOB)
    stage.succeeds(calls.write_file, stage.path("d/y"), user=ALICE)
    stage.succeeds(calls.truncate, path, 5, user=ALICE)
    stage.succeeds(os.symlink, "x", stage.path("d/s"), user=ALICE)


@case("sticky: without the bit anybody who may write the directory removes")
def not_sticky(stage):
    folder = stage.make("directory", "d", 0o1777)
    path = stage.make("regular", "d/x", owner=BOB)
    stage.fails(errno.EPERM, os.unlink, path, user=ALICE)
    os.chmod(folder, 0o777)
    stage.succeeds(os.unlink, path, user=ALICE)


@case("sticky: root removes everything")
def root_removes(stage):
    stage.make("directory", "d", 0o1777, ALICE)
    stage.succeeds(os.unlink, stage.make("regular", "d/x", owner=BOB))
