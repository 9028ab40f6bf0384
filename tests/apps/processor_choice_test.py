#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""--engine and --verbose of hash, chunk, similar and dedup: a GPU prints the same as the CPU, the
choice is reported on stderr, and a missing GPU is an error."""

import hashlib
import random
import unittest

from command_line import CommandCase

COMMANDS = (("hash", "t"), ("hash", "-a", "md5", "t"), ("hash", "-a", "sha256", "t"),
            ("hash", "-a", "xxh3-128", "t"), ("hash", "-a", "sha1", "--direct", "0", "t"),
            ("chunk", "t/large"), ("chunk", "--preset", "fastcdc", "t/large", "t/small"),
            ("chunk", "--preset", "borg", "--algorithm", "md5", "--json", "t/large"),
            ("similar", "--preset", "gear", "t/large", "t/other"), ("dedup", "--json", "t"),
            ("dedup", "--preset", "xet", "t"))


class ProcessorChoiceTest(CommandCase):
    def setUp(self):
        super().setUp()
        seed = random.randrange(1 << 32)
        print(f"seed {seed}")
        bytes_of = random.Random(seed).randbytes
        large = bytes_of(9_000_000)
        self.write("t/large", large)
        self.write("t/other", large[:5_000_000] + b"between" + large[5_000_000:])
        self.write("t/small", bytes_of(70_000))
        self.write("t/empty")
        for index in range(50):
            self.write(f"t/many/{index:02}", bytes_of(index * 300))
        self.has_gpu = self.warren("hash", "--engine=cuda", "t/empty", code=None).returncode == 0

    @staticmethod
    def what_counts(text):
        """Everything except the seconds that similar prints."""
        return [line for line in text.splitlines() if '"seconds"' not in line]

    def test_a_gpu_prints_what_the_cpu_prints(self):
        for words in COMMANDS:
            expected = self.what_counts(self.output(words[0], "--engine=cpu", *words[1:]))
            self.assertEqual(self.what_counts(self.output(*words)), expected)
            if self.has_gpu:
                found = self.what_counts(self.output(words[0], "--engine=cuda", *words[1:]))
                self.assertEqual(found, expected, words)

    def test_a_gpu_that_is_not_there(self):
        if self.has_gpu:
            self.skipTest("there is a GPU")
        for command in ("hash", "chunk", "dedup"):
            line = self.error(command, "--engine=cuda", "t/small")
            self.assertEqual(line, f"warren {command}: --engine=cuda: there is no GPU that this "
                                   "program can use; 'warren doctor' says why")

    def test_lists_are_checked(self):
        list_ = "".join(f"{hashlib.sha256((self.folder / name).read_bytes()).hexdigest()}  {name}\n"
                        for name in ("t/large", "t/small", "t/empty"))
        self.write("list", list_.encode())
        for engine in ("cpu", "auto") + (("cuda",) if self.has_gpu else ()):
            self.assertEqual(self.lines("hash", "-a", "sha256", f"--engine={engine}", "-c", "list"),
                             ["t/large: OK", "t/small: OK", "t/empty: OK"])

    def test_verbose(self):
        for name, size in (("t/small", "68.4 KiB"), ("t/many", "358.9 KiB")):
            done = self.warren("hash", "--verbose", name)
            self.assertEqual(done.stderr.decode(), f"warren hash: {size}: the CPU, since a GPU is "
                                                   "considered from 2.0 GiB on\n")
        done = self.warren("chunk", "--engine=cpu", "--verbose", "t/small")
        self.assertEqual(done.stderr.decode(), "warren chunk: the CPU did all of it\n")
        self.assertIn("--engine=ENGINE", self.output("similar", "--help"))
        if self.has_gpu:
            done = self.warren("hash", "--engine=cuda", "--verbose", "t/small")
            self.assertIn("warren hash: one stream was hashed on the CPU", done.stderr.decode())
            done = self.warren("hash", "--engine=cuda", "--verbose", "--threads", "1", "t/many")
            self.assertIn("warren hash: the GPU hashed 358.9 KiB: initialise ",
                          done.stderr.decode())
            done = self.warren("chunk", "--engine=cuda", "--verbose", "-s", "t/large")
            self.assertIn("warren chunk: the GPU took ", done.stderr.decode())


if __name__ == "__main__":
    unittest.main()
