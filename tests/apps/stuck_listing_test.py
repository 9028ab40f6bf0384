#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A process holds the lock of a directory of a mount for as long as it likes: it lists the
directory into memory that is mapped from a file of another FUSE file system, which never answers
READ. A notification about a name in that directory then waits in the kernel. Bulk commands, other
users of the mount and the end of the daemon must not wait for it without limit."""

import ctypes
import errno
import mmap
import os
import signal
import stat
import struct
import unittest

import mounted
from kill_verbs_test import can_be_locked, is_gone, wait_until, within
from mounted import Volume, checked, libc, run

PATIENCE_SECONDS = 20
NOTIFICATION_SECONDS = 5  # Invalidator::patience
MNT_DETACH = 2
PAGE = 4096
FUSE_LOOKUP, FUSE_FORGET, FUSE_GETATTR, FUSE_OPEN, FUSE_READ, FUSE_INIT = 1, 2, 3, 14, 15, 26
FUSE_INTERRUPT, FUSE_BATCH_FORGET = 36, 42
ROOT, FILE = 1, 2  # nodes of the other file system


def attributes(node):
    mode = stat.S_IFDIR | 0o755 if node == ROOT else stat.S_IFREG | 0o666
    size = 0 if node == ROOT else PAGE
    return struct.pack("<6Q10I", node, size, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, PAGE, 0)


def answer_to(opcode, node):
    """The body of an answer, or the number of an error."""
    if opcode == FUSE_INIT:
        return struct.pack("<4I2H2I2H8I", 7, 31, PAGE, 0, 16, 12, PAGE, 1, 1, 0, *[0] * 8)
    if opcode == FUSE_LOOKUP:
        return struct.pack("<4Q2I", FILE, 0, 3600, 3600, 0, 0) + attributes(FILE)
    if opcode == FUSE_GETATTR:
        return struct.pack("<Q2I", 3600, 0, 0) + attributes(node)
    if opcode == FUSE_OPEN:
        return struct.pack("<Q2I", 0, 0, 0)
    return errno.ENOSYS


def serve_dead_mount(place, told):
    """A file system with one file; writes to `told` when it is mounted and when a READ came, which
    it leaves unanswered."""
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
    checked(libc.mount(b"dead", os.fsencode(place), b"fuse", 0, options))
    os.write(told, b"m")
    while True:
        request = os.read(device, 1 << 17)
        _, opcode, unique, node = struct.unpack_from("<IIQQ", request)
        if opcode == FUSE_READ:
            os.write(told, b"r")
        if opcode in (FUSE_READ, FUSE_FORGET, FUSE_INTERRUPT, FUSE_BATCH_FORGET):
            continue
        answer = answer_to(opcode, node)
        error, body = (-answer, b"") if isinstance(answer, int) else (0, answer)
        os.write(device, struct.pack("<IiQ", 16 + len(body), error, unique) + body)


def list_into_dead_memory(directory, file):
    """Does not return before the other file system ends."""
    listed = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    opened = os.open(file, os.O_RDWR)
    memory = mmap.mmap(opened, PAGE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc.getdents64(listed, ctypes.c_void_p(address), ctypes.c_size_t(PAGE))


def start(work, *arguments):
    child = os.fork()
    if child == 0:
        try:
            mounted.die_with_parent()
            work(*arguments)
        finally:
            os._exit(1)
    return child


class StuckListing(unittest.TestCase):
    def setUp(self):
        self.volume = Volume("64M")
        self.addCleanup(self.volume.remove)
        self.dead = os.path.join(self.volume.folder, "dead")
        os.mkdir(self.dead)
        self.children = []
        self.addCleanup(self.release)
        self.volume.mount()
        self.daemon = self.volume.process()

    def path(self, *names):
        return os.path.join(self.volume.root, *names)

    def make_tree(self, name):
        os.makedirs(self.path(name, "below"))
        for i in range(10):
            with open(self.path(name, "below", f"f{i}"), "wb") as file:
                file.write(b"x" * 5000)
        os.listdir(self.path(name, "below"))

    def hold(self, directory):
        """Returns when a process hangs in the listing of the directory."""
        told, tell = os.pipe()
        self.children.append(start(serve_dead_mount, self.dead, tell))
        os.close(tell)
        with os.fdopen(told, "rb", buffering=0) as told:
            self.assertEqual(told.read(1), b"m")
            self.children.append(
                start(list_into_dead_memory, directory, os.path.join(self.dead, "file")))
            self.assertEqual(within(PATIENCE_SECONDS, lambda: told.read(1)), b"r")

    def release(self):
        """Ends the other file system, and so the listing."""
        for child in self.children:
            os.kill(child, signal.SIGKILL)
        for child in self.children:
            os.waitpid(child, 0)
        if self.children:
            libc.umount2(os.fsencode(self.dead), MNT_DETACH)
        self.children = []

    def promptly(self, *words, code=0, seconds=PATIENCE_SECONDS):
        return within(seconds, lambda: run(*words, code=code))

    def test_commands_go_on_and_the_daemon_ends(self):
        self.make_tree("held/tree")
        self.make_tree("other")
        self.hold(self.path("held"))
        self.promptly("rm", "-r", self.path("held/tree"))
        # A command that has nothing to do with that directory does not wait at all.
        self.promptly("rm", "-r", self.path("other"), seconds=NOTIFICATION_SECONDS - 1)
        self.assertFalse(os.path.exists(self.path("other")))
        self.promptly("sync", self.volume.root)
        self.assertIn("busy", self.promptly("umount", self.volume.root, code=32).stderr)
        self.promptly("umount", "-f", "-l", self.volume.root)
        self.assertTrue(wait_until(lambda: can_be_locked(self.volume.image), PATIENCE_SECONDS))
        self.volume.check()
        self.release()
        self.assertTrue(wait_until(lambda: is_gone(self.daemon), PATIENCE_SECONDS))

    def test_a_signal_ends_the_daemon(self):
        self.make_tree("held/tree")
        self.hold(self.path("held"))
        self.promptly("rm", "-r", self.path("held/tree"))
        with open(self.path("written"), "wb") as file:
            file.write(b"kept")
        os.kill(self.daemon, signal.SIGTERM)
        # It serves the mount for 10 s more, since it is in use.
        self.assertTrue(wait_until(lambda: can_be_locked(self.volume.image), 2 * PATIENCE_SECONDS))
        self.release()
        self.assertTrue(wait_until(lambda: is_gone(self.daemon), PATIENCE_SECONDS))
        self.volume.check()
        self.volume.mount()
        with open(self.path("written"), "rb") as file:
            self.assertEqual(file.read(), b"kept")
        self.volume.unmount()

    def test_names_are_dropped_once_the_lock_is_released(self):
        self.make_tree("held/tree")
        os.stat(self.path("held/tree/below/f0"))
        self.hold(self.path("held"))
        self.promptly("rm", "-r", self.path("held/tree"))
        self.release()
        self.assertTrue(wait_until(lambda: not os.path.exists(self.path("held/tree"))))
        self.promptly("umount", self.volume.root)
        self.volume.check()

    def test_the_removed_directory_itself_is_held(self):
        """What the kernel caches in it is dropped after the command; others do not wait."""
        for name in ("held", "other", "third"):
            self.make_tree(name)
        self.hold(self.path("held"))
        for name in ("held", "other", "third"):
            self.promptly("rm", "-r", self.path(name), seconds=NOTIFICATION_SECONDS - 1)
            self.assertFalse(os.path.exists(self.path(name)))
        self.release()
        self.promptly("umount", self.volume.root)
        self.volume.check()


if __name__ == "__main__":
    mounted.main()
