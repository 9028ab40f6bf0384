#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many bytes do successive versions of one thing take: on a Warren mount with deduplication,
after `warren dedup --apply`, on btrfs after duperemove, on xfs as reflinks of the version before
that are then changed in place, in a restic repository; and what `warren dedup` predicts.

    bench/stored_bytes.py [--inputs DIR] [--folder DIR] [--versions N] [--csv FILE] [SERIES...]

A series is a folder below --inputs, as tools/fetch_inputs.py makes them: package, kernel, blast,
disk. Its files are unpacked if they are tar files, else copied, one after the other. It wants root,
for mounts. A peer that is not installed is reported and left out. Environment: WARREN names the
program, else build/bin/warren.
"""

import argparse
import contextlib
import csv
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import origin

PROGRAM = os.environ.get("WARREN", str(origin.ROOT / "build/bin/warren"))
BLOCK = 4096
SPACE_BOUND = 0.95


def run(*words, **options):
    done = subprocess.run(words, check=False, capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"stored_bytes: {' '.join(map(str, words))}: {done.stderr.strip()}")
    return done.stdout


def store(version, target):
    """Unpacks or copies a version to below the directory `target`, which is made."""
    target.mkdir()
    if version.suffix == ".tar":
        run("tar", "--no-same-owner", "-xf", version, "-C", target)
    else:
        run("cp", "--reflink=never", "--sparse=never", version, target / "file")


def change_in_place(target, wanted):
    """Makes the tree `target` equal to `wanted`, and writes only blocks that differ."""
    for folder, names, files in os.walk(target, topdown=False):
        below = wanted / os.path.relpath(folder, target)
        for name in names + files:
            if not os.path.lexists(below / name):
                path = pathlib.Path(folder, name)
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    for folder, names, files in os.walk(wanted):
        below = target / os.path.relpath(folder, wanted)
        for name in names:
            (below / name).mkdir(exist_ok=True)
        for name in files:
            path = pathlib.Path(folder, name)
            if path.is_file() and not path.is_symlink():
                change_blocks(below / name, path)


def change_blocks(target, wanted):
    with open(wanted, "rb") as source, open(target, "r+b" if target.exists() else "w+b") as file:
        at = 0
        while data := source.read(BLOCK):
            if file.read(BLOCK) != data:
                file.seek(at)
                file.write(data)
            at += len(data)
            file.seek(at)
        file.truncate(at)


@contextlib.contextmanager
def mounted(words, point, ends):
    point.mkdir()
    run(*words, point)
    try:
        yield point
    finally:
        run(*ends, point)
        point.rmdir()


@contextlib.contextmanager
def warren(folder, size, option):
    image = folder / "warren.img"
    run(PROGRAM, "mkfs", "--force", "--quiet", "--size", str(size), image)
    with mounted([PROGRAM, "mount", "-o", option, image], folder / "warren",
                 [PROGRAM, "umount"]) as point:
        yield point
    image.unlink()


@contextlib.contextmanager
def on_loop(folder, size, kind):
    image = folder / f"{kind}.img"
    with open(image, "wb") as file:
        file.truncate(size)
    run(f"mkfs.{kind}", image)
    with mounted(["mount", "-o", "loop", image], folder / kind, ["umount"]) as point:
        yield point
    image.unlink()


def used(point):
    """Bytes that the file system has in use, after all are stored."""
    run("sync", "-f", point)
    status = os.statvfs(point)
    return (status.f_blocks - status.f_bfree) * status.f_frsize


class Series:
    """The versions of one thing and what they take in each place."""

    def __init__(self, name, versions, folder):
        self.name, self.versions, self.folder = name, versions, folder
        self.plain = folder / "plain"
        self.rows = []
        self.left_out = []
        self.plain.mkdir()
        for number, version in enumerate(versions):
            store(version, self.plain / f"{number:02}")
        self.bytes = sum(path.stat().st_size for path in self.files())
        self.size = 3 * self.bytes + (1 << 30)

    def files(self):
        for folder, names, files in os.walk(self.plain):
            names.sort()
            for name in sorted(files):
                path = pathlib.Path(folder, name)
                if path.is_file() and not path.is_symlink():
                    yield path

    def add(self, subject, stored, plain=None):
        """`plain`: what it would be without sharing, if that is not the first row."""
        plain = plain or (self.rows[0][2] if self.rows else stored)
        self.rows.append((self.name, subject, stored, stored / plain))
        return stored

    def has(self, *programs):
        missing = [name for name in programs if shutil.which(name) is None]
        if missing:
            self.left_out.append(f"{self.name}: left out: {', '.join(missing)} is not installed")
        return not missing

    def store_all(self, point):
        for number, version in enumerate(self.versions):
            store(version, point / f"{number:02}")
            run("sync", "-f", point)

    def measure(self):
        with warren(self.folder, self.size, "nodedup") as point:
            before = used(point)
            self.store_all(point)
            plain = self.add("Warren without deduplication", used(point) - before)
            run(PROGRAM, "dedup", "--apply", point)
            offline = self.add("Warren, then warren dedup --apply", used(point) - before)
        with warren(self.folder, self.size, "dedup") as point:
            before = used(point)
            self.store_all(point)
            inline = self.add("Warren -o dedup", used(point) - before)
        self.share = (plain - inline) / (plain - offline) if plain > offline else 1
        self.measure_peers()
        savings = json.loads(run(PROGRAM, "dedup", "--json", self.plain))["savings_bytes"]
        self.add("predicted by warren dedup, bytes of contents", self.bytes - savings, self.bytes)

    def measure_peers(self):
        if self.has("mkfs.btrfs", "duperemove"):
            with on_loop(self.folder, self.size, "btrfs") as point:
                before = used(point)
                self.store_all(point)
                run("duperemove", "-drq", point)
                self.add("btrfs, duperemove", used(point) - before)
                run("duperemove", "-drq", "-b", str(BLOCK), "--dedupe-options=partial", point)
                self.add("btrfs, duperemove again, by 4 KiB", used(point) - before)
        if self.has("mkfs.xfs"):
            with on_loop(self.folder, self.size, "xfs") as point:
                before = used(point)
                self.change_reflinks(point)
                self.add("xfs, cp --reflink, changed in place", used(point) - before)
        if self.has("restic"):
            for name, word in (("not compressed", "off"), ("compressed", "auto")):
                self.add(f"restic, {name}", self.back_up(word))

    def change_reflinks(self, point):
        for number, version in enumerate(sorted(self.plain.iterdir())):
            target = point / f"{number:02}"
            if number == 0:
                run("cp", "-a", "--no-preserve=ownership", version, target)
            else:
                run("cp", "-a", "--reflink=always", point / f"{number - 1:02}", target)
                change_in_place(target, version)

    def back_up(self, compression):
        repository = self.folder / "restic"
        words = ["restic", "-q", "--no-cache", "-r", str(repository)]
        environment = {**os.environ, "RESTIC_PASSWORD": "none"}
        run(*words, "init", env=environment)
        for version in sorted(self.plain.iterdir()):
            run(*words, "--compression", compression, "backup", version, env=environment)
        stored = sum(path.stat().st_size for path in repository.rglob("*") if path.is_file())
        shutil.rmtree(repository)
        return stored


def write(all_series, file):
    for line in origin.heads("bench/stored_bytes.py"):
        print("#", line, file=file)
    for series in all_series:
        for line in series.left_out:
            print("#", line, file=file)
        verdict = "met" if series.share >= SPACE_BOUND else "MISSED"
        print(f"# must: space saved by -o dedup over that of warren dedup --apply, {series.name}: "
              f"{series.share:.3f}, at least {SPACE_BOUND}: {verdict}", file=file)
    writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    writer.writerow(["scenario", "subject", "bytes", "over_plain"])
    for series in all_series:
        for name, subject, stored, share in series.rows:
            writer.writerow([name, subject, stored, round(share, 4)])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("series", nargs="*", help="default: package, blast, disk",
                        default=["package", "blast", "disk"])
    parser.add_argument("--inputs", type=pathlib.Path, default=pathlib.Path("inputs"))
    parser.add_argument("--folder", default="/var/tmp", help="where file systems are made")
    parser.add_argument("--versions", type=int, default=20, help="at most, of each series")
    parser.add_argument("--csv", type=pathlib.Path)
    arguments = parser.parse_args()
    all_series = []
    for name in arguments.series:
        versions = sorted(path for path in (arguments.inputs / name).glob("*") if path.is_file())
        if not versions:
            print(f"{name}: left out: nothing in {arguments.inputs / name}; see "
                  "tools/fetch_inputs.py", file=sys.stderr)
            continue
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            series = Series(name, versions[-arguments.versions:], pathlib.Path(folder))
            series.measure()
        all_series.append(series)
    write(all_series, sys.stdout)
    if arguments.csv:
        with open(arguments.csv, "w", encoding="utf-8") as file:
            write(all_series, file)
    return 0 if all(series.share >= SPACE_BOUND for series in all_series) else 1


if __name__ == "__main__":
    sys.exit(main())
