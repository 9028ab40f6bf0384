# SPDX-License-Identifier: Apache-2.0
"""A mount with the CUDA engine under MPS, and another client of the same GPU that causes a fault:
the mount loses the GPU and continues with the CPU engine, in the state of its last commit. Needs a
GPU, root, /dev/fuse, nvidia-cuda-mps-control and the program bench/neighbour_bench; skipped
without."""

import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import mounted
from mounted import SKIPPED, Volume, run

FAULT_ROLE = "5"  # role of neighbour_bench: cause a GPU fault
PATIENCE_SECONDS = 10
neighbour = os.path.join(os.environ.get("WARREN_BUILD", ""), "bench", "neighbour_bench")


def skip(reason):
    print("skipped:", reason)
    sys.exit(SKIPPED)


class LostGpuTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="warren-mps-")
        os.environ["CUDA_MPS_PIPE_DIRECTORY"] = cls.folder
        os.environ["CUDA_MPS_LOG_DIRECTORY"] = cls.folder
        subprocess.run(["nvidia-cuda-mps-control", "-d"], check=True)

    @classmethod
    def tearDownClass(cls):
        subprocess.run(["nvidia-cuda-mps-control"], input=b"quit\n", check=False)
        shutil.rmtree(cls.folder, ignore_errors=True)

    def setUp(self):
        self.volume = Volume()
        self.addCleanup(self.volume.remove)
        self.volume.mount("-o", "engine=cuda")

    def path(self, *names):
        return os.path.join(self.volume.root, *names)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="ascii") as file:
            file.write(text)

    def read(self, name):
        with open(self.path(name), encoding="ascii") as file:
            return file.read()

    def engine(self):
        return json.loads(run("info", "--json", self.volume.root).stdout)[0]["engine"]

    def break_the_gpu(self):
        subprocess.run([neighbour, "--role", FAULT_ROLE], check=True)
        # A request, so that the loss is noticed.
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline and self.engine() != "cpu":
            try:
                os.listdir(self.volume.root)
                os.stat(self.path(f"nobody{time.monotonic()}"))
            except OSError:
                pass
            time.sleep(0.05)

    def test_the_mount_lives_on(self):
        self.assertEqual(self.engine(), "cuda")
        os.mkdir(self.path("kept"))
        for number in range(100):
            self.write(f"kept/{number}", f"text {number}")
        self.write("gone", "for a moment")
        run("sync", self.volume.root)
        os.unlink(self.path("gone"))
        self.write("kept/100", "never synced")
        writer = os.open(self.path("kept/7"), os.O_RDWR)
        os.pwrite(writer, b"lost", 1000)
        self.assertEqual(mounted.libc.sync_file_range(writer, 0, 0, 7), 0)  # to the daemon
        self.break_the_gpu()
        self.assertEqual(self.engine(), "cpu")
        with self.assertRaises(OSError) as caught:
            os.fsync(writer)
        self.assertEqual(caught.exception.errno, errno.EIO)
        os.fsync(writer)
        os.close(writer)
        self.assertEqual(sorted(os.listdir(self.path("kept")), key=int),
                         [str(number) for number in range(100)])
        for number in range(100):
            self.assertEqual(self.read(f"kept/{number}"), f"text {number}")
        self.assertFalse(os.path.exists(self.path("kept/100")))
        self.assertEqual(self.read("gone"), "for a moment")
        self.write("kept/100", "made anew")
        self.assertEqual(self.read("kept/100"), "made anew")
        run("rm", "-r", self.path("kept"))
        self.assertEqual(os.listdir(self.volume.root), ["gone"])
        self.volume.unmount()
        self.volume.check()


if __name__ == "__main__":
    mounted.skip_unless_possible()
    if not os.access(neighbour, os.X_OK):
        skip("bench/neighbour_bench is not built")
    if shutil.which("nvidia-cuda-mps-control") is None:
        skip("nvidia-cuda-mps-control is not installed")
    unittest.main()
