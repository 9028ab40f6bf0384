#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times that stat(2) does not return or a volume cannot store: the birth time, and times before
1677 or after 2262."""

import ctypes
import os
import time

import mounted
from mounted import AT_FDCWD, MountedTest, checked, libc, run

STATX_BASIC_STATS = 0x7ff
STATX_BTIME = 0x800
AT_SYMLINK_NOFOLLOW = 0x100
AT_STATX_FORCE_SYNC = 0x2000
CLOCK_REALTIME_COARSE = 5
SECOND = 10 ** 9
LAST_SECOND = (2 ** 63 - 1) // SECOND


class Statx(ctypes.Structure):
    """struct statx of <linux/stat.h>, its times as pairs of numbers."""

    class Time(ctypes.Structure):
        _fields_ = [("seconds", ctypes.c_int64), ("nanoseconds", ctypes.c_uint32),
                    ("spare", ctypes.c_int32)]

        def ns(self):
            return self.seconds * SECOND + self.nanoseconds

    _fields_ = [("mask", ctypes.c_uint32), ("block", ctypes.c_uint32),
                ("attributes", ctypes.c_uint64), ("links", ctypes.c_uint32),
                ("user", ctypes.c_uint32), ("group", ctypes.c_uint32), ("mode", ctypes.c_uint16),
                ("spare1", ctypes.c_uint16), ("inode", ctypes.c_uint64),
                ("size", ctypes.c_uint64), ("blocks", ctypes.c_uint64),
                ("attributes_mask", ctypes.c_uint64), ("accessed", Time), ("born", Time),
                ("changed", Time), ("modified", Time), ("rdev_major", ctypes.c_uint32),
                ("rdev_minor", ctypes.c_uint32), ("dev", ctypes.c_uint32 * 2),
                ("spare2", ctypes.c_uint64 * 14)]


def statx(path, flags=0):
    found = Statx()
    checked(libc.statx(AT_FDCWD, os.fsencode(path), flags | AT_SYMLINK_NOFOLLOW,
                       STATX_BASIC_STATS | STATX_BTIME, ctypes.byref(found)))
    return found


def kernel_knows_birth():
    release = os.uname().release.split(".")
    return (int(release[0]), int(release[1])) >= (6, 6)


class FileTimes(MountedTest):
    def make_one_of_each(self):
        self.write("file", b"x" * 5000)
        os.mkdir(self.path("directory"))
        os.symlink("target", self.path("link"))
        os.mkfifo(self.path("pipe"))
        os.mknod(self.path("device"), 0o20600, os.makedev(5, 300))
        return [self.path(name) for name in os.listdir(self.folder)]

    def expect_as_stat(self, path, found):
        facts = os.lstat(path)
        self.assertEqual(
            (found.mode, found.links, found.user, found.group, found.inode, found.size,
             found.blocks, found.accessed.ns(), found.modified.ns(), found.changed.ns(),
             os.makedev(found.rdev_major, found.rdev_minor)),
            (facts.st_mode, facts.st_nlink, facts.st_uid, facts.st_gid, facts.st_ino,
             facts.st_size, facts.st_blocks, facts.st_atime_ns, facts.st_mtime_ns,
             facts.st_ctime_ns, facts.st_rdev), path)

    def test_birth(self):
        if not kernel_knows_birth():
            self.skipTest("the kernel asks for no time of birth before 6.6")
        before = time.clock_gettime_ns(CLOCK_REALTIME_COARSE)
        paths = self.make_one_of_each()
        after = time.clock_gettime_ns(CLOCK_REALTIME_COARSE)
        born = {}
        for path in paths:
            found = statx(path)
            self.assertTrue(found.mask & STATX_BTIME, path)
            born[path] = found.born.ns()
            self.assertTrue(before <= born[path] <= after, path)
            self.expect_as_stat(path, found)
        self.assertTrue(statx(self.volume.root).mask & STATX_BTIME)
        time.sleep(0.02)
        for path in paths:
            os.chown(path, 7, 8, follow_symlinks=False)
            os.utime(path, (1, 1), follow_symlinks=False)
        os.link(self.path("file"), self.path("second"))
        mounted.drop_caches()
        for flags in (0, AT_STATX_FORCE_SYNC):
            for path in paths:
                found = statx(path, flags)
                self.assertEqual(found.born.ns(), born[path], path)
                self.expect_as_stat(path, found)
        self.assertEqual(statx(self.path("second")).born.ns(), born[self.path("file")])

    def test_birth_of_what_is_gone(self):
        os.mkdir(self.path("gone"))
        inside = os.open(self.path("gone"), os.O_RDONLY)
        file = os.open(self.write("file"), os.O_RDONLY)
        os.rmdir(self.path("gone"))
        os.unlink(self.path("file"))
        for held, links in ((inside, 0), (file, 0)):
            found = Statx()
            checked(libc.statx(held, b"", 0x1000 | AT_STATX_FORCE_SYNC,
                               STATX_BASIC_STATS | STATX_BTIME, ctypes.byref(found)))
            self.assertEqual(found.links, links)
            os.close(held)

    def test_far_times(self):
        """They are clamped to the first and the last time that can be stored, as on ext4."""
        os.mkdir(self.path("d"))
        path = self.write("file")
        for year, seconds, second in ((2500, 16725225600, LAST_SECOND),
                                      (1600, -11676096000, -LAST_SECOND)):
            for name in ("d", "file"):
                os.utime(self.path(name), (seconds, seconds))
            self.assertEqual(os.stat(self.path("d")).st_mtime_ns, second * SECOND, year)
            self.assertEqual(os.stat(self.path("d")).st_atime_ns, second * SECOND, year)
            self.assertEqual(os.stat(path).st_atime_ns, second * SECOND, year)
            # The kernel keeps the time that it was given as long as it caches the inode.
            self.volume.unmount()
            self.volume.mount()
            self.assertEqual(os.stat(path).st_mtime_ns, second * SECOND, year)
        os.utime(path, ns=(LAST_SECOND * SECOND - 1, (1 - LAST_SECOND) * SECOND + 1))
        self.volume.unmount()
        self.volume.mount()
        facts = os.stat(path)
        self.assertEqual((facts.st_atime_ns, facts.st_mtime_ns),
                         (LAST_SECOND * SECOND - 1, (1 - LAST_SECOND) * SECOND + 1))

    def test_far_times_of_copies(self):
        source = os.path.join(self.volume.folder, "far")
        with open(source, "wb"):
            pass
        os.utime(source, (16725225600, 16725225600))
        kept = os.stat(source).st_mtime_ns
        self.volume.unmount()
        try:
            run("cp", "-p", source, f"{self.volume.image}:/far")
        finally:
            self.volume.mount()
        self.assertEqual(os.stat(os.path.join(self.volume.root, "far")).st_mtime_ns,
                         min(kept, LAST_SECOND * SECOND))


if __name__ == "__main__":
    mounted.main()
