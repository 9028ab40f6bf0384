# SPDX-License-Identifier: Apache-2.0
"""Damaged metadata of a mounted volume: EIO for the object that they belong to and for no other,
one line for it in the daemon's log, everything else continues, including writes; a check names the
paths and repairs. Needs root and /dev/fuse; skipped without."""

import errno
import os
import struct
import subprocess
import time

import mounted
from mounted import WARREN, Volume, run

BLOCK = 4096
DIRECTORY_LEAF, EXTENT_LEAF, ATTRIBUTES, LINK_TARGET = 4, 6, 8, 11  # kinds of blocks
PATIENCE_SECONDS = 20
TIMES = 5  # how often each damaged object is accessed
LINES_MAX = 100  # most lines that the daemon logs


def flip(image, place):
    with open(image, "r+b") as file:
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ 0x40]))


def find_block(image, kind, owner):
    """The address of a block according to its header, excluding its copy in the journal."""
    with open(image, "rb") as file:
        place = 0
        while header := file.read(BLOCK)[:40]:
            found_kind, found_place, found_owner = struct.unpack("<4xH10xQQ8x", header)
            if (found_kind, found_place, found_owner) == (kind, place, owner):
                return place
            place += BLOCK
    raise AssertionError(f"no block of kind {kind} belongs to inode {owner}")


class DamageTest(mounted.unittest.TestCase):
    def setUp(self):
        self.volume = Volume("64M")
        self.addCleanup(self.volume.remove)
        self.log = os.path.join(self.volume.folder, "log")
        self.daemon = None

    def path(self, *names):
        return os.path.join(self.volume.root, *names)

    def write(self, name, data):
        with open(self.path(name), "wb") as file:
            file.write(data)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def inode(self, name):
        return os.lstat(self.path(name)).st_ino

    def mount_in_foreground(self):
        with open(self.log, "wb") as log:
            self.daemon = subprocess.Popen(
                [WARREN, "mount", "-f", self.volume.image, self.volume.root], stderr=log,
                preexec_fn=mounted.die_with_parent)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self.volume.is_mounted():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def unmount(self):
        self.volume.unmount()
        self.assertEqual(self.daemon.wait(timeout=PATIENCE_SECONDS), 0)

    def fails(self, call, *arguments):
        for _ in range(TIMES):
            with self.assertRaises(OSError) as caught:
                call(*arguments)
            self.assertEqual(caught.exception.errno, errno.EIO)

    def lines(self):
        with open(self.log, encoding="utf-8") as log:
            return [line for line in log if "damage" in line]

    def test_stays_with_its_object(self):
        self.volume.mount()
        self.write("sound", b"text" * 1000)
        self.write("small", b"a file within its inode")
        with open(self.path("sparse"), "wb") as file:
            for i in range(0, 200, 2):
                os.pwrite(file.fileno(), b"data", i * BLOCK)
        os.mkdir(self.path("directory"))
        self.write("directory/file", b"text")
        os.symlink("t" * 1000, self.path("link"))
        self.write("noted", b"a file with a note")
        os.setxattr(self.path("noted"), "user.note", b"n" * 2000)
        inodes = {name: self.inode(name)
                  for name in ("small", "sparse", "directory", "link", "noted")}
        self.volume.unmount()

        image = self.volume.image
        flip(image, inodes["small"] * 256 + 150)
        flip(image, find_block(image, EXTENT_LEAF, inodes["sparse"]) + 100)
        flip(image, find_block(image, DIRECTORY_LEAF, inodes["directory"]) + 100)
        flip(image, find_block(image, LINK_TARGET, inodes["link"]) + 100)
        flip(image, find_block(image, ATTRIBUTES, inodes["noted"]) + 100)

        self.mount_in_foreground()
        self.fails(os.stat, self.path("small"))
        self.fails(self.read, "sparse")
        self.fails(os.listdir, self.path("directory"))
        self.fails(os.stat, self.path("directory", "file"))
        self.fails(os.readlink, self.path("link"))
        self.fails(os.getxattr, self.path("noted"), "user.note")
        self.assertEqual(self.read("sound"), b"text" * 1000)
        self.assertEqual(self.read("noted"), b"a file with a note")
        self.assertEqual(set(os.listdir(self.volume.root)), {"sound", *inodes})
        self.write("new", b"text" * 3000)
        os.rename(self.path("new"), self.path("sound"))
        with open(self.path("sound"), "r+b") as file:
            os.fsync(file.fileno())
        told = self.lines()
        self.unmount()
        del inodes["small"]  # the test does not know its number
        objects = [f"about inode {inode} " for inode in inodes.values()]
        objects += ["about 'small' in the directory with", "about 'file' in the directory with"]
        for name in objects:
            self.assertEqual(sum(name in line for line in told), 1, name + "\n" + "".join(told))
        self.assertEqual(len(told), len(objects), told)

        found = run("fsck", image, code=4).stdout
        for name in ("/small", "/sparse", "/directory", "/link", "/noted"):
            self.assertIn(name, found)
        run("fsck", "--repair", image, code=1)
        self.volume.check()
        self.volume.mount()
        self.assertEqual(self.read("sound"), b"text" * 3000)
        self.assertEqual(self.read("noted"), b"a file with a note")
        self.volume.unmount()

    def test_an_orphan_keeps_only_its_space(self):
        self.mount_in_foreground()
        for i in range(20):
            self.write(f"other{i}", b"")  # puts the root's inode into another block
        self.write("open", b"text" * 1000)
        inode = self.inode("open")
        held = os.open(self.path("open"), os.O_RDONLY)
        os.unlink(self.path("open"))
        run("sync", self.volume.root)
        for mode in (0o700, 0o755):  # the journal keeps two transactions
            os.chmod(self.volume.root, mode)
            run("sync", self.volume.root)
        self.daemon.kill()
        self.daemon.wait()
        os.close(held)
        subprocess.run(["umount", "-l", self.volume.root], check=True)

        flip(self.volume.image, inode * 256 + 150)
        self.mount_in_foreground()
        self.write("new", b"text")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self.lines():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        self.unmount()
        told = self.lines()
        self.assertEqual(len(told), 1, told)
        self.assertIn(f"inode {inode}, which was removed, is damaged or unreadable", told[0])
        run("fsck", "--repair", self.volume.image, code=1)
        self.volume.check()
        self.mount_in_foreground()
        self.assertEqual(self.read("new"), b"text")
        self.unmount()
        self.assertEqual(self.lines(), [])

    def test_does_not_fill_the_log(self):
        self.volume.mount()
        os.mkdir(self.path("directory"))
        self.write("directory/file", b"")
        inode = self.inode("directory")
        self.volume.unmount()
        flip(self.volume.image, find_block(self.volume.image, DIRECTORY_LEAF, inode) + 100)
        self.mount_in_foreground()
        for i in range(2 * LINES_MAX):
            with self.assertRaises(OSError):
                os.stat(self.path("directory", str(i)))
        self.unmount()
        lines = self.lines()
        self.assertEqual(len(lines), LINES_MAX + 1)
        self.assertIn("warren fsck names all", lines[-1])


if __name__ == "__main__":
    mounted.main()
