#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Peers of the control socket that request long answers and do not read them, or read them byte by
byte: as many as a user may connect. Other processes continue meanwhile, and an unmount does not
wait for these peers. Also peers that send many descriptors, and the rest of the frame byte by byte
or not at all. WARREN_SEED repeats a run."""

import os
import random
import socket
import subprocess
import sys
import time
import unittest

import kill_verbs_test
import mounted
from kill_verbs_test import VERB_SCAN, VERB_USAGE, scan_request, wait_until, within
from mounted import Volume, control_frame, run

BUILD = os.environ.get("WARREN_BUILD", "")
PROCESS = os.path.join(BUILD, "tests", "ring_process")
SEED = int(os.environ.get("WARREN_SEED", random.randrange(1 << 31)))
SOMEBODY = 12345
PEERS = 20  # more than a user may connect
FILES = 40_000  # an answer several times larger than the daemon and the kernel buffer
FOLDERS = 30_000
PROMPTLY_SECONDS = 50  # a disk may be slow; waiting for a peer would take 60
OPEN_FILES_MAX = 1024  # what many systems allow a process
DESCRIPTORS_MAX = 16  # in a frame
CONNECTIONS_MAX = 16  # of a user


def become(user):
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def ask_and_stay(root, seed, ready):
    """A process of another user that sends a request and then reads next to nothing."""
    try:
        become(SOMEBODY)
        choose = random.Random(seed)
        peers = []
        for _ in range(PEERS):
            peer = kill_verbs_test.connect(root)
            directory = os.open(root, os.O_PATH)
            usage = b"".join(number.to_bytes(8, "little") for number in (0, 99, 0))
            asked = choose.choice(
                [control_frame(VERB_SCAN, scan_request()), control_frame(VERB_USAGE, usage)])
            try:
                socket.send_fds(peer, [asked], [directory])
                peers.append(peer)
            except OSError:
                pass  # one more than a user may have
            os.close(directory)
        os.write(ready, b"%d\n" % len(peers))
        trickle = peers[: PEERS // 4]
        while True:
            for peer in trickle:
                try:
                    peer.recv(1)
                except OSError:
                    pass
            time.sleep(0.5)
    finally:
        os._exit(1)


def begin_frames(root, users, peers, descriptors):
    """Processes of these users, each of which begins a frame with that many descriptors on so many
    connections, and then sends its payload byte by byte. Returns their pids when all have begun."""
    def work(user, begun):
        try:
            directory = os.open("/", os.O_PATH)  # not on the mount, which it would keep busy
            become(user)
            mounted.die_with_parent()
            connections = []
            for _ in range(peers):
                try:
                    connections.append(kill_verbs_test.connect(root))
                    frame = control_frame(VERB_SCAN, length=1 << 20)
                    socket.send_fds(connections[-1], [frame], [directory] * descriptors)
                except OSError:
                    pass  # more than a user may have, or than wait to be accepted
            os.write(begun, b".")
            while True:
                time.sleep(0.2)
                for peer in connections:
                    try:
                        peer.send(b"x")
                    except OSError:
                        pass
        finally:
            os._exit(1)

    ends = os.pipe()
    children = []
    for user in users:
        children.append(os.fork())
        if children[-1] == 0:
            work(user, ends[1])
    os.close(ends[1])
    with os.fdopen(ends[0], "rb") as ready:
        assert len(ready.read(len(children))) == len(children)
    time.sleep(1)  # by then the daemon has received them
    return children


def end_processes(children):
    for child in children:
        os.kill(child, 9)
    for child in children:
        os.waitpid(child, 0)


class SlowFrames(unittest.TestCase):
    def setUp(self):
        self.volume = Volume("64M")
        self.addCleanup(self.volume.remove)
        limit = f"--nofile={OPEN_FILES_MAX}:{OPEN_FILES_MAX}"
        subprocess.run(["prlimit", limit, mounted.WARREN, "mount", self.volume.image,
                        self.volume.root], check=True)
        self.daemon = self.volume.process()
        self.before = self.descriptors()

    def descriptors(self):
        """How many the daemon has."""
        return len(os.listdir(f"/proc/{self.daemon}/fd"))

    def begin(self, users, peers, descriptors):
        children = begin_frames(self.volume.root, users, peers, descriptors)
        self.addCleanup(end_processes, children)

    def others_go_on(self):
        os.makedirs(os.path.join(self.volume.root, "tree/below"))
        for words in (("rm", "-r", os.path.join(self.volume.root, "tree")),
                      ("umount", self.volume.root)):
            within(PROMPTLY_SECONDS, lambda: run(*words))

    def test_more_descriptors_than_a_frame_may_have(self):
        self.begin([SOMEBODY], 8, 128)
        self.assertTrue(wait_until(lambda: self.descriptors() < self.before + 8))
        self.others_go_on()

    def test_as_many_as_a_user_may_have(self):
        self.begin([SOMEBODY], PEERS, DESCRIPTORS_MAX)
        # The test does something.
        self.assertTrue(wait_until(lambda: self.descriptors() - self.before
                                   > CONNECTIONS_MAX * DESCRIPTORS_MAX // 2))
        used = self.descriptors() - self.before
        self.assertLessEqual(used, CONNECTIONS_MAX * (DESCRIPTORS_MAX + 2))
        self.others_go_on()

    def test_as_many_as_several_users_may_have(self):
        """A user can have the ids of many (subuid(5))."""
        self.begin(range(SOMEBODY, SOMEBODY + 8), CONNECTIONS_MAX, DESCRIPTORS_MAX)
        self.assertLess(self.descriptors() - self.before, OPEN_FILES_MAX // 2)
        self.others_go_on()

    def test_a_frame_has_a_deadline(self):
        self.begin([SOMEBODY], 8, DESCRIPTORS_MAX)
        self.assertTrue(
            wait_until(lambda: self.descriptors() > self.before + 8 * DESCRIPTORS_MAX))
        # Each byte comes long before the peer would count as one that has stopped.
        self.assertTrue(wait_until(lambda: self.descriptors() < self.before + 8, 40))
        self.others_go_on()


class SlowPeers(unittest.TestCase):
    def setUp(self):
        print("WARREN_SEED", SEED, file=sys.stderr)
        self.volume = Volume("256M")
        self.addCleanup(self.volume.remove)

    def path(self, *names):
        return os.path.join(self.volume.root, *names)

    def fill(self):
        os.mkdir(self.path("many"))
        os.mkdir(self.path("folders"))
        subprocess.run([PROCESS, "create", self.path("many"), "a-file-" + "x" * 40 + "-",
                        str(FILES)], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([PROCESS, "create", self.path("folders"), "a-folder-" + "x" * 40 + "-",
                        str(FOLDERS), "40755"], check=True, stdout=subprocess.DEVNULL)

    def start_peers(self):
        ends = os.pipe()
        child = os.fork()
        if child == 0:
            mounted.die_with_parent()
            ask_and_stay(self.volume.root, SEED, ends[1])
        os.close(ends[1])
        with os.fdopen(ends[0], "rb") as ready:
            self.assertGreater(int(ready.readline()), 0)

        def end():
            os.kill(child, 9)
            os.waitpid(child, 0)
        self.addCleanup(end)
        time.sleep(1)  # by then their queues are full

    def promptly(self, *words):
        return within(PROMPTLY_SECONDS, lambda: run(*words))

    def test_others_go_on(self):
        self.volume.mount()
        self.fill()
        self.start_peers()
        os.makedirs(self.path("tree/below"))
        with open(self.path("tree/below/f"), "wb") as file:
            file.write(b"x" * 10_000)
        self.assertEqual(self.promptly("find", self.path("tree")).stdout.count("\n"), 3)
        self.promptly("sync", self.volume.root)
        self.promptly("rm", "-r", self.path("tree"))
        self.promptly("rebuild", self.volume.root)
        started = time.time()
        self.promptly("mount", "-o", "remount,ro", self.volume.root)
        self.promptly("mount", "-o", "remount,rw", self.volume.root)
        # No descriptor of theirs keeps the mount busy, and nothing waits for them.
        self.promptly("umount", self.volume.root)
        print(f"remounts and unmount {time.time() - started:.2f} s", file=sys.stderr)
        self.volume.check()

    def test_a_volume_that_is_exchanged(self):
        """Mounted read-only: a remount for writing reopens the image while these requests are
        running."""
        self.volume.mount()
        self.fill()
        self.volume.unmount()
        self.volume.mount("-o", "ro")
        self.start_peers()
        self.promptly("mount", "-o", "remount,rw", self.volume.root)
        with open(self.path("new"), "wb") as file:
            file.write(b"written")
        self.promptly("umount", self.volume.root)
        self.volume.check()

    def test_a_slow_reader_gets_all(self):
        """Each entry once, although the scan is suspended many times, beside peers that do not
        read."""
        self.volume.mount()
        self.fill()
        self.start_peers()
        finding = subprocess.Popen([mounted.WARREN, "find", self.volume.root],
                                   stdout=subprocess.PIPE)
        names = []
        for line in finding.stdout:
            names.append(line)
            if len(names) % 10_000 == 0:
                time.sleep(0.1)
        finding.stdout.close()
        self.assertEqual(finding.wait(), 0)
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual(len(names), 3 + FILES + FOLDERS)
        self.volume.unmount()

    def test_a_signal_ends_the_mount(self):
        self.volume.mount()
        self.fill()
        self.start_peers()
        daemon = self.volume.process()
        os.kill(daemon, 15)
        self.assertTrue(wait_until(lambda: not os.path.exists(f"/proc/{daemon}"),
                                   PROMPTLY_SECONDS))
        self.volume.check()


if __name__ == "__main__":
    if not os.access(PROCESS, os.X_OK):
        print("skipped: WARREN_BUILD does not name the build folder")
        raise SystemExit(mounted.SKIPPED)
    mounted.main()
