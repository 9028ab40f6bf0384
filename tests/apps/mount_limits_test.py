#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The limits of a mount: a full volume, very deep trees, very large files, names of any bytes, a
killed daemon, mount(8) as the caller. Nothing is lost, and the volume is clean."""

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
import unittest

import mounted
from kill_verbs_test import can_be_locked, wait_until
from mounted import MountedTest, Volume, drop_caches, run

SEED = int(os.environ.get("WARREN_SEED", random.randrange(1 << 31)))

TIB = 1 << 40
DEPTH = 10_000

# Written bytes must be reported as data, although the kernel still holds them back.
SEEKING_WRITER = """
import os, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
size = 8 << 20
try:
    while True:
        for offset in range(0, size, 1 << 20):
            os.pwrite(file, b"x" * (1 << 20), offset)
        if os.lseek(file, 0, os.SEEK_DATA) != 0 or os.lseek(file, 0, os.SEEK_HOLE) != size:
            os._exit(3)
        print(flush=True)
except OSError:
    os._exit(0)
"""


class FullTest(unittest.TestCase):
    def setUp(self):
        self.volume = Volume("64M")
        self.addCleanup(self.volume.remove)
        self.volume.mount()

    def path(self, name):
        return os.path.join(self.volume.root, name)

    def fill(self, name, size):
        """Writes until there is no space; returns whether the writer got an error."""
        try:
            with open(self.path(name), "wb", buffering=0) as file:
                for _ in range(size >> 20):
                    file.write(bytes(1 << 20))
                os.fsync(file.fileno())
        except OSError as error:
            self.assertEqual(error.errno, errno.ENOSPC)
            return True
        return False

    def test_nothing_is_lost_and_deleting_works(self):
        kept = os.urandom(5 << 20)
        with open(self.path("kept"), "wb") as file:
            file.write(kept)
        self.assertTrue(self.fill("large", 200 << 20))
        count = 0
        with self.assertRaises(OSError) as caught:
            while True:
                os.close(os.open(self.path(f"s{count}"), os.O_CREAT | os.O_WRONLY))
                count += 1
        self.assertEqual(caught.exception.errno, errno.ENOSPC)
        drop_caches()
        with open(self.path("kept"), "rb") as file:
            self.assertEqual(file.read(), kept)
        os.unlink(self.path("large"))
        for i in range(0, count, 2):
            os.unlink(self.path(f"s{i}"))
        with open(self.path("again"), "wb") as file:
            file.write(kept)
            file.flush()
            os.fsync(file.fileno())
        self.volume.unmount()
        self.volume.check()
        self.volume.mount()
        for name in ("kept", "again"):
            with open(self.path(name), "rb") as file:
                self.assertEqual(file.read(), kept)
        self.assertEqual(len(os.listdir(self.volume.root)), 2 + count // 2)
        self.volume.unmount()

    def space(self):
        facts = os.statvfs(self.volume.root)
        return facts.f_bfree, facts.f_bavail, facts.f_ffree

    def wait_for_space(self, wanted, has_refused):
        """The kernel reports a close slightly after close(2), and the mount checks slightly later
        whether it is full. syncfs(2) reports once a write-back that the volume `has_refused`."""
        for _ in range(100):
            if self.space()[0] == wanted[0]:
                break
            time.sleep(0.1)
        time.sleep(0.1)
        told = run("sync", self.volume.root, code=int(has_refused)).stderr
        self.assertEqual(os.strerror(errno.ENOSPC) in told, has_refused, told)
        self.assertEqual(self.space(), wanted)

    def write_until_full(self, name):
        """The number of blocks that can be written to a file: first 1 MiB at a time, then single
        blocks."""
        file = os.open(self.path(name), os.O_CREAT | os.O_WRONLY | os.O_SYNC)
        written = 0
        for length in (1 << 20, 4096):
            with self.assertRaises(OSError) as caught:
                while True:
                    written += os.write(file, bytes(length))
            self.assertEqual(caught.exception.errno, errno.ENOSPC)
        os.close(file)
        return written // 4096

    def test_df_says_what_can_be_had(self):
        run("sync", self.volume.root)
        first = self.space()
        for turn in range(3):
            # The second time the block groups of inodes exist already.
            names = [self.path(f"s{i}") for i in range(20_000 if turn == 1 else 0)]
            for name in names:
                os.close(os.open(name, os.O_CREAT | os.O_WRONLY))
            for name in names:
                os.unlink(name)
            self.wait_for_space(first, has_refused=False)
            # A few blocks hold the metadata of the file.
            self.assertAlmostEqual(self.write_until_full("large"), first[1], delta=8)
            self.assertEqual(self.space()[1], 0)
            self.assertEqual(self.write_until_full("small"), 0)
            os.unlink(self.path("large"))
            os.unlink(self.path("small"))
            self.wait_for_space(first, has_refused=True)
        self.volume.unmount()
        self.volume.check()
        self.volume.mount()
        self.assertEqual(self.space(), first)
        self.assertAlmostEqual(self.write_until_full("large"), first[1], delta=8)
        self.volume.unmount()

    def store(self, name, content, choose):
        """Writes a file in segments, synchronously, with fsync(2) or only with close(2), which also
        makes the kernel write back; returns whether no call reported a lack of space."""
        way = choose.choice(("O_SYNC", "fsync", "close"))
        file = os.open(self.path(name),
                       os.O_CREAT | os.O_WRONLY | (os.O_SYNC if way == "O_SYNC" else 0))
        told = None
        try:
            left = memoryview(content)
            while left:
                left = left[os.write(file, left[:choose.randrange(1, 1 << 20)]):]
            if way == "fsync":
                os.fsync(file)
        except OSError as error:
            told = error.errno
        try:
            os.close(file)
        except OSError as error:
            told = error.errno
        self.assertIn(told, (None, errno.ENOSPC))
        return told is None

    def test_at_the_edge_all_is_kept_or_its_writer_is_told(self):
        print(f"WARREN_SEED={SEED}", flush=True)
        choose = random.Random(SEED)
        kept = {}
        for turn in range(12):
            facts = os.statvfs(self.volume.root)
            # The kernel sends up to 1 MiB at once: such requests, and parts of them, meet the end.
            filler = os.open(self.path("filler"), os.O_CREAT | os.O_WRONLY)
            mounted.fallocate(filler, 0, 0, facts.f_bavail * facts.f_bsize - (5 << 20))
            os.close(filler)
            count = 0
            refused = 0
            while refused < 3:
                name = f"{turn}-{count}"
                content = choose.randbytes(choose.randrange(1, 2 << 20))
                if self.store(name, content, choose):
                    kept[name] = content
                else:
                    refused += 1
                count += 1
                self.assertLess(count, 10_000, "nobody is told that the volume is full")
            self.expect(kept)
            if turn == 5:
                self.volume.unmount()
                self.volume.check()
                self.volume.mount()
                self.expect(kept)
            for name in os.listdir(self.volume.root):
                if turn < 11 or name not in kept:
                    os.unlink(self.path(name))
            if turn < 11:
                kept.clear()
        self.volume.unmount()
        self.volume.check()
        self.volume.mount()
        self.expect(kept)
        self.volume.unmount()

    def expect(self, contents):
        """The files have these contents, not only in the kernel's caches."""
        for name, content in contents.items():
            with open(self.path(name), "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                self.assertTrue(file.read() == content, name)


class LimitsTest(MountedTest):
    def dig(self):
        home = os.getcwd()
        os.chdir(self.folder)
        try:
            for _ in range(DEPTH):
                os.mkdir("d")
                os.chdir("d")
            with open("leaf", "wb") as file:
                file.write(b"deep")
        finally:
            os.chdir(home)

    def test_deep_trees(self):
        self.dig()
        found = run("find", self.folder, "-name", "leaf").stdout
        self.assertEqual(found.count("/d"), DEPTH + self.folder.count("/d"))
        run("rm", "-r", self.path("d"))
        self.assertEqual(os.listdir(self.folder), [])
        self.dig()
        subprocess.run(["rm", "-rf", self.path("d")], check=True)
        self.assertEqual(os.listdir(self.folder), [])

    def test_any_name(self):
        names = [bytes([byte]) for byte in range(1, 256) if byte not in b"/."]
        names += [b"...", b"-rf", b"a\nb", b"\xff" * 255, "\u65e5\u672c".encode()]
        folder = os.fsencode(self.folder)
        for name in names:
            with open(os.path.join(folder, name), "wb") as file:
                file.write(name)
        drop_caches()
        self.assertEqual(sorted(os.listdir(folder)), sorted(names))
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                self.assertEqual(file.read(), name)
        self.fails_with(errno.ENAMETOOLONG, os.mkdir, self.path("n" * 256))

    def test_large_sparse_file(self):
        file = os.open(self.path("sparse"), os.O_CREAT | os.O_RDWR)
        os.pwrite(file, b"end", TIB - 3)
        os.pwrite(file, b"middle", TIB // 2)
        self.assertEqual(os.lseek(file, 0, os.SEEK_DATA), TIB // 2)
        self.assertEqual(os.lseek(file, TIB // 2, os.SEEK_HOLE), TIB // 2 + 4096)
        self.assertEqual(os.lseek(file, TIB // 2 + 4096, os.SEEK_DATA), TIB - 4096)
        self.fails_with(errno.ENXIO, os.lseek, file, TIB, os.SEEK_DATA)
        subprocess.run(["cp", "--sparse=auto", self.path("sparse"), self.path("copy")], check=True,
                       timeout=60)
        facts = os.stat(self.path("copy"))
        self.assertEqual(facts.st_size, TIB)
        self.assertLess(facts.st_blocks, 64)
        copy = os.open(self.path("copy"), os.O_RDONLY)
        self.assertEqual(os.pread(copy, 6, TIB // 2), b"middle")
        self.assertEqual(os.pread(copy, 6, TIB - 3), b"end")
        self.fails_with(errno.EFBIG, os.ftruncate, file, (1 << 63) - 1)
        os.close(copy)
        os.close(file)


class LifeTest(unittest.TestCase):
    def setUp(self):
        self.volume = Volume("64M")
        self.addCleanup(self.volume.remove)

    def mounts(self):
        with open("/proc/self/mounts", encoding="utf-8") as table:
            return [line.split() for line in table if line.split()[1] == self.volume.root]

    def daemon(self):
        return json.loads(run("info", self.volume.root, "--json").stdout)[0]["process"]

    def kill_daemon(self):
        number = self.daemon()
        os.kill(number, signal.SIGKILL)
        self.assertTrue(wait_until(lambda: can_be_locked(self.volume.image)))

    def test_killed_daemon(self):
        self.volume.mount()
        file = os.open(os.path.join(self.volume.root, "f"), os.O_CREAT | os.O_WRONLY)
        os.write(file, b"synced")
        os.fsync(file)
        os.close(file)
        self.kill_daemon()
        with self.assertRaises(OSError) as caught:
            os.listdir(self.volume.root)
        self.assertIn(caught.exception.errno, (errno.ENOTCONN, errno.ECONNABORTED))
        done = run("info", self.volume.root, code=None)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.volume.mount()  # replaces the dead mount
        self.assertEqual(len(self.mounts()), 1)
        with open(os.path.join(self.volume.root, "f"), "rb") as file:
            self.assertEqual(file.read(), b"synced")
        self.kill_daemon()
        self.volume.unmount()
        self.assertEqual(self.mounts(), [])
        self.volume.check()

    def test_doctor_of_a_stopped_daemon(self):
        self.volume.mount()
        number = self.daemon()
        mounted.stop(number)
        try:
            done = run("doctor", "-q", self.volume.root, code=1)
        finally:
            os.kill(number, signal.SIGCONT)
        self.assertIn("has not answered", done.stdout)

    def test_cut_while_a_writer_seeks(self):
        """A second signal aborts the connection; no process may hang."""
        daemon = subprocess.Popen([mounted.WARREN, "mount", "-f", self.volume.image,
                                   self.volume.root], stderr=subprocess.DEVNULL)
        while not self.volume.is_mounted():
            time.sleep(0.01)
        writer = subprocess.Popen([sys.executable, "-c", SEEKING_WRITER,
                                   os.path.join(self.volume.root, "f")], stdout=subprocess.PIPE)
        self.addCleanup(writer.stdout.close)
        self.addCleanup(writer.kill)
        self.assertEqual(writer.stdout.readline(), b"\n")
        daemon.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        daemon.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.wait(20), 0)
        self.assertEqual(writer.wait(20), 0)
        self.volume.check()

    def helper(self, name, *words, code=0):
        """Calls the program like mount(8) or umount(8)."""
        program = os.path.join(self.volume.folder, name)
        if not os.path.islink(program):
            os.symlink(mounted.WARREN, program)
        done = subprocess.run([program, *words], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, code, done.stderr)

    def test_helpers_of_mount(self):
        image, root = self.volume.image, self.volume.root
        self.helper("mount.warren", image, root, "-o", "rw,noatime")
        self.assertIn("noatime", self.mounts()[0][3])
        shown = self.mounts()[0][3]  # what mount(8) passes at a remount
        self.helper("mount.fuse.warren", image, root, "-o", f"{shown},remount,ro", "-t",
                    "fuse.warren")
        self.assertIn("ro", self.mounts()[0][3].split(","))
        self.helper("mount.fuse.warren", image, root, "-o", f"{shown},remount,rw")
        with open(os.path.join(root, "f"), "wb") as file:
            file.write(b"written")
        self.helper("umount.fuse.warren", root)
        self.assertEqual(self.mounts(), [])
        self.helper("fsck.warren", image)


if __name__ == "__main__":
    mounted.main()
