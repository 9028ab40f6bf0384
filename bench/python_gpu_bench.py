#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Contents of files in tensors of a GPU, and back: beside KvikIO where it can be imported, threads
that read into pinned memory, a C program, and torch's DataLoader.

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
from python_bench import C_SOURCE, Rows, timed

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
        """To one file, or a part to each of several."""
        files = [os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600) for path in paths]
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
    with kvikio.CuFile(path, "w") as file:
        file.write(tensor)


def peers_of_large(rows, runs, folder, tensor, want):
    """The same bytes in a plain file in memory."""
    size = len(tensor)
    plain = folder / "plain"
    for threads in (1, 4, 8, THREADS):
        peer = PinnedThreads(threads)
        peer.write([plain], want)
        for _ in range(runs):
            rows.add("read", f"preadv and copy, {threads} threads", size,
                     done(lambda p=peer: p.read(plain, tensor)))  # fmt: skip
        assert torch.equal(tensor, want)
        if kvikio is not None:
            with kvikio.defaults.set("num_threads", threads):
                for _ in range(runs + 1):
                    seconds = done(lambda: kvikio_read(plain, tensor))
                    rows.add("read", f"KvikIO, {threads} threads", size, seconds)
    for count in (1, THREADS):
        paths = [folder / f"plain{i}" for i in range(count)]
        peer = PinnedThreads(THREADS)
        for _ in range(runs):
            rows.add("write", f"copy and pwritev, {THREADS} threads, {count} files", size,
                     done(lambda p=peer, n=paths: p.write(n, want)))  # fmt: skip
            for path in paths:
                path.unlink()
    if kvikio is not None:
        with kvikio.defaults.set("num_threads", THREADS):
            for _ in range(runs):
                rows.add("write", f"KvikIO, {THREADS} threads", size,
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
                # The first one pins memory, and lets the image grow.
                which = "first" if run == 0 else "again"
                rows.add("write", f"write_from, {kind}, {which}", size, seen)
                rows.add("write", f"write_from, {kind}, {which}, synced", size, synced)
            for _ in range(runs + 1):
                seconds = done(lambda f=file: f.read_into(tensor))
                rows.add("read", f"read_into, {kind}", size, seconds)
            assert torch.equal(tensor, want)
        image.unlink()
    peers_of_large(rows, runs, folder, tensor, want)


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
    paths = "".join(f"{plain}/{name}\n" for name in names)
    for _ in range(runs):
        reader = subprocess.run([program, str(THREADS), str(size)], input=paths, text=True,
                                capture_output=True, check=True)  # fmt: skip
        rows.add(scenario, f"C, {THREADS} threads, to the host", count, float(reader.stdout))
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


def measure_names(rows, runs, folder, options):
    names = [f"{i:064x}" for i in range(3600)]
    with warren.Volume.create(folder / "n.img", 1 << 30, force=True) as volume:
        volume.create_many(names, strict=True)
        for busy in (0, 16):
            with busy_threads(busy):
                for _ in range(20 * runs):
                    scenario = f"3,600 names beside {busy} busy threads"
                    rows.add(scenario, "exists_many", 3600,
                             timed(lambda v=volume: v.exists_many(names)))  # fmt: skip
                    rows.add(scenario, "time.sleep(0)", 1, timed(lambda: time.sleep(0)))
    (folder / "n.img").unlink()


def measure_find(rows, runs, folder, options):
    count = 3_000_000
    columns = ["handle", "parent", "size", "mtime", "name"]
    with warren.Volume.create(folder / "t.img", 4 << 30, force=True, engine="cuda") as volume:
        volume.create_many([f"d{i:04}" for i in range(3000)], directories=True, strict=True)
        for begin in range(0, count, 500_000):
            volume.create_many(
                [f"d{i // 1000:04}/f{i:07}" for i in range(begin, begin + 500_000)], strict=True
            )
        for _ in range(runs):
            for subject, wanted in (("names", columns), ("paths", [*columns[:-1], "path"])):
                seconds = done(
                    lambda w=wanted, v=volume: v.find("/", types="f", columns=w, device="cuda")
                )
                rows.add(f"find over {count:,} files", f"columns with {subject}", count, seconds)
    (folder / "t.img").unlink()


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

    large = rows.items.get("read", 0)
    least("read_into, page cache", fastest("read", "read_into, page"), large, 45)
    least("read_into, pinned memory", fastest("read", "read_into, pinned"), large, 50)
    least("write_from, visible in pinned memory",
          fastest("write", "write_from, pinned memory, again"), large, 40)  # fmt: skip
    synced = [rows.median(*key) for key in rows.times if key[1].endswith("again, synced")]
    for name, ours, peer, bound in (
        ("read_into, page cache", fastest("read", "read_into, page"),
         fastest("read", "KvikIO"), 1),
        ("write_from, synced", min(synced, default=None), fastest("write", "KvikIO"), 1.5),
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
