#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How fast does Python get the contents of many small files: read_many() beside a loop over the
mount, a loop over ext4, and a C program with two threads over ext4. How long does the import take?

    PYTHONPATH=build/python bench/python_bench.py [--runs N] [--files N] [--folder DIR] [--csv FILE]

It wants root, for mounts, and numpy. The folder holds the image of the volume and that of ext4,
which is on a loop device. Everything is in the caches before it is measured; the subjects take
turns. Environment: WARREN names the program, else build/bin/warren.
"""

import argparse
import contextlib
import csv
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy
import origin
import warren

PROGRAM = os.environ.get("WARREN", str(origin.ROOT / "build/bin/warren"))
FILES_IN_DIRECTORY = 1000
C_SOURCE = origin.ROOT / "bench/peers/read_files.c"


def timed(work):
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def read_loop(paths):
    """What a program does that knows no better."""
    contents = []
    for path in paths:
        with open(path, "rb") as file:
            contents.append(file.read())
    return contents


@contextlib.contextmanager
def mounted(arguments, point):
    point.mkdir()
    subprocess.run([*arguments, point], check=True)
    try:
        yield point
    finally:
        subprocess.run(["umount", point], check=True)
        point.rmdir()


class Rows:
    """The times of each scenario and subject, and what must hold."""

    def __init__(self, program):
        self.program = program
        self.times = {}
        self.items = {}
        self.bounds = []
        self.left_out = []

    def add(self, scenario, subject, items, seconds):
        self.times.setdefault((scenario, subject), []).append(seconds)
        self.items[scenario, subject] = items

    def leave_out(self, subject, reason):
        """Reports what could not be measured."""
        self.left_out.append(f"{subject}: {reason}")

    def median(self, scenario, subject):
        return statistics.median(self.times[scenario, subject])

    def must(self, name, value, bound, is_least=True):
        word, kept = ("at least", value >= bound) if is_least else ("at most", value <= bound)
        self.bounds.append((f"{name}: {value:.3g}, {word} {bound:g}", kept))

    def write(self, file):
        for line in origin.heads(self.program):
            print("#", line, file=file)
        for text, kept in self.bounds:
            print(f"# must: {text}: {'met' if kept else 'MISSED'}", file=file)
        for text in self.left_out:
            print(f"# left out: {text}", file=file)
        writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
        file.write("scenario,subject,items,runs,median_seconds,fastest_seconds,slowest_seconds\n")
        for (scenario, subject), times in self.times.items():
            figures = (statistics.median(times), min(times), max(times))
            rounded = (float(f"{figure:.6g}") for figure in figures)
            items = self.items[scenario, subject]
            writer.writerow([scenario, subject, items, len(times), *rounded])

    def finish(self, path):
        """Prints all, and writes it to the file `path` if that is given. The program's status."""
        self.write(sys.stdout)
        if path:
            with open(path, "w", encoding="utf-8") as file:
                self.write(file)
        return 0 if all(kept for _, kept in self.bounds) else 1


def fill(folder, image, names, sizes):
    """A volume and an image of ext4 with the same random contents."""
    whole = numpy.random.default_rng(1).bytes(sum(sizes))
    ends = numpy.cumsum([0, *sizes])
    directories = sorted({os.path.dirname(name) for name in names})
    with warren.Volume.create(image, 8 << 30) as volume:
        volume.create_many(directories, directories=True, strict=True)
        volume.write_many(names, whole, ends, strict=True)
    other = folder / "ext4.img"
    with other.open("wb") as file:
        file.truncate(4 << 30)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-N", str(2 * len(names)), other], check=True)
    with mounted(["mount", "-o", "loop", other], folder / "ext4") as point:
        for directory in directories:
            (point / directory).mkdir()
        for i, name in enumerate(names):
            (point / name).write_bytes(whole[ends[i] : ends[i + 1]])
    return other, whole


def measure_volume(rows, scenario, image, names, whole):
    out = numpy.ones(len(whole), numpy.uint8)
    with warren.Volume(image) as volume:
        found = volume.lookup_many(names, strict=True).handles
        shuffled = numpy.asarray(found)[numpy.random.permutation(len(names))]
        for subject, files, target in (
            ("read_many, list of str", names, out),
            ("read_many, list of str, new memory", names, None),
            ("read_many, handles", found, out),
            ("read_many, handles in random order", shuffled, out),
        ):
            volume.read_many(files, out=target, strict=True)  # now it is in the caches
            seconds = timed(lambda f=files, t=target: volume.read_many(f, out=t, strict=True))
            rows.add(scenario, subject, len(names), seconds)
        volume.read_many(names, out=out, strict=True)
        assert out.tobytes() == whole


def measure_paths(rows, scenario, subject, point, names, whole):
    paths = [f"{point}/{name}" for name in names]
    assert b"".join(read_loop(paths)) == whole
    rows.add(scenario, subject, len(names), timed(lambda: read_loop(paths)))


def measure_c(rows, scenario, program, point, names, size):
    """The program tells the seconds of its second pass."""
    paths = "".join(f"{point}/{name}\n" for name in names)
    done = subprocess.run(
        [program, "2", str(size)], input=paths, capture_output=True, text=True, check=True
    )
    rows.add(scenario, "C, 2 threads over ext4", len(names), float(done.stdout))


def measure_files(rows, runs, count, size, base):
    scenario = f"{count:,} files of {size:,} bytes"
    names = [f"d{i // FILES_IN_DIRECTORY:03}/f{i:07}" for i in range(count)]
    with tempfile.TemporaryDirectory(dir=base) as place:
        folder = pathlib.Path(place)
        image, program = folder / "v.img", folder / "read_files"
        subprocess.run(["cc", "-O2", "-pthread", "-o", program, C_SOURCE], check=True)
        other, whole = fill(folder, image, names, [size] * count)
        for _ in range(runs):
            measure_volume(rows, scenario, image, names, whole)
            with mounted([PROGRAM, "mount", image], folder / "warren") as point:
                measure_paths(rows, scenario, "Python loop over the mount", point, names, whole)
            with mounted(["mount", "-o", "loop", other], folder / "ext4") as point:
                measure_paths(rows, scenario, "Python loop over ext4", point, names, whole)
                measure_c(rows, scenario, program, point, names, size)
    ours = rows.median(scenario, "read_many, list of str")
    loop = rows.median(scenario, "Python loop over the mount")
    rows.must(f"times as fast as a Python loop over the mount, {scenario}", loop / ours, 20)
    other_time = rows.median(scenario, "C, 2 threads over ext4")
    rows.must(f"times as fast as C over ext4, {scenario}", other_time / ours, 1.5)


def measure_import(rows, runs):
    for module in ("warren", "numpy"):
        for _ in range(max(runs, 15)):
            pair = [
                timed(lambda c=code: subprocess.run([sys.executable, "-c", c], check=True))
                for code in ("pass", f"import {module}")
            ]
            rows.add("import, beyond an empty program", module, 1, pair[1] - pair[0])
    rows.must("seconds of import", rows.median("import, beyond an empty program", "warren"), 0.06,
              is_least=False)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--folder", default="/dev/shm")
    parser.add_argument("--csv")
    options = parser.parse_args()
    rows = Rows("bench/python_bench.py")
    measure_import(rows, options.runs)
    for size in (4096, 100):
        measure_files(rows, options.runs, options.files, size, options.folder)
    return rows.finish(options.csv)


if __name__ == "__main__":
    sys.exit(main())
