#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The system calls on a mounted volume: names, contents, attributes, permission."""

import errno
import json
import mmap
import os
import random
import shutil
import stat
import subprocess
import time

import mounted
from mounted import MountedTest, as_user, fallocate, renameat2

SOMEBODY = 12345
OTHER = 12346


class Names(MountedTest):
    def test_create_and_remove(self):
        path = self.write("a", b"hello")
        self.assertEqual(self.read("a"), b"hello")
        self.assertEqual(os.stat(path).st_mode, stat.S_IFREG | 0o644)
        self.fails_with(errno.EEXIST, os.open, path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        os.unlink(path)
        self.fails_with(errno.ENOENT, os.stat, path)
        self.fails_with(errno.ENOENT, os.unlink, path)
        self.write("a", b"again")
        self.assertEqual(self.read("a"), b"again")

    def test_directories(self):
        os.makedirs(self.path("x/y/z"))
        self.assertEqual(os.stat(self.path("x")).st_nlink, 3)
        self.assertEqual(os.stat(self.path("x/y/..")).st_ino, os.stat(self.path("x")).st_ino)
        self.fails_with(errno.ENOTEMPTY, os.rmdir, self.path("x"))
        self.fails_with(errno.EISDIR, os.unlink, self.path("x/y/z"))
        os.rmdir(self.path("x/y/z"))
        os.rmdir(self.path("x/y"))
        self.assertEqual(os.stat(self.path("x")).st_nlink, 2)
        self.fails_with(errno.ENOTDIR, os.rmdir, self.write("file"))

    def test_links(self):
        path = self.write("a", b"one file")
        os.link(path, self.path("b"))
        self.assertEqual(os.stat(path).st_nlink, 2)
        self.assertTrue(os.path.samefile(path, self.path("b")))
        os.unlink(path)
        self.assertEqual(os.stat(self.path("b")).st_nlink, 1)
        self.assertEqual(self.read("b"), b"one file")
        os.symlink("b", self.path("s"))
        self.assertEqual(os.readlink(self.path("s")), "b")
        self.assertEqual(self.read("s"), b"one file")
        long = "x" * 4000
        os.symlink(long, self.path("long"))
        self.assertEqual(os.readlink(self.path("long")), long)
        self.assertEqual(os.lstat(self.path("long")).st_size, 4000)

    def test_rename(self):
        self.write("a", b"a")
        self.write("b", b"b")
        os.rename(self.path("a"), self.path("c"))
        self.fails_with(errno.EEXIST, renameat2, self.path("b"), self.path("c"),
                        mounted.RENAME_NOREPLACE)
        renameat2(self.path("b"), self.path("c"), mounted.RENAME_EXCHANGE)
        self.assertEqual((self.read("b"), self.read("c")), (b"a", b"b"))
        os.rename(self.path("b"), self.path("c"))
        self.assertEqual(self.read("c"), b"a")
        self.assertEqual(os.listdir(self.folder), ["c"])
        os.makedirs(self.path("d/e"))
        self.fails_with(errno.EINVAL, os.rename, self.path("d"), self.path("d/e/f"))
        self.fails_with(errno.EISDIR, os.rename, self.path("c"), self.path("d"))
        os.mkdir(self.path("f"))
        os.rename(self.path("d/e"), self.path("f"))
        self.assertEqual(os.stat(self.path("f/..")).st_ino, os.stat(self.folder).st_ino)
        self.assertEqual(os.stat(self.path("d")).st_nlink, 2)

    def test_open_files_outlive_their_names(self):
        file = os.open(self.write("a", b"kept"), os.O_RDWR)
        os.unlink(self.path("a"))
        self.assertEqual(os.fstat(file).st_nlink, 0)
        os.write(file, b"KEPT and longer")
        self.assertEqual(os.pread(file, 100, 0), b"KEPT and longer")
        os.close(file)
        file = os.open(self.write("b", b"old"), os.O_RDONLY)
        self.write("c", b"new")
        os.rename(self.path("c"), self.path("b"))
        self.assertEqual((os.read(file, 10), self.read("b")), (b"old", b"new"))
        os.close(file)

    def test_file_without_a_name(self):
        used = os.statvfs(self.folder).f_files - os.statvfs(self.folder).f_ffree
        file = os.open(self.folder, os.O_TMPFILE | os.O_RDWR, 0o640)
        os.write(file, b"nameless")
        self.assertEqual(os.listdir(self.folder), [])
        self.assertEqual(os.fstat(file).st_nlink, 0)
        self.assertEqual(stat.S_IMODE(os.fstat(file).st_mode), 0o640)
        # With a directory descriptor Python calls linkat(2), which follows the link.
        os.link(f"/proc/self/fd/{file}", self.path("named"), src_dir_fd=file)
        self.assertEqual(os.fstat(file).st_nlink, 1)
        os.close(file)
        with open(self.path("named"), "rb") as named:
            self.assertEqual(named.read(), b"nameless")
        for flags in (0, os.O_EXCL):  # O_EXCL: it can never get a name
            file = os.open(self.folder, os.O_TMPFILE | os.O_RDWR | flags, 0o600)
            os.write(file, bytes(1 << 20))
            if flags:
                self.fails_with(errno.ENOENT, os.link, f"/proc/self/fd/{file}",
                                self.path("other"), src_dir_fd=file)
            os.close(file)
        os.unlink(self.path("named"))
        run_sync()
        mounted.drop_caches()
        self.assertEqual(os.statvfs(self.folder).f_files - os.statvfs(self.folder).f_ffree, used)

    def test_special_files(self):
        os.mkfifo(self.path("pipe"), 0o600)
        os.mknod(self.path("null"), stat.S_IFCHR | 0o666, os.makedev(1, 3))
        os.mknod(self.path("block"), stat.S_IFBLK | 0o600, os.makedev(260, 70000))
        os.mknod(self.path("socket"), stat.S_IFSOCK | 0o600)
        self.assertTrue(stat.S_ISFIFO(os.stat(self.path("pipe")).st_mode))
        self.assertEqual(os.stat(self.path("block")).st_rdev, os.makedev(260, 70000))
        self.assertTrue(stat.S_ISSOCK(os.stat(self.path("socket")).st_mode))
        with open(self.path("null"), "r+b", buffering=0) as null:
            null.write(b"gone")
            self.assertEqual(null.read(1), b"")

    def test_long_names(self):
        self.write("n" * 255, b"x")
        self.assertEqual(os.listdir(self.folder), ["n" * 255])
        self.fails_with(errno.ENAMETOOLONG, self.write, "n" * 256)
        self.fails_with(errno.ENAMETOOLONG, os.stat, self.path("m" * 256))
        odd = os.fsencode(self.folder) + b"/\xff\x01 \n\\"
        os.close(os.open(odd, os.O_CREAT | os.O_WRONLY))
        self.assertIn(b"\xff\x01 \n\\", os.listdir(os.fsencode(self.folder)))

    def test_listing_while_names_change(self):
        seed = random.randrange(1 << 32)
        print("seed", seed)
        rng = random.Random(seed)
        stable = {f"stable{i}" for i in range(1500)}
        for i in range(1500):
            self.write(f"stable{i}")
            self.write(f"old{i}")
        seen = []
        with os.scandir(self.folder) as entries:
            for number, entry in enumerate(entries):
                seen.append(entry.name)
                if number % 2 == 0:
                    self.write(f"new{number}")
                    victim = self.path(f"old{rng.randrange(1500)}")
                    if os.path.exists(victim):
                        os.unlink(victim)
        found = [name for name in seen if name in stable]
        self.assertEqual(len(found), len(stable))
        self.assertEqual(set(found), stable)
        self.assertEqual(len(seen), len(set(seen)))

    def test_removed_directory_stays_usable(self):
        path = self.path("d")
        os.mkdir(path)
        held = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        os.rmdir(path)
        self.assertEqual(os.listdir(held), [])
        self.fails_with(errno.ENOENT, os.open, "f", os.O_CREAT | os.O_WRONLY, dir_fd=held)
        os.mkdir(path)
        self.assertNotEqual(os.fstat(held).st_ino, os.stat(path).st_ino)
        os.close(held)


class Contents(MountedTest):
    def test_random_writes(self):
        seed = random.randrange(1 << 32)
        print("seed", seed)
        rng = random.Random(seed)
        expected = bytearray()
        file = os.open(self.write("a"), os.O_RDWR)
        for _ in range(300):
            offset, size = rng.randrange(1 << 20), rng.randrange(1, 70000)
            if rng.randrange(8) == 0:
                os.ftruncate(file, offset)
                expected = expected[:offset].ljust(offset, b"\0")
                continue
            data = rng.randbytes(size)
            os.pwrite(file, data, offset)
            expected = expected.ljust(offset, b"\0")
            expected[offset:offset + size] = data
            if rng.randrange(20) == 0:
                os.fsync(file)
        self.assertEqual(os.fstat(file).st_size, len(expected))
        os.close(file)
        self.assertEqual(self.read("a"), expected)
        mounted.drop_caches()
        self.assertEqual(self.read("a"), expected)

    def test_append(self):
        self.write("a", b"1")
        self.write("a", b"2", os.O_APPEND)
        first = os.open(self.path("a"), os.O_WRONLY | os.O_APPEND)
        second = os.open(self.path("a"), os.O_WRONLY | os.O_APPEND)
        os.write(first, b"3")
        os.write(second, b"4")
        os.write(first, b"5")
        os.close(first)
        os.close(second)
        self.assertEqual(self.read("a"), b"12345")
        self.write("a", b"6", os.O_TRUNC)
        self.assertEqual(self.read("a"), b"6")

    def test_mapped_memory(self):
        size = 3 * mmap.PAGESIZE + 100
        path = self.write("a", bytes(size))
        with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
            memory[10:15] = b"hello"
            memory[size - 5:] = b"world"
            memory.flush()
            self.assertEqual(os.pread(file.fileno(), 5, 10), b"hello")
            os.pwrite(file.fileno(), b"both ways", 5000)
            self.assertEqual(memory[5000:5009], b"both ways")
        mounted.drop_caches()
        data = self.read("a")
        self.assertEqual((data[10:15], data[-5:], len(data)), (b"hello", b"world", size))

    def test_holes(self):
        path = self.path("a")
        file = os.open(path, os.O_RDWR | os.O_CREAT)
        os.pwrite(file, b"x" * 8192, 1 << 30)
        os.pwrite(file, b"y", 1 << 40)
        os.fsync(file)
        self.assertEqual(os.fstat(file).st_size, (1 << 40) + 1)
        self.assertLess(os.fstat(file).st_blocks, 1024)
        self.assertEqual(os.pread(file, 10, 1 << 20), bytes(10))
        self.assertEqual(os.lseek(file, 0, os.SEEK_DATA), 1 << 30)
        self.assertEqual(os.lseek(file, 1 << 30, os.SEEK_HOLE), (1 << 30) + 8192)
        self.assertEqual(os.lseek(file, (1 << 30) + 8192, os.SEEK_DATA), 1 << 40)
        self.fails_with(errno.ENXIO, os.lseek, file, 1 << 41, os.SEEK_DATA)
        os.close(file)

    def test_fallocate(self):
        file = os.open(self.write("a", b"z" * 65536), os.O_RDWR)
        fallocate(file, mounted.FALLOC_PUNCH_HOLE | mounted.FALLOC_KEEP_SIZE, 4096, 8192)
        self.assertEqual(os.pread(file, 16384, 0), b"z" * 4096 + bytes(8192) + b"z" * 4096)
        self.assertEqual(os.lseek(file, 0, os.SEEK_HOLE), 4096)
        fallocate(file, mounted.FALLOC_ZERO_RANGE, 60000, 10000)
        self.assertEqual(os.fstat(file).st_size, 70000)
        self.assertEqual(os.pread(file, 10000, 59990), b"z" * 10 + bytes(9990))
        fallocate(file, mounted.FALLOC_KEEP_SIZE, 1 << 20, 1 << 20)
        self.assertEqual(os.fstat(file).st_size, 70000)
        os.posix_fallocate(file, 0, 1 << 20)
        self.assertEqual(os.fstat(file).st_size, 1 << 20)
        self.assertEqual(os.pread(file, 10, (1 << 20) - 10), bytes(10))
        os.close(file)

    def test_copy_range(self):
        data = random.randbytes(300000)
        source = os.open(self.write("a", data), os.O_RDWR)
        os.pwrite(source, b"end", 5 << 20)
        target = os.open(self.write("b", b"before"), os.O_RDWR)
        left, at = (5 << 20) + 3, 0
        while left > 0:
            done = os.copy_file_range(source, target, left, at, at + 3)
            self.assertGreater(done, 0)
            left, at = left - done, at + done
        self.assertEqual(self.read("b"), b"bef" + self.read("a"))
        self.assertEqual(os.copy_file_range(source, target, 100, 6 << 20, 0), 0)
        os.close(source)
        os.close(target)

    def test_copy_by_sharing(self):
        data = random.randbytes((16 << 20) + 5)
        self.write("a", data)
        os.sync()
        before = os.statvfs(self.path("a")).f_bfree
        subprocess.run(["cp", self.path("a"), self.path("b")], check=True)
        self.assertEqual(self.read("b"), data)
        self.assertLess(before - os.statvfs(self.path("a")).f_bfree, 100)
        for row in json.loads(mounted.run("stat", "--json", self.path("a"), self.path("b")).stdout):
            self.assertEqual(row["shared"], (16 << 20) + 4096)
            self.assertLessEqual(row["exclusive"], 4096)  # a block of extents
        with open(self.path("b"), "r+b") as file:
            file.seek(5000)
            file.write(b"changed")
        self.assertEqual(self.read("a"), data)
        self.assertEqual(self.read("b"), data[:5000] + b"changed" + data[5007:])
        os.unlink(self.path("a"))
        self.assertEqual(self.read("b"), data[:5000] + b"changed" + data[5007:])

    def test_copy_more_than_a_reply_counts(self):
        size = 8 << 30  # more bytes than one reply can cover
        source = os.open(self.write("a", b"begin"), os.O_RDWR)
        os.pwrite(source, b"end", size - 3)
        target = os.open(self.write("b"), os.O_RDWR)
        done = []
        while sum(done) < size:
            at = sum(done)
            done.append(os.copy_file_range(source, target, size - at, at, at))
            self.assertGreater(done[-1], 0)
        self.assertEqual(done[0] % 4096, 0)
        self.assertLessEqual(len(done), 3)
        self.assertEqual(os.fstat(target).st_size, size)
        self.assertEqual(os.pread(target, 5, 0), b"begin")
        self.assertEqual(os.pread(target, 10, size - 3), b"end")
        os.close(source)
        os.close(target)

    def test_direct_io(self):
        path = self.write("a", b"c" * 16384)
        memory = mmap.mmap(-1, 16384)
        file = os.open(path, os.O_RDWR | os.O_DIRECT)
        memory[:] = b"d" * 16384
        self.assertEqual(os.pwritev(file, [memory], 4096), 16384)
        memory[:] = bytes(16384)
        self.assertEqual(os.preadv(file, [memory], 0), 16384)
        self.assertEqual(memory[:], b"c" * 4096 + b"d" * 12288)
        os.close(file)
        self.assertEqual(self.read("a"), b"c" * 4096 + b"d" * 16384)

    def test_larger_than_a_request(self):
        data = random.randbytes(9 << 20)
        self.write("a", data)
        mounted.drop_caches()
        self.assertEqual(self.read("a"), data)
        shutil.copyfile(self.path("a"), self.path("b"))
        self.assertEqual(self.read("b"), data)


class Attributes(MountedTest):
    def test_times(self):
        path = self.write("a", b"x")
        os.utime(path, ns=(-1_500_000_001, 4_000_000_000_123_456_789))
        mounted.drop_caches()
        found = os.stat(path)
        self.assertEqual(found.st_atime_ns, -1_500_000_001)
        self.assertEqual(found.st_mtime_ns, 4_000_000_000_123_456_789)
        before = time.time_ns()
        os.utime(path)
        self.assertLess(abs(os.stat(path).st_mtime_ns - before), 2_000_000_000)
        stamp = os.stat(self.folder).st_mtime_ns
        time.sleep(0.02)
        self.write("b")
        self.assertGreater(os.stat(self.folder).st_mtime_ns, stamp)

    def test_reading_updates_access_time(self):
        path = self.write("a", b"x")
        os.utime(path, ns=(10 ** 9, 2 * 10 ** 9))
        time.sleep(0.02)  # a read in the same tick of the clock is not later than the change
        self.read("a")
        stamp = os.stat(path).st_atime_ns
        self.assertGreater(stamp, 10 ** 18)
        time.sleep(0.02)
        self.read("a")  # relatime: one update is enough
        self.assertEqual(os.stat(path).st_atime_ns, stamp)

    def test_mode_and_owner(self):
        path = self.write("a", b"x")
        os.chmod(path, 0o6755)
        os.chown(path, SOMEBODY, OTHER)
        found = os.stat(path)
        self.assertEqual((found.st_uid, found.st_gid), (SOMEBODY, OTHER))
        self.assertEqual(stat.S_IMODE(found.st_mode), 0o755)  # a new owner clears the bits
        os.chmod(path, 0o6777)
        self.assertEqual(as_user(OTHER, OTHER, lambda: self.write("a", b"y")), 0)
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o777)
        os.chmod(path, 0o6777)
        self.write("a", b"root may")
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o6777)
        self.assertEqual(as_user(OTHER, OTHER, lambda: self.write("a", b"", os.O_TRUNC)), 0)
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o777)

    def test_permission(self):
        path = self.write("a", b"secret")
        os.chmod(path, 0o640)
        os.chown(path, 0, OTHER)
        self.assertEqual(as_user(SOMEBODY, SOMEBODY, lambda: self.read("a")), errno.EACCES)
        self.assertEqual(as_user(SOMEBODY, SOMEBODY, lambda: self.read("a"), [OTHER]), 0)
        self.assertEqual(as_user(SOMEBODY, SOMEBODY, lambda: self.write("b")), errno.EACCES)
        self.assertEqual(as_user(SOMEBODY, SOMEBODY, lambda: os.chmod(path, 0o666)), errno.EPERM)
        os.chmod(self.folder, 0o1777)
        self.assertEqual(as_user(SOMEBODY, SOMEBODY, lambda: self.write("b")), 0)
        self.assertEqual(os.stat(self.path("b")).st_uid, SOMEBODY)
        remove = lambda: os.unlink(self.path("b"))
        self.assertEqual(as_user(OTHER, OTHER, remove), errno.EPERM)
        self.assertEqual(as_user(SOMEBODY, SOMEBODY, remove), 0)

    def test_group_of_directory(self):
        os.chown(self.folder, SOMEBODY, OTHER)
        os.chmod(self.folder, 0o2775)
        self.write("a")
        os.mkdir(self.path("d"))
        self.assertEqual(os.stat(self.path("a")).st_gid, OTHER)
        self.assertEqual(os.stat(self.path("d")).st_gid, OTHER)
        self.assertTrue(os.stat(self.path("d")).st_mode & stat.S_ISGID)

    def test_umask(self):
        os.umask(0o027)
        os.close(os.open(self.path("a"), os.O_CREAT | os.O_WRONLY, 0o666))
        os.mkdir(self.path("d"), 0o777)
        self.assertEqual(stat.S_IMODE(os.stat(self.path("a")).st_mode), 0o640)
        self.assertEqual(stat.S_IMODE(os.stat(self.path("d")).st_mode), 0o750)

    def test_extended_attributes(self):
        path = self.write("a")
        os.setxattr(path, "user.one", b"1")
        os.setxattr(path, "user.big", b"b" * 3000)
        os.setxattr(path, "trusted.t", b"")
        self.assertEqual(os.getxattr(path, "user.big"), b"b" * 3000)
        self.assertEqual(sorted(os.listxattr(path)), ["trusted.t", "user.big", "user.one"])
        self.fails_with(errno.EEXIST, os.setxattr, path, "user.one", b"2", os.XATTR_CREATE)
        self.fails_with(errno.ENODATA, os.setxattr, path, "user.two", b"2", os.XATTR_REPLACE)
        os.removexattr(path, "user.big")
        self.fails_with(errno.ENODATA, os.getxattr, path, "user.big")
        self.fails_with(errno.ENODATA, os.removexattr, path, "user.big")

    def test_access_lists(self):
        if not shutil.which("setfacl"):
            self.skipTest("setfacl is not installed")
        path = self.write("a", b"x")
        subprocess.run(["setfacl", "-m", f"u:{SOMEBODY}:rw", path], check=True)
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o664)  # the mask shows as the group
        self.assertEqual(as_user(SOMEBODY, SOMEBODY, lambda: self.write("a", b"y")), 0)
        os.chmod(path, 0o644)
        self.assertEqual(as_user(SOMEBODY, SOMEBODY, lambda: self.write("a")), errno.EACCES)
        subprocess.run(["setfacl", "-d", "-m", f"u:{SOMEBODY}:rwx,o::-", self.folder], check=True)
        os.umask(0o077)
        os.close(os.open(self.path("b"), os.O_CREAT | os.O_WRONLY, 0o666))
        listed = subprocess.run(["getfacl", "-nc", self.path("b")], check=True,
                                capture_output=True, text=True).stdout
        self.assertIn(f"user:{SOMEBODY}:rwx", listed)
        self.assertIn("mask::rw-", listed)
        self.assertIn("other::---", listed)
        os.mkdir(self.path("d"))
        listed = subprocess.run(["getfacl", "-ncd", self.path("d")], check=True,
                                capture_output=True, text=True).stdout
        self.assertIn(f"user:{SOMEBODY}:rwx", listed)

    def test_space(self):
        def free():
            mounted.drop_caches()
            found = os.statvfs(self.folder)
            self.assertEqual((found.f_bsize, found.f_namemax), (4096, 255))
            return found.f_bfree
        before = free()
        self.write("a", random.randbytes(8 << 20))
        self.assertAlmostEqual(before - free(), 2048, delta=64)
        # The data in units of 512 bytes, and a block of extents if the file is fragmented.
        self.assertIn(os.stat(self.path("a")).st_blocks, (16384, 16392))
        os.unlink(self.path("a"))
        run_sync()
        self.assertAlmostEqual(before, free(), delta=64)


def run_sync():
    subprocess.run(["sync"], check=True)
    time.sleep(0.2)


if __name__ == "__main__":
    mounted.main()
