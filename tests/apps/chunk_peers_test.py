#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the boundaries of `warren chunk` with those of the programs after which its presets are
named.

restic and borg come from Debian. The test makes a repository with restic and reads its chunks back
with restic; borg's chunker is called through its Python module. A program that is not installed is
skipped with a message. Vectors of pyfastcdc and gearhash are in tests/chunk/vectors_test.cpp.
"""

import json
import os
import random
import shutil
import subprocess
import unittest

from command_line import CommandCase

BORG = """
import io, json, sys
from borg.chunker import Chunker
seed, least, most, bits = map(int, sys.argv[2:])
data = open(sys.argv[1], "rb").read()
chunker = Chunker(seed, least, most, bits, 4095)
print(json.dumps([chunk.meta["size"] for chunk in chunker.chunkify(io.BytesIO(data))]))
"""


def sample(size, seed):
    """Random bytes mixed with zeros, repetitions and text."""
    source = random.Random(seed)
    parts = []
    left = size
    while left > 0:
        length = min(left, source.randrange(1, size // 12 + 2))
        kind = source.randrange(4)
        if kind == 0:
            part = bytes(length)
        elif kind == 1:
            pattern = source.randbytes(source.randrange(1, 5000))
            part = (pattern * (length // len(pattern) + 1))[:length]
        else:
            part = source.randbytes(length)
        parts.append(part)
        left -= length
    return b"".join(parts)


class PeersTest(CommandCase):
    def lengths(self, path, *options):
        made = json.loads(self.output("chunk", "--json", *options, path))
        return [chunk["length"] for chunk in made[0]["chunks"]]

    def test_borg(self):
        if not os.path.exists("/usr/bin/borg"):
            self.skipTest("borgbackup is not installed")
        for number, size in enumerate((0, 1, 5000, 3_000_000, 9_000_001)):
            path = self.folder / "data"
            path.write_bytes(sample(size, number) if size > 3 else b"x" * size)
            for seed, least, most, bits in ((0, 10, 16, 12), (77, 13, 17, 14),
                                            (0x7FFFFFFE, 19, 23, 21)):
                borg = self.run_program("/usr/bin/python3", "-c", BORG, path, str(seed),
                                        str(least), str(most), str(bits))
                ours = self.lengths(path, "--preset", "borg", "--seed", str(seed),
                                    "--minimum", str(1 << least), "--maximum", str(1 << most),
                                    "--average", str(1 << bits))
                self.assertEqual(ours, json.loads(borg.stdout), (size, seed, bits))

    def test_restic(self):
        if shutil.which("restic") is None:
            self.skipTest("restic is not installed")
        os.environ["RESTIC_PASSWORD"] = "none"
        restic = ("restic", "--no-cache", "--repo", self.folder / "repository")
        self.run_program(*restic, "init")
        data = self.folder / "data"
        data.write_bytes(sample(24_000_000, 3))
        self.run_program(*restic, "backup", data)
        config = json.loads(self.run_program(*restic, "cat", "config").stdout)
        listing = self.run_program(*restic, "ls", "--json", "latest").stdout.decode()
        self.assertIn("data", listing)
        snapshot = json.loads(self.run_program(*restic, "snapshots", "--json").stdout)[0]
        content = self.content_of(restic, snapshot["tree"], "data")
        ours = json.loads(self.output(
            "chunk", "--json", "--preset", "restic", "--algorithm", "sha256", "--polynomial",
            config["chunker_polynomial"], data))
        self.assertEqual([chunk["digest"] for chunk in ours[0]["chunks"]], content)
        self.assertGreater(len(content), 8)

    def content_of(self, restic, tree, name):
        """The ids of a file's blobs, which are the SHA-256 digests of its chunks."""
        nodes = json.loads(self.run_program(*restic, "cat", "blob", tree).stdout)["nodes"]
        for node in nodes:
            if node["type"] == "file" and node["name"] == name:
                return node["content"]
        for node in nodes:
            if node["type"] == "dir":
                found = self.content_of(restic, node["subtree"], name)
                if found is not None:
                    return found
        return None


if __name__ == "__main__":
    unittest.main()
