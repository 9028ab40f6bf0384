#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Direct I/O through a mount: requests that do not fit on a full volume, sequential and several in
flight, and concurrent readers through the page cache."""

import ctypes
import errno
import mmap
import os
import struct
import time
import unittest

import mounted
from mounted import MountedTest, Volume, checked, libc

MIB = 1 << 20
THREE_WRITES = 3 * MIB + (300 << 10)
IO_SETUP, IO_GETEVENTS, IO_SUBMIT = 206, 208, 209  # system call numbers of x86-64
PWRITE = 1


class Memory:
    """Whole pages, as direct I/O requires."""

    def __init__(self, size):
        self.bytes = mmap.mmap(-1, size)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.bytes))


class Queue:
    """Asynchronous writes, like those of libaio."""

    def __init__(self, length):
        self.context = ctypes.c_ulong()
        checked(libc.syscall(IO_SETUP, length, ctypes.byref(self.context)))

    def write(self, file, pieces):
        """Submits all (address, length, offset) at once; returns their results in order."""
        blocks = [ctypes.create_string_buffer(struct.pack(
            "=QIiHhIQQqQII", number, 0, 0, PWRITE, 0, file, *piece, 0, 0, 0))
            for number, piece in enumerate(pieces)]
        pointers = (ctypes.c_void_p * len(blocks))(*map(ctypes.addressof, blocks))
        done = 0
        while done < len(blocks):
            done += checked(libc.syscall(IO_SUBMIT, self.context, len(blocks) - done,
                                         ctypes.byref(pointers, 8 * done)))
        events = ctypes.create_string_buffer(32 * len(blocks))
        count = checked(libc.syscall(IO_GETEVENTS, self.context, len(blocks), len(blocks), events,
                                     None))
        answers = [0] * count
        for number, _, answer, _ in struct.iter_unpack("=QQqq", events.raw):
            answers[number] = answer
        return answers


class FullTest(unittest.TestCase):
    def setUp(self):
        self.volume = Volume("64M")
        self.addCleanup(self.volume.remove)
        self.volume.mount()
        self.memory = Memory(8 * MIB)
        self.memory.bytes[:] = os.urandom(8 * MIB)

    def path(self, name):
        return os.path.join(self.volume.root, name)

    def leave(self, size):
        """Fills the volume except for `size` bytes."""
        filler = os.open(self.path("filler"), os.O_CREAT | os.O_WRONLY)
        facts = os.statvfs(self.volume.root)
        mounted.fallocate(filler, 0, 0, facts.f_bavail * facts.f_bsize - size)
        os.close(filler)

    def expect(self, pieces):
        """The file f contains these parts of the memory, (begin, end), and not only in the page
        cache."""
        mounted.drop_caches()
        with open(self.path("f"), "rb") as file:
            for begin, end in pieces:
                file.seek(begin)
                self.assertTrue(file.read(end - begin) == self.memory.bytes[begin:end],
                                (begin, end))
        self.volume.unmount()
        self.volume.check()

    def test_a_write_that_does_not_fit(self):
        for left in (0, 300 << 10, 3 * MIB + (8 << 10)):
            with self.subTest(left=left):
                self.leave(left)
                file = os.open(self.path("f"), os.O_CREAT | os.O_RDWR | os.O_DIRECT)
                done = 0
                with self.assertRaises(OSError) as caught:
                    while True:
                        done += os.pwrite(file, memoryview(self.memory.bytes)[done:], done)
                self.assertEqual(caught.exception.errno, errno.ENOSPC)
                self.assertEqual(os.fstat(file).st_size, done)
                self.assertAlmostEqual(done, left, delta=64 << 10)
                os.close(file)
                self.expect([(0, done)])
                self.volume.mount()
                os.unlink(self.path("f"))
                os.unlink(self.path("filler"))
                mounted.run("sync", self.volume.root)

    def submit(self, file):
        """Submits eight writes, of which three and a part of another fit; checks what was
        counted."""
        answers = Queue(8).write(file, [(self.memory.address + i * MIB, MIB, i * MIB)
                                        for i in range(8)])
        for answer in answers:
            self.assertTrue(answer == -errno.ENOSPC or 0 < answer <= MIB, answers)
        stored = [(i * MIB, i * MIB + answer) for i, answer in enumerate(answers) if answer > 0]
        self.assertAlmostEqual(sum(end - begin for begin, end in stored), THREE_WRITES,
                               delta=64 << 10)
        return stored

    def test_writes_in_flight_that_append(self):
        self.leave(THREE_WRITES)
        file = os.open(self.path("f"), os.O_CREAT | os.O_RDWR | os.O_DIRECT)
        stored = self.submit(file)
        os.close(file)
        self.expect(stored)

    def test_writes_in_flight_into_a_hole(self):
        self.leave(THREE_WRITES)
        file = os.open(self.path("f"), os.O_CREAT | os.O_RDWR | os.O_DIRECT)
        os.ftruncate(file, 8 * MIB)
        stored = self.submit(file)
        os.close(file)
        self.expect(stored)


class CacheTest(MountedTest):
    def read_on(self, path, size):
        """Starts a process that reads the file through the page cache until it is killed."""
        reader = os.fork()
        if reader == 0:
            mounted.die_with_parent()
            file = os.open(path, os.O_RDONLY)
            while True:
                os.pread(file, size, 0)
        self.addCleanup(os.waitpid, reader, 0)
        self.addCleanup(os.kill, reader, 9)

    def test_readers_find_what_was_written_directly(self):
        """A page that a reader loads during a direct write must not stay cached."""
        for length, count in ((4096, 16), (2 * MIB, 2)):
            size = length * count
            path = self.write(f"f{length}", bytes(size))
            self.read_on(path, size)
            memory = Memory(size)
            direct = os.open(path, os.O_RDWR | os.O_DIRECT)
            file = os.open(path, os.O_RDONLY)
            queue = Queue(count)
            stale = rounds = 0
            end = time.monotonic() + 2
            while time.monotonic() < end or rounds < 60:
                rounds += 1
                memory.bytes[:] = bytes([rounds % 251 + 1]) * size
                answers = queue.write(direct, [(memory.address + at, length, at)
                                               for at in range(0, size, length)])
                self.assertEqual(answers, [length] * count)
                stale += os.pread(file, size, 0) != memory.bytes[:]
            self.assertEqual(stale, 0, f"of {rounds} rounds, {count} writes of {length} bytes")
            os.close(direct)
            os.close(file)


if __name__ == "__main__":
    mounted.main()
