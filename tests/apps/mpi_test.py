# SPDX-License-Identifier: Apache-2.0
"""Compares warren walk, find, du, rm and hash under mpirun with the same command in one process.

Any number of ranks prints the same lines, in any order, and the same totals.
"""

import os
import pathlib
import random
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import ranks
from command_line import TIMEOUT_SECONDS, WARREN, CommandCase, describe_tree
from ranks import MPICH, OPEN_MPI, catches
from walk_tools_test import make_tree

SEED = int(os.environ.get("WARREN_SEED", random.randrange(1 << 31)))


class RanksTests:
    """Tests for `mpi`; `host_words` make its mpirun use two hosts, through an agent whose name
    follows them; `told_of_death` is its message about a rank that was killed."""

    @classmethod
    def setUpClass(cls):
        if reason := cls.mpi.why_missing():
            raise unittest.SkipTest(reason)
        print(f"WARREN_SEED={SEED}", flush=True)
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        cls.place = pathlib.Path(tempfile.mkdtemp(prefix="warren-ranks-", dir=memory))
        cls.addClassCleanup(shutil.rmtree, cls.place)
        cls.tree = cls.place / "tree"
        cls.tree.mkdir()
        make_tree(cls.tree, random.Random(SEED), 400)
        # One directory that must be shared, and hard links in many directories.
        large = cls.tree / "large"
        large.mkdir()
        for number in range(3000):
            (large / f"a_file_with_a_name_of_some_length_{number}").touch()
        linked = large / "linked"
        linked.write_bytes(b"x" * 50000)
        for number in range(200):
            os.makedirs(cls.tree / f"link{number % 20}", exist_ok=True)
            os.link(linked, cls.tree / f"link{number % 20}" / str(number))

    def ranks(self, count, *words, **more):
        return self.run_program(*self.mpi.in_ranks(count, WARREN, *words), **more)

    def ranked_lines(self, count, *words, **more):
        done = self.ranks(count, *words, **more)
        return sorted(done.stdout.split(b"\n"))

    def alone(self, *words):
        return sorted(self.warren(*words).stdout.split(b"\n"))

    def test_lists_are_those_of_one_process(self):
        listing = ["walk", "--stat", self.tree]
        search = ["find", self.tree, "-type", "f", "-printf", "%p %s %n\n"]
        for ranks in (2, 8):
            self.assertEqual(self.ranked_lines(ranks, *listing), self.alone(*listing))
        self.assertEqual(self.ranked_lines(3, *search), self.alone(*search))

    def test_totals_are_those_of_du(self):
        for options, counts in ((["-s"], (1, 2, 4, 8)), (["-s", "--inodes"], (3,)),
                                (["-sx"], (3,))):
            expected = self.run_program("du", *options, self.tree).stdout
            for ranks in counts:
                self.assertEqual(self.ranks(ranks, "du", *options, self.tree).stdout, expected)
        count = ["walk", "--count", "--stat", self.tree, self.tree / "large"]
        self.assertEqual(self.ranked_lines(2, *count), self.alone(*count))

    def test_schedulers_on_simulated_nodes(self):
        expected = self.run_program("du", "-s", self.tree).stdout
        # Other tests run all of them on a network of threads.
        for scheduler in ("cp", "cp-directories", "drqs", "pa-drqs-list", "h-drqs-batches"):
            words = ["env", "WARREN_WALK_RANKS_PER_NODE=2", WARREN, "du", "-s", "--scheduler",
                     scheduler, self.tree]
            done = self.run_program(*self.mpi.in_ranks(4, *words))
            self.assertEqual(done.stdout, expected, scheduler)

    def test_two_hosts_that_are_namespaces(self):
        if subprocess.run(["unshare", "--uts", "true"], stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("may not make namespaces")
        # mpirun starts its daemons by this agent: each gets a host name of its own, and they use
        # TCP.
        agent = self.write("agent", b'#!/bin/sh\nhost=$1\nshift\n'
                           b'exec unshare --uts sh -c "hostname $host; $*"\n', 0o755)
        done = self.run_program(*self.mpi.launch, *self.host_words, agent, "-np", "4",
                                WARREN, "du", "-s", self.tree)
        self.assertEqual(done.stdout, self.run_program("du", "-s", self.tree).stdout)

    def test_copies_files_with_several_names(self):
        copy = self.place / "copied"
        self.ranks(3, "cp", "-a", self.tree, copy)
        self.assertEqual(describe_tree(copy), describe_tree(self.tree))
        self.assertEqual([name for name in os.listdir(self.place) if name.startswith(".")], [])

    def test_removes_all(self):
        copy = self.place / "copy"
        self.run_program("cp", "-a", self.tree, copy)
        outside = self.write("outside/file", b"stays")
        os.symlink(outside.parent, copy / "a way out")
        self.ranks(3, "rm", "-r", copy)
        self.assertFalse(copy.exists())
        self.assertEqual(outside.read_bytes(), b"stays")

    @unittest.skipIf(os.geteuid() != 0, "owners are for root to change")
    def test_changes_owners_as_chown_does(self):
        shown = []
        for name, change in (("ours", lambda *words: self.ranks(3, *words)),
                             ("theirs", self.run_program)):
            copy = self.place / name
            self.run_program("cp", "-a", self.tree, copy)
            change("chown", "-R", "17:18", copy)
            shown.append(sorted(self.run_program(
                "find", copy, "-printf", "%P %U %G %m\\0").stdout.split(b"\0")))
        self.assertEqual(*shown)

    def test_digests_come_in_the_order_of_one_process(self):
        expected = self.warren("hash", "-a", "sha256", self.tree, "/etc/hostname").stdout
        done = self.ranks(3, "hash", "-a", "sha256", self.tree, "/etc/hostname")
        self.assertEqual(done.stdout, expected)
        lines = expected.splitlines(keepends=True)
        sums = self.write("sums", b"0" * 64 + lines[-1][64:] + lines[-1].rstrip() + b".not\n" +
                          b"".join(lines) + b"nonsense\n")
        alone = self.warren("hash", "-a", "sha256", "--check", sums, code=1)
        done = self.ranks(3, "hash", "-a", "sha256", "--check", sums, "/no/such", code=1)
        self.assertEqual(done.stdout, alone.stdout)
        self.assertEqual(done.stdout.count(b"FAILED"), 2)
        self.assertIn(alone.stderr, done.stderr)
        self.assertEqual(done.stderr.count(b"/no/such: No such file"), 1)

    def test_find_acts_once_on_each(self):
        copy = self.place / "found"
        self.run_program("cp", "-a", self.tree, copy)
        told = self.write("told/none").parent
        self.ranks(3, "find", copy, "!", "-type", "d", "-exec", "sh", "-c",
                   f"printf '%s\\0' \"$@\" > {told}/$$", "-", "{}", "+")
        paths = [path for file in told.iterdir() for path in file.read_bytes().split(b"\0")[:-1]]
        found = self.run_program("find", copy, "!", "-type", "d", "-print0").stdout
        self.assertEqual(sorted(paths), sorted(found.split(b"\0")[:-1]))
        self.ranks(2, "find", copy, "-maxdepth", "0", "-exec", "false", "{}", "+", code=1)
        gone = self.ranks(3, "find", copy, "-type", "f", "-size", "+0", "-delete", "-print0")
        self.assertEqual(set(gone.stdout.split(b"\0")) - set(found.split(b"\0")), set())
        left = self.run_program("find", copy, "-type", "f", "-size", "+0").stdout
        self.assertEqual(left, b"")
        self.ranks(3, "find", copy, "-delete")
        self.assertFalse(copy.exists())

    def test_progress_of_all_ranks(self):
        done = self.ranks(2, "walk", "--count", "--stat", "--progress", "--max-ops", "2500",
                          self.tree)
        self.assertRegex(done.stderr, rb"warren walk: walking '.*': [0-9,]+ entries, [0-9,]+/s, ")

    def test_failures_are_told_once_by_rank_0(self):
        errors = self.folder / "errors"
        done = self.ranks(3, "walk", "--errors", errors, self.tree, "/nothing/here", code=1)
        self.assertEqual(done.stderr.count(b"cannot access '/nothing/here'"), 1)
        self.assertEqual(len(errors.read_text().splitlines()), 1)
        done = self.ranks(2, "walk", "--scheduler", "best", self.tree, code=1)
        self.assertEqual(done.stderr.count(b"there is no scheduler 'best'"), 1)
        done = self.ranks(2, "mkfs", "v.img", code=1)
        self.assertIn(b"start it without mpirun", done.stderr)

    def test_a_rank_that_dies_ends_the_job(self):
        code, error = self.signal_rank_1(signal.SIGKILL, "walk", "--max-ops", "60", self.tree)
        self.assertNotEqual(code, 0)
        self.assertIn(self.told_of_death, error)

    def test_goes_on_from_a_checkpoint_with_other_ranks(self):
        words = ["du", "-s", self.tree, "--checkpoint", self.folder / "kept"]
        code, error = self.signal_rank_1(signal.SIGTERM, *words, "--max-ops", "2000")
        self.assertEqual(code, 143, error)
        self.assertIn(b"with --resume continues", error)
        expected = self.run_program("du", "-s", self.tree).stdout
        self.assertEqual(self.ranks(2, *words, "--resume").stdout, expected)
        done = self.ranks(2, *words, "--resume", code=1)
        self.assertIn(b"cannot resume from", done.stderr)

    def signal_rank_1(self, number, *words):
        """Sends the signal during the job; returns its exit code and output."""
        job = subprocess.Popen(self.mpi.in_ranks(3, WARREN, *words),
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        victim = None
        is_ready = False
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not is_ready and job.poll() is None and time.monotonic() < deadline:
            victim = victim or self.mpi.rank_of(job, 1)
            is_ready = victim and (number != signal.SIGTERM or catches(victim, number))
            time.sleep(0.02)
        self.assertTrue(is_ready)
        time.sleep(0.4)
        os.kill(victim, number)
        error = job.communicate(timeout=60)[0]
        return job.returncode, error


class OpenMpiTest(RanksTests, CommandCase):
    mpi = OPEN_MPI
    host_words = ["--host", "left:2,right:2", "--bind-to", "none",
                  "--mca", "btl", "self,vader,tcp", "--mca", "oob_tcp_if_include", "lo",
                  "--mca", "btl_tcp_if_include", "lo", "--mca", "plm_rsh_no_tree_spawn", "1",
                  "--mca", "plm_rsh_agent"]
    told_of_death = b"rank 1"


class MpichTest(RanksTests, CommandCase):
    mpi = MPICH
    host_words = ["-hosts", "left:2,right:2", "-iface", "lo", "-launcher", "rsh",
                  "-launcher-exec"]
    told_of_death = b"BAD TERMINATION"


if __name__ == "__main__":
    ranks.main()
