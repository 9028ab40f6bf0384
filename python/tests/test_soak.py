# SPDX-License-Identifier: Apache-2.0
"""A mixed load by several threads takes no more memory in its second half than in its first.

It lasts WARREN_SOAK_SECONDS: a few seconds, and 10 minutes among the long tests. With
WARREN_TEST_ENGINE=cuda the load runs on a GPU, whose memory is watched too, and passes contents
between files and tensors if torch is there.
"""

import contextlib
import ctypes
import os
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import warren

from conftest import ENGINE

torch: Any = None
if ENGINE == "cuda":
    with contextlib.suppress(ImportError):
        import torch

SECONDS = float(os.environ.get("WARREN_SOAK_SECONDS", "6"))
THREADS = 3
FILES = 200
SAMPLES = 10  # in each half
SEED = int(os.environ.get("WARREN_TEST_SEED", "0")) or random.SystemRandom().randrange(1 << 32)


class Load:
    """What one thread does, in a directory of its own."""

    def __init__(self, volume: warren.Volume, number: int) -> None:
        self.volume = volume
        self.random = random.Random(SEED + number)
        self.home = f"/{number}"
        self.names = [f"{self.home}/{i:03}" for i in range(FILES)]
        self.buffer = np.empty(64 << 10, np.uint8)
        if torch:
            self.stream = torch.cuda.Stream()
            self.source, self.target = torch.empty((2, 6 << 20), dtype=torch.uint8, device="cuda")
        volume.mkdir(self.home)
        self.write()

    def write(self) -> None:
        data = [self.random.randbytes(self.random.choice([0, 100, 5000])) for _ in self.names]
        self.volume.write_many(self.names, data, strict=True)

    def read(self) -> None:
        some = self.random.sample(self.names, 20)
        found = self.volume.read_many(some, strict=True)
        assert len(found) == len(some)
        with self.volume.open(some[0]) as file:
            file.read_into(self.buffer)

    def look(self) -> None:
        assert all(self.volume.exists_many(self.names).tolist())
        tree = self.volume.stat_tree(self.home, columns=["handle", "size", "name"])
        assert tree.rows == FILES + 1
        assert self.volume.usage(self.home).array("entries")[0] == FILES + 1
        self.volume.hash(self.random.sample(self.names, 20), "md5", strict=True)

    def turn_over(self) -> None:
        self.volume.mkdir(f"{self.home}.new")
        names = [f"{self.home}.new/{i}" for i in range(300)]
        self.volume.create_many(names, strict=True)
        self.volume.move_many(names[:50], [f"{name}.moved" for name in names[:50]], strict=True)
        self.volume.remove_many(names[50:100], strict=True)
        self.volume.rebuild(f"{self.home}.new")
        self.volume.remove_tree(f"{self.home}.new")

    def map(self) -> None:
        name = self.random.choice(self.names)
        if self.volume.stat(name).st_size > 0:
            self.volume.map(name, writable=True).write_back()

    def move_tensors(self) -> None:
        """Contents go from the memory of the GPU to one file and to many, and back."""
        size = self.random.choice([1000, 300_000, len(self.source)])
        source, target = self.source[:size], self.target[:size]
        name = f"{self.home}.tensor"
        with torch.cuda.stream(self.stream):
            source.random_(0, 256)
            with self.volume.open(name, "w+") as file:
                assert file.write_from(source, stream=self.stream) == size
                assert file.read_into(target, stream=self.stream) == size
            assert torch.equal(source, target)
            ends = torch.arange(21, device="cuda") * (size // 20)
            some = self.random.sample(self.names, 20)
            handles = self.volume.write_many(some, source, ends, strict=True).handles
            target.zero_()
            self.volume.read_many(handles, out=target, stream=self.stream, strict=True)
            assert torch.equal(source[: ends[-1]], target[: ends[-1]])
            self.volume.write_many([name], source, ends[[0, -1]], strict=True)
            found = self.volume.read_many([name], device="cuda", strict=True)
            assert torch.equal(source[: ends[-1]], torch.from_dlpack(found.values))

    def fail(self) -> None:
        with pytest.raises(FileNotFoundError):
            self.volume.stat(f"{self.home}/none")
        with pytest.raises(FileNotFoundError):
            self.volume.read_many([f"{self.home}/none"], strict=True)

    def run(self, end: float) -> int:
        steps: list[Callable[[], None]] = [
            self.write, self.read, self.look, self.turn_over, self.map, self.fail
        ]  # fmt: skip
        if torch:
            steps.append(self.move_tensors)
        count = 0
        while time.monotonic() < end:
            self.random.choice(steps)()
            count += 1
        return count


def gpu_bytes() -> int:
    """The memory of the GPU that is taken, by whatever program; 0 without one."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    context = ctypes.c_void_p()
    if driver.cuInit(0) or driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0):
        return 0
    driver.cuCtxPushCurrent_v2(context)
    driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
    driver.cuCtxPopCurrent_v2(ctypes.byref(context))
    driver.cuDevicePrimaryCtxRelease_v2(0)
    return total.value - free.value


def taken() -> tuple[int, int, int, int]:
    """Resident bytes, descriptors, threads, bytes of the GPU."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    count = [len(os.listdir(f"/proc/self/{kind}")) for kind in ("fd", "task")]
    return pages * os.sysconf("SC_PAGE_SIZE"), count[0], count[1], gpu_bytes()


def test_nothing_grows(tmp_path: Path) -> None:
    print(f"WARREN_TEST_SEED={SEED}")
    with warren.Volume.create(tmp_path / "v.img", 256 << 20, engine=ENGINE) as volume:
        loads = [Load(volume, number) for number in range(THREADS)]
        failed: list[BaseException] = []
        end = time.monotonic() + SECONDS

        def work(load: Load) -> None:
            try:
                load.run(end)
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=work, args=(load,)) for load in loads]
        for thread in threads:
            thread.start()
        time.sleep(SECONDS / 4)  # until each cache has what it keeps
        halves = [[], []]  # type: list[list[tuple[int, int, int, int]]]
        for half in halves:
            for _ in range(SAMPLES):
                time.sleep(SECONDS * 0.7 / (2 * SAMPLES))
                half.append(taken())
        for thread in threads:
            thread.join()
        if failed:
            raise failed[0]
    # Some memory is taken for a moment: the most of each half is compared.
    first, second = (np.max(half, axis=0) for half in halves)
    for half in halves:  # tells growth in one step from growth that goes on
        print("MiB of the process, and of the GPU:", [(a >> 20, d >> 20) for a, _, _, d in half])
    print(f"first half {first}, second half {second}")
    allowed = np.array([16 << 20, 20, 20, 8 << 20])
    assert (second - first <= allowed).all(), (first, second)
