#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""warren chunk, similar and dedup: their output is compared with a few lines of Python, also their
errors, and blocks shared on btrfs and xfs (as root, on loop devices of this test)."""

import collections
import hashlib
import json
import os
import random
import shutil
import subprocess
import threading
import time
import unittest

from command_line import CommandCase

BLOCK = 4096


def blocks_of(data):
    return [data[at:at + BLOCK] for at in range(0, len(data), BLOCK)]


class ChunkTest(CommandCase):
    def test_chunks_make_up_the_file(self):
        data = random.Random(1).randbytes(300_000) + bytes(200_000)
        path = self.folder / "data"
        path.write_bytes(data)
        for preset in ("lbfs", "fastcdc", "gear", "xet", "borg", "storegpu-md5"):
            at = 0
            lines = self.lines("chunk", "--preset", preset, "--algorithm", "sha256", path)
            for line in lines:
                offset, length, digest = line.split()
                self.assertEqual(int(offset), at)
                piece = data[at:at + int(length)]
                self.assertEqual(hashlib.sha256(piece).hexdigest(), digest)
                at += int(length)
            self.assertEqual(at, len(data))
            for threads in ("1", "3"):
                again = self.lines("chunk", "--preset", preset, "--algorithm", "sha256",
                                   "--threads", threads, path)
                self.assertEqual(again, lines)
        made = json.loads(self.output("chunk", "--json", path))[0]
        self.assertEqual(made["bytes"], len(data))
        self.assertEqual(made["count"], len(made["chunks"]))
        from_pipe = self.lines("chunk", "-", stdin=data)
        self.assertEqual(from_pipe, self.lines("chunk", path))
        self.assertEqual(self.lines("chunk", "-", stdin=b""), [])

    def test_errors_say_what_is_wrong(self):
        path = self.folder / "data"
        path.write_bytes(b"x")
        for words, what in (
                (("--preset", "best"), "unknown preset 'best': there are lbfs, restic"),
                (("--minimum", "70K"), "the minimum 71680 is larger than the maximum 65536"),
                (("--minimum", "0"), "the minimum is 0"),
                (("--maximum", "2G"), "the maximum is larger than 1 GiB"),
                (("--average", "5000"), "the average 5000 is not a power of two"),
                (("--window", "0"), "the window of 0 bytes"),
                (("--minimum", "much"), "invalid size 'much'"),
                (("--polynomial", "xyz"), "invalid polynomial 'xyz'"),
                (("--preset", "restic"), "the polynomial is missing"),
                (("--preset", "gear", "--polynomial", "3da3358b4dc173"), "for lbfs and restic"),
                (("--seed", "1"), "--seed is for borg"),
                (("--threads", "0"), "invalid number of threads '0'"),
                (("--algorithm", "crc32"), "unknown algorithm 'crc32'")):
            self.assertIn(what, self.error("chunk", *words, path))
        self.assertIn("No such file", self.error("chunk", self.folder / "absent"))
        self.assertIn("Is a directory", self.error("chunk", self.folder))
        self.assertIn("missing operand", self.error("chunk"))


class SimilarTest(CommandCase):
    def test_equals_a_count_in_python(self):
        source = random.Random(2)
        pool = [source.randbytes(BLOCK) for _ in range(40)] + [bytes(BLOCK)] * 10
        files = []
        for number in range(4):
            data = b"".join(source.choice(pool) for _ in range(60)) + source.randbytes(700)
            path = self.folder / f"f{number}"
            path.write_bytes(data)
            files.append((path, blocks_of(data)))
        for algorithm in ("blake3", "md5", "sha1", "xxh3-128"):
            rows = json.loads(self.output("similar", "--fixed", "4K", "--json", "--algorithm",
                                          algorithm, *(path for path, _ in files)))
            before = set()
            for (_, last), (path, blocks), row in zip(files, files[1:], rows):
                before.update(last)
                rest = [block for block in blocks if any(block)]
                self.assertEqual(row["file"], str(path))
                self.assertEqual(row["bytes"], sum(map(len, blocks)))
                self.assertEqual(row["zero_bytes"], row["bytes"] - sum(map(len, rest)))
                self.assertEqual(row["found_bytes"], sum(len(b) for b in rest if b in set(last)))
                self.assertEqual(row["series_found_bytes"],
                                 sum(len(b) for b in rest if b in before))

    def test_insertion_moves_fixed_blocks_only(self):
        data = random.Random(3).randbytes(1_000_000)
        (self.folder / "a").write_bytes(data)
        (self.folder / "b").write_bytes(data[:5000] + b"inserted" + data[5000:])
        rows = json.loads(self.output("similar", "--json", "a", "b"))
        self.assertEqual([row["method"] for row in rows], ["fixed 4096", "lbfs"])
        self.assertEqual(rows[0]["found_bytes"], 4096)
        self.assertGreater(rows[1]["found"], 0.9)
        text = self.output("similar", "a", "b")
        self.assertIn("in last", text)

    def test_errors(self):
        (self.folder / "a").write_bytes(b"x")
        self.assertIn("two or more files", self.error("similar", "a"))
        self.assertIn("No such file", self.error("similar", "--fixed", "4K", "a", "absent"))
        self.assertIn("invalid block size", self.error("similar", "--fixed", "0", "a", "a"))


class UnsteadyTest(CommandCase):
    """Files that cannot be read, and files that are written to while they are read."""

    def test_a_file_that_cannot_be_read(self):
        # Every user can open it, but reading at offset 0 fails, also for root.
        bad = "/proc/self/mem"
        for words in (("chunk", bad), ("hash", bad), ("similar", "--fixed", "4K", bad, bad)):
            self.assertIn("Input/output error", self.error(*words))

    def test_a_file_that_changes_is_told(self):
        path = self.folder / "tree" / "log"
        path.parent.mkdir()
        path.write_bytes(random.Random(8).randbytes(64 << 20))
        steady = self.folder / "steady"
        steady.write_bytes(b"x")
        ends = threading.Event()

        def write_on():
            with open(path, "r+b") as file:
                while not ends.is_set():
                    os.pwrite(file.fileno(), b"y", 0)
                    time.sleep(0.0005)  # a thread that sleeps gets a core at once

        writer = threading.Thread(target=write_on)
        writer.start()
        try:
            for words in (("chunk", "--preset", "gear", path), ("hash", path),
                          ("similar", "--fixed", "4K", steady, path), ("dedup", path.parent)):
                error = self.error(*words)
                self.assertRegex(error, "log'?: changed while it was read; run again")
        finally:
            ends.set()
            writer.join()
        for words in (("chunk", path), ("hash", path), ("similar", "--fixed", "4K", steady, path),
                      ("dedup", path.parent)):
            self.assertEqual(self.warren(*words).stderr, b"")


class DedupTest(CommandCase):
    def make_tree(self, folder):
        source = random.Random(4)
        pool = [source.randbytes(BLOCK) for _ in range(30)]
        for number in range(5):
            data = b"".join(source.choice(pool) for _ in range(50))
            (folder / f"file{number}").write_bytes(data + source.randbytes(100))
        (folder / "deep").mkdir()
        shutil.copy(folder / "file0", folder / "deep" / "copy")
        os.link(folder / "file1", folder / "deep" / "link")
        os.symlink("file2", folder / "symbolic")

    def expected_savings(self, folder):
        seen = collections.Counter()
        savings = 0
        for path in sorted(folder.rglob("*")):
            if path.is_symlink() or not path.is_file() or path.name == "link":
                continue
            for block in blocks_of(path.read_bytes()):
                seen[block] += 1
                savings += len(block) if seen[block] > 1 else 0
        return savings

    def test_report(self):
        folder = self.folder / "tree"
        folder.mkdir()
        self.make_tree(folder)
        report = json.loads(self.output("dedup", "--json", folder))
        self.assertEqual(report["files"], 6)
        self.assertEqual(report["other_names"], 1)
        self.assertEqual(report["savings_bytes"], self.expected_savings(folder))
        self.assertEqual(sum(each["savings_bytes"] for each in report["equal"]),
                         report["savings_bytes"])
        for algorithm in ("md5", "sha1", "xxh3-128", "sha256"):
            again = json.loads(self.output("dedup", "--json", "--algorithm", algorithm, folder))
            self.assertEqual(again, report)
        self.assertIn("could be saved", self.output("dedup", folder))

    def test_holes_are_no_savings(self):
        folder = self.folder / "tree"
        folder.mkdir()
        for name in ("a", "b"):
            with open(folder / name, "wb") as file:
                file.truncate(1 << 30)
                file.seek(512 << 20)
                file.write(b"data" * 1024)
        report = json.loads(self.output("dedup", "--json", folder))
        self.assertEqual(report["savings_bytes"], 4096)
        self.assertEqual(report["hole_bytes"], 2 * ((1 << 30) - 4096))

    def test_index_remembers(self):
        folder = self.folder / "tree"
        folder.mkdir()
        (folder / "a").write_bytes(random.Random(5).randbytes(40_000))
        index = self.folder / "index"
        words = ("dedup", "--json", "--index", index)
        first = json.loads(self.output(*words, folder))
        self.assertEqual(first["savings_bytes"], 0)
        other = self.folder / "other"
        other.mkdir()
        shutil.copy(folder / "a", other / "b")
        second = json.loads(self.output(*words, other))
        self.assertEqual(second["savings_bytes"], 40_000)
        self.assertIn("another --algorithm",
                      self.error(*words, "--algorithm", "sha256", other))
        (self.folder / "secret").write_text("words")
        self.assertIn("another --secret-file",
                      self.error(*words, "--secret-file", self.folder / "secret", other))
        damaged = bytearray(index.read_bytes())
        damaged[100] ^= 1
        index.write_bytes(damaged)
        self.assertIn("the index is damaged", self.error(*words, other))
        self.assertEqual(index.read_bytes(), damaged)

    def test_index_knows_a_file_that_is_read_again(self):
        folder = self.folder / "tree"
        folder.mkdir()
        old, new = random.Random(7).randbytes(40_000), random.Random(8).randbytes(50_000)
        (folder / "a").write_bytes(old)
        (folder / "b").write_bytes(old)
        index = self.folder / "index"
        words = ("dedup", "--json", "--index", index)
        first = json.loads(self.output(*words, folder))
        self.assertEqual(first["savings_bytes"], 40_000)
        size = index.stat().st_size
        for name in (folder, f"{folder}/../tree", folder):
            again = json.loads(self.output(*words, name))
            for place in again["equal"]:
                place.update({key: place[key].replace("../tree/", "") for key in
                              ("file", "original")})
            self.assertEqual(again, first)
        self.assertEqual(index.stat().st_size, size)
        os.link(folder / "a", folder / "c")
        one_name = json.loads(self.output(*words, folder / "c"))
        self.assertEqual((one_name["savings_bytes"], one_name["other_names"]), (0, 0))
        # Chunks first found in a file that has changed are not used as originals any more.
        (folder / "a").write_bytes(new)
        self.assertEqual(json.loads(self.output(*words, folder / "a"))["savings_bytes"], 0)
        self.assertEqual(json.loads(self.output(*words, folder / "b"))["savings_bytes"], 0)
        other = self.folder / "other"
        other.write_bytes(old)
        found = json.loads(self.output(*words, other))
        self.assertEqual((found["savings_bytes"], found["equal"][0]["original"]),
                         (40_000, str(folder / "b")))

    def test_index_serves_runs_from_several_folders(self):
        index = self.folder / "index"
        for number, name in enumerate(("here", "there")):
            (self.folder / name).mkdir()
            (self.folder / name / "a").write_bytes(random.Random(number).randbytes(40_000))
            report = json.loads(self.output("dedup", "--json", "--index", index, "a",
                                            folder=self.folder / name))
            self.assertEqual((report["files"], report["savings_bytes"]), (1, 0))
        shutil.copy(self.folder / "here" / "a", self.folder / "copy")
        found = json.loads(self.output("dedup", "--json", "--index", index, self.folder / "copy"))
        self.assertEqual((found["savings_bytes"], found["equal"][0]["original"]),
                         (40_000, str(self.folder / "here" / "a")))

    def test_file_named_twice_is_read_once(self):
        (self.folder / "a").write_bytes(random.Random(9).randbytes(40_000))
        report = json.loads(self.output("dedup", "--json", self.folder, self.folder / "a"))
        self.assertEqual((report["files"], report["other_names"], report["savings_bytes"]),
                         (1, 1, 0))

    def test_errors(self):
        self.assertIn("No such file", self.error("dedup", "absent"))
        self.assertIn("exclude each other",
                      self.error("dedup", "--fixed", "4K", "--preset", "lbfs", "."))
        self.assertIn("leave --preset out", self.error("dedup", "--apply", "--preset", "lbfs", "."))
        self.assertIn("multiple of 4096", self.error("dedup", "--apply", "--fixed", "1000", "."))
        self.assertIn("1M or more", self.error("dedup", "--memory", "1K", "."))
        secret = self.folder / "hidden"
        secret.write_bytes(b"x")
        if os.geteuid() != 0:
            secret.chmod(0)
            self.assertIn("Permission denied", self.error("dedup", "."))

    def test_small_memory_finds_the_same(self):
        folder = self.folder / "tree"
        folder.mkdir()
        data = random.Random(6).randbytes(60_000 * 64)
        (folder / "a").write_bytes(data)
        (folder / "b").write_bytes(data)
        words = ("dedup", "--json", "--fixed", "64", folder)
        self.assertEqual(self.output(*words, "--memory", "1M"), self.output(*words))


class SharingTest(CommandCase):
    def mount(self, kind, *options):
        if os.geteuid() != 0 or shutil.which(f"mkfs.{kind}") is None:
            self.skipTest(f"needs root and mkfs.{kind}")
        image = self.folder / "disk.img"
        with open(image, "wb") as file:
            file.truncate(400 << 20)
        self.run_program(f"mkfs.{kind}", "-q", *options, image)
        place = self.folder / "disk"
        place.mkdir()
        done = subprocess.run(["mount", "-o", "loop", image, place], capture_output=True)
        if done.returncode != 0:
            self.skipTest(f"cannot mount {kind} here: {done.stderr.decode().strip()}")
        self.addCleanup(subprocess.run, ["umount", place], check=True)
        return place

    def share(self, place):
        data = random.Random(7).randbytes(20 << 20)
        (place / "a").write_bytes(data)
        (place / "b").write_bytes(data + b"more")
        (place / "c").write_bytes(data[8192:])
        os.sync()
        before = json.loads(self.output("dedup", "--json", place))
        self.assertEqual(before["already_shared_bytes"], 0)
        self.assertEqual(before["savings_bytes"], 2 * len(data) - 8192)
        applied = json.loads(self.output("dedup", "--json", "--apply", place))
        self.assertEqual(applied["applied_bytes"], before["savings_bytes"])
        os.sync()
        after = json.loads(self.output("dedup", "--json", place))
        self.assertEqual(after["savings_bytes"], 0)
        self.assertEqual(after["already_shared_bytes"], before["savings_bytes"])
        self.assertEqual((place / "b").read_bytes(), data + b"more")
        self.assertEqual((place / "c").read_bytes(), data[8192:])

    def copy(self, place):
        """cp shares blocks as well, also for files that are copied in parts."""
        (place / "from").mkdir()
        (place / "from" / "a").write_bytes(random.Random(8).randbytes(1 << 20) * 70)
        (place / "from" / "b").write_bytes(b"small")
        os.sync()

        copies = []  # kept until the end: xfs frees blocks in the background

        def taken(*words):
            """The number of bytes that a copy occupies."""
            copies.append(place / f"to{len(copies)}")
            copies[-1].mkdir()
            before = os.statvfs(place).f_bfree
            self.warren("cp", *words, copies[-1])
            os.sync()
            after = os.statvfs(place).f_bfree
            for name in ("a", "b"):
                self.run_program("cmp", place / "from" / name, copies[-1] / name)
            return (before - after) * 4096

        for words in (["--reflink=always", "--verify"], ["--reflink"], ["--reflink=auto"], []):
            self.assertLess(taken("-a", *words, f"{place}/from/."), 20 << 20, words)
            self.assertLess(taken(*words, place / "from/a", place / "from/b"), 20 << 20, words)
        for words in (["--reflink=never"], ["--sparse=never"]):
            self.assertGreater(taken("-a", *words, f"{place}/from/."), 60 << 20, words)
        for path in (place / "from", *copies):
            shutil.rmtree(path)
        os.sync()

    def test_btrfs(self):
        place = self.mount("btrfs")
        self.copy(place)
        self.share(place)

    def test_xfs(self):
        place = self.mount("xfs", "-m", "reflink=1")
        self.copy(place)
        self.share(place)

    def test_ext4_cannot(self):
        place = self.mount("ext4")
        self.write("disk/from/a", b"x" * 8192)
        self.assertIn("cannot share blocks with", self.error("cp", "-r", "--reflink=always",
                                                             place / "from", place / "to"))
        self.assertEqual(os.listdir(place / "to"), [])
        shutil.rmtree(place / "from")
        shutil.rmtree(place / "to")
        for name in ("a", "b"):
            (place / name).write_bytes(b"x" * 8192)
        done = self.warren("dedup", "--apply", place, code=1)
        self.assertIn("this file system cannot", done.stderr.decode())


if __name__ == "__main__":
    unittest.main()
