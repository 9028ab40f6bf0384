#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mount options for the disk and memory: each setting stores the same bytes, `info` and `doctor`
report which one is in use and why, a volume larger than its buffers works, and invalid values are
refused with a reason."""

import json
import os
import subprocess
import unittest

import mounted
from mounted import Volume, run

WAYS = ("plain", "ring", "direct", "auto")


def content_of(number):
    return (f"file {number} ".encode() * 100_000)[:number * 9973]


class StorageOptions(unittest.TestCase):
    def setUp(self):
        self.volume = Volume("256M")
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

    def test_info_counts_the_requests_of_the_kernel(self):
        self.volume.mount()
        def requests():
            return json.loads(run("info", "--json", self.volume.root).stdout)[0]["requests"]
        before = requests()
        for number in range(50):
            open(os.path.join(self.volume.root, f"n{number}"), "x").close()
        self.assertGreaterEqual(requests() - before, 50)
        self.assertIn(" of the kernel since the mount", run("info", self.volume.root).stdout)
        self.volume.unmount()

    def test_doctor_says_which_way_a_mount_takes(self):
        # With an operand it measures no mounts of others, which would be busy meanwhile.
        out = run("doctor", "-d", self.volume.folder, self.volume.root, code=None).stdout
        self.assertRegex(out, r"disk of '.*': a mount takes disk=(plain|ring|direct) \(")

    def test_every_mode_and_the_smallest_buffers_hold_the_same_bytes(self):
        for number, mode in enumerate(("journal", "writeback", "ordered")):
            self.volume.mount("-o", f"data={mode},meta_buffer=1M,file_buffer=256K,"
                                    "device_memory=512M")
            for other in range(number):
                with open(os.path.join(self.volume.root, f"f{other}"), "rb") as file:
                    self.assertEqual(file.read(), content_of(other + 60), (mode, other))
            with open(os.path.join(self.volume.root, f"f{number}"), "wb") as file:
                file.write(content_of(number + 60))
            with open(os.path.join(self.volume.root, "f0"), "r+b") as file:
                file.seek(123_456)  # the same bytes again, within blocks
                file.write(content_of(60)[123_456:130_000])
            self.volume.unmount()
            self.volume.check()

    def test_a_volume_larger_than_its_memory(self):
        folders, files, large = 8, 1000, 96 << 20
        self.volume.mount("-o", "engine=cpu,threads=2,meta_buffer=1M,file_buffer=1M")
        empty = self.memory_of_daemon()
        for folder in range(folders):
            path = os.path.join(self.volume.root, f"d{folder}")
            os.mkdir(path)
            for file in range(files):
                with open(f"{path}/a-name-of-some-length-{file}", "wb") as out:
                    out.write(b"%d" % file * 40)
        piece = os.urandom(1 << 20)
        with open(os.path.join(self.volume.root, "large"), "wb") as out:
            for _ in range(large >> 20):
                out.write(piece)
        subprocess.run(["sync", "-f", self.volume.root], check=True)
        with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as caches:
            caches.write("3\n")
        with open(os.path.join(self.volume.root, "large"), "rb") as file:
            while read := file.read(len(piece)):
                self.assertEqual(read, piece)
        for folder in range(folders):
            names = os.listdir(os.path.join(self.volume.root, f"d{folder}"))
            self.assertEqual(len(names), files)
            for name in names[::97]:
                with open(os.path.join(self.volume.root, f"d{folder}", name), "rb") as file:
                    self.assertEqual(file.read(), b"%d" % int(name.split("-")[-1]) * 40)
        grown = self.memory_of_daemon() - empty
        print(f"the daemon grew by {grown >> 10} KiB over {(large + folders * files * 4352) >> 20}"
              " MiB of contents and inodes")
        # A buffer of 1 MiB, and the memory that requests, rings and commits need.
        self.assertLess(grown, 48 << 20)
        self.volume.unmount()
        self.volume.check()

    def memory_of_daemon(self):
        with open(f"/proc/{self.volume.process()}/smaps_rollup", encoding="ascii") as rollup:
            for line in rollup:
                if line.startswith("Anonymous:"):
                    return int(line.split()[1]) << 10
        return 0

    def test_options_that_make_no_sense_are_refused(self):
        for option, reason in (("data=full", "there is no such mode"),
                               ("errors=panic", "there is no such way to go on"),
                               ("file_buffer=much", "a size must follow"),
                               ("file_buffer=4K", "at least 256K"),
                               ("meta_buffer=12Q", "a size must follow"),
                               ("meta_buffer=1K", "at least 1024K"),
                               ("device=first", "a whole number must follow"),
                               ("device_memory=64M", "at least 524288K"),
                               ("dedup_index=1K", "at least 64K"),
                               ("dedup_index=much", "a size must follow"),
                               ("file_buffer=99999999999G", "a size must follow")):
            done = run("mount", "-o", option, self.volume.image, self.volume.root, code=1)
            self.assertIn(f"'{option}': {reason}", done.stderr)
        for option, value, engine in (("device_memory=", "512M", "cpu"),
                                      ("device_memory=", "512M", "cuda"),
                                      ("device=", "0", "cpu")):
            done = run("mount", "-o", option + value, "-o", f"engine={engine}",
                       self.volume.image, self.volume.root, code=1)
            self.assertIn(f"'{option}' does not go with engine={engine}", done.stderr)

    def test_a_way_that_does_not_exist_is_refused(self):
        done = run("mount", "-o", "disk=fast", self.volume.image, self.volume.root, code=1)
        self.assertIn("'disk=fast': there is no such way to a disk", done.stderr)


if __name__ == "__main__":
    mounted.main()
