# SPDX-License-Identifier: Apache-2.0
"""A disk below a mount that refuses writes: the file system of a sparse image is full, or the image
was truncated. The writer gets an error, the volume is read-only from then on (with errors=continue
only after a commit fails, or if the image is shorter), the log says why and what to do, and data
that were synced and not truncated are still there. Needs root and /dev/fuse; skipped without."""

import contextlib
import errno
import os
import random
import subprocess
import threading
import time

import mounted
from mounted import WARREN, Volume, run

PATIENCE_SECONDS = 20
COMMITS_MAX = 500
PIECE = os.urandom(1 << 20)
REFUSED = (errno.EIO, errno.ENOSPC)


@contextlib.contextmanager
def taken_device_numbers(folder):
    """Mounts other file systems that take each device number as soon as the kernel frees it."""
    place = os.path.join(folder, "others")
    os.mkdir(place)
    subprocess.run(["mount", "-t", "tmpfs", "none", place], check=True)
    folder = os.path.join(place, "others")
    os.mkdir(folder)
    done = threading.Event()

    def mount_others():
        while not done.is_set():
            mounted.checked(mounted.libc.mount(b"none", os.fsencode(folder), b"tmpfs", 0, None))

    thread = threading.Thread(target=mount_others)
    thread.start()
    time.sleep(0.2)  # for numbers that are already free
    try:
        yield
    finally:
        done.set()
        thread.join()
        subprocess.run(["umount", "-l", place], check=True)


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
        # It is mounted a little before its control socket exists, which umount asks.
        while not self.volume.is_mounted() or run("info", self.volume.root, code=None).returncode:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        return daemon

    def write(self, name, pieces):
        return self.first_error(self.path(name), os.O_WRONLY | os.O_CREAT, pieces)

    def first_error(self, path, flags, pieces):
        """The first error of open, write, fsync and close, any of which may report it."""
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
        """Makes directories durable until a commit has no room for its metadata."""
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
                      (errno.EROFS, *REFUSED))  # in place: only contents would change

    def fill_the_disk(self, goes_on, *options):
        self.set_disk_size(16)
        self.addCleanup(self.remove_disk)
        self.volume.image = os.path.join(self.disk, "volume.img")
        run("mkfs", "--size", "256M", self.volume.image)
        # The only commits are those of fsync, so fsync reports the error.
        options = ["-o", ",".join(["commit=600", *options])]
        daemon = self.mount_in_foreground(options)
        self.assertIsNone(self.write("kept", 1))
        # The kernel writes several segments concurrently, and reports the last one refused.
        self.assertIn(self.write("large", 40), (errno.EROFS, *REFUSED))
        if goes_on:
            self.assertEqual(self.lines(), [])
            os.mkdir(self.path("other"))
            self.assertIn(self.first_error_of_commits(), REFUSED)
        self.expect_no_more_changes()
        self.assertTrue(self.is_whole("kept"))
        with taken_device_numbers(self.disk):
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

    def end_of_what_is_left(self):
        """A random offset in the files, which begin at three quarters of the volume."""
        seed = int(os.environ.get("WARREN_SEED", "0")) or random.randrange(1 << 32)
        print(f"seed {seed}", flush=True)
        return random.Random(seed).randrange(200 << 20, 220 << 20) // 4096 * 4096 + 100

    def read_or_error(self, name):
        try:
            return "whole" if self.is_whole(name) else "other bytes"
        except OSError as error:
            return error.errno

    def cut_the_image(self, *options):
        size = 256 << 20
        daemon = self.mount_in_foreground(["-o", ",".join(["commit=600", *options])])
        names = [f"file{number}" for number in range(40)]
        for name in names:
            self.assertIsNone(self.write(name, 1))
        self.assertIsNone(self.write("kept", 1))
        end = self.end_of_what_is_left()
        os.truncate(self.volume.image, end)
        mounted.drop_caches()
        # Truncated data do not read as zeros; the rest can be read.
        answers = [self.read_or_error(name) for name in names]
        self.assertEqual(set(answers), {errno.EIO, "whole"}, answers)
        self.assertEqual(self.lines(), [])
        # In place, beyond the end of the truncated image, and new: every write is refused.
        self.assertIn(self.first_error(self.path(names[0]), os.O_WRONLY, 1),
                      (errno.EROFS, *REFUSED))
        self.assertEqual(os.path.getsize(self.volume.image), end, "it was made longer again")
        self.assertIn(self.write("new", 4), (errno.EROFS, *REFUSED))
        self.expect_no_more_changes()
        root = os.open(self.volume.root, os.O_RDONLY | os.O_DIRECTORY)
        for give_back in (False, True):
            if give_back:
                os.truncate(self.volume.image, size)
            with self.assertRaises(OSError):
                os.fsync(root)
        os.close(root)
        self.assertEqual(len(self.lines()), 1, self.lines())
        for word in (self.volume.image, str(end // 4096 * 4096), str(size), "fsck --repair"):
            self.assertIn(word, self.lines()[0])
        run("umount", self.volume.root, code=32)
        self.assertNotEqual(daemon.wait(timeout=PATIENCE_SECONDS), 0)
        # Nothing was written after the truncation, so the rest can be recovered.
        with open(self.volume.image, "rb") as image:
            image.seek(end)
            self.assertEqual(image.read().count(0), size - end)
        run("fsck", "--repair", self.volume.image, code=None)
        self.volume.mount()
        for name, answer in zip(names, answers):
            if answer == "whole":
                self.assertEqual(self.read_or_error(name), "whole", name)
        self.volume.unmount()

    def remake_volume(self):
        run("mkfs", "--force", "--size", "256M", self.volume.image)

    def test_an_image_that_is_cut(self):
        self.remake_volume()
        self.cut_the_image("disk=plain")

    def test_an_image_that_is_cut_past_the_page_cache(self):
        self.remake_volume()
        refused = run("mount", "-o", "disk=direct", self.volume.image, self.volume.root, code=None)
        if refused.returncode != 0:
            self.skipTest(refused.stderr)
        self.volume.unmount()
        self.cut_the_image("disk=direct", "file_buffer=1M")

    def test_an_image_that_is_cut_although_others_may_go_on(self):
        self.remake_volume()
        self.cut_the_image("disk=plain", "errors=continue")

    def test_an_image_that_is_cut_and_nothing_is_written(self):
        """An fsync with nothing to write must fail too."""
        self.remake_volume()
        daemon = self.mount_in_foreground(["-o", "commit=600,disk=plain"])
        self.assertIsNone(self.write("kept", 1))
        os.truncate(self.volume.image, 255 << 20)
        root = os.open(self.volume.root, os.O_RDONLY | os.O_DIRECTORY)
        with self.assertRaises(OSError) as caught:
            os.fsync(root)
        os.close(root)
        self.assertEqual(caught.exception.errno, errno.EIO)
        self.assertEqual(len(self.lines()), 1, self.lines())
        run("umount", self.volume.root, code=32)
        self.assertNotEqual(daemon.wait(timeout=PATIENCE_SECONDS), 0)

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
