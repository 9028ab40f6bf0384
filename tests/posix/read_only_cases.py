# SPDX-License-Identifier: Apache-2.0
"""A file system mounted read-only: EROFS for every change, and reading as before. These cases share
one folder, made before the remount, and all run in it."""

import errno
import os

import calls
import path_calls
from path_calls import ALL, CHANGING, NEW
from stage import ALICE, KINDS, each

OBJECTS = {"rmdir": "directory"}
READING = ["stat", "lstat", "open for reading", "statvfs", "listxattr"]


def prepare(stage):
    path_calls.prepare(stage)
    for kind in KINDS:
        stage.make(kind, kind)
    os.chmod(stage.folder, 0o777)


@each("read-only: {} is EROFS", [*CHANGING, "rmdir", *NEW], read_only=True)
def refused(stage, name):
    path = stage.path("new") if name in NEW else stage.path(OBJECTS.get(name, "regular"))
    stage.fails(errno.EROFS, ALL[name], stage, path)


@each("read-only: {} is EROFS for another user who may write", [
    name for name in NEW if "link" not in name and "rename" not in name], read_only=True)
def refused_to_user(stage, name):
    stage.fails(errno.EROFS, ALL[name], stage, stage.path("new"), user=ALICE)


@each("read-only: {} works", READING, read_only=True)
def works(stage, name):
    stage.succeeds(ALL[name], stage, stage.path("regular"))


@each("read-only: {} is EEXIST where something is", ["mkdir", "creat with O_EXCL"],
      read_only=True)
def exists(stage, name):
    stage.fails(errno.EEXIST, ALL[name], stage, stage.path("regular"))


@each("read-only: {}", ["access(2) for writing", "pipes and devices", "O_CREAT on a file"],
      read_only=True)
def special(stage, name):
    if name == "access(2) for writing":
        stage.equal(os.access(stage.path("regular"), os.W_OK), False, "access")
    elif name == "pipes and devices":
        stage.succeeds(calls.open_and_close, stage.path("fifo"), os.O_RDWR)
        stage.succeeds(calls.open_and_close, stage.path("character"), os.O_RDWR)
    else:
        stage.succeeds(calls.open_and_close, stage.path("regular"), os.O_RDONLY | os.O_CREAT)
