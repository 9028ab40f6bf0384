# SPDX-License-Identifier: Apache-2.0
"""Commands that walk are killed or interrupted in the middle and resumed with a different number of
ranks.

Together the runs have the effect of one run of the system's own tool.
"""

import json
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest

from command_line import TIMEOUT_SECONDS, WARREN, CommandCase, crc32c
from host_trees import describe, make_hostile_tree
from ranks import HAS_MPI, catches, in_ranks, rank_of

SEED = int(os.environ.get("WARREN_SEED", random.randrange(1 << 31)))


class ResumeCase(CommandCase):
    """Trees are in memory if possible, since the disk is not tested."""

    entries = 250

    def setUp(self):
        super().setUp()
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="warren-resume-", dir=memory))
        self.addCleanup(shutil.rmtree, self.place, ignore_errors=True)
        self.choose = random.Random(SEED)
        print(f"WARREN_SEED={SEED}", flush=True)
        self.tree = self.place / "tree"
        self.tree.mkdir()
        make_hostile_tree(str(self.tree), self.choose, self.entries)

    def start(self, ranks, words):
        return subprocess.Popen(in_ranks(ranks, WARREN, *map(os.fspath, words)),
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.place,
                                env={**os.environ, "LC_ALL": "C", "TZ": "UTC"})

    def cut(self, ranks, words, number, wait=0.0):
        """Sends the signal once there is a checkpoint to resume from; returns exit code, output and
        errors."""
        kept = self.place / "kept"
        # Slow enough for a checkpoint: commands that only read directories need few operations.
        rate = "40" if words[0] in ("walk", "find") else "120"
        job = self.start(ranks, [*words, "--checkpoint", kept, "--checkpoint-every", "1",
                                 "--max-ops", rate])
        victim = None if ranks else job.pid
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while job.poll() is None and time.monotonic() < deadline:
            victim = victim or rank_of(job, 1)
            ready = (kept / "manifest").exists() if number == signal.SIGKILL else (
                victim and catches(victim, number))
            if ready and victim:
                time.sleep(wait)
                os.kill(victim, number)
                break
            time.sleep(0.005)
        output, error = job.communicate(timeout=TIMEOUT_SECONDS)
        self.assertNotEqual(job.returncode, 0, (words, "was not cut", error))
        if number == signal.SIGTERM:
            self.assertEqual(job.returncode, 143, error)
            self.assertIn(b"the same command with --resume continues", error)
        elif ranks:
            self.assertIn(b"rank 1", error)
        return output

    def go_on(self, ranks, words, code=0):
        job = self.start(ranks, [*words, "--checkpoint", self.place / "kept", "--resume"])
        output, error = job.communicate(timeout=TIMEOUT_SECONDS)
        self.assertEqual(job.returncode, code, (words, error))
        if not ranks or code == 0:  # else mpirun reports that a process has failed
            self.assertEqual(error, b"", words)
        self.assertEqual(os.listdir(self.place / "kept"), [])
        return output

    def cut_and_go_on(self, ranks, words, number, ranks_then=0, code=0):
        wait = self.choose.random() / 2 if number == signal.SIGKILL else 0.1
        with self.subTest(words=words, ranks=ranks, number=number, then=ranks_then, seed=SEED):
            first = self.cut(ranks, words, number, wait)
            return first, self.go_on(ranks_then, words, code)
        return b"", b""

    def copied(self, name):
        self.run_program("cp", "-a", self.tree, self.place / name)
        return self.place / name

    # The expected result of each tool, in whichever process it ran.

    def check_du(self, *how):
        expected = self.run_program("du", "-sx", "tree", folder=self.place).stdout
        self.assertEqual(self.cut_and_go_on(how[0], ["du", "-sx", "tree"], *how[1:])[1], expected)

    def check_walk(self, *how):
        first, then = self.cut_and_go_on(how[0], ["walk", "-0", "tree"], *how[1:])
        found = self.run_program("find", "tree", "-print0", folder=self.place).stdout
        # Lines between the last checkpoint and the end of the first run are printed again.
        self.assertEqual(set(first.split(b"\0")[:-1]) | set(then.split(b"\0")),
                         set(found.split(b"\0")))
        if how[1] == signal.SIGTERM:
            self.assertEqual(sorted(first.split(b"\0")[:-1] + then.split(b"\0")),
                             sorted(found.split(b"\0")))

    def check_find(self, *how):
        log = self.place / "log"
        shutil.rmtree(log, ignore_errors=True)
        log.mkdir()
        self.cut_and_go_on(how[0], ["find", "tree", "!", "-type", "d", "-exec", "sh", "-c",
                                    f"printf '%s\\0' \"$@\" > {log}/$$", "-", "{}", "+"], *how[1:])
        told = [path for file in log.iterdir() for path in file.read_bytes().split(b"\0")[:-1]]
        found = self.run_program("find", "tree", "!", "-type", "d", "-print0", folder=self.place)
        self.assertEqual(set(told), set(found.stdout.split(b"\0")[:-1]))
        if how[1] == signal.SIGTERM:
            self.assertEqual(len(told), len(set(told)))

    def check_delete(self, *how):
        self.copied("gone")
        self.cut_and_go_on(how[0], ["find", "gone", "-delete"], *how[1:])
        self.assertFalse((self.place / "gone").exists())

    def check_rm(self, *how):
        self.copied("gone")
        self.cut_and_go_on(how[0], ["rm", "-r", "gone"], *how[1:])
        self.assertFalse((self.place / "gone").exists())

    def check_cp(self, *how):
        with open(self.tree / "large", "wb") as file:  # copied in parts
            file.write(b"x")
            file.truncate(65 << 20)
        self.cut_and_go_on(how[0], ["cp", "-a", "tree", "own"], *how[1:])
        self.assertEqual(describe(self.place / "own"), describe(self.tree), f"WARREN_SEED={SEED}")
        self.assertEqual([name for name in os.listdir(self.place) if name.startswith(".")], [])
        shutil.rmtree(self.place / "own")
        (self.tree / "large").unlink()

    def check_sync(self, *how):
        other = self.place / "own"
        other.mkdir()
        make_hostile_tree(str(other), self.choose, 100)
        self.cut_and_go_on(how[0], ["sync", "--delete", "tree", "own"], *how[1:])
        self.assertEqual(describe(other), describe(self.tree), f"WARREN_SEED={SEED}")
        shutil.rmtree(other)

    def check_hash(self, *how):
        expected = self.warren("hash", "tree", folder=self.place).stdout
        first, then = self.cut_and_go_on(how[0], ["hash", "tree"], *how[1:])
        self.assertEqual((first, then), (b"", expected))

    def check_chmod(self, *how):
        own, other = self.copied("own"), self.copied("other")
        told = self.cut_and_go_on(how[0], ["chmod", "-R", "--json", "u+rwX,go=rX", "own"],
                                  *how[1:])[1]
        if how[1] == signal.SIGTERM:  # else work after the last checkpoint counts twice
            counts = json.loads(told)
            names = self.run_program("find", own, "!", "-type", "l", "-printf", "x").stdout
            self.assertEqual(counts["changed"] + counts["unchanged"], len(names))
        self.run_program("chmod", "-R", "u+rwX,go=rX", other)
        self.assertEqual(describe(own, times=False), describe(other, times=False))
        shutil.rmtree(own)
        shutil.rmtree(other)

    def check_cmp(self, *how):
        own = self.copied("own")
        (own / "extra").touch()
        with open(self.tree / "large", "wb") as file:
            file.truncate(65 << 20)
        with open(own / "large", "wb") as file:
            file.write(b"x")
            file.truncate(65 << 20)
        expected = self.warren("cmp", "tree", "own", folder=self.place, code=1).stdout
        first, then = self.cut_and_go_on(how[0], ["cmp", "tree", "own"], *how[1:], code=1)
        self.assertEqual(set(first.split(b"\n")) | set(then.split(b"\n")),
                         set(expected.split(b"\n")))
        shutil.rmtree(own)
        (self.tree / "large").unlink()


class ResumeTest(ResumeCase):
    def test_interrupted_and_taken_up_again(self):
        for check in (self.check_find, self.check_sync, self.check_chmod, self.check_cmp,
                      self.check_hash):
            check(0, signal.SIGTERM)

    @unittest.skipUnless(HAS_MPI, "there is no MPI here")
    def test_a_rank_that_dies_ends_the_job_and_the_rest_is_done_by_others(self):
        self.check_du(2, signal.SIGKILL, 0)
        self.check_walk(2, signal.SIGKILL, 0)
        self.check_rm(2, signal.SIGKILL, 3)
        self.check_hash(3, signal.SIGKILL, 2)
        self.check_cp(2, signal.SIGKILL, 0)

    def test_killed_before_anything_was_kept(self):
        words = ["cp", "-a", "tree", "own"]
        kept = self.place / "kept"
        job = self.start(0, [*words, "--checkpoint", kept, "--max-ops", "120"])
        while not (self.place / "own").exists():
            self.assertIsNone(job.poll())
            time.sleep(0.005)
        job.kill()
        job.communicate()
        self.assertEqual(os.listdir(kept), ["command"])
        # Starts over with the same plan: the copy does not go into the folder that exists by now.
        done = self.warren(*words, "--checkpoint", kept, "--resume", folder=self.place)
        self.assertIn(b"there was no checkpoint", done.stderr)
        self.assertEqual(describe(self.place / "own"), describe(self.tree))
        self.assertEqual(os.listdir(kept), [])

    def test_digests_are_kept_while_files_stay_the_same(self):
        small = self.place / "small"
        small.mkdir()
        for number in range(200):
            (small / f"{number:03}").write_bytes(self.choose.randbytes(1000))
        time.sleep(0.1)  # digests of files just written are not kept
        words = ["hash", "-a", "sha256", "--verbose", "small"]
        job = self.start(0, [*words, "--checkpoint", "kept", "--max-ops", "60"])
        kept = self.place / "kept" / "digests-1-0"
        while not (kept.exists() and kept.stat().st_size > 500):
            self.assertIsNone(job.poll())
            time.sleep(0.01)
        job.terminate()
        self.assertEqual(job.communicate()[0], b"")
        self.assertEqual(job.returncode, 143)
        # A truncated record; a file that was replaced; one that was removed.
        os.truncate(kept, kept.stat().st_size - 3)
        (small / "000").write_bytes(self.choose.randbytes(1000))
        (small / "199").unlink()
        self.assertIn("there is a checkpoint",
                      self.error(*words, "--checkpoint", "kept", folder=self.place))
        # Also if the lists do not fit into memory at all.
        done = self.warren(*words, "--checkpoint", "kept", "--resume", "--memory", "4K",
                           folder=self.place)
        names = [f"small/{number:03}" for number in range(199)]
        self.assertEqual(done.stdout, self.run_program("sha256sum", *names,
                                                       folder=self.place).stdout)
        found = re.search(rb"of 199 files (\d+) have been hashed before", done.stderr)
        self.assertTrue(found and 0 < int(found[1]) < 199, done.stderr)
        self.assertEqual(os.listdir(self.place / "kept"), [])

    def test_what_has_just_changed_is_not_kept(self):
        """A file that may change again within the granularity of file times."""
        small = self.place / "small"
        small.mkdir()
        for number in range(30):
            (small / f"{number:02}").write_bytes(b"x")
        time.sleep(0.1)
        for attempt in range(20):
            if self.keeps_what_changes(small, self.place / f"kept{attempt}"):
                return
        self.skipTest("this machine let no file change every 30 ms")

    def keeps_what_changes(self, small, kept):
        """Hashes slowly, each file for 100 ms or more, while the first changes all the time.

        Returns whether it did change all the time; only then the result was checked.
        """
        longest = 0
        mode = 0o600
        told = b""
        (small / "00").chmod(mode)
        last = time.monotonic()
        job = self.start(0, ["hash", "-t", "1", "--checkpoint", kept, "--max-ops", "20", "small"])
        while b"small/01" not in told:
            mode ^= 0o100
            (small / "00").chmod(mode)
            now = time.monotonic()
            longest, last = max(longest, now - last), now
            time.sleep(0.002)
            try:
                told = b"".join(list_.read_bytes() for list_ in kept.glob("digests-*"))
            except FileNotFoundError:
                pass  # it has just ended
            if job.poll() is not None:
                job.communicate()
                return False
        job.terminate()
        job.communicate()
        if longest < 0.03:
            self.assertNotIn(b"small/00", told)
        return longest < 0.03

    def test_what_failed_before_is_still_in_the_file(self):
        loops = self.place / "loops"
        for number in range(100):
            (loops / f"{number:03}").mkdir(parents=True)
            (loops / f"{number:03}" / "up").symlink_to("..")
        words = ["walk", "-L", "--errors", "failed", "loops"]
        job = self.start(0, [*words, "--checkpoint", "kept", "--max-ops", "30"])
        while not catches(job.pid, signal.SIGTERM):
            self.assertIsNone(job.poll())
            time.sleep(0.01)
        time.sleep(0.5)
        job.terminate()
        job.communicate()
        self.assertEqual(job.returncode, 143)
        # What a run that is killed after its last checkpoint may leave.
        with open(self.place / "failed", "a", encoding="utf-8") as file:
            file.write('{"path":"loops/000/up"}\n{"path":"loo')
        self.warren(*words, "--checkpoint", "kept", "--resume", folder=self.place, code=1)
        lines = (self.place / "failed").read_text().splitlines()
        self.assertEqual(sorted(json.loads(line)["path"] for line in lines),
                         [f"loops/{number:03}/up" for number in range(100)])

    def test_only_the_same_command_goes_on(self):
        words = ["du", "-s", "tree"]
        kept = ["--checkpoint", self.place / "kept"]
        self.cut(0, words, signal.SIGTERM, 0.1)
        for others in (["rm", "-r", "tree"], ["du", "-s", "-b", "tree"], ["du", "-s", "."]):
            self.assertIn("it is of another command: warren du -s 'tree'",
                          self.error(*others, *kept, "--resume", folder=self.place))
        self.assertIn("there is a checkpoint", self.error(*words, *kept, folder=self.place))
        self.go_on(0, words)
        self.assertIn("cannot resume from", self.error(*words, *kept, "--resume",
                                                       folder=self.place))

    def test_what_is_forged_is_refused(self):
        words = ["du", "-s", "tree"]
        self.cut(0, words, signal.SIGTERM, 0.1)
        kept = self.place / "kept"
        rank, = kept.glob("rank-*-0")
        whole = {name: (kept / name).read_bytes() for name in ("manifest", "command", rank.name)}
        state = whole[rank.name][:-4]
        result = 8 + 4 + 4 * 8  # after the number of work batches, walks so far and counts
        caller = result + 1 + state[result]
        forged = [("manifest", b""), ("command", b"\xff" * 9 + b"\1"), ("command", b""),
                  ("manifest", whole["manifest"][:16] + b"\xff" * 4 + whole["manifest"][20:-4]),
                  (rank.name, b""), (rank.name, state[:result + 3]), (rank.name, b"\xff" * 100),
                  # Accepted by the walk, which passes it to the command, where it is invalid.
                  (rank.name, state[:caller] + b"\1x" + state[caller + 1 + state[caller]:])]
        for name, data in forged:
            with self.subTest(name=name, data=data, seed=SEED):
                sealed = data + struct.pack("<I", crc32c(data))
                (kept / name).write_bytes(sealed)
                said = self.error(*words, "--checkpoint", kept, "--resume", folder=self.place)
                self.assertRegex(said, "^warren du: cannot resume from '.*kept.*': it is damaged "
                                       "or was not written by Warren.* without --resume$")
                self.assertEqual((kept / name).read_bytes(), sealed)
                (kept / name).write_bytes(whole[name])
        self.go_on(0, words)

    def test_forged_tasks_are_refused(self):
        """Parts of a large file are queued; the names in them are replaced by names that lead
        elsewhere."""
        for name in ("one", "two"):
            (self.place / name).mkdir()
            with open(self.place / name / "large", "wb") as file:
                file.truncate(64 << 30)  # a hole
        words = ["cmp", "one", "two"]
        self.cut(0, words, signal.SIGTERM, 0.5)
        rank, = (self.place / "kept").glob("rank-*-0")
        state = rank.read_bytes()[:-4]
        self.assertIn(b"\0large\0", state)
        state = state.replace(b"\0large\0", b"\0../xx\0")
        rank.write_bytes(state + struct.pack("<I", crc32c(state)))
        done = self.warren(*words, "--checkpoint", "kept", "--resume", folder=self.place, code=2)
        self.assertIn(b"cannot resume from 'one': it is damaged or was not", done.stderr)

    def test_wrong_words(self):
        kept = ["--checkpoint", self.place / "kept"]
        self.assertIn("--resume requires --checkpoint", self.error("rm", "-r", "--resume", "x"))
        self.assertIn("one tree", self.error("rm", "-r", *kept, "x", "y"))
        self.assertIn("one tree", self.error("cp", "-a", *kept, "x", "y", "z"))
        self.assertIn("--sorted", self.error("find", "-s", *kept, "."))
        self.assertIn("invalid number", self.error("walk", *kept, "--checkpoint-every", "0"))
        self.assertIn("cannot make", self.error("walk", "--checkpoint", "/no/such/folder"))
        self.assertIn("two trees", self.error("cmp", *kept, __file__, __file__, code=2))
        self.assertIn("combined with --check", self.error("hash", "-c", *kept, __file__))
        self.assertIn("scheduler other than cp",
                      self.error("walk", *kept, "--resume", "--scheduler", "cp"))
        self.make_volume()
        self.assertIn("files of the host", self.error("du", *kept, self.inside("/")))


if __name__ == "__main__":
    unittest.main(verbosity=2)
