# SPDX-License-Identifier: Apache-2.0
"""Two mounts with the CUDA engine, so that two processes use one GPU at once, with and without MPS:
both work concurrently, and both volumes are clean at the end. Needs a GPU, root and /dev/fuse;
skipped without. The part with MPS needs nvidia-cuda-mps-control."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

import mounted
from mounted import SKIPPED, Volume, run

ROUNDS = 3
DIRECTORIES = 10
FILES = 50


def work(root, errors):
    """Creates, lists, moves, checks and removes trees, one after the other."""
    try:
        for number in range(ROUNDS):
            tree = os.path.join(root, f"tree{number}")
            for directory in range(DIRECTORIES):
                os.makedirs(os.path.join(tree, str(directory)))
                for file in range(FILES):
                    with open(os.path.join(tree, str(directory), str(file)), "w",
                              encoding="ascii") as stream:
                        stream.write(f"{root} {number} {directory} {file}")
            moved = os.path.join(root, f"moved{number}")
            os.rename(tree, moved)
            run("sync", root)
            for directory in range(DIRECTORIES):
                names = os.listdir(os.path.join(moved, str(directory)))
                assert sorted(map(int, names)) == list(range(FILES)), names
                for file in range(FILES):
                    with open(os.path.join(moved, str(directory), str(file)),
                              encoding="ascii") as stream:
                        assert stream.read() == f"{root} {number} {directory} {file}"
            if number + 1 < ROUNDS:
                run("rm", "-r", moved)
    except Exception as error:  # reported to the thread that waits for this one
        errors.append(error)


class TwoVolumesTest(unittest.TestCase):
    def share_the_gpu(self):
        volumes = [Volume(), Volume()]
        for volume in volumes:
            self.addCleanup(volume.remove)
            volume.mount("-o", "engine=cuda")
            told = json.loads(run("info", "--json", volume.root).stdout)[0]
            self.assertEqual(told["engine"], "cuda")
        errors = []
        threads = [threading.Thread(target=work, args=(volume.root, errors)) for volume in volumes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])
        for volume in volumes:
            told = json.loads(run("info", "--json", volume.root).stdout)[0]
            self.assertEqual(told["engine"], "cuda")
            self.assertEqual(os.listdir(volume.root), [f"moved{ROUNDS - 1}"])
            volume.unmount()
            volume.check()

    def test_without_mps(self):
        self.share_the_gpu()

    def test_under_mps(self):
        if shutil.which("nvidia-cuda-mps-control") is None:
            self.skipTest("nvidia-cuda-mps-control is not installed")
        folder = tempfile.mkdtemp(prefix="warren-mps-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        for variable in ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"):
            os.environ[variable] = folder
            self.addCleanup(os.environ.pop, variable)
        subprocess.run(["nvidia-cuda-mps-control", "-d"], check=True)
        self.addCleanup(subprocess.run, ["nvidia-cuda-mps-control"], input=b"quit\n", check=False)
        self.share_the_gpu()


if __name__ == "__main__":
    mounted.skip_unless_possible()
    if not os.path.exists("/dev/nvidiactl"):
        print("skipped: there is no GPU")
        sys.exit(SKIPPED)
    unittest.main()
