#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files that were removed while open, when their mount ends: those that no process can access any
more are freed then, and fsck reports those that remain."""

import json
import os
import signal
import subprocess
import unittest

import mounted
from kill_verbs_test import is_gone, wait_until
from mounted import Volume, run

FILES = 900


def checked_volume(image):
    return json.loads(run("fsck", "--json", image).stdout)


class LazyUnmount(unittest.TestCase):
    def setUp(self):
        self.volume = Volume()

    def tearDown(self):
        self.volume.remove()

    def open_and_unlink(self):
        """Returns descriptors of files, and of a directory, without names."""
        held = []
        for i in range(FILES):
            path = os.path.join(self.volume.root, f"f{i}")
            held.append(os.open(path, os.O_CREAT | os.O_RDWR, 0o644))
            os.write(held[-1], b"x" * 20000)
            os.unlink(path)
        os.mkdir(os.path.join(self.volume.root, "d"))
        held.append(os.open(os.path.join(self.volume.root, "d"), os.O_RDONLY))
        os.rmdir(os.path.join(self.volume.root, "d"))
        held.append(os.open(self.volume.root, os.O_TMPFILE | os.O_RDWR, 0o600))
        os.fsync(held[0])
        return held

    def wait_for_end(self, process):
        self.assertTrue(wait_until(lambda: is_gone(process), 60))

    def test_what_was_open_is_freed(self):
        self.volume.mount()
        process = self.volume.process()
        held = self.open_and_unlink()
        subprocess.run(["umount", "-l", self.volume.root], check=True)
        os.write(held[1], b"still here")
        for file in held:
            os.close(file)
        self.wait_for_end(process)
        found = checked_volume(self.volume.image)
        self.assertEqual((found["problem_count"], found["orphans"], found["inodes"]), (0, 0, 2))
        self.assertRegex(run("fsck", self.volume.image).stdout, ": clean; ")

    def test_what_stays_is_told(self):
        self.volume.mount()
        process = self.volume.process()
        held = self.open_and_unlink()
        run("sync", self.volume.root)
        os.kill(process, signal.SIGKILL)
        for file in held:
            os.close(file)
        subprocess.run(["umount", "-l", self.volume.root], check=True)
        self.wait_for_end(process)
        found = checked_volume(self.volume.image)
        self.assertEqual((found["problem_count"], found["orphans"]), (0, FILES + 2))
        self.assertIn(f"clean but for {FILES + 2} orphans, which the next mount frees",
                      run("fsck", self.volume.image).stdout)
        self.volume.mount()
        self.volume.unmount()
        self.assertEqual(checked_volume(self.volume.image)["orphans"], 0)


if __name__ == "__main__":
    mounted.main()
