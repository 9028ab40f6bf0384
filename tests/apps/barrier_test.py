#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a program makes durable through a mount reaches the device with a flush: on a loop device
the kernel counts the flushes that arrive, on an image file strace counts the daemon's calls of
fdatasync. Each fsync, fdatasync, O_SYNC write and fsync of a directory must cause a flush before it
returns, the interval of `commit=` one by itself, and reading none. (Linux does not pass sync(2) and
syncfs(2) on to file systems in user space.)"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import mounted
from mounted import run

WAYS = ("plain", "ring", "direct")
PATIENCE_SECONDS = 20
FLUSHES_FIELD = 15  # of /sys/block/NAME/stat: completed flush requests


def write(path, data, flags=0):
    file = os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o644)
    try:
        os.write(file, data)
    finally:
        os.close(file)


def on_file(path, call):
    file = os.open(path, os.O_RDONLY)
    try:
        call(file)
    finally:
        os.close(file)


class Barriers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="warren-barrier-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.root = os.path.join(self.folder, "mnt")
        self.image = os.path.join(self.folder, "image")
        os.mkdir(self.root)
        with open(self.image, "wb") as file:
            file.truncate(64 << 20)

    def path(self, name):
        return os.path.join(self.root, name)

    def expect_flush(self, count, what, action):
        before = count()
        action()
        self.assertGreater(count(), before, f"{what} came back without a flush")

    def make_all_kinds_durable(self, count):
        for number in range(5):
            name = self.path(f"file{number}")
            write(name, bytes([number]) * 5000)
            self.expect_flush(count, "fsync", lambda: on_file(name, os.fsync))
            write(name, b"more")
            self.expect_flush(count, "fdatasync", lambda: on_file(name, os.fdatasync))
            os.rename(name, name + ".moved")
            self.expect_flush(count, "fsync of a directory", lambda: on_file(self.root, os.fsync))
            self.expect_flush(count, "a write with O_SYNC",
                              lambda: write(self.path("other"), b"again", os.O_SYNC))
        before = count()
        for name in os.listdir(self.root):
            with open(self.path(name), "rb") as file:
                file.read()
        self.assertEqual(count(), before, "reading has flushed")

    def loop_device(self):
        made = subprocess.run(["losetup", "-f", "--show", self.image], capture_output=True,
                              text=True, check=False)
        device = made.stdout.strip()
        if made.returncode != 0:
            self.skipTest(f"no loop device: {made.stderr.strip()}")
        self.addCleanup(subprocess.run, ["losetup", "-d", device], check=False)
        return device

    def flushes_of(self, device):
        path = f"/sys/block/{os.path.basename(device)}/stat"

        def count():
            with open(path, encoding="ascii") as file:
                return int(file.read().split()[FLUSHES_FIELD])
        with open(path, encoding="ascii") as file:
            if len(file.read().split()) <= FLUSHES_FIELD:
                self.skipTest("this kernel does not count flushes")
        return count

    def test_each_sync_flushes_the_device(self):
        device = self.loop_device()
        count = self.flushes_of(device)
        run("mkfs", device)
        for way in WAYS:
            with self.subTest(way=way):
                done = run("mount", "-o", f"commit=1000,disk={way}", device, self.root, code=None)
                if done.returncode != 0:
                    self.skipTest(f"{way}: {done.stderr.strip()}")
                try:
                    self.make_all_kinds_durable(count)
                finally:
                    run("umount", self.root)
        run("fsck", device)

    def test_the_interval_flushes_by_itself(self):
        device = self.loop_device()
        count = self.flushes_of(device)
        run("mkfs", device)
        run("mount", "-o", "commit=1", device, self.root)
        try:
            write(self.path("file"), b"x" * 5000)
            before = count()
            deadline = time.time() + PATIENCE_SECONDS
            while count() == before and time.time() < deadline:
                time.sleep(0.05)
            self.assertGreater(count(), before)
        finally:
            run("umount", self.root)

    def test_each_sync_flushes_the_image(self):
        if not shutil.which("strace"):
            self.skipTest("there is no strace")
        run("mkfs", self.image)
        for way in WAYS:
            with self.subTest(way=way):
                self.trace_mount(way)
        run("fsck", self.image)

    def trace_mount(self, way):
        log = os.path.join(self.folder, f"calls-{way}")
        daemon = subprocess.Popen(
            ["strace", "-f", "-e", "trace=fdatasync,fsync", "-o", log, mounted.WARREN, "mount",
             "-f", "-o", f"commit=1000,disk={way}", self.image, self.root], stderr=subprocess.PIPE)
        try:
            deadline = time.time() + PATIENCE_SECONDS
            while not os.path.ismount(self.root) and time.time() < deadline:
                if daemon.poll() is not None:
                    self.skipTest(f"{way}: {daemon.stderr.read().decode().strip()}")
                time.sleep(0.02)

            def count():
                with open(log, encoding="ascii", errors="replace") as file:
                    return sum(line.rstrip().endswith("= 0") for line in file)
            self.make_all_kinds_durable(count)
        finally:
            run("umount", self.root, code=None)
            try:
                daemon.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                daemon.send_signal(signal.SIGKILL)
                daemon.wait()
            daemon.stderr.close()


if __name__ == "__main__":
    mounted.main()
