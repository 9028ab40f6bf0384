#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rings of a mount: bulk operations on names without system calls, by processes of different users,
one of which writes arbitrary data into all memory that it shares with the daemon."""

import errno
import json
import os
import random
import signal
import subprocess
import tempfile
import time
import unittest

import mounted
from kill_verbs_test import can_be_locked, wait_until
from mounted import MountedTest, as_user, run

BUILD = os.environ.get("WARREN_BUILD", "")
PROCESS = mounted.reachable(os.path.join(BUILD, "tests", "ring_process"))
SOMEBODY = 12345
ANOTHER = 23456
LOAD = int(os.environ.get("WARREN_LOAD", "1"))


def identify(user):
    def change():
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    return change if user else None


def start(*words, user=0):
    return subprocess.Popen([PROCESS, *map(str, words)], stdout=subprocess.PIPE, text=True,
                            preexec_fn=identify(user))


def finish(process):
    out, _ = process.communicate(timeout=120)
    if process.returncode != 0:
        raise AssertionError(f"ring_process: exit code {process.returncode}")
    return out


def ring(*words, user=0):
    """Returns how often each error number occurred."""
    answer = json.loads(finish(start(*words, user=user)))
    return {int(number): count for number, count in answer.items()}


class Rings(MountedTest):
    def test_names_come_and_go(self):
        os.mkdir(self.path("to"))
        self.assertFalse(os.path.exists(self.path("f7")))  # a cached absence
        self.assertEqual(ring("create", self.folder, "f", 10000), {0: 10000})
        self.assertEqual(os.lstat(self.path("f7")).st_mode, 0o100644)
        self.assertEqual(len(os.listdir(self.folder)), 10001)
        self.assertEqual(ring("create", self.folder, "f", 10), {errno.EEXIST: 10})
        self.assertEqual(ring("lookup", self.folder, "f", 10010), {0: 10000, errno.ENOENT: 10})
        self.assertEqual(ring("move", self.folder, "f", 5001, self.path("to")), {0: 5001})
        self.assertFalse(os.path.exists(self.path("f7")))
        self.assertTrue(os.path.exists(self.path("to/f7")))
        self.assertEqual(ring("unlink", self.folder, "f", 10000), {0: 4999, errno.ENOENT: 5001})
        self.assertEqual(os.listdir(self.folder), ["to"])
        self.assertEqual(ring("unlink", self.path("to"), "f", 5001), {0: 5001})
        self.assertEqual(ring("unlink", self.folder, "t", 1), {errno.ENOENT: 1})
        self.assertEqual(ring("create", self.folder, "d", 100, "40755"), {0: 100})
        self.assertEqual(os.stat(self.folder).st_nlink, 103)
        self.assertEqual(ring("unlink", self.folder, "d", 100), {errno.EISDIR: 100})
        self.assertEqual(ring("rmdir", self.folder, "d", 100), {0: 100})
        self.assertEqual(os.stat(self.folder).st_nlink, 3)

    def test_an_open_listing_shows_new_names(self):
        """The kernel may keep the names that readdir(3) has read."""
        listing = os.open(self.folder, os.O_RDONLY)
        before = set(os.listdir(listing))
        self.assertEqual(set(os.listdir(listing)), before)  # by now from the kernel's memory
        self.assertEqual(ring("create", self.folder, "listed", 3), {0: 3})
        self.assertEqual(len(set(os.listdir(listing)) - before), 3)
        os.close(listing)
        self.assertEqual(ring("unlink", self.folder, "listed", 3), {0: 3})

    def test_by_c(self):
        os.mkdir(self.path("to"))
        lines = finish(start("by_c", self.folder, "c", 3000, self.path("to"))).splitlines()
        self.assertEqual([json.loads(line) for line in lines],
                         [{"0": 3000}, {"0": 3000}, {"0": 3000}, {str(errno.ENOENT): 3000},
                          {"0": 3000}])
        self.assertEqual(os.listdir(self.path("to")), [])
        nowhere = finish(start("by_c", "/proc", "c", 1, "/proc"))
        self.assertEqual(int(nowhere), errno.ENODEV)

    def test_open_and_linked_files(self):
        os.mkdir(self.path("to"))
        self.write("f0", b"linked")
        os.link(self.path("f0"), self.path("kept"))
        held = os.open(self.write("f1", b"held"), os.O_RDWR)
        os.write(held, b"more")
        os.stat(self.path("kept"))
        self.assertEqual(ring("unlink", self.folder, "f", 2), {0: 2})
        self.assertEqual(os.stat(self.path("kept")).st_nlink, 1)
        self.assertEqual(os.fstat(held).st_nlink, 0)
        self.assertEqual(os.pread(held, 10, 0), b"more")
        os.close(held)

    def test_acts_for_its_owner(self):
        os.mkdir(self.path("private"), 0o700)
        os.mkdir(self.path("common"))
        os.chmod(self.path("common"), 0o1777)
        os.mkdir(self.path("closed"), 0o755)
        self.assertEqual(ring("create", self.path("common"), "a", 100, user=SOMEBODY), {0: 100})
        self.assertEqual(os.lstat(self.path("common/a0")).st_uid, SOMEBODY)
        self.assertEqual(ring("create", self.path("closed"), "a", 5, user=SOMEBODY),
                         {errno.EACCES: 5})
        self.assertEqual(ring("create", self.path("closed"), "r", 5), {0: 5})
        self.assertEqual(ring("unlink", self.path("closed"), "r", 5, user=SOMEBODY),
                         {errno.EACCES: 5})
        # The directory is sticky: only the owner may remove a file.
        self.assertEqual(ring("unlink", self.path("common"), "a", 100, user=ANOTHER),
                         {errno.EPERM: 100})
        self.assertEqual(ring("lookup", self.path("common"), "a", 100, user=ANOTHER), {0: 100})
        self.assertEqual(ring("unlink", self.path("common"), "a", 100, user=SOMEBODY), {0: 100})
        # A device node would give access to the machine's disks.
        self.assertEqual(ring("create", self.path("common"), "b", 1, "60666", user=SOMEBODY),
                         {errno.EPERM: 1})
        self.assertEqual(ring("create", self.path("common"), "p", 1, "10666", user=SOMEBODY),
                         {0: 1})

    def test_guessed_handles_are_refused(self):
        """An inode that no path reaches cannot be reached by its number either."""
        os.makedirs(self.path("private/open"))
        self.write("private/open/f0", b"secret")
        os.chmod(self.path("private/open"), 0o777)
        os.chmod(self.path("private"), 0o700)
        number = os.stat(self.path("private/open")).st_ino
        for generation in range(64):
            answer = finish(start("guess", self.folder, number, generation, "f0", user=SOMEBODY))
            self.assertEqual(int(answer), errno.EBADF)

    def test_read_only_mount_below(self):
        """A process cannot change anything by a ring through a read-only mount of its own."""
        seen = tempfile.mkdtemp(prefix="warren-seen-")
        subprocess.run(["mount", "--bind", self.folder, seen], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", seen], check=True)
        try:
            self.write("f0")
            self.assertEqual(ring("lookup", seen, "f", 1), {0: 1})
            self.assertEqual(ring("unlink", seen, "f", 1), {errno.EROFS: 1})
            self.assertEqual(ring("create", seen, "g", 1), {errno.EROFS: 1})
        finally:
            subprocess.run(["umount", seen], check=True)
            os.rmdir(seen)
        self.assertTrue(os.path.exists(self.path("f0")))

    def test_mounts_of_a_namespace_of_its_own(self):
        """The daemon does not see these mounts, but learns whether they are read-only."""
        seen = tempfile.mkdtemp(prefix="warren-seen-")
        self.addCleanup(os.rmdir, seen)
        for option, number in (("ro", errno.EROFS), ("rw", 0)):
            script = (f"mount --make-rprivate / && mount --bind {self.folder} {seen} && "
                      f"mount -o remount,bind,{option} {seen} && "
                      f"exec {PROCESS} create {seen} {option} 3")
            done = subprocess.run(["unshare", "-m", "sh", "-c", script], stdout=subprocess.PIPE,
                                  check=True)
            self.assertEqual(json.loads(done.stdout), {str(number): 3})
        self.assertEqual(sorted(os.listdir(self.folder)), ["rw0", "rw1", "rw2"])

    def test_a_client_that_dies(self):
        """The client is killed with unread replies. Each submitted command is either done or not,
        and its ring becomes available again; repeated more often than there are rings."""
        for turn in range(70):
            process = start("hold", self.folder, f"t{turn}-", 50)
            self.assertEqual(process.stdout.readline(), "holding\n")
            process.kill()
            process.wait()
            process.stdout.close()
        self.assertEqual(ring("lookup", self.folder, "t69-", 1).keys() - {0, errno.ENOENT}, set())
        run("sync", self.folder)

    def test_as_many_rings_as_there_are(self):
        held = [start("hold", self.folder, f"h{i}-", 1) for i in range(70)]
        lines = [process.stdout.readline() for process in held]
        self.assertEqual(lines.count("holding\n"), 64)
        for process in held:
            process.kill()
            process.wait()
            process.stdout.close()
        deadline = time.time() + 10
        while time.time() < deadline:
            process = start("lookup", self.folder, "h", 1)
            process.communicate()
            if process.returncode == 0:
                return
        self.fail("no ring after those who had them are gone")

    def test_hostile_clients_harm_nobody(self):
        seed = int(os.environ.get("WARREN_SEED", random.randrange(1 << 32)))
        print("seed:", seed)
        os.mkdir(self.path("hostile"))
        os.chmod(self.path("hostile"), 0o777)
        os.mkdir(self.path("good"))
        os.chown(self.path("good"), ANOTHER, ANOTHER)
        os.mkdir(self.path("roots"))
        for i in range(50):
            self.write(f"roots/r{i}", b"%d" % i)
        before = sorted((name, os.lstat(self.path("roots", name)).st_mtime_ns)
                        for name in os.listdir(self.path("roots")))
        seconds = 2 * LOAD
        hostile = [start("hostile", self.path("hostile"), seconds, seed + i, user=SOMEBODY)
                   for i in range(2)]
        rounds = 0
        while any(process.poll() is None for process in hostile):
            for verb in ("create", "lookup", "unlink"):
                self.assertEqual(ring(verb, self.path("good"), "g", 500, user=ANOTHER), {0: 500})
            self.assertEqual(self.read("roots/r7"), b"7")
            rounds += 1
        for process in hostile:
            self.assertGreater(int(finish(process)), 1000)
        self.assertGreater(rounds, 0)
        self.assertEqual(os.listdir(self.path("good")), [])
        self.assertEqual(before, sorted((name, os.lstat(self.path("roots", name)).st_mtime_ns)
                                        for name in os.listdir(self.path("roots"))))
        for folder, directories, files in os.walk(self.path("hostile")):
            for name in directories + files:
                self.assertEqual(os.lstat(os.path.join(folder, name)).st_uid, SOMEBODY)
        self.assertEqual(sorted(os.listdir(self.folder)), ["good", "hostile", "roots"])

    def test_unmounting_ends_a_ring(self):
        volume = mounted.Volume("64M")
        try:
            volume.mount()
            process = start("hold", volume.root, "f", 10)
            try:
                self.assertEqual(process.stdout.readline(), "holding\n")
                run("umount", volume.root)
            finally:
                process.kill()
                process.wait()
                process.stdout.close()
            volume.check()
        finally:
            volume.remove()

    def test_a_daemon_that_is_killed(self):
        volume = mounted.Volume("64M")
        try:
            volume.mount()
            daemon = volume.process()
            process = start("create", volume.root, "f", 2_000_000)
            first = os.path.join(volume.root, "f0")
            self.assertTrue(wait_until(lambda: os.path.exists(first)))
            os.kill(daemon, signal.SIGKILL)
            answer = json.loads(finish(process))
            self.assertGreater(answer.get(str(errno.EIO), 0), 0)
            subprocess.run(["umount", "-l", volume.root], check=False)
            self.assertTrue(wait_until(lambda: can_be_locked(volume.image)))
            volume.check()
        finally:
            volume.remove()


class RemoveByRing(MountedTest):
    def remove(self, *names, options=(), code=0):
        return run("rm", *options, *(self.path(name) for name in names), code=code)

    def test_many_names(self):
        for i in range(200):
            self.write(f"f{i}")
        os.mkdir(self.path("d"))
        self.write("d/inside")
        names = [f"f{i}" for i in range(150)]
        done = self.remove(*names[:100], "missing", "d", *names[100:], code=1)
        self.assertEqual(sorted(done.stderr.splitlines()), sorted([
            f"warren rm: cannot remove '{self.path('missing')}': No such file or directory",
            f"warren rm: cannot remove '{self.path('d')}': Is a directory"]))
        self.assertEqual(len(os.listdir(self.folder)), 51)
        done = self.remove("d", "gone", *(f"f{i}" for i in range(150, 200)), options=["-rfv"])
        self.assertEqual(done.stderr, "")
        self.assertEqual(len(done.stdout.splitlines()), 51)
        self.assertEqual(os.listdir(self.folder), [])

    def test_permission(self):
        os.mkdir(self.path("d"))
        for i in range(40):
            self.write(f"d/f{i}")

        def remove():
            names = [self.path(f"d/f{i}") for i in range(40)]
            done = subprocess.run([mounted.WARREN, "rm", *names], capture_output=True, text=True,
                                  check=False)
            if done.stderr.count("Permission denied") == 40 and done.returncode == 1:
                raise OSError(errno.EACCES, "refused")
        self.assertEqual(as_user(SOMEBODY, SOMEBODY, remove), errno.EACCES)
        self.assertEqual(len(os.listdir(self.path("d"))), 40)

    def test_a_name_that_is_mounted_on(self):
        for i in range(40):
            self.write(f"f{i}")
        subprocess.run(["mount", "--bind", "/etc/hostname", self.path("f7")], check=True)
        try:
            done = self.remove(*(f"f{i}" for i in range(40)), code=1)
            self.assertIn("busy", done.stderr)
        finally:
            subprocess.run(["umount", self.path("f7")], check=True)
        self.assertEqual(os.listdir(self.folder), ["f7"])


if __name__ == "__main__":
    if not os.access(PROCESS, os.X_OK):
        print("skipped: WARREN_BUILD does not name the build folder")
        raise SystemExit(mounted.SKIPPED)
    mounted.main()
