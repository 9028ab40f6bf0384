#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real programs on a mounted volume: make and a compiler, git, SQLite, cp -a, tar, and a random
reader and writer that uses every way to access a file. The results are compared with those on
another file system, and the volume must be clean at the end."""

import mmap
import os
import pathlib
import random
import shutil
import socket
import sqlite3
import stat
import subprocess
import sys
import time
import unittest

import mounted
from command_line import describe_tree
from mounted import (FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE, FALLOC_ZERO_RANGE, MountedTest,
                     drop_caches, fallocate)

PROJECT = pathlib.Path(__file__).resolve().parents[2]
IDENTITY = {"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_COMMITTER_NAME": "A",
            "GIT_COMMITTER_EMAIL": "a@example.org", "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_SYSTEM": "/dev/null", "LC_ALL": "C"}


def needs(*programs):
    missing = [name for name in programs if shutil.which(name) is None]
    return unittest.skipIf(missing, f"not installed: {', '.join(missing)}")


class ProgramsTest(MountedTest):
    def call(self, *words, folder=None, code=0):
        words = [os.fspath(word) for word in words]
        done = subprocess.run(words, cwd=folder or self.folder, capture_output=True, timeout=300,
                              env={**os.environ, **IDENTITY})
        self.assertEqual(done.returncode, code, f"{words}: {done.stdout[-2000:]!r} "
                                                f"{done.stderr[-2000:]!r}")
        return done.stdout

    def mount_again(self):
        self.volume.unmount()
        self.volume.check()
        self.volume.mount()


def make_c_project(folder, parts=30):
    """A program of many files, each with its own header, and a library that they share."""
    os.makedirs(folder / "src")
    os.makedirs(folder / "include")
    for i in range(parts):
        (folder / f"include/part{i}.h").write_text(f"int part{i}(int value);\n")
        below = f"part{i - 1}(value) + " if i > 0 else ""
        include = f'#include "part{i - 1}.h"\n' if i > 0 else ""
        (folder / f"src/part{i}.c").write_text(
            f'#include "part{i}.h"\n{include}'
            f"int part{i}(int value) {{ return {below}value * {i}; }}\n")
    (folder / "src/main.c").write_text(
        f'#include <stdio.h>\n#include "part{parts - 1}.h"\n'
        f'int main(void) {{ printf("%d\\n", part{parts - 1}(2)); return 0; }}\n')
    (folder / "Makefile").write_text(
        "sources := $(wildcard src/part*.c)\nobjects := $(sources:src/%.c=build/%.o)\n"
        "build/program: build/main.o build/libparts.a\n\t$(CC) -o $@ $^\n"
        "build/libparts.a: $(objects)\n\tar rcs $@ $^\n"
        "build/%.o: src/%.c | build\n\t$(CC) -MMD -O1 -Iinclude -c -o $@ $<\n"
        "build:\n\tmkdir -p $@\nclean:\n\trm -rf build\n-include $(wildcard build/*.d)\n")


class BuildTest(ProgramsTest):
    @needs("make", "cc", "ar", "tar", "gzip")
    def test_unpack_and_build(self):
        outside = pathlib.Path(self.volume.folder, "outside")
        make_c_project(outside / "project")
        archive = outside / "project.tar.gz"
        self.call("tar", "--format=posix", "-czf", archive, "project", folder=outside)
        self.call("tar", "-xzf", archive)
        project = self.path("project")
        self.assertEqual(describe_tree(project), describe_tree(outside / "project"))
        self.call("make", "-j2", folder=project)
        self.assertEqual(self.call(f"{project}/build/program"), b"870\n")
        self.assertIn(b"up to date", self.call("make", folder=project))
        os.utime(f"{project}/include/part7.h")
        again = self.call("make", folder=project)
        self.assertEqual(sorted(word for word in again.split() if word.startswith(b"src/")),
                         [b"src/part7.c", b"src/part8.c"])
        drop_caches()
        self.assertIn(b"up to date", self.call("make", folder=project))
        self.assertEqual(self.call(f"{project}/build/program"), b"870\n")
        self.call("make", "clean", folder=project)
        self.assertEqual(describe_tree(project).keys(), describe_tree(outside / "project").keys())


class GitTest(ProgramsTest):
    def git(self, *words, folder):
        return self.call("git", *words, folder=folder)

    def add_files(self, repository, count):
        for i in range(count):
            path = pathlib.Path(repository, f"many/{i % 40}/{i}.txt")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"file {i}\n" * (i % 50 + 1))
        self.git("add", "-A", folder=repository)
        self.git("commit", "-q", "-m", "many files", folder=repository)

    @needs("git")
    def test_life_of_a_repository(self):
        repository = self.path("repository")
        if (PROJECT / ".git").exists():
            self.git("-c", "safe.directory=*", "clone", "-q", "--no-local", PROJECT, repository,
                     folder=self.folder)
        else:
            self.git("init", "-q", repository, folder=self.folder)
            self.add_files(repository, 100)
        first = self.git("rev-parse", "HEAD", folder=repository).decode().strip()
        self.add_files(repository, 2000)
        second = self.git("rev-parse", "HEAD", folder=repository).decode().strip()
        self.git("checkout", "-q", first, folder=repository)
        self.assertFalse(os.path.exists(f"{repository}/many/3/1003.txt"))
        self.git("checkout", "-q", "-b", "again", second, folder=repository)
        self.git("gc", "-q", folder=repository)
        self.git("fsck", "--full", "--strict", folder=repository)
        drop_caches()
        self.assertEqual(self.git("status", "--porcelain", folder=repository), b"")

        # A clone of the clone, by hard links; then both after remounting.
        self.git("clone", "-q", repository, "linked", folder=self.folder)
        self.mount_again()
        for folder in (repository, self.path("linked")):
            self.assertEqual(self.git("status", "--porcelain", folder=folder), b"")
            self.git("fsck", "--full", folder=folder)
            self.assertEqual(self.git("rev-parse", "HEAD", folder=folder).decode().strip(), second)


class DatabaseTest(ProgramsTest):
    def check(self, path, rows):
        database = sqlite3.connect(path)
        self.assertEqual(database.execute("pragma integrity_check").fetchone()[0], "ok")
        self.assertEqual(database.execute("select count(*) from t").fetchone()[0], rows)
        database.close()

    def work(self, mode):
        path = self.path("database")
        database = sqlite3.connect(path, isolation_level=None)
        self.assertEqual(database.execute(f"pragma journal_mode={mode}").fetchone()[0], mode)
        database.execute("create table t(a integer primary key, b text)")
        database.execute("create index i on t(b)")
        for start in range(0, 5000, 1000):
            database.execute("begin")
            database.executemany("insert into t values(?, ?)",
                                 ((i, str(i * i) * 20) for i in range(start, start + 1000)))
            database.execute("commit")
        for i in range(20):
            database.execute("update t set b = ? where a = ?", ("one by one", i))
        database.execute("begin")
        database.execute("delete from t")
        database.execute("rollback")

        # Another connection reads during the writes.
        reader = sqlite3.connect(path)
        database.execute("begin")
        database.execute("insert into t values(-1, 'not yet')")
        self.assertEqual(reader.execute("select count(*) from t").fetchone()[0], 5000)
        reader.close()
        database.execute("commit")
        database.execute("delete from t where a between 2000 and 2999")
        database.execute("vacuum")
        database.close()
        self.check(path, 4001)
        self.mount_again()
        self.check(path, 4001)

    def test_write_ahead_log(self):
        self.work("wal")

    def test_rollback_journal(self):
        self.work("delete")

    def test_killed_between_transactions(self):
        path = self.path("database")
        database = sqlite3.connect(path)
        database.execute("pragma journal_mode=wal")
        database.execute("create table t(a integer primary key, b text)")
        database.close()
        told, tell = os.pipe()
        child = os.fork()
        if child == 0:
            database = sqlite3.connect(path, isolation_level=None)
            i = 0
            while True:
                database.execute("insert into t values(?, ?)", (i, "x" * 500))
                if i == 0:
                    os.write(tell, b".")
                i += 1
        os.close(tell)
        self.assertEqual(os.read(told, 1), b".")
        os.close(told)
        time.sleep(0.5)
        os.kill(child, 9)
        os.waitpid(child, 0)
        database = sqlite3.connect(path)
        self.assertEqual(database.execute("pragma integrity_check").fetchone()[0], "ok")
        count, last = database.execute("select count(*), max(a) from t").fetchone()
        self.assertGreater(count, 0)
        self.assertEqual(count, last + 1)
        database.close()


def add_specials(folder):
    """Adds objects that a copy may get wrong."""
    with open(f"{folder}/file", "wb") as file:
        file.write(b"some bytes")
    os.link(f"{folder}/file", f"{folder}/second name")
    os.symlink("no/where", f"{folder}/dangling")
    os.symlink("x" * 4000, f"{folder}/long link")
    os.mkfifo(f"{folder}/pipe", 0o640)
    os.mknod(f"{folder}/device", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    with socket.socket(socket.AF_UNIX) as peer:
        peer.bind(f"{folder}/socket")
    with open(f"{folder}/sparse", "wb") as file:
        file.truncate(64 << 20)
        file.seek(20 << 20)
        file.write(b"in the middle")
    for name in (b"\xff\x01", b"new\nline", b"n" * 255, b"-rf *"):
        with open(os.path.join(os.fsencode(folder), name), "wb") as file:
            file.write(name)
    os.mkdir(f"{folder}/private", 0o700)
    os.chown(f"{folder}/private", 1234, 5678)
    os.chown(f"{folder}/file", 99, 100)
    os.chmod(f"{folder}/file", 0o4751)
    os.setxattr(f"{folder}/file", "user.small", b"value")
    os.setxattr(f"{folder}/file", "user.large", bytes(range(256)) * 8)
    os.setxattr(f"{folder}/private", "trusted.empty", b"")
    os.setxattr(f"{folder}/private", "system.posix_acl_default", access_list(1234))
    os.utime(f"{folder}/sparse", ns=(1, 1_700_000_000_123_456_789))


def access_list(user):
    """A POSIX access control list, in the format of the system calls, with an entry for `user`."""
    entries = [(1, 7, 0xffffffff), (2, 5, user), (4, 5, 0xffffffff), (16, 5, 0xffffffff),
               (32, 0, 0xffffffff)]
    return b"\2\0\0\0" + b"".join(tag.to_bytes(2, "little") + bits.to_bytes(2, "little") +
                                  who.to_bytes(4, "little") for tag, bits, who in entries)


class CopyTest(ProgramsTest):
    def setUp(self):
        super().setUp()
        self.outside = pathlib.Path(self.volume.folder, "outside-" + self.id().split(".")[-1])
        self.outside.mkdir()

    def test_copies_both_ways(self):
        source = self.outside / "source"
        shutil.copytree(os.path.dirname(os.__file__), source, symlinks=True,
                        ignore=shutil.ignore_patterns("*-packages", "test", "config-*", "idlelib",
                                                      "__pycache__"))
        add_specials(source)
        wanted = describe_tree(source)
        self.assertGreater(len(wanted), 500)
        self.call("cp", "-a", source, self.path("in"))
        self.assertEqual(describe_tree(self.path("in")), wanted)
        self.assertLess(os.stat(self.path("in/sparse")).st_blocks, 1024)
        self.mount_again()
        self.assertEqual(describe_tree(self.path("in")), wanted)
        self.call("cp", "-a", self.path("in"), self.outside / "out")
        self.assertEqual(describe_tree(self.outside / "out"), wanted)
        self.call("cp", "-a", self.path("in"), self.path("beside"))
        self.assertEqual(describe_tree(self.path("beside")), wanted)
        self.call("rm", "-rf", self.path("in"))
        self.assertEqual(describe_tree(self.path("beside")), wanted)

    @needs("tar")
    def test_archive_with_attributes(self):
        os.mkdir(self.path("tree"))
        add_specials(self.path("tree"))
        os.unlink(self.path("tree/socket"))  # archives cannot contain one
        wanted = describe_tree(self.path("tree"))
        options = ("--xattrs", "--xattrs-include=*", "--acls", "--sparse", "--format=posix")
        self.call("tar", *options, "-cf", self.outside / "a.tar", "-C", self.path("tree"), ".")
        os.mkdir(self.path("unpacked"))
        self.call("tar", *options, "-xpf", self.outside / "a.tar", "-C", self.path("unpacked"))
        self.assertEqual(describe_tree(self.path("unpacked")), wanted)


class RandomFileTest(ProgramsTest):
    """Compares one file with a copy in memory, using every call that moves or maps its bytes."""

    LIMIT = 1 << 20

    def setUp(self):
        super().setUp()
        self.seed = int(os.environ.get("WARREN_SEED", time.time_ns() % 1_000_000))
        print("seed", self.seed, file=sys.stderr)
        self.random = random.Random(self.seed)
        self.file = os.open(self.path("file"), os.O_RDWR | os.O_CREAT)
        self.shadow = bytearray()

    def tearDown(self):
        os.close(self.file)
        super().tearDown()

    def place(self, longest=1 << 17):
        offset = self.random.randrange(self.LIMIT)
        if self.random.random() < 0.3:
            offset &= ~4095
        length = self.random.randrange(1, min(longest, self.LIMIT - offset) + 1)
        return offset, length

    def put(self, offset, data):
        if len(self.shadow) < offset:
            self.shadow.extend(bytes(offset - len(self.shadow)))
        self.shadow[offset:offset + len(data)] = data

    def write(self):
        offset, length = self.place()
        data = self.random.randbytes(length)
        self.assertEqual(os.pwrite(self.file, data, offset), length)
        self.put(offset, data)

    def write_direct(self):
        offset, length = self.place()
        offset, length = offset & ~4095, -(-length // 4096) * 4096
        data = mmap.mmap(-1, length)
        data.write(self.random.randbytes(length))
        file = os.open(self.path("file"), os.O_RDWR | os.O_DIRECT)
        self.assertEqual(os.pwritev(file, [data], offset), length)
        os.close(file)
        self.put(offset, data[:])

    def read(self):
        offset, length = self.place()
        self.assertEqual(os.pread(self.file, length, offset),
                         bytes(self.shadow[offset:offset + length]))

    def write_map(self):
        offset, length = self.place()
        length = min(length, len(self.shadow) - offset)
        if length <= 0:
            return
        data = self.random.randbytes(length)
        with mmap.mmap(self.file, len(self.shadow)) as mapped:
            mapped[offset:offset + length] = data
            if self.random.random() < 0.5:
                mapped.flush()
        self.put(offset, data)

    def read_map(self):
        if self.shadow:
            with mmap.mmap(self.file, len(self.shadow), prot=mmap.PROT_READ) as mapped:
                self.assertEqual(mapped[:], bytes(self.shadow))

    def truncate(self):
        size = self.random.randrange(self.LIMIT)
        os.ftruncate(self.file, size)
        if size < len(self.shadow):
            del self.shadow[size:]
        else:
            self.shadow.extend(bytes(size - len(self.shadow)))

    def punch(self):
        offset, length = self.place()
        fallocate(self.file, FALLOC_PUNCH_HOLE | FALLOC_KEEP_SIZE, offset, length)
        end = min(offset + length, len(self.shadow))
        if offset < end:
            self.shadow[offset:end] = bytes(end - offset)

    def zero(self):
        offset, length = self.place()
        fallocate(self.file, FALLOC_ZERO_RANGE, offset, length)
        self.put(offset, bytes(length))

    def reserve(self):
        offset, length = self.place()
        keep = self.random.random() < 0.5
        fallocate(self.file, FALLOC_KEEP_SIZE if keep else 0, offset, length)
        if not keep and len(self.shadow) < offset + length:
            self.shadow.extend(bytes(offset + length - len(self.shadow)))

    def copy(self):
        source, length = self.place()
        target = self.random.randrange(self.LIMIT - length + 1)
        length = min(length, len(self.shadow) - source)
        if length <= 0 or abs(source - target) < length:
            return
        done = 0
        while done < length:
            done += os.copy_file_range(self.file, self.file, length - done, source + done,
                                       target + done)
        self.put(target, bytes(self.shadow[source:source + length]))

    def holes(self):
        """Reported holes contain only zeros, and data and holes cover the file."""
        at = 0
        while at < len(self.shadow):
            hole = os.lseek(self.file, at, os.SEEK_HOLE)
            try:
                at = os.lseek(self.file, hole, os.SEEK_DATA) if hole < len(self.shadow) else hole
            except OSError:
                at = len(self.shadow)
            self.assertFalse(any(self.shadow[hole:at]))

    def settle(self):
        os.fsync(self.file)
        if self.random.random() < 0.2:
            drop_caches()

    def compare(self):
        self.assertEqual(os.fstat(self.file).st_size, len(self.shadow))
        with open(self.path("file"), "rb") as file:
            self.assertEqual(file.read(), bytes(self.shadow))

    def test_against_shadow(self):
        steps = [self.write] * 6 + [self.read] * 4 + [self.write_map] * 3 + [self.read_map] + \
                [self.write_direct, self.truncate, self.punch, self.zero, self.reserve, self.copy,
                 self.holes, self.settle]
        history = []
        try:
            for number in range(1500):
                step = self.random.choice(steps)
                history.append(step.__name__)
                step()
                if number % 100 == 0:
                    self.compare()
        except BaseException as error:
            raise AssertionError(f"seed {self.seed}, after {history[-12:]}: {error}"[:2000])
        self.compare()
        os.close(self.file)
        self.mount_again()
        self.file = os.open(self.path("file"), os.O_RDWR)
        self.compare()


if __name__ == "__main__":
    mounted.main()
