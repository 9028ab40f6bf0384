#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Warren as the upper layer of overlayfs, compared with tmpfs: the same random operations on two
overlays over one lower tree have the same results and leave the same trees, and the kernel logs no
complaint about the file system. Also tests RENAME_WHITEOUT by itself."""

import errno
import os
import random
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

import mounted
from mounted import MountedTest, RENAME_EXCHANGE, RENAME_NOREPLACE, Volume, renameat2

RENAME_WHITEOUT = 4
SEED = int(os.environ.get("WARREN_SEED") or random.SystemRandom().randrange(2 ** 31))
STEPS = 1500 * int(os.environ.get("WARREN_LOAD", "1"))
DIRECTORIES = ["d0", "d1", "d0/s", "d1/s", "new"]
NAMES = ["f0", "f1", "f2", "f3", "s", "t"]


def is_whiteout(path):
    facts = os.lstat(path)
    return stat.S_ISCHR(facts.st_mode) and facts.st_rdev == 0


class Whiteouts(MountedTest):
    def test_takes_the_old_name(self):
        source, target = self.write("a", b"bytes"), self.path("b")
        inode = os.stat(source).st_ino
        renameat2(source, target, RENAME_WHITEOUT)
        self.assertTrue(is_whiteout(source))
        self.assertEqual(os.lstat(source).st_mode, stat.S_IFCHR)
        self.assertEqual((os.lstat(source).st_nlink, os.stat(target).st_ino), (1, inode))
        self.assertEqual(self.read("b"), b"bytes")
        self.assertEqual(sorted(os.listdir(self.folder)), ["a", "b"])

    def test_replaces_unless_forbidden(self):
        source, target = self.write("a", b"new"), self.write("b", b"old")
        both = RENAME_WHITEOUT | RENAME_NOREPLACE
        self.fails_with(17, renameat2, source, target, both)
        self.fails_with(22, renameat2, source, target, RENAME_WHITEOUT | RENAME_EXCHANGE)
        renameat2(source, target, RENAME_WHITEOUT)
        self.assertEqual(self.read("b"), b"new")
        renameat2(target, self.path("c"), both)
        self.assertTrue(is_whiteout(source) and is_whiteout(target))

    def test_directories(self):
        os.makedirs(self.path("from/d/below"))
        os.mkdir(self.path("to"))
        self.fails_with(22, renameat2, self.path("from"), self.path("from/d/x"), RENAME_WHITEOUT)
        renameat2(self.path("from/d"), self.path("to/d"), RENAME_WHITEOUT)
        self.assertTrue(is_whiteout(self.path("from/d")))
        self.assertEqual(os.stat(self.path("from")).st_nlink, 2)
        self.assertEqual(os.stat(self.path("to")).st_nlink, 3)
        self.assertEqual(os.listdir(self.path("to/d")), ["below"])

    def test_by_others_than_root(self):
        os.chmod(self.folder, 0o777)
        self.write("a")
        work = lambda: renameat2(self.path("a"), self.path("b"), RENAME_WHITEOUT)
        self.assertEqual(mounted.as_user(12345, 12345, work), 0)
        self.assertEqual(os.lstat(self.path("a")).st_uid, 12345)


def mount(kind, source, target, options=""):
    words = ["mount", "-t", kind, source, target] + (["-o", options] if options else [])
    subprocess.run(words, check=True, capture_output=True)


class Overlay:
    """An overlay whose upper layer is in `home`."""

    def __init__(self, lower, home, merged, options):
        self.merged = merged
        os.mkdir(merged)
        for part in ("upper", "work"):
            os.mkdir(os.path.join(home, part))
        self.options = (f"lowerdir={lower},upperdir={home}/upper,workdir={home}/work,"
                        f"index=off,{options}")
        self.mount()

    def mount(self):
        mount("overlay", "overlay", self.merged, self.options)

    def unmount(self):
        if os.path.ismount(self.merged):
            subprocess.run(["umount", self.merged], check=True)

    def path(self, directory, name):
        return os.path.join(self.merged, directory, name)


def unless_stale(work):
    """Runs `work`. For a file with several names overlayfs (6.18) remembers the name under which it
    first met the file. When that is removed it looks it up again through FUSE, and returns ESTALE
    for the other names until it drops the file: that is not an error of the volume."""
    try:
        return work()
    except OSError as error:
        if error.errno != errno.ESTALE:
            raise
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
        file.write("2")
    return work()


def write(path, data, flags=0):
    file = os.open(path, os.O_WRONLY | flags, 0o640)
    try:
        os.write(file, data)
    finally:
        os.close(file)


def make_unnamed(directory, path):
    file = os.open(directory, os.O_TMPFILE | os.O_WRONLY, 0o600)
    try:
        os.write(file, b"unnamed")
        os.link(f"/proc/self/fd/{file}", path, follow_symlinks=True)
    finally:
        os.close(file)


def described(path):
    """The properties of a file that must be equal."""
    facts = os.lstat(path)
    held = None
    if stat.S_ISREG(facts.st_mode):
        with open(path, "rb") as file:
            held = file.read()
    if stat.S_ISLNK(facts.st_mode):
        held = os.readlink(path)
    names = [] if stat.S_ISLNK(facts.st_mode) else os.listxattr(path)
    attributes = {name: os.getxattr(path, name) for name in names if name.startswith("user.x")}
    links = 0 if stat.S_ISDIR(facts.st_mode) else facts.st_nlink
    return facts.st_mode, links, facts.st_uid, facts.st_gid, facts.st_rdev, held, attributes


def tree(root):
    found = {}
    for folder, directories, files in os.walk(root):
        for name in directories + files:
            path = os.path.join(folder, name)
            found[os.path.relpath(path, root)] = unless_stale(lambda at=path: described(at))
    return found


def fill_lower(lower):
    for directory in ("d0/s", "d1/s", "d1/s/deep"):
        os.makedirs(os.path.join(lower, directory))
        for name in NAMES[:4]:
            write(os.path.join(lower, directory, name), f"{directory}/{name}".encode(), os.O_CREAT)
    os.link(os.path.join(lower, "d0/s/f0"), os.path.join(lower, "d0/f0"))
    os.symlink("f0", os.path.join(lower, "d0/f1"))
    write(os.path.join(lower, "d1/f2"), b"x" * 10000, os.O_CREAT)
    os.setxattr(os.path.join(lower, "d1/f2"), "user.x1", b"of the lower layer")


class KernelLog:
    """The kernel's messages from now on."""

    def __init__(self):
        self.file = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self.file, 0, os.SEEK_END)

    def lines(self):
        found = []
        while True:
            try:
                found.append(os.read(self.file, 8192).decode(errors="replace"))
            except BlockingIOError:
                return found

    def close(self):
        os.close(self.file)


class Overlays(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="warren-overlay-")
        self.volume = Volume()
        self.volume.mount()
        self.host = os.path.join(self.folder, "host")
        os.mkdir(self.host)
        mount("tmpfs", "tmpfs", self.host)
        self.lower = os.path.join(self.host, "lower")
        fill_lower(self.lower)
        self.reference = os.path.join(self.host, "reference")
        os.mkdir(self.reference)
        self.overlays = []

    def tearDown(self):
        try:
            for overlay in self.overlays:
                overlay.unmount()
            self.volume.unmount()
            self.volume.check()
        finally:
            subprocess.run(["umount", "-l", self.host], check=False)
            self.volume.remove()
            shutil.rmtree(self.folder, ignore_errors=True)

    def calls(self, choose):
        """A random operation, to be run on each overlay."""
        where, to = choose.choice(DIRECTORIES), choose.choice(DIRECTORIES)
        name, new_name = choose.choice(NAMES), choose.choice(NAMES)
        if choose.randrange(8) == 0:
            where, name = choose.choice([("", "d0"), ("", "d1"), ("", "new"), ("d0", "s")])
        data = choose.randbytes(choose.choice([0, 10, 5000]))
        flags = choose.choice([0, 0, 0, RENAME_NOREPLACE, RENAME_EXCHANGE])
        index = choose.randrange(14)

        def call(overlay):
            path, other = overlay.path(where, name), overlay.path(to, new_name)
            [lambda: write(path, data, os.O_CREAT),
             lambda: write(path, data, os.O_APPEND),
             lambda: os.unlink(path), lambda: os.unlink(path),
             lambda: os.mkdir(path), lambda: os.rmdir(path), lambda: shutil.rmtree(path),
             lambda: renameat2(path, other, flags), lambda: renameat2(path, other, flags),
             lambda: os.link(path, other), lambda: os.symlink("f0", path),
             lambda: os.chmod(path, 0o711), lambda: os.setxattr(path, "user.x2", data[:100]),
             lambda: make_unnamed(overlay.path(where, ""), path)][index]()
        return call, f"operation {index} on {where}/{name}, {to}/{new_name}, {flags}"

    def run_both(self, options):
        log = KernelLog()
        print(f"seed {SEED}: repeat with WARREN_SEED={SEED}")
        self.overlays = [Overlay(self.lower, self.volume.root, self.folder + "/a", options),
                         Overlay(self.lower, self.reference, self.folder + "/b", options)]
        complaints = [line for line in log.lines() if "overlayfs:" in line]
        log.close()
        self.assertEqual(complaints, [])
        choose = random.Random(SEED)
        for step in range(STEPS):
            call, what = self.calls(choose)
            outcomes = []
            for overlay in self.overlays:
                try:
                    unless_stale(lambda to=overlay: call(to))
                    outcomes.append(0)
                except OSError as error:
                    outcomes.append(error.errno)
            self.assertEqual(*outcomes, f"step {step}: {what}")
            if step % 100 == 0:
                self.expect_alike(f"step {step}: {what}")
        self.expect_alike("the last step")
        for overlay in self.overlays:
            overlay.unmount()
        self.volume.unmount()
        self.volume.check()
        self.volume.mount()
        for overlay in self.overlays:
            overlay.mount()
        self.expect_alike("another mount")

    def expect_alike(self, when):
        trees = [tree(overlay.merged) for overlay in self.overlays]
        self.assertEqual(*trees, f"after {when}")

    def test_as_on_tmpfs(self):
        self.run_both("redirect_dir=on")

    def test_as_on_tmpfs_with_user_attributes(self):
        self.run_both("userxattr")


if __name__ == "__main__":
    mounted.skip_unless_possible()
    with open("/proc/filesystems", encoding="ascii") as kinds:
        if "overlay" not in kinds.read():
            subprocess.run(["modprobe", "overlay"], check=False, capture_output=True)
    with open("/proc/filesystems", encoding="ascii") as kinds:
        if "overlay" not in kinds.read():
            print("skipped: the kernel has no overlayfs")
            sys.exit(mounted.SKIPPED)
    mounted.main()
