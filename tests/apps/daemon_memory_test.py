#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The memory of a mount's daemon: it is returned after the objects that needed it are removed, and
serving any number of commands does not increase it."""

import array
import os
import socket
import struct
import subprocess
import threading
import time
import unittest

import mounted
from mounted import control_frame, control_path, run

BUILD = os.environ.get("WARREN_BUILD", "")
PROCESS = os.path.join(BUILD, "tests", "ring_process")
BOUND_KIB = 16 << 10  # docs/DESIGN.md, The mount
PATIENCE_SECONDS = 60

# apps/fuse/control_protocol.hpp
INFO, SYNC, USAGE, OPEN_RING, ANSWER = 1, 2, 9, 10, 101


def memory_kib(process):
    with open(f"/proc/{process}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssAnon"))


def receive(peer, count):
    data = b""
    while len(data) < count:
        part = peer.recv(count - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def ask(path, verb, payload=b"", descriptors=()):
    """Sends one request over a new connection; returns the error number of its answer."""
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(PATIENCE_SECONDS)
        peer.connect(path)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
        peer.sendmsg([control_frame(verb, payload)],
                     rights if descriptors else [])
        while True:
            length, kind, _ = struct.unpack("<IHH", receive(peer, 8))
            answer = receive(peer, length)
            if kind == ANSWER:
                break
        if verb == OPEN_RING:
            peer.recv(64)  # returns when the ring is served
        return struct.unpack("<Q", answer[:8])[0]


class DaemonMemory(unittest.TestCase):
    def setUp(self):
        self.volume = mounted.Volume("512M")
        self.volume.mount()
        self.root = self.volume.root
        self.daemon = self.volume.process()
        os.listdir(self.root)
        run("sync", self.root)
        self.at_start = memory_kib(self.daemon)
        self.ended = threading.Event()
        self.watcher = threading.Thread(target=self.watch)
        self.watcher.start()

    def watch(self):
        """Asks for the free space now and then, as programs that watch a system do."""
        while not self.ended.wait(1):
            os.statvfs(self.root)

    def tearDown(self):
        self.ended.set()
        self.watcher.join()
        try:
            self.volume.unmount()
            self.volume.check()
        finally:
            self.volume.remove()

    def growth(self):
        return memory_kib(self.daemon) - self.at_start

    def test_comes_back_when_all_is_removed(self):
        for _ in range(2):
            for i in range(10):
                folder = os.path.join(self.root, "tree", f"d{i}")
                os.makedirs(folder)
                done = subprocess.run([PROCESS, "create", folder, "f", "5000"],
                                      capture_output=True, text=True, check=True)
                self.assertEqual(done.stdout, '{"0": 5000}\n')
                for entry in os.scandir(folder):
                    entry.stat(follow_symlinks=False)
            run("sync", self.root)
            self.assertGreater(self.growth(), BOUND_KIB * 3 // 2, "nothing that could come back")
            run("rm", "-r", os.path.join(self.root, "tree"))
            run("sync", self.root)
            deadline = time.time() + PATIENCE_SECONDS
            while self.growth() > BOUND_KIB and time.time() < deadline:
                mounted.drop_caches()  # an inode that the kernel keeps holds 2 MiB of memory
                time.sleep(0.5)
            self.assertLess(self.growth(), BOUND_KIB)

    def test_thousands_of_verbs_leave_nothing_behind(self):
        path = control_path(self.root)
        for i in range(300):
            with open(os.path.join(self.root, f"f{i}"), "wb"):
                pass
        root = os.open(self.root, os.O_RDONLY)
        usage = struct.pack("<QQQ", 0, 9, 0)  # of the root, depth 9, without hard links
        calls = [(INFO, b"", ()), (SYNC, b"", ()), (USAGE, usage, (root,)),
                 (INFO, b"", ()), (USAGE, usage, (root,)), (OPEN_RING, b"", ())]
        codes = []

        def work(first):
            for i in range(650):
                codes.append(ask(path, *calls[(first + i) % len(calls)]))

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        os.close(root)
        self.assertEqual(codes, [0] * (8 * 650))
        self.assertLess(self.growth(), BOUND_KIB)


if __name__ == "__main__":
    if not os.access(PROCESS, os.X_OK):
        print("skipped: WARREN_BUILD does not name the build folder")
        raise SystemExit(mounted.SKIPPED)
    mounted.main()
