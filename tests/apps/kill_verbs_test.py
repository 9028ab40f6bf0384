#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The daemon of a mount is killed while clients send requests over its control socket and the
kernel has many dirty pages. Nothing may hang afterwards: the process is gone, the image can be
locked, the mount returns ENOTCONN at once and can be unmounted. Also tests a stopped daemon and the
watchdog process. WARREN_SEED repeats a run, WARREN_ROUNDS makes it longer."""

import errno
import fcntl
import os
import pwd
import random
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
import time
import traceback
import unittest

import mounted
from mounted import Volume, control_frame, control_path, run

SEED = int(os.environ.get("WARREN_SEED", random.randrange(1 << 31)))
ROUNDS = int(os.environ.get("WARREN_ROUNDS", "6"))
PATIENCE_SECONDS = 20
PROCESS = os.path.join(os.environ.get("WARREN_BUILD", ""), "tests", "ring_process")
USER = pwd.getpwnam("nobody").pw_uid  # fusermount3 requires a user with a name
CLONE_NEWNS = 0x20000
VERB_INFO, VERB_SYNC, VERB_SCAN, VERB_USAGE = 1, 2, 6, 9


def connect(root):
    path = control_path(root)
    peer = socket.socket(socket.AF_UNIX)
    peer.settimeout(PATIENCE_SECONDS)
    try:
        peer.connect(path)
    except OSError:
        peer.close()
        raise
    return peer


def scan_request():
    """All names, without a filter."""
    text = struct.pack("<Q", 0)
    return text + struct.pack("<Q", 0xffffffff) + text + struct.pack(
        "<QQQQqq", 0, 0xffff, 0, (1 << 64) - 1, -(1 << 63), (1 << 63) - 1)


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


def name_of(pid):
    with open(f"/proc/{pid}/comm", encoding="ascii") as file:
        return file.read().strip()


def watchdog_of(daemon):
    found = [child for child in children_of(daemon) if name_of(child) == "warren-watchdog"]
    assert len(found) == 1, f"children of the daemon: {children_of(daemon)}"
    return found[0]


def is_gone(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):  # the latter if it ends before the read
        return True


def wait_until(condition, seconds=PATIENCE_SECONDS):
    deadline = time.time() + seconds
    while not condition() and time.time() < deadline:
        time.sleep(0.01)
    return condition()


def within(seconds, work):
    """Returns the result of `work`; fails if it takes longer, in whatever state it is then."""
    answer = []
    thread = threading.Thread(target=lambda: answer.append(work()), daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise AssertionError(f"not within {seconds} s")
    return answer[0]


def errno_of_stat(path):
    try:
        os.stat(path)
        return 0
    except OSError as error:
        return error.errno


def check_nothing_waits(test, volume, daemon):
    """To be called after the daemon, a child of this process, was killed."""
    try:
        daemon.wait(PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        states = []
        for task in os.listdir(f"/proc/{daemon.pid}/task"):
            with open(f"/proc/{daemon.pid}/task/{task}/wchan", encoding="ascii") as file:
                states.append(file.read())
        free_connections_of(volume)
        test.fail(f"the daemon cannot be reaped, its threads wait in {states}")
    unknown = f"{volume.root}/{time.time_ns()}"  # a name that the kernel has not cached
    test.assertEqual(within(PATIENCE_SECONDS, lambda: errno_of_stat(unknown)), errno.ENOTCONN)
    # The kernel closes a process's io_uring, which keeps the image open, slightly after its end.
    test.assertTrue(wait_until(lambda: can_be_locked(volume.image)))


def can_be_locked(path):
    with open(path, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            return False


def free_connections_of(volume):
    """Aborts connections that a failed test would leave waiting for ever."""
    control = "/sys/fs/fuse/connections"
    with open("/proc/self/mountinfo", encoding="utf-8") as table:
        minors = [line.split()[2].split(":")[1] for line in table
                  if line.split()[4] == volume.root]
    is_mounted = bool(os.listdir(control))
    if not is_mounted:
        subprocess.run(["mount", "-t", "fusectl", "none", control], check=False)
    for minor in minors:
        try:
            with open(f"{control}/{minor}/abort", "w", encoding="ascii") as file:
                file.write("1")
        except FileNotFoundError:
            pass
    if not is_mounted:
        subprocess.run(["umount", control], check=False)


class MountInForeground(unittest.TestCase):
    size = "256M"

    def setUp(self):
        self.random = random.Random(SEED)
        self.volume = Volume(self.size)
        self.addCleanup(self.volume.remove)
        self.mount()

    def mount(self):
        self.daemon = subprocess.Popen([mounted.WARREN, "mount", "-f", self.volume.image,
                                        self.volume.root], preexec_fn=mounted.die_with_parent)
        self.addCleanup(self.daemon.wait)
        self.addCleanup(self.daemon.kill)
        self.assertTrue(wait_until(self.can_connect))

    def can_connect(self):
        try:
            connect(self.volume.root).close()
            return True
        except OSError:
            return False

    def path(self, name):
        return os.path.join(self.volume.root, name)


class KillUnderVerbs(MountInForeground):
    def make_dirty(self, count=400):
        """Opens files that the kernel has not written back yet; it would when they are closed."""
        files = []
        for i in range(count):
            file = os.open(self.path(f"f{i}"), os.O_CREAT | os.O_RDWR)
            os.write(file, b"x" * 65536)
            files.append(file)
        return files

    def ask_for_all(self):
        """Sends requests on several connections, by clients that do not have dirty pages written
        back."""
        peers = [connect(self.volume.root) for _ in range(4)]
        directory = os.open(self.volume.root, os.O_PATH)
        peers[0].sendall(control_frame(VERB_SYNC))
        socket.send_fds(peers[1], [control_frame(VERB_SCAN, scan_request())], [directory])
        usage = struct.pack("<QQQ", 0, 0, 0)
        socket.send_fds(peers[2], [control_frame(VERB_USAGE, usage)], [directory])
        peers[3].sendall(control_frame(VERB_SYNC))
        os.close(directory)
        return peers

    def test_nothing_waits_for_a_daemon_that_was_killed(self):
        print("WARREN_SEED", SEED, file=sys.stderr)
        for number in range(ROUNDS):
            files = self.make_dirty()
            peers = self.ask_for_all()
            commands = [subprocess.Popen([mounted.WARREN, *words, self.volume.root],
                                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                        for words in (("sync",), ("find",), ("du", "-s"))]
            time.sleep(self.random.uniform(0, 0.05))
            self.daemon.kill()
            check_nothing_waits(self, self.volume, self.daemon)
            for command in commands:
                command.wait(PATIENCE_SECONDS)
            for peer in peers:
                peer.close()
            for file in files:
                try:
                    os.close(file)
                except OSError:
                    pass  # what was not written back is lost with the daemon
            if number % 2 == 0:
                run("umount", self.volume.root)
            self.mount()  # over the dead mount, every other time
        self.volume.unmount()
        self.assertEqual(self.daemon.wait(PATIENCE_SECONDS), 0)
        self.volume.check()


    def change_names(self, number):
        """A process that holds the lock of a directory while it waits for the daemon."""
        child = os.fork()
        if child == 0:
            try:
                mounted.die_with_parent()
                while True:
                    for i in range(50):
                        path = self.path(f"x/p{number}-{i}")
                        os.close(os.open(path, os.O_CREAT | os.O_RDWR))
                        os.unlink(path)
            finally:
                os._exit(0)
        return child

    def change_names_by_ring(self, number):
        """The daemon must notify the kernel of these changes, which takes that lock."""
        create, unlink = (f"{PROCESS} {verb} {self.path('x')} r{number}- 200"
                          for verb in ("create", "unlink"))
        return subprocess.Popen(["sh", "-c", f"while {create} && {unlink}; do :; done"],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                preexec_fn=mounted.die_with_parent)

    @unittest.skipUnless(os.access(PROCESS, os.X_OK), "WARREN_BUILD does not name the folder")
    def test_nothing_waits_while_the_kernel_is_told_of_names(self):
        print("WARREN_SEED", SEED, file=sys.stderr)
        for _ in range(ROUNDS):
            os.makedirs(self.path("x"), exist_ok=True)
            children = [self.change_names(i) for i in range(6)]
            rings = [self.change_names_by_ring(i) for i in range(3)]
            time.sleep(self.random.uniform(0.2, 0.5))
            self.daemon.kill()
            check_nothing_waits(self, self.volume, self.daemon)
            for child in children:
                os.waitpid(child, 0)
            for ring in rings:
                ring.wait(PATIENCE_SECONDS)
            run("umount", self.volume.root)
            self.mount()
        self.volume.unmount()
        self.volume.check()


class Watchdog(MountInForeground):
    size = "64M"

    def test_it_has_nothing_of_the_daemon(self):
        watchdog = watchdog_of(self.daemon.pid)
        targets = [os.readlink(f"/proc/{watchdog}/fd/{number}")
                   for number in os.listdir(f"/proc/{watchdog}/fd")]
        for target in targets:
            self.assertNotIn("volume.img", target)
            self.assertNotEqual(target, "/dev/fuse")
        self.assertEqual(os.readlink(f"/proc/{watchdog}/cwd"), "/")
        self.assertEqual(os.getsid(watchdog), watchdog)
        with open(f"/proc/{watchdog}/cmdline", "rb") as file:
            self.assertEqual(file.read().rstrip(b"\0"), b"warren-watchdog")
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2):
            os.kill(watchdog, number)
        self.assertEqual(errno_of_stat(self.volume.root), 0)
        self.volume.unmount()
        self.assertEqual(self.daemon.wait(PATIENCE_SECONDS), 0)
        self.assertTrue(wait_until(lambda: is_gone(watchdog)))

    def test_it_ends_with_a_daemon_that_was_killed(self):
        watchdog = watchdog_of(self.daemon.pid)
        self.daemon.kill()
        check_nothing_waits(self, self.volume, self.daemon)
        self.assertTrue(wait_until(lambda: is_gone(watchdog)))
        run("umount", self.volume.root)

    def test_a_signal_ends_the_mount_without_it(self):
        """If the watchdog was killed, dirty pages cannot be written back, but the mount ends."""
        with open(self.path("f"), "wb") as file:
            file.write(b"kept")
        os.kill(watchdog_of(self.daemon.pid), signal.SIGKILL)
        self.daemon.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        self.daemon.send_signal(signal.SIGTERM)
        self.assertEqual(self.daemon.wait(PATIENCE_SECONDS), 0)
        self.volume.check()


class ForcedUnmount(MountInForeground):
    size = "64M"

    def test_of_a_stopped_daemon(self):
        os.mkdir(self.path("d"))
        mounted.stop(self.daemon.pid)
        waiting = subprocess.Popen(["stat", self.path("missing")], stderr=subprocess.DEVNULL)
        time.sleep(0.2)
        self.assertIsNone(waiting.poll())
        within(PATIENCE_SECONDS, lambda: run("umount", "-f", self.volume.root + "/"))
        self.assertFalse(os.path.ismount(self.volume.root))
        self.assertEqual(waiting.wait(PATIENCE_SECONDS), 1)
        self.daemon.send_signal(signal.SIGCONT)
        self.assertEqual(self.daemon.wait(PATIENCE_SECONDS), 0)
        self.volume.check()

    def test_of_a_killed_daemon(self):
        self.daemon.kill()
        self.daemon.wait(PATIENCE_SECONDS)
        run("umount", "-f", self.volume.image)
        self.assertFalse(os.path.ismount(self.volume.root))

    def test_in_use(self):
        held = os.open(self.volume.root, os.O_RDONLY)
        self.assertIn("-l", run("umount", "-f", self.volume.root, code=32).stderr)
        with self.assertRaises(OSError):
            os.stat(self.path("any"))
        run("umount", "-f", "-l", self.volume.root)
        self.assertEqual(self.daemon.wait(PATIENCE_SECONDS), 0)
        os.close(held)
        self.volume.check()

    def test_by_a_relative_path_and_a_link(self):
        os.symlink(self.volume.folder, self.volume.folder + "/link")
        os.chdir(self.volume.folder)
        self.addCleanup(os.chdir, "/")
        mounted.stop(self.daemon.pid)
        within(PATIENCE_SECONDS, lambda: run("umount", "-f", "link/../link/mnt"))
        self.assertFalse(os.path.ismount(self.volume.root))
        self.daemon.send_signal(signal.SIGCONT)
        self.assertEqual(self.daemon.wait(PATIENCE_SECONDS), 0)

    def use_own_device(self):
        """In a mount namespace of its own any user can open /dev/fuse, and there is a fusectl."""
        device = os.path.join(self.volume.folder, "fuse")
        os.mknod(device, stat.S_IFCHR, os.stat("/dev/fuse").st_rdev)
        os.chmod(device, 0o666)
        self.assertEqual(mounted.libc.unshare(CLONE_NEWNS), 0)
        control = "/sys/fs/fuse/connections"
        for words in (("--make-rprivate", "/"), ("--bind", device, "/dev/fuse"),
                      ("-t", "fusectl", "none", control)):
            if words[-1] != control or not os.path.ismount(control):
                subprocess.run(["mount", *words], check=True)

    def start_as_user(self, *words):
        return subprocess.Popen(words, user=USER, group=USER, extra_groups=[],
                                stderr=subprocess.DEVNULL)

    def run_as_user(self, *words):
        self.assertEqual(self.start_as_user(*words).wait(PATIENCE_SECONDS), 0)

    def is_listed(self):
        """Root may not access the mount of a user."""
        with open("/proc/self/mounts", encoding="utf-8") as table:
            return any(line.split()[1] == self.volume.root for line in table)

    def force(self, daemon):
        """Some processes wait for the daemon, and some only take a while to end."""
        leaving = self.start_as_user("sh", "-c", f"cd '{self.volume.root}' && sleep 1")
        self.assertTrue(wait_until(
            lambda: os.readlink(f"/proc/{leaving.pid}/cwd") == self.volume.root))
        mounted.stop(daemon)
        waiting = self.start_as_user("stat", self.path("missing"))
        time.sleep(0.2)
        self.assertIsNone(waiting.poll())
        self.run_as_user(mounted.WARREN, "umount", "-f", self.volume.root)
        self.assertFalse(self.is_listed())
        self.assertEqual(waiting.wait(PATIENCE_SECONDS), 1)
        self.assertEqual(leaving.wait(PATIENCE_SECONDS), 0)
        os.kill(daemon, signal.SIGCONT)
        self.assertTrue(wait_until(lambda: is_gone(daemon)))
        self.volume.check()

    def mount_and_force(self):
        self.run_as_user(mounted.WARREN, "mount", self.volume.image, self.volume.root)
        daemon = int(subprocess.check_output(["pgrep", "-f", f"mount {self.volume.image}"]))
        try:
            self.force(daemon)
        finally:
            if not is_gone(daemon):
                os.kill(daemon, signal.SIGKILL)

    def test_by_a_user_who_has_mounted_it(self):
        self.volume.unmount()
        self.assertEqual(self.daemon.wait(PATIENCE_SECONDS), 0)
        for path in (self.volume.folder, self.volume.image, self.volume.root):
            os.chown(path, USER, USER)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                self.use_own_device()
                self.mount_and_force()
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)


if __name__ == "__main__":
    mounted.main()
