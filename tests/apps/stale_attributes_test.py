#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The kernel's view of files that are changed without its knowledge: after each of many random
commands, by system calls, through a ring and over the control socket, stat(2) agrees with the
volume."""

import os
import random
import stat
import subprocess

import mounted
from mounted import MountedTest, run

BUILD = os.environ.get("WARREN_BUILD", "")
PROCESS = os.path.join(BUILD, "tests", "ring_process")
SEED = int(os.environ.get("WARREN_SEED") or random.SystemRandom().randrange(2 ** 31))
STEPS = 400 * int(os.environ.get("WARREN_LOAD", "1"))
NAMES = [f"n{i}" for i in range(5)]
RENAMES = 5  # the number of values of enum class Rename


class Ring:
    """A process with a ring that runs commands for the test."""

    def __init__(self, folder):
        self.process = subprocess.Popen([PROCESS, "script", folder], text=True, bufsize=1,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def tell(self, *words):
        """The error number; mode, links, user, group, size and inode."""
        print(*words, file=self.process.stdin, flush=True)
        code, *facts = map(int, self.process.stdout.readline().split())
        return code, facts

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=60)
        self.process.stdout.close()


def shown(path):
    try:
        facts = os.lstat(path)
    except FileNotFoundError:
        return None
    return [facts.st_mode, facts.st_nlink, facts.st_uid, facts.st_gid, facts.st_ino]


class StaleAttributes(MountedTest):
    def setUp(self):
        super().setUp()
        self.ring = Ring(self.folder)
        self.directories = [self.path("a"), self.path("b")]
        for directory in self.directories:
            os.mkdir(directory)
        self.held = []

    def tearDown(self):
        for file in self.held:
            os.close(file)
        self.ring.close()
        super().tearDown()

    def truth(self, directory, name):
        code, facts = self.ring.tell("look", directory, name)
        return None if code else facts[:4] + facts[5:]

    def expect_truth(self, what):
        names = {}  # by inode
        for directory in self.directories:
            for name in NAMES:
                facts = self.truth(directory, name)
                self.assertEqual(shown(os.path.join(directory, name)), facts,
                                 f"{directory}/{name} after {what}")
                if facts:
                    names[facts[-1]] = names.get(facts[-1], 0) + 1
            parent, name = os.path.split(directory)
            self.assertEqual(shown(directory), self.truth(parent, name), f"{name} after {what}")
        for file in self.held:
            facts = os.fstat(file)
            links = names.get(facts.st_ino, 0) * (2 if stat.S_ISDIR(facts.st_mode) else 1)
            self.assertEqual(facts.st_nlink, links, f"held, after {what}")

    def call(self, choose, path, other):
        """A system call."""
        calls = [lambda: os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644)),
                 lambda: os.link(path, other), lambda: os.unlink(path), lambda: os.mkdir(path),
                 lambda: os.rmdir(path), lambda: os.rename(path, other),
                 lambda: os.symlink("target", path), lambda: os.chmod(path, 0o600),
                 lambda: self.held.append(os.open(path, os.O_RDONLY | os.O_NOFOLLOW))]
        index = choose.randrange(len(calls))
        try:
            calls[index]()
        except OSError:
            pass
        if len(self.held) > 4:
            os.close(self.held.pop(0))
        return f"call {index} of {path} {other}"

    def command(self, choose, where, name, to, new_name):
        """A command of the ring."""
        words = choose.choice([("create", where, name, choose.choice(["100644", "40755"])),
                               ("unlink", where, name), ("rmdir", where, name),
                               ("chmod", where, name, choose.choice(["640", "755"])),
                               ("link", where, name, to, new_name),
                               ("link", where, name, to, new_name),
                               ("rename", where, name, to, new_name, choose.randrange(RENAMES)),
                               ("rename", where, name, to, new_name, 0),
                               ("rename", where, name, to, new_name, 0)])
        return f"{words}: {self.ring.tell(*words)[0]}"

    def control(self, choose, path, to):
        """A request over the control socket."""
        words = choose.choice([("rm", "-r", "-f", path), ("mv", path, to)])
        run(*words, code=None)
        return " ".join(words)

    def test_after_random_commands(self):
        print(f"seed {SEED}: repeat with WARREN_SEED={SEED}")
        choose = random.Random(SEED)
        for step in range(STEPS):
            where, to = choose.choice(self.directories), choose.choice(self.directories)
            name, new_name = choose.choice(NAMES), choose.choice(NAMES)
            path, other = os.path.join(where, name), os.path.join(to, new_name)
            way = choose.randrange(20)
            if way < 10:
                what = self.command(choose, where, name, to, new_name)
            elif way < 18:
                what = self.call(choose, path, other)
            else:
                what = self.control(choose, path, to)
            self.expect_truth(f"step {step}: {what}")


if __name__ == "__main__":
    mounted.main()
