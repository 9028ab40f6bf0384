#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A mount with -o dedup: copied data occupy blocks once, whichever program writes them, and read as
on a mount without the option."""

import filecmp
import json
import os
import random
import shutil
import subprocess
import tempfile
import time
import unittest

import mounted
from mounted import MountedTest, Volume, run

FILE_SIZES = (1, 128, 129, 4096, 5000, 32768, 100_000, 1 << 20)


class InlineDedup(MountedTest):
    @classmethod
    def setUpClass(cls):
        cls.volume = Volume()
        cls.volume.mount("-o", "dedup,dedup_index=1M")

    def used(self):
        os.sync()
        status = os.statvfs(self.folder)
        return (status.f_blocks - status.f_bfree) * status.f_frsize

    def statistics(self):
        answer = json.loads(run("info", "--json", self.folder).stdout)[0]
        return answer["dedup"]

    def make_tree(self, folder):
        """Files of many sizes, the smallest of which are stored in their inodes."""
        for size in FILE_SIZES:
            with open(os.path.join(folder, f"of {size}"), "wb") as file:
                file.write(random.randbytes(size))

    def test_copies_of_a_tree_cost_it_once(self):
        with tempfile.TemporaryDirectory() as folder:
            tree = os.path.join(folder, "tree")
            os.mkdir(tree)
            self.make_tree(tree)
            shutil.copytree(tree, self.path("first"))
            before, was = self.used(), self.statistics()
            # Copied in user space: cp(1) would use copy_file_range(2).
            os.mkdir(self.path("second"))
            archive = subprocess.run(["tar", "-C", tree, "-cf", "-", "."], check=True,
                                     stdout=subprocess.PIPE).stdout
            subprocess.run(["tar", "-C", self.path("second"), "-xf", "-"], check=True,
                           input=archive)
            self.assertLess(self.used() - before, sum(FILE_SIZES) // 10)
            shared = self.statistics()["shared_bytes"] - was["shared_bytes"]
            self.assertGreater(shared, sum(FILE_SIZES) * 9 // 10)
            mounted.drop_caches()
            for copy in ("first", "second"):
                _, differ, missing = filecmp.cmpfiles(tree, self.path(copy), os.listdir(tree),
                                                      shallow=False)
                self.assertEqual((differ, missing), ([], []))
            self.assertIn("Dedup:", run("info", self.folder).stdout)

    def test_a_change_of_one_copy_leaves_the_other(self):
        data = random.randbytes(1 << 20)
        paths = [self.write(name, data) for name in ("one", "other")]
        os.sync()
        with open(paths[1], "r+b") as file:
            file.seek(70_000)
            file.write(b"changed")
        mounted.drop_caches()
        with open(paths[0], "rb") as file:
            self.assertEqual(file.read(), data)
        with open(paths[1], "rb") as file:
            self.assertEqual(file.read(), data[:70_000] + b"changed" + data[70_007:])

    def test_short_synchronous_writes_are_stored_at_once(self):
        data = random.randbytes(128 << 10)
        self.write("written", data)
        os.sync()
        for flag in (os.O_SYNC, os.O_DSYNC, 0):
            for size in (32 << 10, 64 << 10):
                shared, expected = self.shared_by_writes(data, size, flag)
                self.assertEqual(shared, expected, (flag, size))

    def shared_by_writes(self, data, size, flag):
        """Writes a file in segments; returns how much was shared, and how much should be."""
        was = self.statistics()["shared_bytes"]
        path = self.write_segments("pieces", data, size, flag)
        mounted.drop_caches()
        self.assertEqual(self.read("pieces"), data)
        os.unlink(path)
        is_skipped = flag and size < 64 << 10
        return self.statistics()["shared_bytes"] - was, 0 if is_skipped else len(data)

    def write_segments(self, name, data, size, flag):
        path = self.path(name)
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | flag)
        for at in range(0, len(data), size):
            self.assertEqual(os.pwrite(file, data[at:at + size], at), size)
            os.fsync(file)
        os.close(file)
        return path

    def test_a_later_pass_shares_what_was_stored_at_once(self):
        data = random.randbytes(1 << 20)
        self.write("written", data)
        os.sync()
        was = self.statistics()["shared_bytes"]
        self.write_segments("stored", data, 32 << 10, os.O_SYNC)
        self.assertEqual(self.statistics()["shared_bytes"], was)
        self.assertEqual(self.shared_on_disk(), {"written": 0, "stored": 0})
        before = self.used()
        done = json.loads(run("dedup", "--json", "--apply", self.folder).stdout)
        self.assertEqual((done["applied_bytes"], done["applied_failures"]), (len(data), 0))
        self.assertEqual(self.shared_on_disk(), {"written": len(data), "stored": len(data)})
        self.assertGreater(before - self.used(), len(data) * 9 // 10)
        mounted.drop_caches()
        self.assertEqual(self.read("stored"), data)

    def shared_on_disk(self):
        """By file, how many bytes of it lie in shared blocks."""
        rows = json.loads(run("du", "-a", "--shared", "--json", self.folder).stdout)
        return {os.path.basename(row["path"]): row["shared"] for row in rows
                if row["path"] != self.folder}

    def test_zeros_are_counted(self):
        was = self.statistics()["zero_bytes"]
        self.write("zeros", bytes(1 << 20))
        os.sync()
        self.assertEqual(self.statistics()["zero_bytes"] - was, 1 << 20)


class Figures(MountedTest):
    @classmethod
    def setUpClass(cls):
        cls.volume = Volume()
        cls.volume.mount("-o", "dedup,dedup_fill=0")

    def test_info_shows_what_was_looked_up_found_shared_and_saved(self):
        data = random.randbytes(1 << 20)
        for name, piece in (("first", data), ("second", data), ("zeros", bytes(2 << 20))):
            self.write(name, piece)
            os.sync()
        figures = json.loads(run("info", "--json", self.folder).stdout)[0]["dedup"]
        self.assertTrue(figures["on"])
        self.assertEqual(figures["shared_bytes"], 1 << 20)
        self.assertEqual(figures["zero_bytes"], 2 << 20)
        self.assertEqual(figures["saved_bytes"], 3 << 20)
        blocks = 2 * len(data) // 4096  # no block of zeros is looked up
        self.assertGreaterEqual(figures["looked_up"], blocks // 8)
        self.assertLessEqual(figures["looked_up"], blocks)
        self.assertGreater(figures["found"], 0)
        self.assertLessEqual(figures["found"], figures["looked_up"])
        looked_up, found = (f"{figures[name]:,}" for name in ("looked_up", "found"))
        self.assertRegex(run("info", self.folder).stdout,
                         r"Dedup:      3\.0 MiB saved \(1\.0 MiB shared, 2\.0 MiB of zeros\); "
                         f"{looked_up} blocks looked up, {found} runs? found; "
                         r"an index of 256\.0 KiB, filled from 0 bytes ")


class SpaceBesideOffline(MountedTest):
    """What the mount saves while files are written, beside what `warren dedup` finds afterwards."""

    BLOCK = 4096

    @classmethod
    def setUpClass(cls):
        cls.volume = Volume()
        cls.volume.mount("-o", "dedup")

    def test_long_runs_are_found_where_offline_deduplication_finds_them(self):
        seed = int(os.environ.get("WARREN_SEED", random.randrange(1 << 31)))
        print(f"WARREN_SEED={seed}", flush=True)
        random.seed(seed)
        texts = [random.randbytes(40 * self.BLOCK) for _ in range(8)]
        with tempfile.TemporaryDirectory() as tree:
            for number in range(40):
                parts = [self.part(random.choice(texts)) for _ in range(random.randint(1, 12))]
                # All of a run lies in one file that was there before.
                data = b"".join(parts if number > 0 else texts)
                for place in (os.path.join(tree, f"{number:02}"), self.path(f"{number:02}")):
                    with open(place, "wb") as file:
                        file.write(data)
                os.sync()
            found = json.loads(run("dedup", "--json", tree).stdout)["savings_bytes"]
        shared = json.loads(run("info", "--json", self.folder).stdout)[0]["dedup"]["shared_bytes"]
        self.assertGreater(found, 10 << 20)
        self.assertGreaterEqual(shared, 0.95 * found)

    def part(self, text):
        """A run of 8 to 40 blocks of a text, behind blocks that nothing else has."""
        length = random.randint(8, 40)
        first = random.randint(0, 40 - length)
        new = random.randbytes(random.randint(0, 4) * self.BLOCK)
        return new + text[first * self.BLOCK:(first + length) * self.BLOCK]


class FilledIndex(unittest.TestCase):
    """After a while the index covers what the volume held when it was mounted."""

    def setUp(self):
        self.volume = Volume()
        self.addCleanup(self.volume.remove)
        self.data = random.randbytes(8 << 20)
        self.volume.mount()
        self.write("first")
        self.volume.unmount()

    def write(self, name):
        with open(os.path.join(self.volume.root, name), "wb") as file:
            file.write(self.data)
        os.sync()

    def statistics(self):
        return json.loads(run("info", "--json", self.volume.root).stdout)[0]["dedup"]

    def test_a_copy_of_what_was_there_is_shared(self):
        self.volume.mount("-o", "dedup,dedup_fill=2G")
        deadline = time.monotonic() + 60
        while self.statistics()["filling"] and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertEqual(self.statistics()["filled_bytes"], len(self.data))
        self.assertIn("filled from 8.0 MiB", run("info", self.volume.root).stdout)
        self.write("second")
        self.assertEqual(self.statistics()["shared_bytes"], len(self.data))
        self.volume.unmount()
        self.volume.check()

    def test_unmounting_does_not_wait(self):
        self.volume.mount("-o", "dedup,dedup_fill=4K")
        self.assertTrue(self.statistics()["filling"])
        self.assertIn("being filled", run("info", self.volume.root).stdout)
        start = time.monotonic()
        self.volume.unmount()
        self.assertLess(time.monotonic() - start, 60, "it would take half an hour")

    def test_it_can_be_left_empty(self):
        self.volume.mount("-o", "dedup,dedup_fill=0")
        self.assertFalse(self.statistics()["filling"])
        self.assertEqual(self.statistics()["filled_bytes"], 0)
        self.volume.unmount()
        refused = run("mount", "-o", "dedup_fill=x", self.volume.image, self.volume.root, code=1)
        self.assertIn("'dedup_fill=x': a size must follow", refused.stderr)


class RememberedDedup(unittest.TestCase):
    """A volume made with mkfs --dedup."""

    def setUp(self):
        self.volume = Volume()
        self.addCleanup(self.volume.remove)
        run("mkfs", "--force", "--dedup", self.volume.image)

    @staticmethod
    def dedup(place):
        return json.loads(run("info", "--json", place).stdout)[0]["dedup"]

    def copies_shared(self, *options):
        """How many bytes of two equal files share blocks on a mount with these options."""
        self.volume.mount(*options)
        data = random.randbytes(1 << 20)
        for name in "ab":
            with open(os.path.join(self.volume.root, name), "wb") as file:
                file.write(data)
        os.sync()
        self.assertTrue(self.dedup(self.volume.root)["default"])
        shared = self.dedup(self.volume.root)["shared_bytes"]
        if "nodedup" in options:
            self.assertIn("Dedup:      off for this mount\n", run("info", self.volume.root).stdout)
        self.volume.unmount()
        return shared

    def test_the_volume_remembers_and_options_override(self):
        self.assertTrue(self.dedup(self.volume.image)["default"])
        self.assertIn("Dedup:      on when it is mounted\n", run("info", self.volume.image).stdout)
        self.assertEqual(self.copies_shared(), 1 << 20)
        self.assertEqual(self.copies_shared("-o", "nodedup"), 0)
        self.assertEqual(self.copies_shared("-o", "nodedup,dedup"), 1 << 20)
        self.volume.check()


if __name__ == "__main__":
    mounted.main()
