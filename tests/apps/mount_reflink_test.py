# SPDX-License-Identifier: Apache-2.0
"""Reflinks on a mount, by cp(1) and by warren cp; stat and du --shared are compared with a model of
which blocks are shared."""

import collections
import errno
import json
import os
import random
import subprocess
import tempfile
import unittest

import mounted
from command_line import describe_tree
from mounted import MountedTest, control_path, run
from ranks import HAS_MPI, in_ranks

SEED = int(os.environ.get("WARREN_SEED", random.randrange(1 << 31)))
BLOCK = 4096
LARGE = 70 << 20  # copied in parts if it is not shared


class BlockModel:
    """Files of whole blocks; each block is a unique number, or None for a hole."""

    def __init__(self, folder, seed):
        self.random = random.Random(seed)
        self.last = 0
        self.files = {}
        for number in range(5):
            path = os.path.join(folder, f"file{number}")
            self.files[path] = []
            with open(path, "wb"):
                pass

    def references(self):
        return collections.Counter(number for blocks in self.files.values() for number in blocks
                                   if number is not None)

    def expected(self):
        """The exclusive and the shared bytes of each file."""
        references = self.references()
        result = {}
        for path, blocks in self.files.items():
            shared = sum(number is not None and references[number] > 1 for number in blocks)
            total = sum(number is not None for number in blocks)
            result[path] = ((total - shared) * BLOCK, shared * BLOCK)
        return result

    def step(self):
        path = self.random.choice(sorted(self.files))
        first = self.random.randrange(600)
        count = self.random.randrange(1, 200)
        change = self.random.choice([self.write, self.write, self.copy, self.copy, self.copy,
                                     self.cut, self.punch, self.remove])
        change(path, first, count)

    def grow(self, path, blocks):
        known = self.files[path]
        known += [None] * (blocks - len(known))

    def write(self, path, first, count):
        with open(path, "r+b") as file:
            file.seek(first * BLOCK)
            file.write(self.random.randbytes(count * BLOCK))
        self.grow(path, first + count)
        references = self.references()
        for block in range(first, first + count):
            number = self.files[path][block]
            if number is None or references[number] > 1:
                self.last += 1
                self.files[path][block] = self.last

    def copy(self, path, first, count):
        """Copies by copy_file_range(2), from one file to another."""
        target = self.random.choice(sorted(set(self.files) - {path}))
        count = min(count, len(self.files[path]) - first)
        to = self.random.randrange(600)
        if count <= 0:
            return
        with open(path, "rb") as source, open(target, "r+b") as file:
            done = 0
            while done < count * BLOCK:
                done += os.copy_file_range(source.fileno(), file.fileno(), count * BLOCK - done,
                                           first * BLOCK + done, to * BLOCK + done)
        self.grow(target, to + count)
        self.files[target][to:to + count] = self.files[path][first:first + count]

    def cut(self, path, first, _count):
        os.truncate(path, first * BLOCK)
        self.grow(path, first)
        del self.files[path][first:]

    def punch(self, path, first, count):
        with open(path, "r+b") as file:
            mounted.fallocate(file.fileno(), mounted.FALLOC_PUNCH_HOLE | mounted.FALLOC_KEEP_SIZE,
                              first * BLOCK, count * BLOCK)
        end = min(first + count, len(self.files[path]))
        for block in range(first, end):
            self.files[path][block] = None

    def remove(self, path, _first, _count):
        os.unlink(path)
        with open(path, "wb"):
            pass
        self.files[path] = []


def told_by_stat(*paths):
    rows = json.loads(run("stat", "--json", *paths).stdout)
    return {row["path"]: (row["exclusive"], row["shared"]) for row in rows}


def told_by_du(folder):
    rows = json.loads(run("du", "-a", "--shared", "--json", folder).stdout)
    return {row["path"]: (row["exclusive"], row["shared"]) for row in rows}


class MountReflinks(MountedTest):
    @classmethod
    def setUpClass(cls):
        cls.volume = mounted.Volume("1G")
        cls.volume.mount()

    def assert_amounts(self, told, expected, message=None):
        """The metadata of a file count as exclusive, in addition to its contents."""
        self.assertEqual(told[1], expected[1], message)
        self.assertIn(told[0] - expected[0], range(0, 9 * BLOCK, BLOCK), message)

    def assert_shared(self, name, exclusive, shared):
        """The amounts for the contents of a file, in bytes."""
        told = told_by_stat(self.path(name))[self.path(name)]
        self.assert_amounts(told, (exclusive, shared), name)

    def fill(self, name, size):
        self.write(name, random.randbytes(min(size, 1 << 20)) * -(-size // (1 << 20)))
        os.truncate(self.path(name), size)
        os.sync()
        return self.path(name)

    def make_tree(self):
        os.mkdir(self.path("tree"))
        os.mkdir(self.path("tree", "d"), 0o750)
        self.fill("tree/large", LARGE)
        self.fill("tree/odd", 1_234_567)
        self.write("tree/d/small", b"x" * 100)
        self.write("tree/d/empty")
        self.write("tree/d/zeros", bytes(3 * BLOCK))
        with open(self.path("tree", "sparse"), "wb") as file:
            file.seek(10 << 20)
            file.write(b"y" * 5000)
            file.truncate(20 << 20)
        os.link(self.path("tree", "odd"), self.path("tree", "d", "again"))
        os.symlink("odd", self.path("tree", "link"))
        os.mkfifo(self.path("tree", "pipe"))
        os.chown(self.path("tree", "d", "small"), 12, 34)
        os.chmod(self.path("tree", "odd"), 0o4751)
        os.setxattr(self.path("tree", "odd"), "user.color", b"red" * 100)
        os.setxattr(self.path("tree", "d"), "user.kind", b"folder")
        for name in ("large", "d/small", "d"):
            os.utime(self.path("tree", name), ns=(10**18, 10**18 + 7))
        os.sync()

    def test_random_changes_beside_a_model(self):
        print(f"WARREN_SEED={SEED}", flush=True)
        model = BlockModel(self.folder, SEED)
        for step in range(150):
            model.step()
            if step % 10 == 9:
                told = told_by_du(self.folder)
                expected = model.expected()
                for path, amounts in expected.items():
                    self.assert_amounts(told[path], amounts, (SEED, step, path))
                for path, amounts in told_by_stat(*expected).items():
                    self.assertEqual(told[path], amounts, (SEED, step, path))
                self.assertEqual(told[self.folder][1], sum(one for _, one in expected.values()))

    def test_programs_share(self):
        """cp(1) of coreutils and warren cp, with a large and a small file."""
        for size in (LARGE + 5, 1_000_000):
            source = self.fill("a", size)
            allocated = -(-size // BLOCK) * BLOCK
            self.assert_shared("a", allocated, 0)
            free = os.statvfs(self.folder).f_bfree
            for copy in (["cp"], [mounted.WARREN, "cp"], [mounted.WARREN, "cp", "--reflink"],
                         [mounted.WARREN, "cp", "-a", "--reflink=always"],
                         [mounted.WARREN, "cp", "--verify", "--reflink=auto"]):
                with self.subTest(copy=copy, size=size):
                    subprocess.run([*copy, source, self.path("b")], check=True)
                    self.assert_shared("b", 0, allocated)
                    self.assert_shared("a", 0, allocated)
                    self.assertLess(free - os.statvfs(self.folder).f_bfree, 300)  # reference counts
                    subprocess.run(["cmp", source, self.path("b")], check=True)
                    os.unlink(self.path("b"))
                    self.assert_shared("a", allocated, 0)
            run("cp", "--reflink=never", source, self.path("b"))
            self.assert_shared("b", allocated, 0)
            os.unlink(self.path("b"))

    def test_trees_keep_all_else(self):
        self.make_tree()
        before = describe_tree(self.path("tree"))
        counts = [0, 3] if HAS_MPI else [0]
        for count in counts:
            for when in ("always", "auto"):
                with self.subTest(count=count, when=when):
                    subprocess.run(in_ranks(count, mounted.WARREN, "cp", "-a", f"--reflink={when}",
                                            self.path("tree"), self.path("copy")), check=True)
                    self.assertEqual(describe_tree(self.path("copy")), before)
                    self.assertEqual(sorted(os.listdir(self.folder)), ["copy", "tree"])
                    for name, size in (("large", LARGE), ("odd", 302 * BLOCK),
                                       ("sparse", 2 * BLOCK), ("d/zeros", 3 * BLOCK)):
                        self.assert_shared(f"copy/{name}", 0, size)
                    run("rm", "-r", self.path("copy"))
        run("sync", self.path("tree"), self.path("copy"))
        self.assert_shared("copy/large", 0, LARGE)
        run("rm", "-r", self.path("copy"))
        run("cp", "-a", "--reflink=never", self.path("tree"), self.path("copy"))
        self.assertEqual(describe_tree(self.path("copy")), before)
        self.assertEqual(told_by_du(self.path("copy"))[self.path("copy")][1], 0)

    def test_sparse_never_makes_no_holes(self):
        self.make_tree()
        run("cp", "--sparse=never", self.path("tree", "sparse"), self.path("full"))
        self.assert_shared("full", 20 << 20, 0)

    def test_always_fails_where_it_cannot(self):
        with tempfile.TemporaryDirectory(dir="/dev/shm") as other:
            path = os.path.join(other, "a")
            with open(path, "wb") as file:
                file.write(b"x" * 10_000)
            inside = self.fill("inside", 10_000)
            for source, target in ((path, self.path("new")), (inside, os.path.join(other, "new"))):
                done = run("cp", "--reflink=always", source, target, code=1)
                self.assertIn("cannot share blocks with", done.stderr)
                self.assertIn(os.strerror(errno.EXDEV), done.stderr)
                self.assertFalse(os.path.exists(target))
                run("cp", source, target)
            self.assert_shared("new", 3 * BLOCK, 0)
        self.assertEqual(sorted(os.listdir(self.folder)), ["inside", "new"])

    def test_always_asks_the_daemon(self):
        """Without the daemon's answer it is unknown whether blocks are shared."""
        source = self.fill("a", 10_000)
        socket = control_path(self.folder)
        os.rename(socket, socket + ".hidden")
        try:
            done = run("cp", "--reflink=always", source, self.path("b"), code=1)
            self.assertIn("cannot ask the daemon of the mount about", done.stderr)
            self.assertIn(os.strerror(errno.ECONNREFUSED), done.stderr)
            run("cp", source, self.path("c"))
            self.assertNotIn("exclusive", run("stat", source).stdout)
        finally:
            os.rename(socket + ".hidden", socket)
        self.assertEqual(sorted(os.listdir(self.folder)), ["a", "c"])
        self.assert_shared("c", 0, 3 * BLOCK)

    def test_other_users_are_told_what_they_may_look_up(self):
        source = self.fill("a", 10_000)
        os.mkdir(self.path("closed"), 0o700)
        self.fill("closed/b", 10_000)
        os.chmod(self.folder, 0o755)

        def look(name):
            def ask():
                done = subprocess.run([mounted.WARREN, "stat", self.path(name)],
                                      capture_output=True, check=False)
                os._exit(0 if b"exclusive" in done.stdout else 1)
            return mounted.as_user(1234, 1234, ask)

        self.assertEqual(look("a"), 0, source)
        self.assertEqual(look("closed/b"), 1)

    def test_links_and_other_files(self):
        self.fill("a", 10_000)
        os.symlink("a", self.path("link"))
        self.assertNotIn("exclusive", run("stat", self.path("link")).stdout)
        self.assertIn("12288 exclusive, 0 shared", run("stat", "-L", self.path("link")).stdout)
        self.assertNotIn("exclusive", run("stat", self.folder).stdout)
        self.assertNotIn("exclusive", run("stat", "/dev/shm").stdout)


if __name__ == "__main__":
    mounted.main()
