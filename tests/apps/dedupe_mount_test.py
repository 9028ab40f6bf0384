#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sharing equal blocks on a mounted volume: the verb of the control socket, its permission checks,
and warren dedup on a mount and on an image."""

import errno
import json
import os
import random
import shutil
import socket
import stat
import struct
import subprocess
import tempfile
import threading
import time

import mounted
from kill_verbs_test import connect
from mounted import MountedTest, Volume, as_user, control_frame, control_path, run

VERB_DEDUPE = 12
BLOCK = 4096
IN_INODES = len(b"few bytes")  # of fill(): equal, but nothing to share
OWNER, MEMBER, GROUP, OTHER = 12345, 12346, 12300, 12347


def ask(root, descriptors, numbers):
    """The answer to one request: error number, number of bytes, whether they differ."""
    with connect(root) as peer:
        payload = b"".join(struct.pack("<Q", number) for number in numbers)
        socket.send_fds(peer, [control_frame(VERB_DEDUPE, payload)], descriptors)
        answer = peer.recv(4096)
    words = struct.unpack_from(f"<{(len(answer) - 8) // 8}Q", answer, 8)
    return words + (0, 0) if len(words) == 1 else words


def dedupe(root, source, offset, target, target_offset, length):
    descriptors = [os.open(path, os.O_PATH) for path in (source, target)]
    try:
        return ask(root, descriptors, (offset, target_offset, length))
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


class DedupeVerb(MountedTest):
    @classmethod
    def setUpClass(cls):
        cls.volume = Volume()
        cls.volume.mount("-o", "allow_other")

    def two_files(self, blocks=8):
        data = random.randbytes(blocks * BLOCK)
        paths = [self.write(name, data) for name in ("a", "b")]
        os.sync()
        return data, *paths

    def free(self):
        os.sync()
        return os.statvfs(self.folder).f_bfree

    def test_equal_blocks_become_free(self):
        data, source, target = self.two_files(2000)
        before, was = self.free(), os.stat(target)
        self.assertEqual(dedupe(self.folder, source, 0, target, 0, len(data)), (0, len(data), 0))
        self.assertGreater(self.free() - before, 1900)
        now = os.stat(target)
        self.assertEqual((now.st_mtime_ns, now.st_ctime_ns, now.st_size),
                         (was.st_mtime_ns, was.st_ctime_ns, was.st_size))
        # st_blocks includes the block that lists more than five extents.
        self.assertLessEqual(abs(now.st_blocks - was.st_blocks), BLOCK // 512)
        with open(source, "r+b") as file:
            file.write(b"changed")
        mounted.drop_caches()
        self.assertEqual(self.read("b"), data)
        self.assertEqual(self.read("a"), b"changed" + data[7:])

    def test_the_kernel_hears_of_other_block_counts(self):
        source = self.write("a", b"x")
        os.truncate(source, 100 * BLOCK)
        target = self.write("b", b"x" + bytes(100 * BLOCK - 1))
        os.sync()
        self.assertEqual(os.stat(target).st_blocks, 800)
        self.assertEqual(dedupe(self.folder, source, 0, target, 0, 100 * BLOCK)[:2],
                         (0, 100 * BLOCK))
        self.assertEqual(os.stat(target).st_blocks, 8)

    def test_other_bytes_are_told(self):
        data, source, target = self.two_files()
        with open(target, "r+b") as file:
            file.seek(5000)
            file.write(b"changed")
        os.sync()
        self.assertEqual(dedupe(self.folder, source, 0, target, 0, len(data)), (0, 0, 1))

    def test_bad_requests(self):
        data, source, target = self.two_files()
        for offset, target_offset, length in ((1, 0, BLOCK), (0, 1, BLOCK), (0, 0, 9 * BLOCK),
                                              (1 << 63, 0, BLOCK), (BLOCK, 0, (1 << 64) - 1)):
            answer = dedupe(self.folder, source, offset, target, target_offset, length)
            self.assertEqual(answer[0], errno.EINVAL, (offset, target_offset, length))
        self.assertEqual(dedupe(self.folder, source, 0, source, BLOCK, 2 * BLOCK)[0], errno.EINVAL)
        self.assertEqual(dedupe(self.folder, self.folder, 0, target, 0, BLOCK)[0], errno.EISDIR)
        os.mkfifo(self.path("pipe"))
        self.assertEqual(dedupe(self.folder, source, 0, self.path("pipe"), 0, BLOCK)[0],
                         errno.EINVAL)
        self.assertEqual(dedupe(self.folder, "/etc/passwd", 0, target, 0, BLOCK)[0], errno.EXDEV)
        self.assertEqual(dedupe(self.folder, source, 0, "/etc/passwd", 0, BLOCK)[0], errno.EXDEV)
        file = os.open(source, os.O_PATH)
        self.assertEqual(ask(self.folder, [file], (0, 0, BLOCK))[0], errno.EINVAL)
        self.assertEqual(ask(self.folder, [file] * 3, (0, 0, BLOCK))[0], errno.EINVAL)
        self.assertEqual(ask(self.folder, [file] * 2, (0, 0))[0], errno.EINVAL)
        os.close(file)
        self.assertEqual(self.read("b"), data)

    def test_for_whom(self):
        """A process is allowed what open(2) for reading and ioctl_fideduperange(2) would allow,
        whatever mode the descriptors were opened with."""
        _, source, target = self.two_files()
        os.chown(target, OWNER, GROUP)
        users = {"owner": (OWNER, OWNER), "member": (MEMBER, GROUP), "other": (OTHER, OTHER),
                 "root": (0, 0)}
        for source_mode in (0o644, 0o600):
            os.chmod(source, source_mode)
            for mode in (0o600, 0o400, 0o460, 0o444, 0o446):
                os.chmod(target, mode)
                for name, ids in users.items():
                    def work():
                        answer = dedupe(self.folder, source, 0, target, 0, BLOCK)
                        if answer[0] != 0:
                            raise OSError(answer[0], "refused")

                    may_write = {"owner": True, "root": True, "member": mode & stat.S_IWGRP,
                                 "other": mode & stat.S_IWOTH}[name]
                    wanted = 0 if may_write else errno.EPERM
                    if source_mode == 0o600 and name != "root":
                        wanted = errno.EACCES
                    self.assertEqual(as_user(*ids, work), wanted,
                                     (oct(source_mode), oct(mode), name))

    def test_descriptors_that_are_open_give_no_more(self):
        _, source, target = self.two_files()
        os.chown(target, OWNER, GROUP)
        os.chmod(target, 0o644)
        files = [os.open(source, os.O_RDONLY), os.open(target, os.O_RDWR)]

        def work():
            answer = ask(self.folder, files, (0, 0, BLOCK))
            if answer[0] != 0:
                raise OSError(answer[0], "refused")

        self.assertEqual(as_user(OTHER, OTHER, work), errno.EPERM)
        self.assertEqual(as_user(OWNER, OWNER, work), 0)
        for file in files:
            os.close(file)

    def test_read_only_mounts(self):
        data, source, target = self.two_files()
        place = tempfile.mkdtemp(prefix="warren-bind-")
        self.addCleanup(os.rmdir, place)
        subprocess.run(["mount", "--bind", self.folder, place], check=True)
        self.addCleanup(subprocess.run, ["umount", place], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", place], check=True)
        through = os.path.join(place, "b")
        self.assertEqual(dedupe(self.folder, source, 0, through, 0, BLOCK)[0], errno.EROFS)
        self.assertEqual(dedupe(self.folder, through, 0, source, 0, BLOCK)[:2], (0, BLOCK))
        run("mount", "-o", "remount,ro", self.volume.root)
        try:
            self.assertEqual(dedupe(self.folder, source, 0, target, 0, BLOCK)[0], errno.EROFS)
        finally:
            run("mount", "-o", "remount,rw", self.volume.root)
        self.assertEqual(self.read("a"), data)

    def test_writers_of_both_sides(self):
        """Each writer reads its own bytes, while the kernel still holds some of them back."""
        blocks, ends = 64, threading.Event()
        models = [bytearray(blocks * BLOCK) for _ in range(2)]
        paths = [self.write(name, bytes(blocks * BLOCK)) for name in ("a", "b")]

        def write_on(number):
            choose = random.Random(number)
            with open(paths[number], "r+b", buffering=0) as file:
                while not ends.is_set():
                    at = choose.randrange(blocks) * BLOCK + choose.choice((0, 0, 100))
                    piece = bytes([choose.randrange(2)]) * min(choose.randrange(1, 3 * BLOCK),
                                                              blocks * BLOCK - at)
                    file.seek(at)
                    file.write(piece)
                    models[number][at:at + len(piece)] = piece

        writers = [threading.Thread(target=write_on, args=(number,)) for number in range(2)]
        for writer in writers:
            writer.start()
        shared = 0
        for step in range(400):
            if step % 8 == 0:
                os.sync()
            at, other = (random.randrange(blocks - 4) * BLOCK for _ in range(2))
            code, count, _ = dedupe(self.folder, paths[step % 2], at, paths[1 - step % 2], other,
                                    random.choice((1, 1, 4)) * BLOCK)
            self.assertEqual(code, 0)
            shared += count
        ends.set()
        for writer in writers:
            writer.join()
        self.assertGreater(shared, 0)
        mounted.drop_caches()
        for name, model in zip("ab", models):
            self.assertEqual(self.read(name), bytes(model))


class DedupCommand(MountedTest):
    def fill(self, folder):
        data = random.randbytes(2 << 20)
        contents = {"a": data, "b": data + b"more", "c": data[2 * BLOCK:], "small": b"few bytes",
                    "small too": b"few bytes", "d/e": data[:BLOCK] + bytes(BLOCK) + data[BLOCK:]}
        os.mkdir(os.path.join(folder, "d"))
        for name, piece in contents.items():
            with open(os.path.join(folder, name), "wb") as file:
                file.write(piece)
        return contents

    def test_on_a_mount(self):
        contents = self.fill(self.folder)
        # The kernel has not written it back yet.
        before = json.loads(run("dedup", "--json", self.folder).stdout)
        applied = json.loads(run("dedup", "--json", "--apply", self.folder).stdout)
        self.assertEqual(applied["applied_failures"], 0)
        self.assertEqual(applied["applied_bytes"], before["savings_bytes"] - IN_INODES)
        self.assertGreater(applied["applied_bytes"], 3 * (2 << 20) - 4 * BLOCK)
        mounted.drop_caches()
        for name, piece in contents.items():
            self.assertEqual(self.read(name), piece, name)

    def test_space_on_a_mount(self):
        data = random.randbytes(16 << 20)
        for name in "abc":
            self.write(name, data)
        os.sync()
        before = os.statvfs(self.folder).f_bfree
        run("dedup", "--apply", self.folder)
        os.sync()
        self.assertGreater(os.statvfs(self.folder).f_bfree - before, 2 * 4096 - 100)

    def test_at_a_rate(self):
        data = random.randbytes(1 << 20)
        for name in "ab":
            self.write(name, data)
        os.sync()
        start = time.monotonic()
        applied = json.loads(run("dedup", "--json", "--apply", "--rate=2M", self.folder).stdout)
        # 2 MiB are read, and as much compared; the first part of a second is not delayed.
        self.assertGreater(time.monotonic() - start, 1.9)
        self.assertEqual(applied["applied_bytes"], len(data))
        refused = run("dedup", "--rate=0", self.folder, code=1)
        self.assertIn("invalid rate '0'", refused.stderr)

    def test_across_file_systems(self):
        self.write("a", random.randbytes(2 * BLOCK))
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(self.path("a"), folder)
            for places in ((folder, self.folder), (self.folder, folder)):
                done = run("dedup", "--apply", *places, code=1)
                self.assertIn("different file systems", done.stderr)

    def test_without_a_daemon(self):
        for name in "ab":
            self.write(name, b"x" * 2 * BLOCK)
        volume = Volume("64M")
        self.addCleanup(volume.remove)
        volume.mount()
        self.addCleanup(volume.unmount)
        os.unlink(control_path(volume.root))
        for name in "ab":
            shutil.copy(self.path(name), volume.root)
        done = run("dedup", "--apply", volume.root, code=1)
        self.assertIn("daemon of this mount cannot be reached", done.stderr)

    def test_a_daemon_that_goes_away(self):
        """One line says so, however many files are left."""
        for name in "abcd":
            self.write(name, b"x" * 2 * BLOCK)
        with mounted.another_daemon(control_path(self.folder), b""):
            done = run("dedup", "--apply", self.folder, code=1)
        self.assertIn("daemon of this mount cannot be reached", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_in_an_image(self):
        with tempfile.TemporaryDirectory() as folder:
            image = os.path.join(folder, "v.img")
            tree = os.path.join(folder, "tree")
            os.mkdir(tree)
            contents = self.fill(tree)
            run("mkfs", "--size", "64M", image)
            run("cp", "-r", tree, f"{image}:/tree")
            report = json.loads(run("dedup", "--json", f"{image}:/").stdout)
            self.assertEqual(report["savings_bytes"],
                             json.loads(run("dedup", "--json", tree).stdout)["savings_bytes"])
            applied = json.loads(run("dedup", "--json", "--apply", f"{image}:/tree").stdout)
            self.assertEqual(applied["applied_failures"], 0)
            self.assertEqual(applied["applied_bytes"], report["savings_bytes"] - IN_INODES)
            for name, piece in contents.items():
                found = subprocess.run([mounted.WARREN, "cat", f"{image}:/tree/{name}"],
                                       capture_output=True, check=True).stdout
                self.assertEqual(found, piece)
            run("fsck", image)
            weak = json.loads(run("dedup", "--json", "--algorithm", "md5", f"{image}:/").stdout)
            self.assertEqual(weak["savings_bytes"], report["savings_bytes"])
            done = run("dedup", "--index", os.path.join(folder, "index"), f"{image}:/", code=1)
            self.assertIn("leave it out with an image", done.stderr)
            self.assertIn("No such file", run("dedup", f"{image}:/absent", code=1).stderr)


if __name__ == "__main__":
    mounted.main()
