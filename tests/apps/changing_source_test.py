# SPDX-License-Identifier: Apache-2.0
"""Files and folders that another process changes or replaces while cp and sync copy them.

The copying process runs for about a millisecond at a time. In between, while it is stopped, a test
looks whether the copying has come far enough, and then changes the source or the target.
"""

import fcntl
import os
import pathlib
import random
import select
import signal
import struct
import subprocess
import time
import unittest

from command_line import WARREN, CommandCase
from host_trees_test import TreesCase
from ranks import HAS_MPI, in_ranks, rank_of

MIB = 1 << 20
SMALL = 60 * MIB  # copied as a whole
LARGE = 96 * MIB  # copied in parts
CHANGED = b": changed while it was copied; run again\n"
BLOCK = random.Random(1).randbytes(MIB)
# The address sanitizer looks for leaks as a tracer of its process: SIGSTOP would stop it forever.
ENVIRONMENT = {**os.environ, "LC_ALL": "C", "LSAN_OPTIONS": "detect_leaks=0"}


def states(process):
    """The states of all threads, as letters; empty if the process has ended."""
    try:
        threads = os.listdir(f"/proc/{process}/task")
        stats = [pathlib.Path(f"/proc/{process}/task/{thread}/stat").read_text()
                 for thread in threads]
    except OSError:
        return ""
    letters = "".join(text.rpartition(")")[2].split()[0] for text in stats)
    return "" if "Z" in letters else letters


def stop(process):
    """Stops the process; false if it has ended."""
    try:
        os.kill(process, signal.SIGSTOP)
        while letters := states(process):
            if set(letters) <= set("Tt"):
                return True
            time.sleep(0.0002)
    except ProcessLookupError:
        pass
    return False


class StoppedCase(TreesCase):
    def processes_of(self, job, ranks):
        while ranks and job.poll() is None:
            found = [rank_of(job, rank) for rank in range(ranks)]
            if all(found):
                return found
            time.sleep(0.005)
        return [job.pid]

    def while_stopped(self, words, is_time, change, ranks=0, code=1):
        """Runs the command, which must fail with this exit code; calls `change` when `is_time`.
        Returns its errors."""
        for _ in range(20):
            self.prepare()
            job = subprocess.Popen(in_ranks(ranks, WARREN, *map(os.fspath, words)),
                                   cwd=self.folder, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, env=ENVIRONMENT)
            self.processes = self.processes_of(job, ranks)
            is_done = False
            while not is_done and all([stop(process) for process in self.processes]):
                is_done = is_time()
                if is_done:
                    change()
                self.let_run()
            self.let_run()
            error = job.communicate(timeout=120)[1]
            if is_done:
                self.assertEqual(job.returncode, code, (words, error))
                return error
        return self.fail("this machine let no copy be stopped in its middle")

    def let_run(self):
        for process in self.processes:
            if states(process):
                os.kill(process, signal.SIGCONT)
        time.sleep(0.001)

    def prepare(self):
        """Called before each attempt, since a copy may end before it is stopped."""
        self.warren("rm", "-rf", "own")

    def make(self, name, size):
        path = self.tree / name
        with open(path, "wb") as file:
            for _ in range(size // MIB):
                file.write(BLOCK)
        os.utime(path, (10**9, 10**9))
        return path

    def temporary(self):
        """The temporary file of a copy, when some and not all of it has been written."""
        for path in self.folder.rglob(".warren-*"):
            status = path.stat()
            if MIB < status.st_blocks * 512 < SMALL - 20 * MIB:
                return path
        return None

    def write_into(self, path):
        with open(path, "r+b") as file:
            file.write(b"other")
            file.seek(-5, os.SEEK_END)
            file.write(b"other")

    def assert_mended(self):
        """The next sync finds what differs."""
        self.assert_tidy(self.folder)
        self.warren("sync", "tree", "own")
        self.assertEqual(self.output("cmp", "tree", "own"), "")


class TreeTest(StoppedCase):
    words = ["cp", "-a", "-j", "1", "--reflink=never", "tree", "own"]

    def test_written_into(self):
        for size in (SMALL, LARGE):
            path = self.make("file", size)
            error = self.while_stopped(self.words, self.temporary, lambda: self.write_into(path))
            self.assertEqual(error, b"warren cp: 'tree/file'" + CHANGED)
            self.assertEqual((self.folder / "own/file").stat().st_mtime, 10**9)
            self.assert_mended()

    @unittest.skipUnless(HAS_MPI, "there is no MPI here")
    def test_written_into_under_mpirun(self):
        path = self.make("file", LARGE)
        error = self.while_stopped(self.words, self.temporary, lambda: self.write_into(path),
                                   ranks=2)
        self.assertEqual(error.count(b"warren cp: 'tree/file'" + CHANGED), 1)
        self.assertEqual((self.folder / "own/file").stat().st_mtime, 10**9)
        self.assert_mended()

    def test_time_set_back(self):
        path = self.make("file", LARGE)

        def change():
            self.write_into(path)
            os.utime(path, (10**9, 10**9))

        self.assertIn(CHANGED, self.while_stopped(self.words, self.temporary, change))
        self.assertLess((self.folder / "own/file").stat().st_mtime, 10**9)
        self.assert_mended()

    def test_times_that_are_not_kept(self):
        path = self.make("file", LARGE)
        words = ["cp", "-rT", "-j", "1", "--reflink=never", "tree", "own"]
        self.while_stopped(words, self.temporary, lambda: self.write_into(path))
        self.warren("cp", "-ruT", "tree", "own")
        self.run_program("cmp", "tree/file", "own/file")

    def test_shorter_and_longer(self):
        for size in (SMALL, LARGE):
            for new_size in (5 * MIB, size + 5 * MIB):
                path = self.make("file", size)
                error = self.while_stopped(self.words, self.temporary,
                                           lambda: os.truncate(path, new_size))
                self.assertIn(CHANGED, error)
                self.assertLessEqual((self.folder / "own/file").stat().st_size, size)
                self.assert_mended()

    def test_an_operand(self):
        for size in (SMALL, LARGE):
            path = self.make("file", size)
            words = ["cp", "-p", "-j", "1", "--reflink=never", "tree/file", "own"]
            error = self.while_stopped(words, self.temporary, lambda: self.write_into(path))
            self.assertEqual(error, b"warren cp: 'tree/file'" + CHANGED)
            self.assertEqual((self.folder / "own").stat().st_mtime, 10**9)
            self.assertEqual((self.folder / "own").stat().st_size, size)

    def test_replaced(self):
        for ranks in (0, 2) if HAS_MPI else (0,):
            path = self.make("file", LARGE)
            new = self.write("new", b"other" * (LARGE // 5))
            words = ["sync", "--threads", "3", "tree", "own"]
            error = self.while_stopped(words, self.temporary, lambda: os.replace(new, path),
                                       ranks=ranks)
            self.assertEqual(error.count(b"warren sync: 'tree/file'" + CHANGED), 1)
            self.assertFalse((self.folder / "own/file").exists())
            self.assert_mended()

    def test_a_folder_that_is_moved_away(self):
        (self.tree / "inner").mkdir()
        self.make("inner/file", LARGE)
        self.while_stopped(self.words, self.temporary,
                           lambda: (self.tree / "inner").rename(self.folder / "elsewhere"))
        self.assert_tidy(self.folder)

    def assert_nothing_is_removed(self, change):
        """`change` replaces tree/inner after it was read, and before its copy is compared."""
        self.make("inner/file", LARGE)
        self.write("tree/inner/kept")
        error = self.while_stopped(
            ["sync", "--delete", "--threads", "1", "tree", "own"],
            lambda: (self.folder / "own/inner/kept").exists() and self.temporary(), change)
        self.assertEqual(
            error, b"warren sync: cannot read directory 'tree/inner': Stale file handle\n")
        self.assertTrue((self.folder / "own/inner/kept").exists())
        self.assert_tidy(self.folder)

    def test_a_folder_that_is_replaced(self):
        inner = self.tree / "inner"
        inner.mkdir()

        def change():
            inner.rename(self.folder / "elsewhere")
            inner.mkdir()

        self.assert_nothing_is_removed(change)

    def mount(self, kind, *options, **more):
        """Mounts a file system on tree/inner until the test ends; returns the path."""
        inner = self.tree / "inner"
        inner.mkdir(exist_ok=True)
        words = ["mount", "-i", "-t", kind, *options, "none", inner]
        if subprocess.run(words, check=False, **more).returncode != 0:
            self.skipTest("may not mount")
        self.addCleanup(self.run_program, "umount", "-l", inner, code=None)
        return inner

    def test_a_file_system_that_is_unmounted(self):
        inner = self.mount("tmpfs")
        self.assert_nothing_is_removed(lambda: self.run_program("umount", "-l", inner))

    def test_a_file_system_that_is_unmounted_before_it_is_opened(self):
        """While a file is copied that comes after the mount point in the directory above."""
        inner = self.mount("tmpfs")
        self.write("tree/inner/kept")
        for name in map(str, range(100)):
            self.write(f"tree/{name}")
            if os.listdir(self.tree)[-1] == name:
                break
        self.make(name, SMALL)

        def prepare():
            self.warren("rm", "-rf", "own")
            (self.folder / "own/inner").mkdir(parents=True)
            self.write("own/inner/kept")

        self.prepare = prepare
        error = self.while_stopped(["sync", "--delete", "--threads", "1", "tree", "own"],
                                   self.temporary,
                                   lambda: self.run_program("umount", "-l", inner))
        self.assertEqual(
            error, b"warren sync: cannot read directory 'tree/inner': Stale file handle\n")
        self.assertTrue((self.folder / "own/inner/kept").exists())
        self.assert_tidy(self.folder)

    def test_a_file_system_that_is_mounted_on_use(self):
        """By this process in place of automount(8), when the copying process opens the folder."""
        requests, kernel = os.pipe()
        options = f"fd={kernel},pgrp={os.getpgrp()},minproto=5,maxproto=5,direct"
        inner = self.mount("autofs", "-o", options, pass_fds=[kernel])
        (self.folder / "own/inner").mkdir(parents=True)
        self.write("own/inner/gone")
        folder = os.open(inner, os.O_RDONLY)
        self.addCleanup(os.close, folder)
        with subprocess.Popen([WARREN, "sync", "--delete", "tree", "own"], cwd=self.folder,
                              stderr=subprocess.PIPE, start_new_session=True) as job:
            self.assertTrue(select.select([requests], [], [], 60)[0])
            token, = struct.unpack_from("I", os.read(requests, 304), 8)
            self.mount("tmpfs")
            self.write("tree/inner/file")
            fcntl.ioctl(folder, 0x9360, token)  # AUTOFS_IOC_READY
            error = job.communicate(timeout=60)[1]
        os.close(requests)
        os.close(kernel)
        self.assertEqual((job.returncode, error), (0, b""))
        self.assertEqual(os.listdir(self.folder / "own/inner"), ["file"])

    def test_a_temporary_file_that_is_damaged(self):
        self.make("file", LARGE)
        for change in (lambda path: os.truncate(path, 10), os.unlink):
            error = self.while_stopped(self.words, self.temporary,
                                       lambda: change(f"{self.temporary()}="))
            self.assertIn(b"cannot find the temporary copy of 'own/file': ", error)
            self.assertEqual(error.count(b"\n"), 1)
            self.assertFalse((self.folder / "own/file").exists())
            self.assert_mended()

    def test_a_temporary_file_that_is_removed(self):
        self.make("file", LARGE)
        gone = b": No such file or directory\n"
        for ends, told in (([""], b"cannot find the temporary copy of 'own/file'"),
                           (["", "="], b"cannot find all temporary copies in 'own'")):

            def change(ends=ends):
                path = self.temporary()
                for end in ends:
                    os.unlink(f"{path}{end}")

            error = self.while_stopped(self.words, self.temporary, change)
            self.assertEqual(error, b"warren cp: " + told + gone)
            self.assertFalse((self.folder / "own/file").exists())
            self.assert_mended()


class CompareTest(StoppedCase):
    def prepare(self):
        super().prepare()
        self.run_program("cp", "-a", "tree", "own")

    def test_a_folder_that_is_replaced(self):
        """What the new one does not have is not reported as missing."""
        inner = self.tree / "inner"
        inner.mkdir()
        path = self.make("inner/file", SMALL)
        self.write("tree/inner/kept")

        def is_compared():
            folder = pathlib.Path(f"/proc/{self.processes[0]}/fd")
            return str(path) in [os.readlink(file) for file in folder.iterdir()]

        def change():
            inner.rename(self.folder / "elsewhere")
            inner.mkdir()

        error = self.while_stopped(["cmp", "--threads", "1", "tree", "own"], is_compared, change,
                                   code=2)
        self.assertEqual(
            error, b"warren cmp: cannot read directory 'tree/inner': Stale file handle\n")


class VolumeTest(StoppedCase):
    """Copies into and out of an image."""

    def prepare(self):
        super().prepare()
        self.warren("rm", "-rf", self.inside("/tree"))

    def setUp(self):
        super().setUp()
        self.make_volume("256M")

    def reads(self, path):
        """Whether the stopped process has the file open."""
        links = pathlib.Path(f"/proc/{self.processes[0]}/fd").iterdir()
        return any(os.readlink(link) == os.fspath(path) for link in links)

    def test_written_into(self):
        path = self.make("file", SMALL)
        words = ["cp", "-a", "tree", self.inside("/")]
        error = self.while_stopped(words, lambda: self.reads(path), lambda: self.write_into(path))
        self.assertEqual(error, b"warren cp: 'tree/file'" + CHANGED)
        self.warren("cp", "-au", "tree", self.inside("/"))
        self.warren("cp", self.inside("/tree/file"), "back")
        self.run_program("cmp", "tree/file", "back")

    def test_a_target_that_becomes_a_link(self):
        self.make("file", SMALL).chmod(0o644)
        self.warren("cp", "-p", "tree/file", self.inside("/file"))
        victim = self.write("victim", mode=0o600)
        own = self.folder / "own"

        def change():
            own.rename(self.folder / "moved")
            own.symlink_to(victim)

        self.while_stopped(["cp", "-p", self.inside("/file"), "own"],
                           lambda: own.exists() and own.stat().st_size > 0, change)
        self.assertEqual(victim.stat().st_mode & 0o777, 0o600)

    def test_what_is_incomplete_is_copied_again(self):
        path = self.make("file", SMALL)
        self.image.unlink()
        self.make_volume("32M")
        for mode in ("-u", "-au"):
            self.assertIn("No space", self.error("cp", mode, path, self.inside("/file")))
        self.warren("resize", self.image, "128M")
        self.warren("cp", "-u", path, self.inside("/file"))
        self.warren("cp", self.inside("/file"), "back")
        self.run_program("cmp", path, "back")

    def test_a_pipe_is_written_into(self):
        self.warren("cp", self.write("file", b"contents"), self.inside("/file"))
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        ends = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
        try:
            self.warren("cp", self.inside("/file"), "pipe")
            self.assertTrue(pipe.is_fifo())
            self.assertEqual(os.read(ends, 100), b"contents")
        finally:
            os.close(ends)


if __name__ == "__main__":
    unittest.main(verbosity=2)
