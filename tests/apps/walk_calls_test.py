# SPDX-License-Identifier: Apache-2.0
"""The system calls of the walk, as strace(1) shows them, what it does if it gets fewer threads than
it requests, and what it shows on a terminal.
"""

import collections
import os
import pathlib
import pty
import re
import resource
import shutil
import subprocess
import tempfile
import unittest

from command_line import TIMEOUT_SECONDS, WARREN, CommandCase
from walk_tools_test import WalkCase

CALL = re.compile(
    r'(openat|statx|newfstatat|getdents64)\((AT_FDCWD|\d+), ?(?:"([^"]*)")?')


class CallsTest(CommandCase):
    files = 40 * 10 + 600
    directories = 42

    @classmethod
    def setUpClass(cls):
        cls.place = pathlib.Path(tempfile.mkdtemp(prefix="warren-calls-"))
        cls.addClassCleanup(shutil.rmtree, cls.place)
        for name in ("empty", "tree/large", *(f"tree/d{number}" for number in range(40))):
            (cls.place / name).mkdir(parents=True)
            for file in range(10 if name.startswith("tree/d") else 0):
                (cls.place / name / f"f{file}").touch()
        for file in range(600):  # more than 128 KiB of names
            (cls.place / "tree/large" / f"a_file_with_a_{'long_' * 40}name_{file}").touch()

    def setUp(self):
        super().setUp()
        if not shutil.which("strace"):
            self.skipTest("there is no strace")
        if subprocess.run(["strace", "-f", "--seccomp-bpf", "-qq", "-e", "trace=statx", "true"],
                          capture_output=True, check=False).returncode != 0:
            self.skipTest("nothing can be traced here")

    def calls(self, *words):
        """The system calls of a run with one thread, as (name, directory, path)."""
        log = self.folder / "log"
        self.run_program("strace", "-f", "--seccomp-bpf", "-qq", "-e",
                         "trace=openat,statx,newfstatat,getdents64", "-o", log, WARREN,
                         words[0], "--threads", "1", "--ask-ahead", "never", *words[1:],
                         folder=self.place)
        return [found.groups() for found in map(CALL.search, log.read_text().splitlines()) if found]

    def more_calls(self, *words):
        """How many more of each than for an empty directory, and those on the tree."""
        calls = self.calls(words[0], "tree", *words[1:])
        of_empty = self.calls(words[0], "empty", *words[1:])
        counts = collections.Counter(name for name, _, _ in calls)
        counts.subtract(name for name, _, _ in of_empty)
        return counts, calls

    def test_names_cost_the_reading_of_directories(self):
        below = self.directories - 1
        for words in (["walk"], ["find", "-type", "f", "-name", "f*"]):
            counts, _ = self.more_calls(*words)
            self.assertEqual(counts["statx"], 0)
            # For standard output, if anything is printed at all.
            self.assertLessEqual(counts["newfstatat"], 1)
            self.assertEqual(counts["openat"], below)
            # Two for each, and one more for the second 128 KiB of names; some file systems return
            # less at once.
            # less at once.
            self.assertIn(counts["getdents64"], range(2 * below, 2 * below + 20))

    def test_a_status_is_asked_for_once_by_name(self):
        counts, calls = self.more_calls("walk", "--stat")
        self.assertEqual(counts["statx"], self.files + self.directories - 1)
        for name, directory, path in calls:
            if path is None or directory == "AT_FDCWD":
                self.assertTrue(path is None or not path.startswith("tree/"), (name, path))
            else:
                self.assertNotIn("/", path, name)
        counts, _ = self.more_calls("find", "-name", "f*", "-size", "+1")
        self.assertEqual(counts["statx"], 40 * 10)

    def test_one_process_loads_no_mpi(self):
        paths = [path or "" for _, _, path in self.calls("walk", "tree")]
        self.assertFalse([path for path in paths
                          if re.search("libmpi|mpich|openmpi|warren-mpi", path)])


class TerminalTest(CommandCase):
    def test_rate_queue_and_time_are_shown(self):
        for number in range(150):
            (self.folder / f"tree/d{number}/d").mkdir(parents=True)
        terminal, other = pty.openpty()
        job = subprocess.Popen([WARREN, "walk", "--stat", "--max-ops", "400", self.folder / "tree"],
                               stdout=subprocess.DEVNULL, stderr=other)
        os.close(other)
        shown = b""
        try:
            while part := os.read(terminal, 4096):
                shown += part
        except OSError:
            pass  # the other end is closed
        os.close(terminal)
        self.assertEqual(job.wait(TIMEOUT_SECONDS), 0)
        self.assertRegex(shown, rb"walking '[^']*/tree'")
        self.assertRegex(shown, rb": [\d,]+ entries, [\d,]+/s, \d+ director(ies|y) waits?, \d+ s")
        self.assertTrue(shown.endswith(b"\r\x1b[K"), shown[-80:])  # nothing is left of it


class ThreadsTest(WalkCase):
    def test_fewer_threads_than_asked_for(self):
        """Stacks of 1 GiB in 2.5 GiB of addresses: the system gives two more threads, not 15."""
        limits = {resource.RLIMIT_STACK: 1 << 30, resource.RLIMIT_AS: 5 << 29}
        if any(-1 < resource.getrlimit(which)[1] < size for which, size in limits.items()):
            self.skipTest("there are lower limits")

        def limit():
            for which, size in limits.items():
                resource.setrlimit(which, (size, size))

        self.fill(300)
        with open(self.tree / "large", "wb") as file:
            file.truncate(100 << 20)
        for words in (["find", "--threads", "16", "tree"], ["hash", "-t", "16", "tree"],
                      ["cp", "-j", "16", "tree/large", "copy"],
                      ["cp", "-a", "-j", "16", "tree", "copies"]):
            done = subprocess.run([WARREN, *words], cwd=self.folder, preexec_fn=limit,
                                  capture_output=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, b""), words)
            if words[0] != "cp":
                words[2] = "1"
                self.assertEqual(sorted(done.stdout.splitlines()),
                                 sorted(self.warren(*words).stdout.splitlines()))
        self.assertEqual((self.folder / "copy").read_bytes(), (self.tree / "large").read_bytes())
        listed = [self.run_program("find", ".", "-printf", r"%P\0%y %m %n %l %b %t\0",
                                   folder=self.folder / place).stdout
                  for place in ("tree", "copies")]
        self.assertEqual(sorted(listed[0].split(b"\0")), sorted(listed[1].split(b"\0")))


if __name__ == "__main__":
    unittest.main()
