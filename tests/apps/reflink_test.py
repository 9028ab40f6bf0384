# SPDX-License-Identifier: Apache-2.0
"""warren cp --reflink within and between images, and what stat and du --shared report."""

import json
import os
import random
import unittest

from command_line import describe_tree
from host_trees_test import TreesCase

BLOCK = 4096


class ImageReflinks(TreesCase):
    def setUp(self):
        super().setUp()
        self.make_volume("128M")

    def put(self, name, content):
        self.write("content", content)
        self.warren("cp", "--reflink=never", "content", self.inside(name))

    def facts(self, name):
        """The numbers of exclusive and of shared blocks."""
        facts = json.loads(self.output("stat", "--json", self.inside(name)))[0]
        self.assertEqual(facts["exclusive"] + facts["shared"], facts["allocated"])
        return facts["exclusive"] // BLOCK, facts["shared"] // BLOCK

    def free_blocks(self):
        return json.loads(self.output("info", "--json", self.image))[0]["free"] // BLOCK

    def test_within_an_image(self):
        data = random.randbytes(5_000_000)
        blocks = -(-len(data) // BLOCK)
        self.put("/a", data)
        self.assertEqual(self.facts("/a"), (blocks, 0))
        for words in ([], ["--reflink=auto"], ["--reflink"], ["--reflink=always"]):
            with self.subTest(words=words):
                self.warren("cp", *words, self.inside("/a"), self.inside("/b"))
                self.assertEqual(self.facts("/a"), (0, blocks))
                self.assertEqual(self.facts("/b"), (0, blocks))
                self.assertEqual(self.warren("cat", self.inside("/b")).stdout, data)
                self.warren("cp", "--reflink=never", self.inside("/a"), self.inside("/b"))
                self.assertEqual(self.facts("/a"), (blocks, 0))
                self.assertEqual(self.facts("/b"), (blocks, 0))
                self.warren("rm", self.inside("/b"))
        self.assertIn("exclusive, 0 shared", self.output("stat", self.inside("/a")))
        self.assertNotIn("exclusive", self.output("stat", self.inside("/")))
        self.assert_clean()

    def test_small_empty_and_sparse_files(self):
        hole = bytes(40 * BLOCK)
        for name, data in (("empty", b""), ("small", b"x" * 100),
                           ("sparse", b"y" * BLOCK + hole + b"z" * 10), ("end", b"y" + hole)):
            (self.tree / name).write_bytes(data)
            with open(self.tree / name, "r+b") as file:
                if len(data) > len(hole):  # make it a hole
                    file.truncate(1 if name == "end" else BLOCK)
                    file.truncate(len(data))
                    if name == "sparse":
                        file.seek(BLOCK + len(hole))
                        file.write(b"z" * 10)
        self.warren("cp", "-a", "tree", self.inside("/tree"))
        self.warren("cp", "-a", "--reflink=always", self.inside("/tree"), self.inside("/copy"))
        self.warren("cp", "-a", self.inside("/copy"), "back")
        self.assert_same(self.tree, self.folder / "back")
        self.assertEqual(self.facts("/copy/small"), (0, 0))
        self.assertEqual(self.facts("/copy/sparse"), (0, 2))
        self.assertEqual(self.facts("/copy/end"), (0, 1))
        self.assert_clean()

    def test_a_tree_keeps_all_else(self):
        self.fill()
        self.warren("cp", "-a", "tree/.", self.inside("/from"))
        (self.folder / "one").mkdir()
        self.warren("cp", "-a", self.inside("/from/."), "one")
        for when in ("always", "auto"):
            self.warren("cp", "-a", f"--reflink={when}", self.inside("/from/."),
                        self.inside(f"/{when}"))
            (self.folder / when).mkdir()
            self.warren("cp", "-a", self.inside(f"/{when}/."), when)
            self.assertEqual(describe_tree(self.folder / "one"), describe_tree(self.folder / when))
        self.assert_clean()

    def test_existing_targets(self):
        data = random.randbytes(100_000)
        self.put("/a", data)
        for before in (b"", b"small", random.randbytes(300_000)):
            self.put("/b", before)
            self.warren("cp", "--reflink=always", self.inside("/a"), self.inside("/b"))
            self.assertEqual(self.warren("cat", self.inside("/b")).stdout, data)
            self.assertEqual(self.facts("/b"), (0, 25))
        self.assert_clean()

    def test_where_it_cannot_be(self):
        other = self.folder / "other.img"
        self.make_volume(image=other)
        self.put("/a", b"x" * 10_000)
        self.write("host", b"y" * 10_000)
        for source, folder in ((self.inside("/a"), f"{other}:/"), (self.inside("/a"), "tree/"),
                               ("host", self.inside("/"))):
            target = folder + "new"
            text = self.error("cp", "--reflink=always", source, target)
            self.assertIn(f"cannot share blocks of '{source}' with '{target}': "
                          "Invalid cross-device link", text)
            self.warren("cp", "--reflink=never", "host", target)
            self.error("cp", "--reflink=always", source, target)
            self.assertEqual(self.warren("cat", target).stdout, b"y" * 10_000)  # not truncated
            self.warren("cp", "--reflink=auto", source, target)
            self.warren("rm", target)
            self.error("cp", "--reflink=always", source, target)
            self.assertIn("No such file", self.error("stat", target))
        self.assertIn("invalid argument 'x' for --reflink",
                      self.error("cp", "--reflink=x", self.inside("/a"), self.inside("/b")))
        self.assert_clean()

    def test_a_shared_block_takes_space_once(self):
        self.put("/a", random.randbytes(4 << 20))
        before = self.free_blocks()
        for number in range(10):
            self.warren("cp", self.inside("/a"), self.inside(f"/{number}"))
        self.assertLess(before - self.free_blocks(), 20)
        for name in ("a", *range(9)):
            self.warren("rm", self.inside(f"/{name}"))
        self.assertLess(before - self.free_blocks(), 20)
        self.assertEqual(self.facts("/9"), (1024, 0))

    def test_du_tells_what_is_shared(self):
        self.warren("mkdir", self.inside("/d"), self.inside("/d/e"))
        self.put("/d/a", random.randbytes(64 * BLOCK))
        self.put("/d/alone", random.randbytes(10 * BLOCK))
        self.warren("cp", self.inside("/d/a"), self.inside("/d/e/b"))
        self.warren("ln", self.inside("/d/alone"), self.inside("/d/e/again"))
        rows = json.loads(self.output("du", "-a", "--shared", "--json", self.inside("/d")))
        found = {row["path"].partition(":")[2]: (row["bytes"], row["exclusive"], row["shared"])
                 for row in rows}
        for row in found.values():
            self.assertEqual(row[0], row[1] + row[2])
        self.assertEqual(found["/d/a"], (64 * BLOCK, 0, 64 * BLOCK))
        self.assertEqual(found["/d/e/b"], (64 * BLOCK, 0, 64 * BLOCK))
        self.assertEqual(sorted((found["/d/alone"], found["/d/e/again"])),  # counted at one name
                         [(0, 0, 0), (10 * BLOCK, 10 * BLOCK, 0)])
        self.assertEqual(found["/d"][2], 128 * BLOCK)
        plain = json.loads(self.output("du", "-s", "--json", self.inside("/d")))[0]
        self.assertEqual(plain["bytes"], found["/d"][0])
        self.assertNotIn("shared", plain)
        lines = self.lines("du", "-a", "--shared", self.inside("/d/a"))
        self.assertEqual(lines, [f"256\t0\t256\t{self.inside('/d/a')}"])
        total = self.lines("du", "-sc", "--shared", "-B", "4K", self.inside("/d/a"),
                           self.inside("/d/e"))[-1].split("\t")
        self.assertEqual(total[2:], ["128", "total"])
        for words in (["-b"], ["--apparent-size"], ["--inodes"]):
            self.assertIn("--shared counts the space", self.error("du", "--shared", *words,
                                                                  self.inside("/")))
        self.assertIn("--shared is for volumes", self.error("du", "--shared", "tree"))

    def test_damaged_counts_are_an_error(self):
        """stat and du report an error for a file whose reference counts cannot be read."""
        self.put("/a", random.randbytes(64 * BLOCK))
        self.warren("cp", self.inside("/a"), self.inside("/b"))
        with open(self.image, "r+b") as file:
            found = [at for at in range(0, os.path.getsize(self.image), BLOCK)
                     if file.seek(at) == at and self.is_counts(file.read(BLOCK))]
            self.assertGreaterEqual(len(found), 1)
            for at in found:
                file.seek(at + 100)
                file.write(b"\xff")
        self.assertIn("cannot read", self.error("stat", self.inside("/a")))
        self.assertNotEqual(self.warren("du", "--shared", self.inside("/"), code=None).returncode,
                            0)
        self.warren("fsck", "--repair", self.image, code=None)
        self.assertEqual(self.facts("/a"), (0, 64))

    @staticmethod
    def is_counts(block):
        """Whether a block looks like reference counts of which 64 consecutive ones are 1."""
        return (1).to_bytes(4, "little") * 64 in block and block.count(0) > 1000


if __name__ == "__main__":
    unittest.main(verbosity=2)
