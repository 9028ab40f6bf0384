#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mount options about the disk: each way to it holds the same bytes, `info` and `doctor` say which
one is gone and why, and what makes no sense is refused with a reason."""

import json
import os
import unittest

import mounted
from mounted import Volume, run

WAYS = ("plain", "ring", "direct", "auto")


def content_of(number):
    return (f"file {number} ".encode() * 100_000)[:number * 9973]


class StorageOptions(unittest.TestCase):
    def setUp(self):
        self.volume = Volume("64M")
        self.addCleanup(self.volume.remove)

    def test_every_way_holds_the_same_bytes(self):
        for number, way in enumerate(WAYS):
            done = run("mount", "-o", f"disk={way}", self.volume.image, self.volume.root, code=None)
            if done.returncode != 0:
                self.assertIn("disk=plain", done.stderr)
                print("refused here:", done.stderr.strip())
                continue
            path = os.path.join(self.volume.root, f"f{number}")
            with open(path, "wb") as file:
                file.write(content_of(number + 3))
                os.fsync(file.fileno())
            for other in range(number):
                other_path = os.path.join(self.volume.root, f"f{other}")
                if os.path.exists(other_path):
                    with open(other_path, "rb") as file:
                        self.assertEqual(file.read(), content_of(other + 3), (way, other))
            note = json.loads(run("info", "--json", self.volume.root).stdout)[0]["disk"]
            self.assertEqual(note.split()[0] if way != "auto" else "auto", way)
            self.assertIn(note.split()[0], WAYS)
            self.assertIn(f"Disk:       {note}", run("info", self.volume.root).stdout)
            self.volume.unmount()
            self.volume.check()

    def test_doctor_says_which_way_a_mount_takes(self):
        out = run("doctor", "-d", self.volume.folder, code=None).stdout
        self.assertRegex(out, r"disk of '.*': a mount takes disk=(plain|ring|direct) \(")

    def test_a_way_that_does_not_exist_is_refused(self):
        done = run("mount", "-o", "disk=fast", self.volume.image, self.volume.root, code=1)
        self.assertIn("'disk=fast': there is no such way to a disk", done.stderr)


if __name__ == "__main__":
    mounted.main()
