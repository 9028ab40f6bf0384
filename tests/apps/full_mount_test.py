#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A write to a full volume through the kernel's page cache fails in write(2), after at most what
fits plus what the kernel may hold back. Blocks of existing files can be overwritten."""

import errno
import mmap
import os
import subprocess
import sys
import time
import unittest

import mounted
from mounted import Volume, run

MIB = 1 << 20
VOLUME_BYTES = 256 * MIB
PAGE = 4096
NO_SPACE = os.strerror(errno.ENOSPC)

# Writes segments until write(2) fails, with the flags of its argument; prints the bytes written.
WRITER = """
import errno, os, sys
file = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY | int(sys.argv[2]))
piece = bytes(int(sys.argv[3]))
done = 0
try:
    while done < 1 << 30:
        done += os.write(file, piece)
except OSError as error:
    assert error.errno == errno.ENOSPC, error
    print(done)
"""


class FullMountTest(unittest.TestCase):
    def setUp(self):
        self.volume = Volume(str(VOLUME_BYTES))
        self.addCleanup(self.volume.remove)
        self.volume.mount()
        number = os.stat(self.volume.root).st_dev
        self.settings = f"/sys/class/bdi/{os.major(number)}:{os.minor(number)}"

    def path(self, name):
        return os.path.join(self.volume.root, name)

    def available(self):
        facts = os.statvfs(self.volume.root)
        return facts.f_bavail * facts.f_bsize

    def held_back(self):
        """The number of bytes that the kernel may hold back."""
        with open(f"{self.settings}/max_bytes", encoding="ascii") as file:
            return int(file.read())

    def leave(self, size):
        """Fills the volume except for `size` bytes, and waits until the mount has noticed."""
        filler = os.open(self.path("filler"), os.O_CREAT | os.O_WRONLY)
        mounted.fallocate(filler, 0, os.fstat(filler).st_size, self.available() - size)
        os.close(filler)
        time.sleep(0.1)

    def start(self, name, flags=0, piece=MIB):
        return subprocess.Popen([sys.executable, "-c", WRITER, self.path(name), str(flags),
                                 str(piece)], stdout=subprocess.PIPE, text=True)

    def expect_bound(self, count, write):
        """`count` writers fill the volume by calling `write`, which returns the bytes that each has
        written."""
        room = self.available() + 2 * MIB * (1 + count)
        before = self.held_back()
        done = write()
        # A refused write of one file frees room in the page cache for the others. The limit changes
        # with the free memory.
        # with the memory that is free.
        held_back = count * max(before, self.held_back())
        self.assertGreater(sum(done), room // 2, f"{done}")
        self.assertLessEqual(sum(done), room + held_back, f"{done}")
        self.assertEqual(self.available(), 0)

    def expect_end(self, writers):
        """All writers get an error, and have not written much more than there was room for."""
        def write():
            processes = [self.start(*writer) for writer in writers]
            done = [int(process.communicate(timeout=120)[0] or -1) for process in processes]
            self.assertNotIn(-1, done)
            return done
        self.expect_bound(len(writers), write)

    def test_a_write_ends_capabilities(self):
        """Also where the kernel hands it on without its page cache, as it does when little space
        is left."""
        capabilities = b"\x01\x00\x00\x02" + b"\x00\x04" + bytes(14)
        for left in (64 * MIB, MIB):
            with self.subTest(left=left):
                self.leave(left)
                path = self.path(f"program{left}")
                file = os.open(path, os.O_CREAT | os.O_WRONLY, 0o755)
                os.write(file, bytes(PAGE))
                os.close(file)
                os.setxattr(path, "security.capability", capabilities)
                file = os.open(path, os.O_WRONLY)
                os.write(file, b"another program")
                os.close(file)
                with self.assertRaises(OSError) as caught:
                    os.getxattr(path, "security.capability")
                self.assertEqual(caught.exception.errno, errno.ENODATA)

    def test_the_kernel_holds_back_no_more_than_an_eighth(self):
        """The limit may differ as far as the free memory has changed since it was set."""
        self.assertLessEqual(self.held_back(), VOLUME_BYTES // 8 * 1.1)

    def test_one_writer(self):
        self.expect_end([("f",)])

    def test_dd_as_it_is(self):
        """dd does not print how much it has written if close(2) fails as well."""
        def write():
            words = ("dd", f"of={self.path('f')}", "bs=1M", "iflag=fullblock")
            given = 0
            with subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
                try:
                    while given < 4 * VOLUME_BYTES:
                        given += os.write(process.stdin.fileno(), bytes(MIB))
                except BrokenPipeError:
                    pass
                self.assertIn(b"error writing", process.stderr.read())
            self.assertEqual(process.returncode, 1)
            return [given]
        self.expect_bound(1, write)

    def test_one_writer_that_appends_small_pieces(self):
        self.leave(20 * MIB)
        with open(self.path("f"), "wb") as file:
            file.write(b"bytes")
        self.expect_end([("f", os.O_APPEND, 5000)])

    def test_many_writers(self):
        self.expect_end([(f"f{i}", os.O_APPEND * (i % 2), 100_000 * (i + 1)) for i in range(6)])

    def fill(self, file, offset):
        """Appends to the file until write(2) fails."""
        with self.assertRaises(OSError) as caught:
            while offset < 4 * VOLUME_BYTES:
                offset += os.pwrite(file, bytes(MIB), offset)
        self.assertEqual(caught.exception.errno, errno.ENOSPC)

    def test_blocks_that_are_there_can_be_overwritten(self):
        self.leave(2 * self.held_back() + 8 * MIB)  # enough for opens through the page cache
        with open(self.path("f"), "wb") as file:
            file.write(b"a" * (8 * MIB))
            os.fsync(file.fileno())
        cached = os.open(self.path("f"), os.O_RDWR)
        idle = os.open(self.path("f"), os.O_RDWR)
        reader = os.open(self.path("f"), os.O_RDONLY)
        self.fill(cached, 8 * MIB)
        # What the kernel still holds is refused now, which fsync(2) reports.
        for file in (cached, idle):
            with self.assertRaises(OSError) as caught:
                os.fsync(file)
            self.assertEqual(caught.exception.errno, errno.ENOSPC)
        # Each descriptor that could have written gets one more error, from write(2).
        for file in (cached, idle):
            self.is_told(os.pwrite, file, b"b", 0)
        self.assertEqual(os.fstat(reader).st_size, os.fstat(cached).st_size)
        for file in (cached, idle, os.open(self.path("f"), os.O_RDWR)):
            letter = bytes([98 + file % 20])
            self.assertEqual(os.pwrite(file, letter * (8 * MIB), 0), 8 * MIB)
            os.fsync(file)
            self.assertEqual(os.pread(reader, 8 * MIB, 0), letter * (8 * MIB))
            os.close(file)
        os.close(reader)
        mounted.drop_caches()
        with open(self.path("f"), "rb") as file:
            self.assertEqual(file.read(8 * MIB), letter * (8 * MIB))
        os.unlink(self.path("filler"))
        # syncfs(2) reports each error once.
        self.assertIn(NO_SPACE, run("sync", self.volume.root, code=1).stderr)
        run("sync", self.volume.root)
        with open(self.path("again"), "wb") as file:
            file.write(bytes(100 * MIB))
            os.fsync(file.fileno())

    def refused_write(self):
        """A file open for writing, of which the volume has refused data that the kernel held
        back."""
        self.leave(2 * self.held_back())  # enough for opens through the page cache
        file = os.open(self.path("log"), os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        self.leave(0)
        os.write(file, b"r" * PAGE)
        self.assertIn(NO_SPACE, run("sync", self.volume.root, code=1).stderr)
        return file

    def fails_for_space(self, call, *arguments):
        with self.assertRaises(OSError) as caught:
            call(*arguments)
        self.assertEqual(caught.exception.errno, errno.ENOSPC)

    def is_told(self, *write):
        """Whether write(2) reports it, once the kernel has dropped the attributes. The daemon tells
        the kernel to drop them after its reply, so a refused process may be slightly faster."""
        for _ in range(100):
            try:
                write[0](*write[1:])
            except OSError as error:
                self.assertEqual(error.errno, errno.ENOSPC)
                return
            time.sleep(0.02)
        self.fail("no write was told")

    def test_a_slow_writer_is_told_although_others_look_at_its_file(self):
        """Each descriptor gets one error for each refusal; reading the file's attributes reports
        none."""
        file = self.refused_write()
        second = os.open(self.path("log"), os.O_RDONLY)
        for _ in range(2):
            for _ in range(3):
                os.stat(self.path("log"))
                os.fstat(file)
                os.fstat(second)
                os.listdir(self.volume.root)
            self.is_told(os.write, file, b"told")
            self.assertEqual(os.write(file, b"h" * PAGE), PAGE)
            self.fails_for_space(os.fsync, file)
        os.close(second)
        os.close(file)

    def test_write_does_not_tell_of_a_refusal_once_there_is_room(self):
        """fsync(2) reports it instead."""
        file = self.refused_write()
        os.unlink(self.path("filler"))
        while self.available() < self.held_back():
            time.sleep(0.02)
        time.sleep(0.1)
        self.assertEqual(os.write(file, b"s" * PAGE), PAGE)
        self.fails_for_space(os.fsync, file)
        os.fsync(file)
        os.close(file)
        run("sync", self.volume.root)
        mounted.drop_caches()
        with open(self.path("log"), "rb") as stored:
            self.assertEqual(stored.read(), bytes(PAGE) + b"s" * PAGE)

    def test_small_files_are_refused_by_write(self):
        """For files opened when there is hardly any room."""
        self.leave(2 * MIB)
        stored = []
        with self.assertRaises(OSError) as caught:
            while len(stored) < 1000:
                number = len(stored)
                file = os.open(self.path(f"s{number}"), os.O_CREAT | os.O_WRONLY)
                try:
                    stored.append(os.write(file, bytes([number % 256]) * 10_000))
                finally:
                    os.close(file)
        self.assertEqual(caught.exception.errno, errno.ENOSPC)
        self.assertGreater(len(stored), 100)
        mounted.drop_caches()
        for number, length in enumerate(stored):
            with open(self.path(f"s{number}"), "rb") as file:
                self.assertEqual(file.read(), bytes([number % 256]) * length)

    def test_files_of_a_nearly_full_volume_are_files(self):
        """They can be mapped, have new times once they are closed, and share cached pages."""
        self.leave(4 * MIB)
        file = os.open(self.path("f"), os.O_CREAT | os.O_RDWR)
        made = os.fstat(file)
        time.sleep(0.03)
        os.write(file, b"a" * 10_000)
        with mmap.mmap(file, 10_000) as memory:
            memory[5000:5005] = b"bytes"
            self.assertEqual(os.pread(file, 5, 5000), b"bytes")
            os.pwrite(file, b"other", 7000)
            self.assertEqual(memory[7000:7005], b"other")
        os.close(file)
        for _ in range(100):  # the kernel reports the close of a file a little later
            facts = os.stat(self.path("f"))
            if facts.st_mtime_ns > made.st_mtime_ns:
                break
            time.sleep(0.02)
        self.assertGreater(facts.st_mtime_ns, made.st_mtime_ns)
        self.assertGreater(facts.st_ctime_ns, made.st_ctime_ns)
        with open(self.path("f"), "rb") as file:
            self.assertEqual(file.read(), b"a" * 5000 + b"bytes" + b"a" * 1995 + b"other" +
                             b"a" * 2995)

    def tearDown(self):
        self.volume.unmount()
        self.volume.check()


if __name__ == "__main__":
    mounted.main()
