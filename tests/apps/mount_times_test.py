#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The times of files on a mount, where the daemon sets some times and the kernel others (for writes
that it caches): no time goes backwards, whichever sets it."""

import os
import time

import mounted
from mounted import MountedTest

COARSE_CLOCK = 5  # CLOCK_REALTIME_COARSE, which Linux uses for file times


def now():
    return time.clock_gettime_ns(COARSE_CLOCK)


def later():
    """A time not before any that was set. (The kernel may set times between two ticks.)"""
    return time.clock_gettime_ns(time.CLOCK_REALTIME)


class TimesTest(MountedTest):
    def test_no_time_runs_backwards(self):
        count = 2000
        wrong = []
        folder_before = now()
        for i in range(count):
            before = now()
            file = os.open(self.path(f"f{i}"), os.O_CREAT | os.O_EXCL | os.O_RDWR)
            made = os.fstat(file)
            os.write(file, b"bytes")
            written = os.fstat(file)
            if i % 20 == 0:
                os.fsync(file)
            os.fchmod(file, 0o600)
            changed = os.fstat(file)
            os.close(file)
            closed = os.stat(self.path(f"f{i}"))
            folder = os.stat(self.folder)
            modified = [before, made.st_mtime_ns, written.st_mtime_ns, closed.st_mtime_ns, later()]
            status = [before, made.st_ctime_ns, written.st_ctime_ns, changed.st_ctime_ns,
                      later()]
            names = [folder_before, before, folder.st_mtime_ns, later()]
            if any(times != sorted(times) for times in (modified, status, names)):
                wrong.append((modified, status, names))
            folder_before = folder.st_mtime_ns
        self.assertEqual(wrong[:3], [], f"{len(wrong)} of {count} files")

    def test_first_read_after_a_write_is_noted(self):
        names = [self.path(f"f{i}") for i in range(100)]
        for name in names:
            with open(name, "wb") as file:
                file.write(b"bytes")
        time.sleep(0.03)  # more than a tick of the clock
        before = now()
        for name in names:
            with open(name, "rb") as file:
                file.read()
        wrong = [name for name in names if not before <= os.stat(name).st_atime_ns <= later()]
        self.assertEqual(wrong[:3], [], f"{len(wrong)} of {len(names)} files")


if __name__ == "__main__":
    mounted.main()
