# SPDX-License-Identifier: Apache-2.0
"""warren's tools under mpirun with the schedulers whose queue is at rank 0, limited to 4 KiB.

Their output and effects are those of GNU's tools. If no temporary file can be created nothing is
silently missing: an error says what was requested and could not be kept.
"""

import os
import pathlib
import random
import shutil
import subprocess
import tempfile

import ranks
from command_line import TIMEOUT_SECONDS, WARREN, CommandCase
from walk_tools_test import make_tree

SEED = int(os.environ.get("WARREN_SEED", random.randrange(1 << 31)))

SCHEDULERS = ("cp", "cp-keep-one", "cp-directories")


class CentralQueueTest(CommandCase):
    @classmethod
    def setUpClass(cls):
        print(f"WARREN_SEED={SEED}", flush=True)
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        cls.place = pathlib.Path(tempfile.mkdtemp(prefix="warren-central-", dir=memory))
        cls.addClassCleanup(shutil.rmtree, cls.place)
        cls.tree = cls.place / "tree"
        cls.tree.mkdir()
        make_tree(cls.tree, random.Random(SEED), 300)
        # Files alone, and directories alone, are more than fit into the memory.
        large = cls.tree / "large"
        large.mkdir()
        for number in range(2000):
            (large / f"a_file_with_a_name_of_some_length_{number}").touch()
        for number in range(1000):
            (large / f"directory_{number}").mkdir()

    def ranks(self, *words, temporary=None, code=0):
        """Runs three ranks, with temporary files in that folder."""
        folder = ["env", f"TMPDIR={temporary or self.folder}"]
        done = subprocess.run([os.fspath(word) for word in
                               ranks.in_ranks(3, *folder, WARREN, *words)],
                              capture_output=True, timeout=TIMEOUT_SECONDS, cwd=self.folder,
                              check=False)
        self.assertEqual(done.returncode, code, done.stderr.decode(errors="replace"))
        return done

    def found(self, *words, **more):
        done = self.ranks("find", *words, self.tree, "-print0", **more)
        return sorted(done.stdout.split(b"\0")), done.stderr

    def expected(self):
        done = self.run_program("find", self.tree, "-print0")
        return sorted(done.stdout.split(b"\0"))

    def test_prints_what_gnu_prints(self):
        for scheduler in SCHEDULERS:
            words = ["--scheduler", scheduler, "--memory", "4K"]
            self.assertEqual(self.found(*words), (self.expected(), b""), scheduler)
            self.assertEqual(self.ranks("du", "-s", *words, self.tree).stdout,
                             self.run_program("du", "-s", self.tree).stdout, scheduler)
            counted = self.ranks("walk", "--count", *words, self.tree).stdout
            self.assertEqual(sorted(counted.splitlines()), sorted(
                self.warren("walk", "--count", self.tree).stdout.splitlines()), scheduler)
        # No temporary file is left in the folder.
        self.assertEqual(list(self.folder.glob("warren-*")), [])

    def test_copies_and_removes(self):
        copy = self.place / "copy"
        words = ["--scheduler", "cp", "--memory", "4K"]
        self.ranks("cp", "-a", *words, self.tree, copy)
        self.assertEqual(self.warren("cmp", "--attributes", self.tree, copy).stdout, b"")
        self.ranks("rm", "-r", *words, copy)
        self.assertFalse(copy.exists())
        # rm -f ignores missing names, but not a missing folder.
        self.ranks("cp", "-a", *words, self.tree, copy)
        errors = self.ranks("rm", "-rf", *words, copy, temporary="/no/such", code=1).stderr
        self.assertIn(b"cannot keep the queue of rank 0 in '/no/such'", errors)
        self.assertFalse(copy.exists())

    def test_without_a_file_all_is_there_and_an_error(self):
        for scheduler in SCHEDULERS:
            lines, errors = self.found("--scheduler", scheduler, "--memory", "4K",
                                       temporary="/no/such", code=1)
            self.assertEqual(lines, self.expected())
            self.assertEqual(errors.count(b"No such file or directory"), 1)
            self.assertIn(b"cannot keep the queue of rank 0 in '/no/such': No such file or "
                          b"directory; nothing is lost", errors)
            # With enough memory no file is needed.
            self.assertEqual(self.found("--scheduler", scheduler, temporary="/no/such"),
                             (self.expected(), b""))

    def test_without_room_all_is_there_and_an_error(self):
        small = self.folder / "small"
        small.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", small],
                          stderr=subprocess.DEVNULL, check=False).returncode != 0:
            self.skipTest("may not mount")
        try:
            lines, errors = self.found("--scheduler", "cp", "--memory", "4K", temporary=small,
                                       code=1)
        finally:
            subprocess.run(["umount", small], check=True)
        self.assertEqual(lines, self.expected())
        self.assertEqual(errors.count(b"No space left on device"), 1)


if __name__ == "__main__":
    ranks.main()
