# SPDX-License-Identifier: Apache-2.0
"""Compares warren hash with hashlib, coreutils and a simple model of the direct hash."""

import hashlib
import json
import os
import random
import shutil
import struct
import unittest

from command_line import WARREN, CommandCase


def direct_hash(algorithm, data, piece_bytes=4096):
    """The definition in docs/HASHING.md, as simply as it can be written."""
    size = hashlib.new(algorithm).digest_size

    def begin(level, levels, length):
        title = b"Warren direct hash 1".ljust(24, b"\0")
        return (title + struct.pack("<IIQQ", level, levels, piece_bytes, length)).ljust(64, b"\0")

    level, part_bytes, text = 0, piece_bytes, data
    while True:
        parts = [text[at:at + part_bytes] for at in range(0, len(text), part_bytes)] or [b""]
        text = b"".join(hashlib.new(algorithm, begin(level, 0, 0) + part).digest()
                        for part in parts)
        level += 1
        part_bytes = max(2, piece_bytes // size) * size
        if len(text) == size:
            return hashlib.new(algorithm, begin(0xffffffff, level, len(data)) + text).hexdigest()


# Changes the modification time of a file of that name after each read, like a writer.
WRITTEN_AFTER_EACH_READ = b"""
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
ssize_t pread(int file, void* target, size_t size, off_t offset) {
    struct stat status;
    char link[64], path[4096] = "";
    const ssize_t got = syscall(SYS_pread64, file, target, size, offset);
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    if (got > 0 && readlink(link, path, sizeof path - 1) > 0 && strstr(path, "/unsteady")) {
        fstat(file, &status);
        const struct timespec times[2] = {{0, UTIME_OMIT}, {status.st_mtime + 1, 0}};
        futimens(file, times);
    }
    return got;
}
ssize_t pread64(int file, void* target, size_t size, off_t offset) {
    return pread(file, target, size, offset);
}
"""


class HashCommandTest(CommandCase):
    def content(self, size):
        return random.Random(size).randbytes(size)

    def test_prints_as_coreutils_do(self):
        sizes = (0, 1, 55, 56, 64, 1000, 100_000, 262_143, 262_144, 262_145, 5_000_000)
        names = [f"f{size}" for size in sizes]
        for size, name in zip(sizes, names):
            self.write(name, self.content(size))
        for algorithm, program in (("md5", "md5sum"), ("sha1", "sha1sum"), ("sha256", "sha256sum")):
            expected = self.run_program(program, *names).stdout
            for threads in ("1", "3"):
                self.assertEqual(
                    self.warren("hash", "-a", algorithm, "-t", threads, *names).stdout, expected)
            tagged = self.run_program(program, "--tag", *names).stdout
            self.assertEqual(self.warren("hash", "--tag", "-a", algorithm, *names).stdout, tagged)

    def test_default_is_blake3(self):
        self.write("abc", b"abc")
        self.assertEqual(self.output("hash", "abc"),
                         "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85  abc\n")
        if shutil.which("b3sum"):
            self.write("large", self.content(3_000_001))
            self.assertEqual(self.output("hash", "large"),
                             self.run_program("b3sum", "large").stdout.decode())

    def test_standard_input(self):
        expected = hashlib.sha256(b"text").hexdigest() + "  -\n"
        self.assertEqual(self.output("hash", "-a", "sha256", stdin=b"text"), expected)
        self.assertEqual(self.output("hash", "-a", "sha256", "-", stdin=b"text"), expected)

    def test_strange_names(self):
        names = ["new\nline", "back\\slash", "both\\\n", "re\rturn", " space ", "*star"]
        for name in names:
            self.write(name, name.encode())
        expected = self.run_program("sha256sum", "--", *names).stdout
        printed = self.warren("hash", "-a", "sha256", "--", *names).stdout
        # Older coreutils do not escape a carriage return; both read either form.
        if b"re\\rturn" in expected:
            self.assertEqual(printed, expected)
        self.write("list", printed)
        checked = self.output("hash", "-a", "sha256", "-c", "list")
        self.assertEqual(checked.count(": OK"), len(names))
        self.run_program("sha256sum", "-c", "--status", "list")
        zero = self.warren("hash", "-a", "sha256", "-z", "--", *names).stdout
        self.assertEqual(zero.split(b"\0")[0][66:], b"new\nline")

    def test_files_read_by_several_threads(self):
        content = random.Random(5).randbytes(17 << 20)
        # Sizes around the head, around the parts of one and two threads, and around a thread's
        # range.
        for size in (8 << 20, 8 << 20 | 256 << 10, 16 << 20 | 256 << 10):
            for more in (-1, 0, 1):
                self.write("large", content[:size + more])
                expected = hashlib.sha256(content[:size + more]).hexdigest()
                self.assertEqual(self.output("hash", "-a", "sha256", "large"),
                                 f"{expected}  large\n", size + more)
        piped = self.warren("hash", stdin=content).stdout.decode()
        self.write("large", content)
        for threads in ("1", "2", "7"):
            line = self.output("hash", "--threads", threads, "large")
            self.assertEqual(line.split()[0], piped.split()[0])

    def test_trees_in_sorted_order(self):
        for name in ("t/b", "t/a/z", "t/a/y", "t/a.x", "t/c/d/e", "t/B"):
            self.write(name, name.encode())
        os.symlink("b", self.folder / "t/link")
        os.mkfifo(self.folder / "t/pipe")
        names = [line[66:] for line in self.lines("hash", "t")]
        self.assertEqual(names, ["t/B", "t/a/y", "t/a/z", "t/a.x", "t/b", "t/c/d/e"])
        self.assertEqual(self.lines("hash", "t/link")[0][66:], "t/link")

    def test_many_small_files(self):
        expected = []
        for i in range(1000):
            content = self.content(i * 7 % 5000)
            self.write(f"m/{i:04}", content)
            expected.append(f"{hashlib.md5(content).hexdigest()}  m/{i:04}")
        self.assertEqual(self.lines("hash", "-a", "md5", "m"), expected)

    def test_what_fails_is_kept_in_a_file(self):
        self.write("there", b"x")
        done = self.warren("hash", "--errors", "failed", "--max-ops", "1000", "there", "away",
                           code=1)
        self.assertEqual(len(done.stdout.splitlines()), 1)
        failed = json.loads((self.folder / "failed").read_text())
        self.assertEqual((failed["path"], failed["action"], failed["errno"]), ("away", "hash", 2))
        self.assertIn("invalid number", self.error("hash", "--max-ops", "0", "there"))

    def test_files_written_to_while_they_are_read_are_told(self):
        if not shutil.which("cc"):
            self.skipTest("there is no C compiler")
        self.write("written.c", WRITTEN_AFTER_EACH_READ)
        self.run_program("cc", "-shared", "-fPIC", "-o", "written.so", "written.c")
        for size in (5000, 262_143, 262_144, 5_000_000):
            self.write("t/unsteady", self.content(size))
            self.write("t/steady", b"x")
            for words in ((), ("--direct", "4096", "-a", "sha1"),
                          ("--windows", "5000/5000", "-a", "md5")):
                steady = self.lines("hash", *words, "t")
                done = self.run_program("env", f"LD_PRELOAD={self.folder}/written.so", WARREN,
                                        "hash", *words, "t", code=1)
                self.assertEqual(done.stderr.decode(), "warren hash: t/unsteady: changed while it "
                                                       "was read; run again\n")
                self.assertEqual(done.stdout.decode().splitlines(), steady)

    def test_in_a_volume(self):
        self.make_volume()
        self.write("f", self.content(300_000))
        self.warren("cp", "f", self.inside("/g"))
        line = self.lines("hash", "-a", "sha1", self.inside("/"))[0]
        self.assertEqual(line[:40], hashlib.sha1(self.content(300_000)).hexdigest())
        self.assertEqual(line[42:], self.inside("/g"))

    def test_checks_lists(self):
        for name in ("a", "b", "c"):
            self.write(name, name.encode() * 1000)
        self.write("list", self.run_program("sha256sum", "a", "b", "c").stdout)
        check = ("hash", "-a", "sha256", "-c", "list")
        self.assertEqual(self.output(*check), "a: OK\nb: OK\nc: OK\n")
        self.assertEqual(self.output(*check, "--quiet"), "")
        self.write("b", b"changed")
        os.unlink(self.folder / "c")
        ours = self.warren(*check, code=1)
        theirs = self.run_program("sha256sum", "-c", "list", code=1)
        self.assertEqual(ours.stdout, theirs.stdout)
        self.assertEqual(ours.stderr.replace(b"warren hash: ", b"sha256sum: "), theirs.stderr)
        self.assertEqual(self.warren(*check, "--status", code=1).stdout, b"")
        self.write("tagged", self.run_program("md5sum", "--tag", "a").stdout)
        self.assertEqual(self.output("hash", "-c", "tagged"), "a: OK\n")
        self.write("list", self.run_program("sha256sum", "a").stdout
                   + b"0" * 64 + b"  not there\n")
        self.assertEqual(self.output(*check, "--ignore-missing"), "a: OK\n")

    def test_lists_that_are_none(self):
        self.write("a", b"a")
        self.write("list", b"no digest\n")
        self.assertIn("no properly formatted", self.error("hash", "-c", "list"))
        good = self.run_program("sha256sum", "a").stdout
        self.write("list", good + b"no digest\n" + b"abc  short\n")
        done = self.warren("hash", "-a", "sha256", "-c", "list")
        self.assertIn(b"2 lines are improperly formatted", done.stderr)
        self.warren("hash", "-a", "sha256", "-c", "--strict", "list", code=1)
        done = self.warren("hash", "-a", "sha256", "-c", "-w", "list")
        self.assertIn(b"list: 2: improperly formatted", done.stderr)
        self.assertIn("no-list", self.error("hash", "-c", "no-list"))

    def test_direct(self):
        for size in (0, 1, 4096, 4097, 1_000_000):
            self.write("f", self.content(size))
            for algorithm in ("md5", "sha1", "sha256"):
                for piece_bytes in (4096, 100):
                    line = self.lines("hash", "-a", algorithm, "--direct", str(piece_bytes), "f")[0]
                    self.assertEqual(line.split()[0],
                                     direct_hash(algorithm, self.content(size), piece_bytes))
        self.assertEqual(self.lines("hash", "-a", "md5", "--direct", "0", "f")[0].split()[0],
                         direct_hash("md5", self.content(1_000_000)))

    def test_windows(self):
        data = self.content(3000)
        self.write("f", data)
        expected = [f"{hashlib.sha1(data[at:at + 20]).hexdigest()[:8]}  {at}"
                    for at in range(0, 3000 - 20 + 1, 4)]
        self.assertEqual(
            self.lines("hash", "-a", "sha1", "--windows", "20/4", "--keep", "4", "f"), expected)
        expected = [str(at) for at in range(3000 - 48 + 1)
                    if int(hashlib.md5(data[at:at + 48]).hexdigest(), 16) % 32 == 0]
        self.assertEqual(
            self.lines("hash", "-a", "md5", "--windows", "48/1", "--zero-bits", "5", "f"), expected)
        self.assertEqual(self.lines("hash", "--windows", "9999/1", "f"), [])

    def test_bad_calls(self):
        self.write("f", b"x")
        for words in (("-a", "sha512"), ("-t", "many"), ("--direct", "x"), ("--windows", "20/"),
                      ("--windows", "0/1"), ("--windows", "20/0"), ("--keep", "33"),
                      ("--zero-bits", "33"), ("--zero-bits", "0"), ("--direct", "4096"),
                      ("-c", "--windows", "20/4")):
            self.error("hash", *words, "f")

    def test_files_that_cannot_be_read(self):
        self.write("good", b"x")
        os.mkfifo(self.folder / "pipe")
        done = self.warren("hash", "-a", "md5", "good", "missing", "good/below", code=1)
        lines = done.stderr.decode().splitlines()
        self.assertEqual(lines[0], "warren hash: missing: No such file or directory")
        self.assertEqual(lines[1], "warren hash: good/below: Not a directory")
        self.assertEqual(done.stdout.decode().split()[1], "good")
        if os.geteuid() != 0:
            self.write("t/closed", b"x", mode=0)
            self.assertIn("t/closed: Permission denied", self.error("hash", "t"))


if __name__ == "__main__":
    unittest.main()
