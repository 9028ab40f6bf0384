# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of the command line: a folder, an image in it, and the program.

The program is $WARREN. Neither root nor a mount is needed. Each test has its own folder, which is
removed at its end.
"""

import hashlib
import os
import pathlib
import shutil
import stat
import subprocess
import tempfile
import unittest

WARREN = os.environ.get("WARREN", "warren")
TIMEOUT_SECONDS = 120


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


class CommandCase(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="warren-command-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.image = self.folder / "v.img"

    def run_program(self, *words, code=0, stdin=None, folder=None):
        """Runs the program and checks the exit code (None: any)."""
        words = [os.fspath(word) for word in words]
        environment = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}
        done = subprocess.run(words, input=stdin, capture_output=True, timeout=TIMEOUT_SECONDS,
                              cwd=folder or self.folder, env=environment)
        if code is not None:
            self.assertEqual(done.returncode, code,
                             f"{words}\nstdout: {done.stdout[-2000:]}\nstderr: "
                             f"{done.stderr[-2000:]}")
        return done

    def warren(self, *words, **more):
        return self.run_program(WARREN, *words, **more)

    def output(self, *words, **more):
        return self.warren(*words, **more).stdout.decode(errors="surrogateescape")

    def lines(self, *words, **more):
        return self.output(*words, **more).splitlines()

    def error(self, *words, code=1, **more):
        """Runs a command that must fail; returns its one line on stderr."""
        done = self.warren(*words, code=code, **more)
        text = done.stderr.decode(errors="surrogateescape")
        lines = [line for line in text.splitlines() if not line.startswith("Try ")]
        self.assertEqual(len(lines), 1, text)
        return lines[0]

    def make_volume(self, size="64M", image=None):
        self.warren("mkfs", "-q", image or self.image, "--size", size)

    def inside(self, path):
        return f"{self.image}:{path}"

    def assert_clean(self):
        self.assertIn("clean", self.output("fsck", self.image))

    def write(self, name, content=b"", mode=0o644):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(mode)
        return path


def can_make_special_files(folder):
    try:
        os.mknod(folder / "probe", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except OSError:
        return False
    os.unlink(folder / "probe")
    return True


def describe_tree(root, owners=True):
    """Everything that cp -a must keep, by path below `root`; hard links by group."""
    result = {}
    inodes = {}
    root = os.fsencode(root)
    for folder, directories, files in os.walk(root):
        for name in [b"."] + directories + files:
            path = os.path.join(folder, name)
            if name == b"." and folder != root:
                continue
            facts = os.lstat(path)
            entry = [stat.S_IFMT(facts.st_mode), stat.S_IMODE(facts.st_mode), facts.st_mtime_ns]
            if owners:
                entry += [facts.st_uid, facts.st_gid]
            if stat.S_ISREG(facts.st_mode):
                with open(path, "rb") as file:
                    entry += [facts.st_size, hashlib.sha256(file.read()).hexdigest()]
                entry.append(facts.st_nlink)
            elif stat.S_ISLNK(facts.st_mode):
                entry.append(os.readlink(path))
            elif stat.S_ISCHR(facts.st_mode) or stat.S_ISBLK(facts.st_mode):
                entry.append(facts.st_rdev)
            if not stat.S_ISLNK(facts.st_mode):
                for attribute in sorted(os.listxattr(path)):
                    entry.append((attribute, os.getxattr(path, attribute)))
            relative = os.path.relpath(path, root)
            if not stat.S_ISDIR(facts.st_mode) and facts.st_nlink > 1:
                inodes.setdefault(facts.st_ino, []).append(relative)
            result[relative] = entry
    for names in inodes.values():
        for name in names:
            result[name].append(tuple(sorted(names)))
    return result
