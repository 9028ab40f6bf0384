#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Another file system is mounted on top of a mount. Unmounting takes a path, which leads to the
other one: it must stay, whether a command or the end of the daemon unmounts."""

import contextlib
import os
import signal
import subprocess
import time
import unittest

import mounted
from kill_verbs_test import can_be_locked, is_gone, wait_until, watchdog_of
from mounted import Volume, run

PATIENCE_SECONDS = 20


class Covered(unittest.TestCase):
    def setUp(self):
        self.volume = Volume("64M")
        self.addCleanup(self.volume.remove)
        self.addCleanup(self.unmount_all)
        self.volume.mount()
        self.daemon = self.volume.process()

    def unmount_all(self):
        while subprocess.run(["umount", "-l", self.volume.root], stderr=subprocess.DEVNULL,
                             check=False).returncode == 0:
            pass

    def path(self, name):
        return os.path.join(self.volume.root, name)

    def cover(self, where=None):
        subprocess.run(["mount", "-t", "tmpfs", "cover", where or self.volume.root], check=True)

    def uncover(self, where=None):
        subprocess.run(["umount", where or self.volume.root], check=True)

    def types(self):
        """Of what is mounted on the mount point, or on the folder that it is in."""
        with open("/proc/self/mounts", encoding="utf-8") as table:
            lines = [line.split() for line in table]
        return [line[2] for line in lines if line[1] in (self.volume.root, self.volume.folder)]

    def check_contents(self, contents):
        self.volume.check()
        self.volume.mount()
        with open(self.path("file"), "rb") as file:
            self.assertEqual(file.read(), contents)
        self.volume.unmount()

    def test_unmounting_by_the_image(self):
        self.cover()
        for options in ((), ("-l",), ("-f",), ("-f", "-l")):
            with self.subTest(options=options):
                told = run("umount", *options, self.volume.image, code=32).stderr
                self.assertIn("another mount covers it; unmount that one first", told)
                self.assertEqual(self.types(), ["fuse.warren", "tmpfs"])
        self.uncover()
        os.mkdir(self.path("works"))
        run("umount", self.volume.image)
        self.assertEqual(self.types(), [])
        self.volume.check()

    def test_a_folder_above_is_covered(self):
        """With another mount under the same path."""
        image = self.volume.image
        self.cover(self.volume.folder)
        self.addCleanup(self.uncover, self.volume.folder)
        os.mkdir(self.volume.root)
        self.cover()
        told = run("umount", image, code=32).stderr
        self.assertIn("another mount covers it", told)
        self.assertEqual(self.types(), ["fuse.warren", "tmpfs", "tmpfs"])
        self.uncover()

    def write_and_cover(self):
        """Returns a descriptor whose file the kernel has not written back."""
        file = os.open(self.path("file"), os.O_CREAT | os.O_WRONLY)
        os.write(file, b"kept")
        self.cover()
        with open(self.path("of the cover"), "wb") as other:
            other.write(b"kept too")
        return file

    def check_end(self, file):
        self.assertTrue(wait_until(lambda: is_gone(self.daemon), PATIENCE_SECONDS))
        with contextlib.suppress(OSError):  # ENOTCONN
            os.close(file)
        self.assertTrue(wait_until(lambda: can_be_locked(self.volume.image)))
        self.assertEqual(self.types(), ["fuse.warren", "tmpfs"])
        self.assertTrue(os.path.exists(self.path("of the cover")))
        self.uncover()
        run("umount", self.volume.root)

    def test_a_signal_ends_the_daemon(self):
        file = self.write_and_cover()
        os.kill(self.daemon, signal.SIGTERM)
        self.check_end(file)
        self.check_contents(b"kept")

    def test_a_signal_without_the_watchdog(self):
        """Which aborts the connection; without that libfuse would unmount at the end."""
        file = self.write_and_cover()
        os.fsync(file)
        os.kill(watchdog_of(self.daemon), signal.SIGKILL)
        for _ in range(2):
            os.kill(self.daemon, signal.SIGTERM)
            time.sleep(0.5)
        self.check_end(file)
        self.check_contents(b"kept")

    def test_the_daemon_is_killed(self):
        file = self.write_and_cover()
        os.fsync(file)
        os.kill(self.daemon, signal.SIGKILL)
        self.check_end(file)
        self.check_contents(b"kept")


if __name__ == "__main__":
    mounted.main()
