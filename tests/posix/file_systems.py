# SPDX-License-Identifier: Apache-2.0
"""The file systems that the cases run on: a fresh Warren volume, and ext4 on a loop device as the
reference. Whatever was mounted is unmounted at the end, also after a failure."""

import os
import shutil
import subprocess
import tempfile

WARREN = os.environ.get("WARREN", "")
SIZE_BYTES = 256 << 20


def run(*words):
    """Runs a program; its output if it succeeded, else RuntimeError."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    except FileNotFoundError as error:
        raise RuntimeError(f"{words[0]} is not there") from error
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: exit code {done.returncode}: {done.stderr}")
    return done.stdout


class FileSystem:
    name = ""

    def __init__(self):
        base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.home = tempfile.mkdtemp(prefix=f"posix-{self.name}-", dir=base)
        os.chmod(self.home, 0o755)
        self.image = os.path.join(self.home, "image")
        self.root = os.path.join(self.home, "mnt")
        self.outside = os.path.join(self.home, "outside")
        os.mkdir(self.root)
        os.mkdir(self.outside)
        os.chmod(self.outside, 0o777)

    def remove(self):
        if os.path.ismount(self.root):
            subprocess.run(["umount", "-l", self.root], check=False)
        shutil.rmtree(self.home, ignore_errors=True)


class Warren(FileSystem):
    name = "warren"

    def mount(self):
        if not os.path.exists(self.image):
            run(WARREN, "mkfs", "--size", str(SIZE_BYTES), self.image)
        run(WARREN, "mount", self.image, self.root)

    def make_read_only(self):
        run(WARREN, "mount", "-o", "remount,ro", self.image, self.root)

    def unmount(self):
        run(WARREN, "umount", self.root)

    def check(self):
        run(WARREN, "fsck", self.image)


class Ext4(FileSystem):
    name = "ext4"

    def mount(self):
        if not os.path.exists(self.image):
            with open(self.image, "wb") as file:
                file.truncate(SIZE_BYTES)
            run("mkfs.ext4", "-q", "-F", "-b", "4096", "-I", "256", self.image)
        run("mount", "-o", "loop", self.image, self.root)

    def make_read_only(self):
        run("mount", "-o", "remount,ro", self.root)

    def unmount(self):
        run("umount", self.root)

    def check(self):
        run("e2fsck", "-fn", self.image)
