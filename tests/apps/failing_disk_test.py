# SPDX-License-Identifier: Apache-2.0
"""A disk that takes nothing more under a mount: the file system in which a sparse image lies is
full. Who wrote hears of it, the volume is read-only from then on (with errors=continue only after a
commit that fails), the log says why and what to do, and what was synced before is there afterwards.
Needs root and /dev/fuse; skipped without."""

import errno
import os
import subprocess
import time

import mounted
from mounted import WARREN, Volume, run

PATIENCE_SECONDS = 20
COMMITS_MAX = 500
PIECE = os.urandom(1 << 20)
REFUSED = (errno.EIO, errno.ENOSPC)


class FailingDiskTest(mounted.unittest.TestCase):
    def setUp(self):
        self.volume = Volume("64M")
        self.addCleanup(self.volume.remove)
        self.disk = os.path.join(self.volume.folder, "disk")
        os.mkdir(self.disk)
        self.log = os.path.join(self.volume.folder, "log")

    def path(self, name):
        return os.path.join(self.volume.root, name)

    def set_disk_size(self, mebibytes, *options):
        subprocess.run(["mount", "-t", "tmpfs", "-o",
                        ",".join([*options, f"size={mebibytes}m"]), "none", self.disk], check=True)

    def remove_disk(self):
        self.volume.remove()
        subprocess.run(["umount", "-l", self.disk], check=True)

    def mount_in_foreground(self, options):
        with open(self.log, "wb") as log:
            daemon = subprocess.Popen(
                [WARREN, "mount", "-f", *options, self.volume.image, self.volume.root], stderr=log,
                preexec_fn=mounted.die_with_parent)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self.volume.is_mounted():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        return daemon

    def write(self, name, pieces):
        return self.first_error(self.path(name), os.O_WRONLY | os.O_CREAT, pieces)

    def first_error(self, path, flags, pieces):
        """That of open, write, fsync or close, each of which may be the one to tell."""
        told = None
        try:
            file = os.open(path, flags, 0o644)
        except OSError as error:
            return error.errno
        try:
            for _ in range(pieces):
                os.write(file, PIECE)
            os.fsync(file)
        except OSError as error:
            told = error.errno
        try:
            os.close(file)
        except OSError as error:
            told = told or error.errno
        return told

    def first_error_of_commits(self):
        """Makes directories durable until a commit finds no room for its metadata."""
        root = os.open(self.volume.root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for number in range(COMMITS_MAX):
                os.mkdir(self.path(f"directory{number}"))
                os.fsync(root)
        except OSError as error:
            return error.errno
        finally:
            os.close(root)
        return None

    def is_whole(self, name):
        with open(self.path(name), "rb") as file:
            return file.read() == PIECE

    def lines(self):
        with open(self.log, encoding="utf-8") as log:
            return [line for line in log if "read-only" in line]

    def expect_no_more_changes(self):
        for _ in range(3):
            with self.assertRaises(OSError) as caught:
                os.mkdir(self.path("late"))
            self.assertEqual(caught.exception.errno, errno.EROFS)
            self.assertEqual(self.write("late", 1), errno.EROFS)
        self.assertIn(self.first_error(self.path("kept"), os.O_WRONLY, 1),
                      (errno.EROFS, *REFUSED))  # in place: nothing but contents would change

    def fill_the_disk(self, goes_on, *options):
        self.set_disk_size(16)
        self.addCleanup(self.remove_disk)
        self.volume.image = os.path.join(self.disk, "volume.img")
        run("mkfs", "--size", "256M", self.volume.image)
        # Commits come with fsync alone, so that it is fsync that tells.
        options = ["-o", ",".join(["commit=600", *options])]
        daemon = self.mount_in_foreground(options)
        self.assertIsNone(self.write("kept", 1))
        # The kernel writes several pieces at once, and tells of the last that was refused.
        self.assertIn(self.write("large", 40), (errno.EROFS, *REFUSED))
        if goes_on:
            self.assertEqual(self.lines(), [])
            os.mkdir(self.path("other"))
            self.assertIn(self.first_error_of_commits(), REFUSED)
        self.expect_no_more_changes()
        self.assertTrue(self.is_whole("kept"))
        told = run("umount", self.volume.root, code=32).stderr
        self.assertIn("could not be closed cleanly", told)
        self.assertNotEqual(daemon.wait(timeout=PATIENCE_SECONDS), 0)
        self.assertEqual(len(self.lines()), 1, self.lines())
        why = "changes could not be made durable" if goes_on else "at offset"
        for word in (self.volume.image, why, os.strerror(errno.ENOSPC), "fsck"):
            self.assertIn(word, self.lines()[0])

        self.set_disk_size(128, "remount")
        self.volume.check()
        self.volume.mount(*options)
        self.assertTrue(self.is_whole("kept"))
        self.assertIsNone(self.write("large", 40))
        self.volume.unmount()
        self.volume.check()

    def test_without_a_buffer(self):
        self.fill_the_disk(False)

    def test_with_a_buffer(self):
        self.fill_the_disk(False, "errors=remount-ro", "file_buffer=1M")

    def test_without_a_buffer_others_may_go_on(self):
        self.fill_the_disk(True, "errors=continue")

    def test_a_command_on_an_image_says_what_was_refused(self):
        self.set_disk_size(16)
        self.addCleanup(self.remove_disk)
        image = os.path.join(self.disk, "volume.img")
        run("mkfs", "--size", "256M", image)
        large = os.path.join(self.volume.folder, "large")
        with open(large, "wb") as file:
            for _ in range(40):
                file.write(PIECE)
        told = run("cp", large, f"{image}:/large", code=1).stderr
        self.assertEqual(told.count("the disk refused a write of"), 1, told)
        self.assertIn(os.strerror(errno.ENOSPC), told)
        self.set_disk_size(128, "remount")
        run("cp", large, f"{image}:/large")
        run("fsck", image)


if __name__ == "__main__":
    mounted.main()
