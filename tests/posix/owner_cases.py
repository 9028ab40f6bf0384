# SPDX-License-Identifier: Apache-2.0
"""chmod and chown: who may, what they change, and which of the set-id bits they clear."""

import errno
import os

from stage import ALICE, BOB, CAROL, KINDS, case, each

KEEP = -1
MODES = [0o000, 0o111, 0o644, 0o777, 0o1777, 0o2755, 0o4755, 0o7777, 0o6000]
NOT_LINKS = [kind for kind in KINDS if kind != "symlink"]


@each("chmod: sets all bits of a {}", NOT_LINKS)
def chmod_sets(stage, kind):
    path = stage.make(kind)
    for mode in MODES:
        os.chmod(path, mode)
        stage.has_mode(path, mode)
        stage.is_kind(path, kind)


@each("chmod: follows a symbolic link to a {}", NOT_LINKS)
def chmod_follows(stage, kind):
    path = stage.make(kind)
    os.symlink("x", stage.path("s"))
    os.chmod(stage.path("s"), 0o701)
    stage.has_mode(path, 0o701)
    stage.has_mode(stage.path("s"), 0o777)


@each("chmod: only by the owner of a {}", NOT_LINKS)
def chmod_owner(stage, kind):
    path = stage.make(kind, mode=0o666, owner=ALICE, group=BOB.group)
    stage.succeeds(os.chmod, path, 0o604, user=ALICE)
    stage.fails(errno.EPERM, os.chmod, path, 0o777, user=BOB)
    stage.fails(errno.EPERM, os.chmod, path, 0o777, user=CAROL)
    stage.has_mode(path, 0o604)


@each("chmod: set-group-id goes if the owner is not in the group, for a {}",
      ("regular", "directory"))
def chmod_group_bit(stage, kind):
    path = stage.make(kind, owner=ALICE)
    for group, mode in ((ALICE.group, 0o2755), (40012, 0o2755), (CAROL.group, 0o755)):
        os.chown(path, ALICE.id, group)
        os.chmod(path, 0o755)
        stage.succeeds(os.chmod, path, 0o2755, user=ALICE)
        stage.has_mode(path, mode)


@case("chmod: through a descriptor, also one of an unlinked file")
def chmod_descriptor(stage):
    path = stage.make("regular")
    file = os.open(path, os.O_RDONLY)
    os.fchmod(file, 0o640)
    stage.has_mode(path, 0o640)
    os.unlink(path)
    os.fchmod(file, 0o4711)
    stage.equal(os.fstat(file).st_mode & 0o7777, 0o4711, "mode")
    os.close(file)
    stage.fails(errno.EBADF, os.fchmod, file, 0o640)


@case("chmod: sticky on a file is kept for its owner")
def chmod_sticky_file(stage):
    path = stage.make("regular", owner=ALICE)
    stage.succeeds(os.chmod, path, 0o1644, user=ALICE)
    stage.has_mode(path, 0o1644)


@each("chown: sets owner and group of a {}", KINDS)
def chown_sets(stage, kind):
    path = stage.make(kind)
    for user, group, owner in ((1, 2, (1, 2)), (KEEP, 3, (1, 3)), (4, KEEP, (4, 3)),
                               (KEEP, KEEP, (4, 3)), (0xfffffffe, 0xfffffffe, (0xfffffffe,) * 2),
                               (0, 0, (0, 0))):
        os.lchown(path, user, group)
        stage.is_owned(path, *owner)
        stage.is_kind(path, kind)


@each("chown: follows a symbolic link to a {}", NOT_LINKS)
def chown_follows(stage, kind):
    path = stage.make(kind)
    os.symlink("x", stage.path("s"))
    os.chown(stage.path("s"), 12, 13)
    stage.is_owned(path, 12, 13)
    stage.is_owned(stage.path("s"), 0, 0)
    os.lchown(stage.path("s"), 14, 15)
    stage.is_owned(path, 12, 13)
    stage.is_owned(stage.path("s"), 14, 15)


# Caller, new owner, new group, error; the file is ALICE's and of her main group.
CHOWNS = [
    ("owner, nothing", ALICE, KEEP, KEEP, 0),
    ("owner, the same ids", ALICE, ALICE.id, ALICE.group, 0),
    ("owner, another of his groups", ALICE, KEEP, 40011, 0),
    ("owner, same owner and another of his groups", ALICE, ALICE.id, 40012, 0),
    ("owner, a group not his", ALICE, KEEP, CAROL.group, errno.EPERM),
    ("owner, another owner", ALICE, BOB.id, KEEP, errno.EPERM),
    ("owner, root", ALICE, 0, KEEP, errno.EPERM),
    ("owner, another owner and one of his groups", ALICE, BOB.id, 40011, errno.EPERM),
    ("other, nothing", BOB, KEEP, KEEP, 0),
    ("other, himself", BOB, BOB.id, KEEP, errno.EPERM),
    ("other, his group", BOB, KEEP, BOB.group, errno.EPERM),
    ("other, the same ids", BOB, ALICE.id, ALICE.group, errno.EPERM),
]


@each("chown: by {}, of a {}", [(row[0], kind, *row[1:]) for row in CHOWNS
                                for kind in ("regular", "directory", "symlink")])
def chown_permission(stage, _, kind, user, new_user, new_group, number):
    path = stage.make(kind, owner=ALICE)
    stage.fails(number, os.lchown, path, new_user, new_group, user=user)
    changed = number == 0
    stage.is_owned(path, new_user if changed and new_user != KEEP else ALICE.id,
                   new_group if changed and new_group != KEEP else ALICE.group)


# Mode before, and after a chown by root and by the owner.
CLEARED = [(0o4755, 0o755), (0o2755, 0o755), (0o6755, 0o755), (0o6711, 0o711), (0o6710, 0o710),
           (0o7777, 0o1777), (0o755, 0o755)]


@each("chown: by {} clears set-id bits of a {} with mode {:o}",
      [(name, kind, before, after, user) for before, after in CLEARED
       for kind in ("regular", "fifo") for name, user in (("root", None), ("owner", ALICE))])
def chown_clears(stage, _, kind, before, after, user):
    path = stage.make(kind, mode=before, owner=ALICE)
    stage.succeeds(os.chown, path, KEEP, 40011, user=user)
    stage.is_owned(path, ALICE.id, 40011)
    stage.has_mode(path, after)


@each("chown: by {} keeps set-id bits of a directory", [("root", None), ("owner", ALICE)])
def chown_keeps(stage, _, user):
    path = stage.make("directory", mode=0o6755, owner=ALICE)
    stage.succeeds(os.chown, path, KEEP, 40011, user=user)
    stage.has_mode(path, 0o6755)


@case("chown: set-group-id without execution by the group is kept for root")
def chown_locking_bit(stage):
    path = stage.make("regular", mode=0o2644, owner=ALICE)
    os.chown(path, KEEP, 40011)
    stage.has_mode(path, 0o2644)


@case("chown: also a change of nothing clears set-user-id")
def chown_nothing_clears(stage):
    path = stage.make("regular", mode=0o4755, owner=ALICE)
    os.chown(path, KEEP, KEEP)
    stage.has_mode(path, 0o755)


@case("chown: through a descriptor, also one of an unlinked file")
def chown_descriptor(stage):
    path = stage.make("regular")
    file = os.open(path, os.O_RDONLY)
    os.fchown(file, 11, 12)
    stage.is_owned(path, 11, 12)
    os.unlink(path)
    os.fchown(file, 13, 14)
    facts = os.fstat(file)
    stage.equal((facts.st_uid, facts.st_gid), (13, 14), "ids")
    os.close(file)


def cleared_by(path, change):
    """Has CAROL change the content of a set-id file that anybody may write."""
    def work():
        file = os.open(path, os.O_RDWR)
        change(file)
        os.close(file)
    return work


CONTENT_CHANGES = {"write": lambda file: os.write(file, b"x"),
                   "pwrite behind the end": lambda file: os.pwrite(file, b"x", 100000),
                   "ftruncate": lambda file: os.ftruncate(file, 1),
                   "growing ftruncate": lambda file: os.ftruncate(file, 10000),
                   "fallocate": lambda file: os.posix_fallocate(file, 0, 10000)}


@each("{} by another user clears set-id bits of mode {:o}",
      [(name, before, after) for name in CONTENT_CHANGES
       for before, after in ((0o4777, 0o777), (0o2777, 0o777), (0o6777, 0o777),
                             (0o777, 0o777))])
def change_clears(stage, name, before, after):
    path = stage.path("x")
    with open(path, "wb") as file:
        file.write(b"content")
    os.chown(path, ALICE.id, ALICE.group)
    os.chmod(path, before)
    stage.succeeds(cleared_by(path, CONTENT_CHANGES[name]), user=CAROL)
    stage.has_mode(path, after)


@each("{} by root keeps set-id bits", CONTENT_CHANGES)
def change_keeps(stage, name):
    path = stage.make("regular", mode=0o6777, owner=ALICE)
    cleared_by(path, CONTENT_CHANGES[name])()
    stage.has_mode(path, 0o6777)


@case("truncate and O_TRUNC by another user clear set-id bits")
def truncate_clears(stage):
    path = stage.make("regular", mode=0o6777, owner=ALICE)
    stage.succeeds(os.truncate, path, 5, user=CAROL)
    stage.has_mode(path, 0o777)
    os.chmod(path, 0o6777)
    stage.succeeds(lambda: os.close(os.open(path, os.O_WRONLY | os.O_TRUNC)), user=CAROL)
    stage.has_mode(path, 0o777)


@case("reading keeps set-id bits")
def reading_keeps(stage):
    path = stage.make("regular", mode=0o6777, owner=ALICE)
    stage.succeeds(lambda: open(path, "rb").read(), user=CAROL)
    stage.has_mode(path, 0o6777)
