#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Contents of files in tensors of a GPU, and back: beside KvikIO where it can be imported, threads
that read into pinned memory, loops in Python and C, and torch's DataLoader. Names and columns:
beside os.path.exists() and os.scandir().

The peers work on plain files in the same folder, and os.path.exists() also on a mount of the volume
where there can be one.

    PYTHONPATH=build-cuda/python bench/python_gpu_bench.py [--runs N] [--gib N] [--files N]
        [--folder DIR] [--csv FILE] [--only NAME...]

It wants torch with CUDA, numpy, and a folder in memory with room for three times the gibibytes. All
is in the page cache before it is measured; the subjects take turns.
"""

import argparse
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy
import torch
import warren
from python_bench import C_SOURCE, PROGRAM, Rows, mounted, read_loop, timed

try:
    import kvikio
    import kvikio.defaults
except ImportError:
    kvikio = None

THREADS = len(os.sched_getaffinity(0))
PIECE = 4 << 20


def done(work):
    """The seconds until the GPU has done the work, too."""

    def whole():
        work()
        torch.cuda.synchronize()

    torch.cuda.synchronize()
    return timed(whole)


class PinnedThreads:
    """Threads that each have two pinned buffers and a stream: a program without KvikIO."""

    def __init__(self, threads):
        self.pool = ThreadPoolExecutor(threads)
        self.threads = threads
        self.lanes = [
            ([torch.empty(PIECE, dtype=torch.uint8, pin_memory=True) for _ in range(2)],
             torch.cuda.Stream(), [torch.cuda.Event() for _ in range(2)])
            for _ in range(threads)
        ]  # fmt: skip

    def _run(self, tensor, work):
        def share(number):
            pinned, stream, events = self.lanes[number]
            views = [memoryview(buffer.numpy()) for buffer in pinned]
            with torch.cuda.stream(stream):
                for turn, at in enumerate(
                    range(number * PIECE, len(tensor), self.threads * PIECE)
                ):
                    part = tensor[at : at + PIECE]
                    work(at, part, pinned[turn % 2], views[turn % 2], events[turn % 2])
            stream.synchronize()

        list(self.pool.map(share, range(self.threads)))

    def read(self, path, tensor):
        file = os.open(path, os.O_RDONLY)

        def work(at, part, pinned, view, event):
            event.synchronize()
            os.preadv(file, [view[: len(part)]], at)
            part.copy_(pinned[: len(part)], non_blocking=True)
            event.record()

        self._run(tensor, work)
        os.close(file)

    def write(self, paths, tensor):
        """To one file, or a part to each of several. What exists is overwritten."""
        files = [os.open(path, os.O_WRONLY | os.O_CREAT, 0o600) for path in paths]
        share = len(tensor) // len(files)

        def work(at, part, pinned, view, event):
            pinned[: len(part)].copy_(part, non_blocking=True)
            event.record()
            event.synchronize()
            number = min(at // share, len(files) - 1)
            os.pwritev(files[number], [view[: len(part)]], at - number * share)

        self._run(tensor, work)
        for file in files:
            os.close(file)


def kvikio_read(path, tensor):
    with kvikio.CuFile(path, "r") as file:
        file.read(tensor)


def kvikio_write(path, tensor):
    """Overwrites what exists."""
    with kvikio.CuFile(path, "r+" if path.exists() else "w") as file:
        file.write(tensor)


def first_or_again(run):
    """The first run makes the file, the others overwrite it."""
    return "first" if run == 0 else "again"


def again(run):
    """Of peers: only rows of files that exist say so."""
    return "" if run == 0 else ", again"


def peers_of_large(rows, runs, folder, tensor, want):
    """The same bytes in a plain file in memory."""
    size = len(tensor)
    plain = folder / "plain"
    PinnedThreads(THREADS).write([plain], want)
    for threads in (1, 4, 8, THREADS):
        peer = PinnedThreads(threads)
        tensor.zero_()
        for _ in range(runs):
            rows.add("read", f"preadv and copy, {threads} threads", size,
                     done(lambda p=peer: p.read(plain, tensor)))  # fmt: skip
        assert torch.equal(tensor, want)
        if kvikio is not None:
            tensor.zero_()
            with kvikio.defaults.set("num_threads", threads):
                for _ in range(runs + 1):
                    seconds = done(lambda: kvikio_read(plain, tensor))
                    rows.add("read", f"KvikIO, {threads} threads", size, seconds)
            assert torch.equal(tensor, want)
    for count in (1, THREADS):
        paths = [folder / f"plain{i}" for i in range(count)]
        peer = PinnedThreads(THREADS)
        subject = f"copy and pwritev, {THREADS} threads, {count} files"
        for run in range(runs + 1):
            rows.add("write", f"{subject}{again(run)}", size,
                     done(lambda p=peer, n=paths: p.write(n, want)))  # fmt: skip
        for path in paths:
            path.unlink()
    plain.unlink()
    if kvikio is not None:
        with kvikio.defaults.set("num_threads", THREADS):
            for run in range(runs + 1):
                rows.add("write", f"KvikIO, {THREADS} threads{again(run)}", size,
                         done(lambda: kvikio_write(plain, want)))  # fmt: skip
        plain.unlink()


def measure_large(rows, runs, folder, options):
    size = options.gib << 30
    want = torch.randint(0, 256, (size,), dtype=torch.uint8, device="cuda")
    tensor = torch.zeros_like(want)
    image = folder / "large.img"
    # Half of the memory may wait to be written.
    for kind, memory in (("page cache", 0), ("pinned memory", size * 9 // 4)):
        with warren.Volume.create(
            image, size * 5 // 4, force=True, host_memory=memory
        ) as volume, volume.open("/f", "w+") as file:
            for run in range(runs + 1):
                begin = time.perf_counter()
                file.write_from(want)
                seen = time.perf_counter() - begin
                volume.sync()
                synced = time.perf_counter() - begin
                which = first_or_again(run)  # the first one pins memory, too
                rows.add("write", f"write_from, {kind}, {which}", size, seen)
                rows.add("write", f"write_from, {kind}, {which}, synced", size, synced)
            for _ in range(runs + 1):
                seconds = done(lambda f=file: f.read_into(tensor))
                rows.add("read", f"read_into, {kind}", size, seconds)
            assert torch.equal(tensor, want)
        image.unlink()
    peers_of_large(rows, runs, folder, tensor, want)


def read_by_threads(paths, threads, out):
    """A loop in Python in each thread; then all bytes go into the tensor."""
    parts = [paths[i::threads] for i in range(threads)]
    contents = [b""] * len(paths)
    with ThreadPoolExecutor(threads) as pool:
        for i, part in enumerate(pool.map(read_loop, parts)):
            contents[i::threads] = part
    out.copy_(torch.frombuffer(bytearray().join(contents), dtype=torch.uint8))


def measure_small(rows, runs, folder, options, size):
    count = options.files
    scenario = f"{count:,} files of {size:,} bytes"
    names = [f"d{i // 1000:03}/f{i:07}" for i in range(count)]
    whole = numpy.random.default_rng(1).integers(0, 256, count * size, numpy.uint8)
    out = torch.zeros(len(whole), dtype=torch.uint8, device="cuda")
    want = torch.from_numpy(whole).cuda()
    for kind, memory in (("page cache", 0), ("pinned memory", 1 << 30)):
        with warren.Volume.create(
            folder / "small.img", 4 << 30, force=True, host_memory=memory
        ) as volume:
            volume.create_many(sorted({os.path.dirname(name) for name in names}), directories=True)
            ends = numpy.arange(count + 1) * size
            found = volume.write_many(names, whole, ends, strict=True).handles
            shuffled = numpy.asarray(found)[numpy.random.default_rng(2).permutation(count)]
            subjects = (("handles", found), ("handles in random order", shuffled),
                        ("list of str", names))  # fmt: skip
            for _ in range(runs + 2):
                for subject, files in subjects:
                    seconds = done(lambda f=files, v=volume: v.read_many(f, out=out, strict=True))
                    rows.add(scenario, f"read_many, {kind}, {subject}", count, seconds)
            assert torch.equal(out, want)
    (folder / "small.img").unlink()
    plain, program = folder / "plain", folder / "read_files"
    subprocess.run(["cc", "-O2", "-pthread", "-o", program, C_SOURCE], check=True)
    for i, name in enumerate(names):
        path = plain / name
        if i % 1000 == 0:
            path.parent.mkdir(parents=True)
        path.write_bytes(whole[i * size : (i + 1) * size].tobytes())
    paths = [f"{plain}/{name}" for name in names]
    lines = "".join(f"{path}\n" for path in paths)
    for _ in range(runs):
        for threads in (1, THREADS):
            seconds = done(lambda n=threads: read_by_threads(paths, n, out))
            rows.add(scenario, f"Python loop over plain files, {threads} threads", count, seconds)
        reader = subprocess.run([program, str(THREADS), str(size)], input=lines, text=True,
                                capture_output=True, check=True)  # fmt: skip
        rows.add(scenario, f"C, {THREADS} threads, to the host", count, float(reader.stdout))
    assert torch.equal(out, want)
    subprocess.run(["rm", "-r", plain], check=True)


class Samples(torch.utils.data.Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        with open(self.paths[index], "rb", buffering=0) as file:
            return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)


def measure_batches(rows, runs, folder, options):
    """Random batches of samples."""
    count, size, batch = 100_000, 16 << 10, 4096
    scenario = f"random batches of {batch:,} samples of {size >> 10} KiB"
    names = [f"{i:06}" for i in range(count)]
    whole = numpy.random.default_rng(3).integers(0, 256, count * size, numpy.uint8)
    out = torch.zeros(batch * size, dtype=torch.uint8, device="cuda")
    want = torch.from_numpy(whole).cuda().view(count, size)
    with warren.Volume.create(folder / "b.img", 4 << 30, force=True, host_memory=3 << 30) as volume:
        ends = numpy.arange(count + 1) * size
        handles = numpy.asarray(volume.write_many(names, whole, ends, strict=True).handles)
        for run in range(40 * runs):
            rows_of = numpy.random.default_rng(run).integers(0, count, batch)
            chosen = handles[rows_of]
            seconds = done(lambda c=chosen, v=volume: v.read_many(c, out=out, strict=True))
            if run >= 10:
                rows.add(scenario, "read_many, pinned memory", batch, seconds)
            if run % 20 == 0:
                assert torch.equal(out.view(batch, size), want[torch.from_numpy(rows_of).cuda()])
    (folder / "b.img").unlink()
    paths = [folder / name for name in names[: 8 * batch]]
    for i, path in enumerate(paths):
        path.write_bytes(whole[i * size : (i + 1) * size].tobytes())
    loader = torch.utils.data.DataLoader(Samples(paths), batch, shuffle=True, num_workers=THREADS,
                                         pin_memory=True, persistent_workers=True)  # fmt: skip
    for _ in range(2):
        last = time.perf_counter()
        for host in loader:
            host.cuda(non_blocking=True)
            torch.cuda.synchronize()
            now = time.perf_counter()
            rows.add(scenario, f"DataLoader, {THREADS} workers", batch, now - last)
            last = now
    for path in paths:
        path.unlink()


@contextlib.contextmanager
def busy_threads(count):
    must_end = threading.Event()

    def spin():
        while not must_end.is_set():
            pass

    threads = [threading.Thread(target=spin) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        must_end.set()
        for thread in threads:
            thread.join()


def add_exists(rows, runs, subject, names, exists):
    """Rows for all names, and for few: beside busy threads each os.path.exists() takes 5 ms or more
    to get the GIL back."""
    for busy, counts in ((0, (3600, 36)), (16, (36,))):
        for count in counts:
            with busy_threads(busy):
                for _ in range(runs):
                    rows.add(f"{count:,} names beside {busy} busy threads", subject, count,
                             timed(lambda n=count: exists(names[:n])))  # fmt: skip


def exist_in(folder):
    def exists(names):
        assert all(os.path.exists(f"{folder}/{name}") for name in names)

    return exists


def measure_names(rows, runs, folder, options):
    names = [f"{i:064x}" for i in range(3600)]
    image, plain = folder / "n.img", folder / "plain"
    with warren.Volume.create(image, 1 << 30, force=True) as volume:
        volume.create_many(names, strict=True)
        for busy in (0, 16):
            with busy_threads(busy):
                for _ in range(20 * runs):
                    scenario = f"3,600 names beside {busy} busy threads"
                    rows.add(scenario, "exists_many", 3600,
                             timed(lambda v=volume: v.exists_many(names)))  # fmt: skip
                    rows.add(scenario, "time.sleep(0)", 1, timed(lambda: time.sleep(0)))
        add_exists(rows, runs, "exists_many", names, volume.exists_many)
    plain.mkdir()
    for name in names:
        (plain / name).touch()
    add_exists(rows, runs, "os.path.exists, plain files", names, exist_in(plain))
    subject = "os.path.exists, mount"
    try:
        with mounted([PROGRAM, "mount", image], folder / "mount") as point:
            add_exists(rows, runs, subject, names, exist_in(point))
    except (OSError, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        rows.leave_out(subject, "the volume could not be mounted")


def scandir_columns(folder):
    """What find() gives of the files: inode, that of the directory, size, mtime, name, path."""
    found = []
    left = [(folder, os.stat(folder).st_ino)]
    while left:
        path, parent = left.pop()
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    left.append((entry.path, entry.inode()))
                else:
                    about = entry.stat(follow_symlinks=False)
                    found.append((about.st_ino, parent, about.st_size, about.st_mtime_ns,
                                  entry.name, entry.path))  # fmt: skip
    return list(zip(*found, strict=True))


def measure_find(rows, runs, folder, options):
    """os.scandir() has fewer files, to make them in time: a scenario of its own."""
    columns = ["handle", "parent", "size", "mtime", "name"]
    for count, at_once in ((3_000_000, 500_000), (100_000, 100_000)):
        names = [f"d{i // 1000:04}/f{i:07}" for i in range(count)]
        directories = [f"d{i:04}" for i in range(count // 1000)]
        scenario = f"find over {count:,} files"
        with warren.Volume.create(folder / "t.img", 4 << 30, force=True, engine="cuda") as volume:
            volume.create_many(directories, directories=True, strict=True)
            for begin in range(0, count, at_once):
                volume.create_many(names[begin : begin + at_once], strict=True)
            for _ in range(runs):
                for subject, wanted in (("names", columns), ("paths", [*columns[:-1], "path"])):
                    seconds = done(
                        lambda w=wanted, v=volume: v.find("/", types="f", columns=w, device="cuda")
                    )
                    rows.add(scenario, f"columns with {subject}", count, seconds)
        (folder / "t.img").unlink()
    plain = folder / "plain"
    for directory in directories:
        (plain / directory).mkdir(parents=True)
    for name in names:
        os.mknod(f"{plain}/{name}")
    for _ in range(runs):
        seconds = timed(lambda: scandir_columns(plain))
        rows.add(scenario, "os.scandir and stat, plain files", count, seconds)
    assert len(scandir_columns(plain)[0]) == count


def judge(rows):
    """What must hold, where it was measured."""
    def fastest(scenario, start):
        found = [rows.median(*key) for key in rows.times if key[0] == scenario
                 and key[1].startswith(start)]  # fmt: skip
        return min(found) if found else None

    def least(name, seconds, amount, bound):
        if seconds is not None:
            rows.must(f"{name}, GB/s", amount / seconds / 1e9, bound)

    def most(scenario, subject, bound):
        if (scenario, subject) in rows.times:
            rows.must(f"{scenario}, {subject}, ms", rows.median(scenario, subject) * 1e3, bound,
                      is_least=False)  # fmt: skip

    large = rows.items.get(("read", "read_into, page cache"), 0)
    least("read_into, page cache", fastest("read", "read_into, page"), large, 45)
    least("read_into, pinned memory", fastest("read", "read_into, pinned"), large, 50)
    least("write_from, visible in pinned memory",
          fastest("write", "write_from, pinned memory, again"), large, 40)  # fmt: skip
    synced = [rows.median(*key) for key in rows.times if key[1].endswith("again, synced")]
    again = f"KvikIO, {THREADS} threads, again"
    for name, ours, peer, bound in (
        ("read_into, page cache", fastest("read", "read_into, page"),
         fastest("read", "KvikIO"), 1),
        ("write_from, synced", min(synced, default=None), fastest("write", again), 1.5),
    ):  # fmt: skip
        if ours is not None and peer is not None:
            rows.must(f"{name}, rate over KvikIO's best", peer / ours, bound)
    for scenario, bounds in (("100,000 files of 4,096 bytes", (25, 35, 45)),
                             ("100,000 files of 100 bytes", (8, 10, 28))):  # fmt: skip
        for subject, bound in zip(("handles", "handles in random order", "list of str"), bounds,
                                  strict=True):  # fmt: skip
            for kind in ("page cache", "pinned memory"):
                most(scenario, f"read_many, {kind}, {subject}", bound)
    alone, beside = (f"3,600 names beside {count} busy threads" for count in (0, 16))
    most(beside, "exists_many", 0.5)
    if (beside, "exists_many") in rows.times:
        # At most one wait: time.sleep(0) gives the GIL away once, and then waits for it.
        more = max(rows.times[beside, "exists_many"]) - rows.median(alone, "exists_many")
        rows.must("what busy threads add to the slowest exists_many, waits of time.sleep(0)",
                  more / rows.median(beside, "time.sleep(0)"), 1, is_least=False)  # fmt: skip
    most("random batches of 4,096 samples of 16 KiB", "read_many, pinned memory", 3)
    most("find over 3,000,000 files", "columns with names", 5)
    most("find over 3,000,000 files", "columns with paths", 15)


MEASURES = {
    "large": measure_large,
    "small": lambda *given: measure_small(*given, 4096),
    "inline": lambda *given: measure_small(*given, 100),
    "batches": measure_batches,
    "names": measure_names,
    "find": measure_find,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--gib", type=int, default=8)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--folder", default="/dev/shm")
    parser.add_argument("--csv")
    parser.add_argument("--only", nargs="+", choices=MEASURES, default=list(MEASURES))
    options = parser.parse_args()
    rows = Rows("bench/python_gpu_bench.py")
    for name in options.only:
        begin = time.perf_counter()
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            MEASURES[name](rows, options.runs, pathlib.Path(folder), options)
        print(f"{name}: {time.perf_counter() - begin:.0f} s", file=sys.stderr)
    judge(rows)
    return rows.finish(options.csv)


if __name__ == "__main__":
    sys.exit(main())
