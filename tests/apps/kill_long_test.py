#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The daemon of a mount with 100,000 files, each made durable by its own fsync, is killed 200 times
at random moments while programs write and several clients use its control socket. After each kill
no process hangs, and everything that the programs had recorded as durable and a sample of the
100,000 files are there; after the last one all files are. WARREN_SEED repeats a run; WARREN_FILES
and WARREN_ROUNDS change its length.

With WARREN_FOLDER the volume, the records and the number of rounds are kept in that folder: a run
that was stopped continues there, and WARREN_ROUNDS=50, 100, ... divides one into parts. A round
that was stopped together with the test does not count, but what it recorded must be there all the
same."""

import json
import os
import random
import sys
import time
import unittest

import kill_test
import mounted
from kill_test import Notes, PATIENCE_SECONDS, content_of, put

FILES = int(os.environ.get("WARREN_FILES", "100000"))
ROUNDS = int(os.environ.get("WARREN_ROUNDS", "200"))
FOLDER = os.environ.get("WARREN_FOLDER")
WRITERS = 8  # their fsyncs share commits
FOLDERS = 100
PART = 500


def path_of(root, number):
    return f"{root}/base/{number % FOLDERS}/f{number}"


def size_of(number):
    """In the inode, in one block, or in several."""
    return (0, 90, 700, 5000)[number % 4]


def write_base(root, writer):
    for number in range(writer, FILES, WRITERS):
        path = path_of(root, number)
        put(path, content_of(f"f{number}", number, size_of(number)))


class KillLong(kill_test.KillTest):
    volume_size = "4G"
    kept_folder = FOLDER
    seconds = (0.05, 0.8)
    askers = 3

    def setUp(self):
        super().setUp()
        # Rounds that were started, rounds that were completed, and the seeds of these.
        self.progress = {"begun": 0, "seeds": []}
        self.progress_path = os.path.join(self.volume.folder, "progress.json")
        if os.path.exists(self.progress_path):
            with open(self.progress_path, encoding="ascii") as file:
                self.progress = json.load(file)
            print(f"goes on after {len(self.progress['seeds'])} rounds", file=sys.stderr)

    def save_progress(self):
        with open(self.progress_path + ".new", "w", encoding="ascii") as file:
            json.dump(self.progress, file)
        os.rename(self.progress_path + ".new", self.progress_path)

    def make_base(self):
        self.mount()
        for folder in range(FOLDERS):
            os.makedirs(f"{self.volume.root}/base/{folder}", exist_ok=True)
        started = time.time()
        children = []
        for writer in range(WRITERS):
            child = os.fork()
            if child == 0:
                try:
                    write_base(self.volume.root, writer)
                    os._exit(0)
                finally:
                    os._exit(1)
            children.append(child)
        for child in children:
            self.assertEqual(os.waitpid(child, 0)[1], 0, "a writer failed")
        print(f"{FILES} files with fsync in {time.time() - started:.1f} s", file=sys.stderr)
        # The first kill comes at once: only these fsyncs have made the files durable.
        self.daemon.kill()
        self.daemon.wait(PATIENCE_SECONDS)
        mounted.run("umount", "-l", self.volume.root)

    def check_base(self, numbers):
        for number in numbers:
            with open(path_of(self.volume.root, number), "rb") as file:
                self.assertEqual(file.read(), content_of(f"f{number}", number, size_of(number)),
                                 f"file {number} of the base")

    def check_files(self, notes):
        super().check_files(notes)
        self.check_base(self.random.sample(range(FILES), min(FILES, PART)))

    def one_counted_round(self):
        number = self.progress["begun"]
        self.progress["begun"] += 1
        self.save_progress()
        # The choices of a round depend only on the seed and its number, not on where the run
        # started.
        self.random = random.Random(f"{self.seed} {number}")
        try:
            self.one_round(number)
        except BaseException as error:
            raise AssertionError(f"seed {self.seed}, round {number}: {error}"[:2000])
        self.progress["seeds"].append(self.seed)
        self.save_progress()

    def test_what_was_synced_survives(self):
        if not os.path.exists(self.progress_path):
            self.make_base()
            self.save_progress()
        while len(self.progress["seeds"]) < ROUNDS:
            self.one_counted_round()
        self.mount()
        self.check_base(range(FILES))
        self.volume.unmount()
        self.assertEqual(self.daemon.wait(PATIENCE_SECONDS), 0)
        count = Notes(self.notes).count
        self.assertGreater(count, ROUNDS, "the programs have noted next to nothing")
        print(f"{len(self.progress['seeds'])} kills, seeds {sorted(set(self.progress['seeds']))}, "
              f"{count} notes", file=sys.stderr)


if __name__ == "__main__":
    mounted.main()
