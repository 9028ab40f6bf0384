#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The daemon of a mount is killed while programs write. Each program records outside the volume
what was made durable, after fsync has returned; the volume must then mount again, be clean, and
contain everything that was recorded, complete. WARREN_SEED repeats a run, WARREN_ROUNDS makes it
longer."""

import hashlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
import unittest

import mounted
from kill_verbs_test import check_nothing_waits
from mounted import Volume, run

PATIENCE_SECONDS = 20


def content_of(name, version, size):
    """Bytes that identify the file and its version."""
    pattern = hashlib.sha256(f"{name} {version}".encode()).digest()
    return f"{version} {size}\n".encode() + (pattern * (size // len(pattern) + 1))[:size]


def put(path, data):
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        while data:
            data = data[os.write(file, data):]
        os.fsync(file)
    finally:
        os.close(file)


def sync_directory(path):
    file = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def write_files(folder, note, generator, start):
    """Creates new files, each made durable by its own fsync; removes some of them."""
    for number in range(start, start + 100_000):
        name = f"f{number}"
        directory = f"{folder}/{number % 7}"
        os.makedirs(directory, exist_ok=True)
        size = generator.choice([0, 10, 150, 4096, 70_000])
        put(f"{directory}/{name}", content_of(name, number, size))
        note(f"file {number % 7}/{name} {number} {size}")
        if generator.random() < 0.2:
            note(f"gone? {number % 7}/{name}")
            os.unlink(f"{directory}/{name}")
            sync_directory(directory)
            note(f"gone {number % 7}/{name}")


def replace_files(folder, note, generator, start):
    """Replaces a file that always exists: each new version is written to another name, synced,
    renamed."""
    for version in range(start, start + 100_000):
        name = f"r{version % 5}"
        size = generator.choice([20, 5000, 30_000])
        put(f"{folder}/{name}.new", content_of(name, version, size))
        os.rename(f"{folder}/{name}.new", f"{folder}/{name}")
        sync_directory(folder)
        note(f"version {name} {version}")


def commit_rows(folder, note, generator, start):
    database = sqlite3.connect(f"{folder}/database", isolation_level=None, timeout=10)
    database.execute("pragma journal_mode=wal")
    database.execute("pragma synchronous=full")
    database.execute("create table if not exists t(a integer primary key, b blob)")
    for row in range(start, start + 100_000):
        database.execute("insert into t values(?, ?)", (row, generator.randbytes(200)))
        note(f"row {row}")


def make_noise(folder, _note, generator, start):
    """Makes changes without syncing them, so that there are always some in progress."""
    for number in range(start, start + 100_000):
        os.makedirs(f"{folder}/noise{number}/a/b")
        for i in range(generator.randrange(30)):
            with open(f"{folder}/noise{number}/a/{i}", "wb") as file:
                file.write(b"x" * generator.randrange(9000))
        if number > start + 2:
            subprocess.run(["rm", "-rf", f"{folder}/noise{number - 2}"], check=False,
                           stderr=subprocess.DEVNULL)


def ask_by_socket(folder, _note, generator, start):
    """Sends requests to the daemon one after the other, some while files are open that the kernel
    has not written back."""
    for number in range(start, start + 100_000):
        tree = f"{folder}/tree{number}"
        os.makedirs(f"{tree}/a/b")
        files = []
        for i in range(generator.randrange(60)):
            files.append(os.open(f"{tree}/a/{i}", os.O_CREAT | os.O_RDWR))
            os.write(files[-1], b"x" * generator.randrange(60_000))
        words = generator.choice([("find", folder), ("du", "-s", folder), ("sync", folder),
                                  ("rm", *(f"{tree}/a/{i}" for i in range(len(files)))),
                                  ("mv", f"{tree}/a", f"{tree}/c")])
        done = []
        for one in (words, ("rm", "-r", tree)):
            done.append(subprocess.run([mounted.WARREN, *one], check=False, timeout=60,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        for file in files:
            os.close(file)
        if done[-1].returncode != 0:
            return  # the daemon has ended


class Notes:
    """Reads back the records of the programs."""

    def __init__(self, path):
        self.files, self.gone, self.maybe_gone = {}, set(), set()
        self.versions, self.rows, self.count = {}, [], 0
        with open(path, encoding="ascii") as notes:
            for line in notes:
                self.take(line.split())

    def take(self, words):
        self.count += 1
        if words[0] == "file":
            self.files[words[1]] = (int(words[2]), int(words[3]))
        elif words[0] == "gone?":
            self.maybe_gone.add(words[1])
        elif words[0] == "gone":
            self.gone.add(words[1])
        elif words[0] == "version":
            self.versions[words[1]] = int(words[2])
        else:
            self.rows.append(int(words[1]))


class KillTest(unittest.TestCase):
    volume_size = "256M"
    kept_folder = None
    seconds = (0.3, 1.5)  # until the kill
    askers = 1  # processes that use the control socket

    def setUp(self):
        self.seed = int(os.environ.get("WARREN_SEED", time.time_ns() % 1_000_000))
        print("seed", self.seed, file=sys.stderr)
        self.random = random.Random(self.seed)
        self.volume = Volume(self.volume_size, self.kept_folder)
        self.addCleanup(self.volume.remove)
        self.notes = os.path.join(self.volume.folder, "notes")
        self.daemon = None

    def mount(self):
        self.daemon = subprocess.Popen([mounted.WARREN, "mount", "-f", "-o", "commit=1",
                                        self.volume.image, self.volume.root],
                                       preexec_fn=mounted.die_with_parent)
        deadline = time.time() + PATIENCE_SECONDS
        while not self.volume.is_mounted() and time.time() < deadline:
            self.assertIsNone(self.daemon.poll(), "the mount ended at once")
            time.sleep(0.005)

    def start(self, work, number, start):
        seed = self.random.randrange(1 << 30)
        child = os.fork()
        if child != 0:
            return child
        try:
            mounted.die_with_parent()
            notes = os.open(self.notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            folder = f"{self.volume.root}/{work.__name__}{number}"
            os.makedirs(folder, exist_ok=True)
            prefix = f"{work.__name__}{number}/"

            def note(text):
                words = text.split()
                if words[0] != "row":
                    words[1] = prefix + words[1]
                os.write(notes, (" ".join(words) + "\n").encode())
            work(folder, note, random.Random(seed), start)
        except BaseException:
            pass  # expected: the daemon has ended
        os._exit(0)

    def check_files(self, notes):
        for name, (version, size) in notes.files.items():
            path = f"{self.volume.root}/{name}"
            if name in notes.gone:
                self.assertFalse(os.path.lexists(path), f"{name} is back")
            elif name not in notes.maybe_gone or os.path.lexists(path):
                with open(path, "rb") as file:
                    self.assertEqual(file.read(),
                                     content_of(os.path.basename(name), version, size), name)

    def check_versions(self, notes):
        for name, version in notes.versions.items():
            with open(f"{self.volume.root}/{name}", "rb") as file:
                data = file.read()
            found, size = (int(word) for word in data.split(b"\n", 1)[0].split())
            self.assertGreaterEqual(found, version, name)
            self.assertEqual(data, content_of(os.path.basename(name), found, size), name)

    def check_rows(self, notes):
        path = f"{self.volume.root}/commit_rows0/database"
        if not notes.rows:
            return
        database = sqlite3.connect(path)
        self.assertEqual(database.execute("pragma integrity_check").fetchone()[0], "ok")
        found = {row for row, in database.execute("select a from t")}
        self.assertLessEqual(set(notes.rows), found)
        database.close()

    def one_round(self, number):
        self.mount()
        start = number * 100_000
        children = [self.start(work, index, start)
                    for work, index in ((write_files, 0), (write_files, 1), (replace_files, 0),
                                        (commit_rows, 0), (make_noise, 0),
                                        *((ask_by_socket, i) for i in range(self.askers)))]
        time.sleep(self.random.uniform(*self.seconds))
        self.daemon.send_signal(signal.SIGKILL)
        check_nothing_waits(self, self.volume, self.daemon)
        for child in children:
            os.waitpid(child, 0)
        run("umount", *self.random.choice([(), ("-l",), ("-f",)]), self.volume.root)
        self.mount()
        notes = Notes(self.notes)
        self.check_files(notes)
        self.check_versions(notes)
        self.check_rows(notes)
        self.volume.unmount()
        self.assertEqual(self.daemon.wait(PATIENCE_SECONDS), 0)
        self.volume.check()
        return notes.count

    def test_what_was_synced_survives(self):
        for number in range(int(os.environ.get("WARREN_ROUNDS", "6"))):
            try:
                count = self.one_round(number)
            except BaseException as error:
                raise AssertionError(f"seed {self.seed}, round {number}: {error}"[:2000])
        self.assertGreater(count, 0)
        print(f"{count} notes", file=sys.stderr)


if __name__ == "__main__":
    mounted.main()
