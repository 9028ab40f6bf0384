# SPDX-License-Identifier: Apache-2.0
"""A mount whose engine is lost, as a GPU may be: it continues with the CPU engine in the state of
the last commit, and each descriptor whose writes are lost gets one error, from fsync(2) or
close(2). The program losable_mount serves the mount; its engine is lost when a file appears. Needs
root and /dev/fuse; skipped without."""

import errno
import json
import os
import subprocess
import time
import unittest

import mounted
from mounted import SKIPPED, Volume, libc, run

PATIENCE_SECONDS = 20
program = os.path.join(os.environ.get("WARREN_BUILD", ""), "tests", "losable_mount")


class LostEngineTest(unittest.TestCase):
    def setUp(self):
        self.volume = Volume()
        self.addCleanup(self.volume.remove)
        self.sign = os.path.join(self.volume.folder, "lost")
        self.log = os.path.join(self.volume.folder, "log")
        with open(self.log, "wb") as log:
            self.daemon = subprocess.Popen(
                [program, self.volume.image, self.volume.root, self.sign], stderr=log)
        self.addCleanup(self.end_daemon)
        self.wait_for(lambda: self.volume.is_mounted() and self.engine() == "losable")

    def end_daemon(self):
        if self.volume.is_mounted():
            run("umount", "-l", self.volume.root, code=None)
        self.daemon.wait(timeout=PATIENCE_SECONDS)

    def wait_for(self, condition):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def engine(self):
        told = run("info", "--json", self.volume.root, code=None)
        return json.loads(told.stdout)[0]["engine"] if told.returncode == 0 else None

    def wait_for_recovery(self):
        """Waits until the kernel was told to drop its caches; the engine's name changes before
        that."""
        def has_said_so():
            with open(self.log, encoding="utf-8") as log:
                return "goes on with the CPU engine" in log.read()
        self.wait_for(has_said_so)
        self.assertEqual(self.engine(), "cpu")

    def path(self, name):
        return os.path.join(self.volume.root, name)

    def open(self, name, flags=0):
        return os.open(self.path(name), os.O_RDWR | os.O_CREAT | flags, 0o644)

    def write_down(self, file, text):
        """Writes so that the daemon has the bytes but no commit has."""
        os.pwrite(file, text, 0)
        self.assertEqual(libc.sync_file_range(file, 0, 0, 7), 0)  # write and wait

    def lose_engine(self):
        with open(self.sign, "w", encoding="ascii"):
            pass
        try:
            os.stat(self.path("nobody"))  # a request, so that the loss is noticed
        except OSError:
            pass
        self.wait_for_recovery()

    def expect_error(self, number, call, *arguments):
        with self.assertRaises(OSError) as caught:
            call(*arguments)
        self.assertEqual(caught.exception.errno, number)

    def error_of(self, call, *arguments):
        try:
            call(*arguments)
        except OSError as error:
            return error.errno
        return 0

    def finish(self):
        self.volume.unmount()
        self.assertEqual(self.daemon.wait(timeout=PATIENCE_SECONDS), 0)
        self.volume.check()

    def test_each_writer_is_told_once_by_fsync(self):
        writer, other, reader = self.open("file"), self.open("file"), None
        self.write_down(writer, b"old text")
        os.fsync(writer)
        reader = os.open(self.path("file"), os.O_RDONLY)
        self.write_down(writer, b"new text")
        self.lose_engine()
        for file in (writer, other):
            self.expect_error(errno.EIO, os.fsync, file)
            os.fsync(file)
        os.fsync(reader)
        self.assertEqual(os.pread(reader, 100, 0), b"old text")
        later = self.open("file")
        os.fsync(later)
        self.write_down(writer, b"newer text")
        for file in (writer, other, reader, later):
            os.fsync(file)
            os.close(file)
        self.finish()

    def test_what_was_synced_is_nobodys_loss(self):
        files = [self.open(name) for name in ("by fsync", "by sync", "by other")]
        for file in files:
            self.write_down(file, b"text")
        os.fsync(files[0])  # a commit contains everything that was written
        self.lose_engine()
        for file in files:
            os.fsync(file)
            self.assertEqual(os.pread(file, 100, 0), b"text")
            os.close(file)
        self.finish()

    def test_close_tells(self):
        told, kept = self.open("told"), self.open("kept")
        os.fsync(kept)
        self.write_down(told, b"text")
        self.lose_engine()
        copy = os.dup(told)
        self.expect_error(errno.EIO, os.close, copy)  # may be a child's: does not count
        self.expect_error(errno.EIO, os.close, told)
        os.close(kept)
        self.finish()

    def test_a_file_made_since_the_commit(self):
        file = self.open("made")
        number = os.fstat(file).st_ino
        self.write_down(file, b"text")
        self.lose_engine()
        self.expect_error(errno.EIO, os.fsync, file)
        self.assertFalse(os.path.exists(self.path("made")))
        again = self.open("made")
        is_given_out_again = os.fstat(again).st_ino == number
        os.fsync(again)
        os.close(again)
        # The kernel marks an inode bad if its number returns with another generation.
        self.assertEqual(self.error_of(os.close, file), errno.EIO if is_given_out_again else 0)
        self.finish()

    def test_truncation_and_allocation_count(self):
        files = [self.open(name) for name in ("cut", "allocated", "copied", "emptied")]
        source = self.open("source")
        for file in files + [source]:
            self.write_down(file, b"text" * 1000)
        os.fsync(source)
        os.ftruncate(files[0], 3)
        os.posix_fallocate(files[1], 0, 100000)
        os.copy_file_range(source, files[2], 4000, 0, 4096)
        os.close(files.pop())
        files.append(self.open("emptied", os.O_TRUNC))
        self.lose_engine()
        for file in files:
            self.expect_error(errno.EIO, os.fsync, file)
            os.fsync(file)
            os.close(file)
        os.fsync(source)
        os.close(source)
        self.finish()

    def test_files_that_nobody_has_open_are_as_committed(self):
        sizes = {"grown": 9000, "cut": 5, "emptied": 0}
        for name in sizes:
            file = self.open(name)
            os.write(file, b"text" * 250)
            os.close(file)
        run("sync", self.volume.root)
        for name, size in sizes.items():
            file = self.open(name, os.O_TRUNC if size == 0 else 0)
            os.ftruncate(file, size)
            if name == "grown":  # other files are overwritten in place, so their old bytes are gone
                os.pwrite(file, b"more", size - 4)
            os.close(file)
            self.assertEqual(os.stat(self.path(name)).st_size, size)
        held = os.open(self.path("grown"), os.O_PATH)  # keeps the kernel's inode
        self.lose_engine()
        os.close(held)
        for name in sizes:
            self.assertEqual(os.stat(self.path(name)).st_size, 1000, name)
            with open(self.path(name), "rb") as file:
                self.assertEqual(file.read(), b"text" * 250, name)
        self.finish()

    def test_a_sync_that_meets_the_loss(self):
        file = self.open("file")
        self.write_down(file, b"text")
        with open(self.sign, "w", encoding="ascii"):
            pass
        self.expect_error(errno.EIO, os.fsync, file)
        self.wait_for_recovery()
        # The kernel sends the file's times first. If that fails it reports the error itself, and
        # the loss of the contents is reported now. The file is gone, which is not EIO.
        # loss of the contents is told now. The file is gone, which is no EIO.
        errors = [self.error_of(os.fsync, file) for _ in range(3)]
        self.assertLessEqual(errors.count(errno.EIO), 1)
        self.assertEqual(errors[1:], [errno.ESTALE] * 2)
        os.close(file)
        self.finish()


if __name__ == "__main__":
    mounted.skip_unless_possible()
    if not os.access(program, os.X_OK):
        print("skipped:", program, "is not built")
        raise SystemExit(SKIPPED)
    unittest.main()
