# SPDX-License-Identifier: Apache-2.0
"""The lists of find -s, find --json and hash when they exceed the memory that they may use.

The output is that without a limit, and that of find(1), sort(1) and sha256sum(1). If the temporary
file cannot be created or grows too large there is an error, never a shorter list.
"""

import json
import os
import random
import resource
import subprocess
import unittest

from command_line import TIMEOUT_SECONDS, WARREN, CommandCase
from ranks import HAS_MPI, in_ranks
from walk_tools_test import make_tree

SEED = int(os.environ.get("WARREN_SEED", random.randrange(1 << 31)))

LEAST = ["--memory", "4K"]


class SpilledListsTest(CommandCase):
    def setUp(self):
        super().setUp()
        print(f"WARREN_SEED={SEED}", flush=True)
        self.tree = self.folder / "tree"
        self.tree.mkdir()
        make_tree(self.tree, random.Random(SEED), 400)

    def run_limited(self, *words, file_bytes=None, folder=None):
        """Runs with a limit on the size of files, and temporary files in that folder."""
        def limit():
            if file_bytes is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))

        # Python ignores SIGXFSZ, and so does its child: a file that grows too large causes an
        # error.
        environment = {**os.environ, "TMPDIR": os.fspath(folder or self.folder)}
        return subprocess.run([os.fspath(word) for word in words], capture_output=True,
                              timeout=TIMEOUT_SECONDS, cwd=self.folder, env=environment,
                              preexec_fn=limit, restore_signals=False, check=False)

    def printed(self, *words):
        done = self.run_limited(WARREN, *words)
        self.assertEqual((done.returncode, done.stderr), (0, b""), words)
        return done.stdout

    def test_sorted_as_sort_does(self):
        found = self.run_program("find", "tree", "-print0").stdout
        expected = self.run_program("sort", "-z", stdin=found).stdout
        for memory in ("4K", "20K", "64M"):
            for threads in ("1", "3"):
                self.assertEqual(self.printed("find", "-s", "--memory", memory, "--threads",
                                              threads, "tree", "-print0"), expected)
        self.assertEqual(self.printed("find", "-s", *LEAST, "tree", "-depth", "-print0"), expected)

    def test_objects_are_those_of_find(self):
        found = self.run_program("find", "tree", "-print0").stdout
        paths = found.split(b"\0")[:-1]
        for words in (["-s", *LEAST], ["-s"], []):
            objects = json.loads(self.printed("find", "--json", *words, "tree"))
            told = [os.fsencode(entry["path"]) for entry in objects]
            self.assertEqual(told if words else sorted(told), sorted(paths))
        self.assertEqual(json.loads(self.printed("find", "--json", "tree", "-false")), [])
        # Several trees form one array, each in its order.
        objects = json.loads(self.printed("find", "-s", *LEAST, "--json", "tree", "/etc/hostname"))
        self.assertEqual([os.fsencode(entry["path"]) for entry in objects],
                         sorted(paths) + [b"/etc/hostname"])
        objects = json.loads(self.printed("du", "--json", "-a", "-l", "-b", "tree"))
        lines = self.run_program("du", "-0", "-a", "-l", "-b", "tree").stdout.split(b"\0")[:-1]
        self.assertEqual(sorted(b"%d\t%s" % (entry["bytes"], os.fsencode(entry["path"]))
                                for entry in objects), sorted(lines))

    def test_in_a_volume(self):
        self.make_volume()
        self.warren("cp", "-r", "tree", self.inside("/"))
        for words in (["find", "-s", self.inside("/"), "-print0"],
                      ["find", "-s", "--json", self.inside("/")], ["hash", self.inside("/")]):
            self.assertEqual(self.printed(words[0], *LEAST, *words[1:]), self.printed(*words))

    def test_digests_are_those_of_sha256sum(self):
        (self.tree / "0 large").write_bytes(random.Random(SEED).randbytes(3_000_000))
        found = self.run_program("find", "tree", "-type", "f", "-print0").stdout
        names = found.split(b"\0")[:-1]
        words = ["hash", "-z", "-a", "sha256"]
        expected = self.printed(*words, "tree")
        sums = self.run_program("sha256sum", "-z", "--", *names).stdout
        self.assertEqual(sorted(expected.split(b"\0")), sorted(sums.split(b"\0")))
        for threads in ("1", "4"):
            self.assertEqual(self.printed(*words, *LEAST, "-t", threads, "tree"), expected)
        self.assertEqual(self.printed(*words, *LEAST, "tree", "/etc/hostname", "tree"),
                         self.printed(*words, "tree", "/etc/hostname", "tree"))
        lines = sums.replace(sums[:64], b"0" * 64, 1) + b"1" * 64 + b"  no such file\0"
        self.write("sums", lines)
        check = ["hash", "-a", "sha256", "-c", "sums"]
        expected = self.warren(*check, code=1)
        done = self.warren(*check, *LEAST, code=1)
        self.assertEqual((done.stdout, done.stderr), (expected.stdout, expected.stderr))
        self.assertEqual(done.stdout.count(b": FAILED"), 2)

    def test_no_file_and_no_room_are_errors(self):
        for words in (["find", "-s", *LEAST, "tree", "-print0"],
                      ["find", "-s", *LEAST, "--json", "tree"], ["hash", *LEAST, "tree"]):
            expected = self.printed(*words)
            done = self.run_limited(WARREN, *words, folder="/no/such")
            self.assertEqual((done.returncode, done.stdout), (1, b""), words)
            self.assertIn(b"cannot keep the list of files in '/no/such': No such file or directory"
                          b"; let TMPDIR name a folder", done.stderr)
            ends = set()
            for file_bytes in [*range(0, 1_000_000, 9001), 1 << 40]:
                done = self.run_limited(WARREN, *words, file_bytes=file_bytes)
                ends.add(done.returncode)
                if done.returncode == 0:
                    self.assertEqual((done.stdout, done.stderr), (expected, b""), words)
                    break
                self.assertEqual(done.returncode, 1)
                self.assertTrue(expected.startswith(done.stdout) and done.stdout != expected)
                self.assertIn(b"File too large", done.stderr)
            self.assertEqual(ends, {0, 1})
        self.assertIn("4K or more", self.error("find", "-s", "--memory", "4095", "tree"))
        self.assertIn("4K or more", self.error("hash", "--memory", "much", "tree"))

    @unittest.skipUnless(HAS_MPI, "there is no MPI here")
    def test_ranks(self):
        expected = self.printed("hash", "-z", "tree")
        words = [WARREN, "hash", "-z", *LEAST, "tree"]
        done = self.run_limited(*in_ranks(3, *words))
        self.assertEqual((done.returncode, done.stdout), (0, expected), done.stderr)
        done = self.run_limited(*in_ranks(2, "env", "TMPDIR=/no/such", *words))
        self.assertEqual((done.returncode, done.stdout), (1, b""))
        self.assertIn(b"cannot keep the list of files in '/no/such'", done.stderr)


if __name__ == "__main__":
    unittest.main()
