# SPDX-License-Identifier: Apache-2.0
"""Calls that are made over and over take no more of anything: memory of the host, objects of
Python, descriptors, threads. In each of several rounds something grows by each call if it leaks."""

import ctypes
import gc
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import warren

ROUNDS, CALLS = 5, 400
NAMES = [f"/d/{i:02}" for i in range(70)]
DATA = [b"data" * 100] * len(NAMES)
KEYS = np.frombuffer(b"".join(b"d/%02d" % i for i in range(70)), np.uint8).reshape(70, 4)


class Mallinfo(ctypes.Structure):
    """What mallinfo2() of glibc returns."""

    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in names.split()]


_libc = ctypes.CDLL(None)
_mallinfo = getattr(_libc, "mallinfo2", None)
if _mallinfo is not None:
    _mallinfo.restype = Mallinfo


class Taken(NamedTuple):
    """What the process has of each kind."""

    heap: int  # bytes that malloc() has given out
    pages: int  # of 4 KiB, resident
    blocks: int  # of Python's allocator
    objects: int
    descriptors: int
    threads: int

    @classmethod
    def now(cls) -> "Taken":
        gc.collect()
        info = _mallinfo() if _mallinfo is not None else None
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return cls(
            info.uordblks + info.hblkhd if info else 0,
            pages,
            sys.getallocatedblocks(),
            len(gc.get_objects()),
            len(os.listdir("/proc/self/fd")),
            len(os.listdir("/proc/self/task")),
        )


# What a round may take without being a leak: less than one thing for each call, and some pages that
# the volume's caches and malloc() touch for the first time.
ALLOWED = Taken(heap=CALLS * 16, pages=256, blocks=40, objects=20, descriptors=0, threads=0)


def growth(call: Callable[[], object], calls: int = CALLS) -> Taken:
    """What the round that took the least has taken; each kind for itself."""
    for _ in range(calls):
        call()
    before, least = Taken.now(), Taken(*[sys.maxsize] * len(Taken._fields))
    for _ in range(ROUNDS):
        for _ in range(calls):
            call()
        after = Taken.now()
        least = Taken(*(min(a, y - x) for a, x, y in zip(least, before, after, strict=True)))
        before = after
    return least


def fails(call: Callable[[], object], error: type[Exception]) -> None:
    try:
        call()
    except error:
        return
    raise AssertionError("it has not failed")


def turn_over(volume: warren.Volume) -> None:
    volume.mkdir("/new")
    volume.create_many(["a", "b"], directory="/new", strict=True)
    volume.move_many(["/new/a"], ["/new/c"], strict=True)
    volume.remove_many(["/new/b"], strict=True)
    volume.rename("/new/c", "/new/a")
    volume.remove_tree("/new", progress=lambda count: None)


def use_file(volume: warren.Volume) -> None:
    with volume.open("/f", "w+") as file:
        file.write(b"x" * 5000)
        file.seek(0)
        assert len(file.read()) == 5000
        target = np.empty(5000, np.uint8)
        assert file.read_into(target) == 5000 == file.write_from(target)
        file.truncate(0)


def use_map(volume: warren.Volume) -> None:
    mapped = volume.map("/d/01", "int32", (-1, 4), writable=True)
    np.from_dlpack(mapped)[0] = 1
    memoryview(mapped).release()
    np.from_dlpack(mapped, copy=True)
    mapped.__dlpack__(max_version=(1, 0))  # nobody takes it
    mapped.write_back()


def use_columns(volume: warren.Volume) -> None:
    tree = volume.stat_tree("/", columns=["handle", "size", "mode", "name", "path"])
    tree.__arrow_c_stream__()
    tree.__arrow_c_device_array__()
    assert tree.text("name")[0:2] and tree.array("size").tolist()
    volume.usage("/", depth_max=1, progress=lambda count: None)


def fail_often(volume: warren.Volume) -> None:
    fails(lambda: volume.stat("/none"), FileNotFoundError)
    fails(lambda: volume.open("/none"), FileNotFoundError)
    fails(lambda: volume.read_many(["/none"], strict=True), FileNotFoundError)
    fails(lambda: volume.read_many(["/d/00"], out=bytearray(1)), ValueError)
    fails(lambda: volume.map("/d/00", "colour"), TypeError)
    fails(lambda: volume.lookup_many([5]), TypeError)  # type: ignore[list-item]
    fails(lambda: volume.find(columns=["colour"]), ValueError)
    fails(lambda: volume.map("/d/00").__dlpack__(), BufferError)
    fails(lambda: volume.usage(progress=fail), ZeroDivisionError)
    fails(lambda: volume.find(progress=fail), ZeroDivisionError)
    fails(lambda: volume.find(device="cuda:99"), OSError)


def fail(count: int) -> None:
    raise ZeroDivisionError


def set_attributes(volume: warren.Volume) -> None:
    volume.chmod("/d/00", 0o600)
    volume.utime("/d/00", ns=(1, 2))
    volume.setxattr("/d/00", "user.a", b"1")
    assert volume.getxattr("/d/00", "user.a") and volume.listxattr("/d/00")
    volume.removexattr("/d/00", "user.a")
    volume.symlink("d", "/link")
    assert volume.readlink("/link") and volume.access("/d", 4) and volume.statvfs()
    volume.unlink("/link")


def open_again(volume: warren.Volume) -> None:
    with warren.Volume(volume.path + ".other") as other:
        assert other.exists("/")


KINDS: dict[str, Callable[[warren.Volume], object]] = {
    "lookup": lambda v: (v.stat("/d/00"), v.exists_many(NAMES), v.lookup_many(KEYS, strict=True)),
    "list": lambda v: (v.listdir("/d"), list(v.scandir("/d")), v.glob("/d/0*")),
    "read_many": lambda v: v.read_many(NAMES, starts=np.zeros(70, np.int64), strict=True)[0],
    "write_many": lambda v: v.write_many(NAMES, DATA, strict=True),
    "hash": lambda v: (v.hash(NAMES, "md5"), warren.chunk(DATA[0], "fastcdc")),
    "similar": lambda v: (v.similar(NAMES[:2]), v.dedup(NAMES[:2])),
    "rebuild": lambda v: v.rebuild("/d", progress=lambda count: None),
    "turn over": turn_over,
    "file": use_file,
    "map": use_map,
    "columns": use_columns,
    "attributes": set_attributes,
    "errors": fail_often,
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[warren.Volume]:
    path = tmp_path_factory.mktemp("leaks") / "v.img"
    warren.Volume.create(f"{path}.other", 16 << 20).close()
    with warren.Volume.create(path, 64 << 20) as made:
        made.mkdir("/d")
        made.write_many(NAMES, DATA, strict=True)
        yield made


other_allocator = pytest.mark.skipif(
    "PYTHONMALLOC" in os.environ, reason="another allocator keeps what is freed")


@other_allocator
@pytest.mark.parametrize("kind", KINDS)
def test_calls_take_nothing(site: warren.Volume, kind: str) -> None:
    found = growth(lambda: KINDS[kind](site))
    assert all(grown <= most for grown, most in zip(found, ALLOWED, strict=True)), found


@other_allocator
def test_a_leak_is_found() -> None:
    held: list[object] = []
    descriptors: list[int] = []
    leaks: dict[str, Callable[[], object]] = {
        "objects": lambda: held.append([]),
        "blocks": lambda: held.append(bytes(100)),
        "descriptors": lambda: descriptors.append(os.dup(0)),
    }
    if _mallinfo is not None:
        leaks["heap"] = lambda: _libc.malloc(64)
    try:
        for kind, leak in leaks.items():
            assert getattr(growth(leak, 100), kind) > getattr(ALLOWED, kind) * 100 / CALLS, kind
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


@other_allocator
def test_opening_takes_nothing(site: warren.Volume) -> None:
    found = growth(lambda: open_again(site), 20)
    allowed = ALLOWED._replace(heap=20 * 1024)
    assert all(grown <= most for grown, most in zip(found, allowed, strict=True)), found
