#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a mount's daemon does besides system calls: bulk commands with the kernel's caches filled,
remounting, ending, NFS handles, and clear errors."""

import errno
import os
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest

import mounted
from kill_verbs_test import is_gone, wait_until
from mounted import MountedTest, Volume, as_user, control_frame, control_path, run

SOMEBODY = 12345
MNT_DETACH = 2


def make_tree(path, directories=10, files=20):
    for i in range(directories):
        os.makedirs(f"{path}/d{i}/deep")
        for j in range(files):
            with open(f"{path}/d{i}/f{j}", "wb") as file:
                file.write(b"%d %d" % (i, j))


def walk_all(path):
    """Fills the kernel's caches; returns the number of names."""
    count = 0
    for folder, directories, files in os.walk(path):
        for name in directories + files:
            os.lstat(os.path.join(folder, name))
            count += 1
    return count


def refuses_connections(path):
    with socket.socket(socket.AF_UNIX) as peer:
        try:
            peer.connect(path)
            return False
        except OSError:
            return True


def names_that_open(directory, names):
    found = []
    for name in names:
        try:
            os.close(os.open(name, os.O_RDONLY, dir_fd=directory))
            found.append(name)
        except OSError:
            pass
    return found


class Bulk(MountedTest):
    def test_removed_tree_leaves_no_ghosts(self):
        tree = self.path("t")
        make_tree(tree)
        names = walk_all(tree)
        self.assertEqual(names, 220)
        run("rm", "-r", tree)
        self.assertEqual(os.listdir(self.folder), [])
        for path in (tree, f"{tree}/d0", f"{tree}/d0/f0"):
            self.fails_with(errno.ENOENT, os.lstat, path)
        self.assertEqual(os.stat(self.folder).st_nlink, 2)
        make_tree(tree)
        self.assertEqual(walk_all(tree), 220)
        with open(f"{tree}/d3/f4", "rb") as file:
            self.assertEqual(file.read(), b"3 4")

    def test_open_and_linked_files_survive(self):
        tree = self.path("t")
        make_tree(tree, 2, 3)
        os.link(f"{tree}/d0/f0", self.path("linked"))
        self.assertEqual(os.stat(self.path("linked")).st_nlink, 2)
        held = os.open(f"{tree}/d1/f1", os.O_RDWR)
        os.write(held, b"not written out yet")
        inside = os.open(f"{tree}/d1", os.O_RDONLY | os.O_DIRECTORY)
        run("rm", "-r", tree)
        self.assertEqual(os.stat(self.path("linked")).st_nlink, 1)
        self.assertEqual(os.fstat(held).st_nlink, 0)
        self.assertEqual(os.pread(held, 100, 0), b"not written out yet")
        deadline = time.time() + 10  # a process inside may see names slightly longer
        while names_that_open(inside, ["f2"]) and time.time() < deadline:
            time.sleep(0.01)
        self.fails_with(errno.ENOENT, os.open, "f2", os.O_RDONLY, dir_fd=inside)
        self.fails_with(errno.ENOENT, os.open, "new", os.O_CREAT | os.O_WRONLY, dir_fd=inside)
        os.close(inside)
        os.close(held)

    def test_permission_of_the_peer(self):
        make_tree(self.path("t"), 1, 1)

        def remove():
            done = subprocess.run([mounted.WARREN, "rm", "-r", self.path("t")],
                                  capture_output=True, check=False)
            if done.returncode != 0:
                raise OSError(errno.EACCES, "refused")
        self.assertEqual(as_user(SOMEBODY, SOMEBODY, remove), errno.EACCES)
        self.assertEqual(walk_all(self.path("t")), 3)
        os.chmod(self.folder, 0o777)
        subprocess.run(["chown", "-R", str(SOMEBODY), self.path("t")], check=True)
        self.assertEqual(as_user(SOMEBODY, SOMEBODY, remove), 0)
        self.assertFalse(os.path.exists(self.path("t")))

    def test_moved_names(self):
        os.mkdir(self.path("in"))
        os.mkdir(self.path("out"))
        for i in range(100):
            self.write(f"in/f{i}", b"%d" % i)
        os.mkdir(self.path("in/dir"))
        self.write("in/dir/file", b"inside")
        walk_all(self.folder)
        self.assertFalse(os.path.exists(self.path("out/f0")))  # a cached absence
        run("mv", *(self.path("in", name) for name in os.listdir(self.path("in"))),
            self.path("out"))
        self.assertEqual(os.listdir(self.path("in")), [])
        self.assertEqual(len(os.listdir(self.path("out"))), 101)
        self.assertEqual(self.read("out/f42"), b"42")
        self.assertEqual(self.read("out/dir/file"), b"inside")
        self.assertFalse(os.path.exists(self.path("in/f0")))
        self.assertEqual(os.stat(self.path("in")).st_nlink, 2)
        self.assertEqual(os.stat(self.path("out")).st_nlink, 3)

    def test_mounted_below_is_refused(self):
        os.makedirs(self.path("t/mnt"))
        subprocess.run(["mount", "-t", "tmpfs", "none", self.path("t/mnt")], check=True)
        try:
            run("rm", "-r", self.path("t"), code=1)
            self.assertTrue(os.path.ismount(self.path("t/mnt")))
        finally:
            subprocess.run(["umount", self.path("t/mnt")], check=True)
        run("rm", "-r", self.path("t"))

    def test_mounted_below_by_another_path_is_refused(self):
        """As by rmdir(2) and rename(2), the mount point counts, not the path by which it was
        mounted."""
        os.makedirs(self.path("t/mnt"))
        again = tempfile.mkdtemp(prefix="warren-again-")
        self.addCleanup(os.rmdir, again)
        for words in (("--bind", self.folder, again), ("--make-private", again),
                      ("-t", "tmpfs", "none", f"{again}/t/mnt")):
            subprocess.run(["mount", *words], check=True)
        self.addCleanup(subprocess.run, ["umount", "-R", again], check=True)
        self.assertFalse(os.path.ismount(self.path("t/mnt")))
        self.fails_with(errno.EBUSY, os.rmdir, self.path("t/mnt"))
        self.fails_with(errno.EBUSY, os.rename, self.path("t/mnt"), self.path("moved"))
        for words in (("rm", "-r", self.path("t")), ("rm", "-r", self.path("t/mnt")),
                      ("mv", self.path("t/mnt"), self.path("moved"))):
            self.assertIn("busy", run(*words, code=1).stderr)
            self.assertTrue(os.path.ismount(f"{again}/t/mnt"))
        subprocess.run(["umount", f"{again}/t/mnt"], check=True)
        run("rm", "-r", self.path("t"))

    def test_find_and_du_see_dirty_data(self):
        file = os.open(self.path("a"), os.O_CREAT | os.O_RDWR)
        os.write(file, b"x" * 40960)
        self.assertIn(f"{self.path('a')}\n", run("find", self.folder).stdout)
        self.assertEqual(run("du", "-s", "-b", self.path("a")).stdout.split()[0], "40960")
        os.close(file)

    def test_find_filters_as_find_does(self):
        tree = self.path("t")
        make_tree(tree)
        os.truncate(f"{tree}/d3/f3", 100_000)
        os.utime(f"{tree}/d4/f4", (1, 1))
        os.symlink("f3", f"{tree}/d3/link")
        for tests in (("-name", "f1*"), ("-iname", "F3"), ("-type", "d"), ("-size", "+10k"),
                      ("-maxdepth", "1"), ("-name", "f4", "-mtime", "+1000"),
                      ("-type", "f", "!", "-name", "f*"), ("-type", "l", "-printf", "%p %l\n"),
                      ("-name", "f[12]", "-o", "-type", "d")):
            ours = run("find", tree, *tests).stdout.splitlines()
            theirs = subprocess.run(["find", tree, *tests], check=True, capture_output=True,
                                    text=True).stdout.splitlines()
            self.assertEqual(sorted(ours), sorted(theirs), tests)

    def test_du_adds_up_as_du_does(self):
        tree = self.path("t")
        make_tree(tree)
        with open(f"{tree}/d2/large", "wb") as file:
            file.write(b"x" * 1_000_000)
        for options in (("-d", "1"), (), ("-d", "1", "-b"), ("-s",), ("-s", "-l"), ("-s", "-b")):
            # It is unspecified in which directory a file with two names counts.
            if options == ("-s",):
                os.link(f"{tree}/d2/large", f"{tree}/d1/again")
            ours = run("du", *options, tree).stdout.splitlines()
            theirs = subprocess.run(["du", *options, tree], check=True, capture_output=True,
                                    text=True).stdout.splitlines()
            self.assertEqual(sorted(ours), sorted(theirs), options)
        one = run("du", "-s", "-b", f"{tree}/d2/large").stdout
        self.assertEqual(one, f"1000000\t{tree}/d2/large\n")
        # A directory that the user cannot read is left out of the sum, and reported.
        os.chmod(f"{tree}/d2", 0o700)

        def denied():
            if "ermission denied" not in run("du", "-s", tree, code=1).stderr:
                raise OSError(errno.EINVAL, "du said nothing")

        self.assertEqual(as_user(SOMEBODY, SOMEBODY, denied), 0)

    def test_rebuild(self):
        for i in range(3000):
            self.write(f"file{i}")
        for i in range(0, 3000, 3):
            os.unlink(self.path(f"file{i}"))
        before = sorted(os.listdir(self.folder))
        run("rebuild", self.folder)
        self.assertEqual(sorted(os.listdir(self.folder)), before)

    def test_nonsense_on_the_control_socket(self):
        path = control_path(self.volume.root)
        frames = [b"", b"\xff" * 8, control_frame(3, length=1 << 30),
                  control_frame(3, struct.pack("<Q", 1 << 60)), control_frame(4), control_frame(6),
                  control_frame(99), control_frame(9), control_frame(3, version=7)]
        for frame in frames:
            with socket.socket(socket.AF_UNIX) as peer:
                peer.connect(path)
                peer.sendall(frame)
                peer.shutdown(socket.SHUT_WR)
                while peer.recv(4096):
                    pass
        outside = os.open("/", os.O_PATH | os.O_DIRECTORY)
        payload = struct.pack("<Q", 3) + b"etc"
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(path)
            socket.send_fds(peer, [control_frame(3, payload)], [outside])
            answer = peer.recv(4096)
        os.close(outside)
        self.assertEqual(struct.unpack_from("<Q", answer, 8)[0], errno.EXDEV)
        self.assertTrue(os.path.isdir("/etc"))
        run("sync", self.volume.root)

    def test_who_waits_for_the_close_is_heard_before_it_unmounts(self):
        with socket.socket(socket.AF_UNIX) as peer:
            peer.settimeout(10)
            peer.connect(control_path(self.volume.root))
            peer.sendall(control_frame(8))
            self.assertEqual(peer.recv(4096), control_frame(100))
        run("sync", self.volume.root)  # it disconnected without unmounting: the mount continues


    def test_another_version_of_the_protocol(self):
        path = control_path(self.volume.root)
        with socket.socket(socket.AF_UNIX) as peer:
            peer.settimeout(10)
            peer.connect(path)
            peer.sendall(control_frame(1, version=mounted.CONTROL_VERSION - 1))
            answer = peer.recv(4096)
        self.assertEqual(answer, control_frame(101, struct.pack("<Q", errno.EPROTONOSUPPORT)))

        answer = control_frame(101, struct.pack("<Q", 0), version=mounted.CONTROL_VERSION + 1)
        with mounted.another_daemon(path, answer):
            told = run("sync", self.volume.root, code=1).stderr
        self.assertIn("another version of Warren (unmount it and mount it again)", told)


class Handles(MountedTest):
    def test_by_handle(self):
        path = self.write("a", b"found again")
        os.mkdir(self.path("d"))
        handles = [mounted.handle_of(path), mounted.handle_of(self.path("d")),
                   mounted.handle_of(self.volume.root)]
        inodes = [os.stat(path).st_ino, os.stat(self.path("d")).st_ino,
                  os.stat(self.volume.root).st_ino]
        mounted.drop_caches()
        root = os.open(self.volume.root, os.O_RDONLY | os.O_DIRECTORY)
        for handle, inode in zip(handles, inodes):
            file = mounted.open_handle(root, handle, os.O_RDONLY)
            self.assertEqual(os.fstat(file).st_ino, inode)
            os.close(file)
        os.unlink(path)
        mounted.drop_caches()
        self.fails_with(errno.ESTALE, mounted.open_handle, root, handles[0], os.O_RDONLY)
        os.close(root)


class Life(unittest.TestCase):
    def setUp(self):
        self.volume = Volume("64M")
        self.addCleanup(self.volume.remove)

    def file(self, name="f"):
        return os.path.join(self.volume.root, name)

    def put(self, data, name="f"):
        with open(self.file(name), "wb") as file:
            file.write(data)

    def get(self, name="f"):
        with open(self.file(name), "rb") as file:
            return file.read()

    def options(self):
        with open("/proc/self/mounts", encoding="utf-8") as table:
            for line in table:
                source, place, kind, options = line.split()[:4]
                if place == self.volume.root:
                    self.assertEqual((source, kind), (self.volume.image, "fuse.warren"))
                    return options.split(",")
        return None

    def test_contents_survive(self):
        self.volume.mount("-o", "nodev,noatime,_netdev,nofail")
        options = self.options()
        self.assertTrue({"rw", "nodev", "noatime"} <= set(options), options)
        make_tree(self.file("t"))
        self.put(b"data" * 100000)
        run("umount", self.volume.root)
        self.volume.check()
        self.volume.mount()
        self.assertEqual(walk_all(self.file("t")), 220)
        self.assertEqual(self.get(), b"data" * 100000)
        self.assertNotIn("nodev", self.options())
        self.volume.unmount()

    def test_unmounting_unheard(self):
        self.volume.mount()
        with mounted.another_daemon(control_path(self.volume.root), b"", unmounts=True):
            told = run("umount", self.volume.root).stderr
        self.assertIn("its daemon did not answer", told)
        self.assertFalse(self.volume.is_mounted())

    def test_another_mount_takes_the_device_number_of_a_daemon_that_is_ending(self):
        """Both sockets have the same path then, and on ext4 the same inode number, too."""
        other = Volume("64M")
        self.addCleanup(other.remove)
        for _ in range(50):
            self.volume.mount()
            device, path = os.stat(self.volume.root).st_dev, control_path(self.volume.root)
            daemon = self.volume.process()
            self.put(b"to be written" * 100_000)
            mounted.checked(mounted.libc.umount2(os.fsencode(self.volume.root), MNT_DETACH))
            while not refuses_connections(path):
                pass
            mounted.stop(daemon)  # while it is closing the volume
            is_closing = os.path.exists(path)
            other.mount()
            is_tried = is_closing and os.stat(other.root).st_dev == device
            os.kill(daemon, signal.SIGCONT)
            self.assertTrue(wait_until(lambda pid=daemon: is_gone(pid)))
            self.assertNotEqual(other.process(), daemon)
            other.unmount()
            if is_tried:
                return
        self.fail("never stopped in time, or another process took each number")

    def test_idle_daemon_sleeps(self):
        """It polls for the next request only while requests follow closely."""
        self.volume.mount()
        for i in range(200):
            os.mkdir(self.file(f"d{i}"))
        pid = self.volume.process()
        with open(f"/proc/{pid}/stat") as stat:
            before = stat.read()
        time.sleep(1)
        with open(f"/proc/{pid}/stat") as stat:
            after = stat.read()
        ticks = [sum(int(word) for word in text.rsplit(")", 1)[1].split()[11:13])
                 for text in (before, after)]
        self.assertLess(ticks[1] - ticks[0], os.sysconf("SC_CLK_TCK") // 10)
        self.volume.unmount()

    def test_remount(self):
        self.volume.mount()
        self.put(b"one")
        with open(self.file(), "ab"):
            done = run("mount", "-o", "remount,ro", self.volume.root, code=32)
            self.assertIn("open for writing", done.stderr)
        run("mount", "-o", "remount,ro", self.volume.root)
        self.assertIn("ro", self.options())
        with self.assertRaises(OSError) as caught:
            self.put(b"two")
        self.assertEqual(caught.exception.errno, errno.EROFS)
        run("rm", self.file(), code=1)
        run("mount", "-o", "remount,rw,noatime", self.volume.root)
        self.put(b"three")
        self.volume.unmount()
        self.volume.check()

    def test_read_only_from_the_start(self):
        self.volume.mount()
        make_tree(self.file("t"), 2, 2)
        self.put(b"one")
        self.volume.unmount()
        with open(self.volume.image, "rb") as file:
            before = file.read()
        self.volume.mount("-o", "ro")
        held = os.open(self.file(), os.O_RDONLY)
        walk_all(self.volume.root)
        with self.assertRaises(OSError) as caught:
            self.put(b"two")
        self.assertEqual(caught.exception.errno, errno.EROFS)
        with open(self.volume.image, "rb") as file:
            self.assertEqual(file.read(), before)
        run("mount", "-o", "remount,rw", self.volume.root)
        self.put(b"two and more")
        self.assertEqual(os.pread(held, 100, 0), b"two and more")
        self.assertEqual(walk_all(self.file("t")), 8)
        run("rm", "-r", self.file("t"))
        os.close(held)
        self.volume.unmount()
        self.volume.check()

    def test_signal_ends_in_order(self):
        for foreground in (False, True):
            if foreground:
                daemon = subprocess.Popen([mounted.WARREN, "mount", "-f", self.volume.image,
                                           self.volume.root])
                while not self.volume.is_mounted():
                    time.sleep(0.01)
                number = daemon.pid
            else:
                self.volume.mount()
                number = self.volume.process()
            file = os.open(self.file(), os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
            os.write(file, b"dirty" * 1000)
            os.close(file)
            os.kill(number, signal.SIGTERM)
            deadline = time.time() + 20
            while self.volume.is_mounted() and time.time() < deadline:
                time.sleep(0.01)
            if foreground:
                self.assertEqual(daemon.wait(20), 0)
            while os.path.exists(f"/proc/{number}") and time.time() < deadline:
                time.sleep(0.01)
            self.volume.check()
            self.volume.mount()
            self.assertEqual(self.get(), b"dirty" * 1000)
            self.volume.unmount()

    def test_refusals(self):
        place = self.volume.root
        done = run("mount", self.volume.image + "x", place, code=32)
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertIn("No such file", done.stderr)
        done = run("mount", self.volume.image, place + "/missing", code=32)
        self.assertEqual(done.stderr.count("\n"), 1)
        with open(self.volume.folder + "/text", "wb") as file:
            file.write(b"no volume" * 1000)
        os.chmod(self.volume.folder + "/text", 0o600)  # else there is a warning as well
        done = run("mount", self.volume.folder + "/text", place, code=32)
        self.assertEqual(done.stderr.count("\n"), 1)
        run("mount", "-o", "nonsense", self.volume.image, place, code=1)
        run("umount", place, code=32)
        self.volume.mount()
        other = self.volume.folder + "/other"
        os.mkdir(other)
        done = run("mount", self.volume.image, other, code=32)
        self.assertIn(self.volume.image, done.stderr)
        self.assertFalse(os.path.ismount(other))
        held = os.open(place, os.O_RDONLY)
        done = run("umount", place, code=32)
        self.assertIn("busy", done.stderr)
        os.close(held)
        self.volume.unmount()


if __name__ == "__main__":
    mounted.main()
