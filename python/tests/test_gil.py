# SPDX-License-Identifier: Apache-2.0
"""Which calls keep the GIL: those that take less than 100 us, until they have to wait. All others
let it go.

Threads wait for the GIL and cannot demand it, for the switch interval is too long. They run as soon
as a call lets it go, and not before.
"""

import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import warren
from warren import _native

from conftest import ENGINE

WAITERS = 8
NAMES = [f"/d/{i:03}" for i in range(64)]
ROWS = np.frombuffer(b"".join(b"d/%04d" % i for i in range(4097)), np.uint8).reshape(-1, 6)


def lets_go(call: Callable[[], object], seconds: float) -> bool:
    """Whether another thread runs while the call is made again and again for as long as that."""
    ran: list[int] = []
    gates = [threading.Lock() for _ in range(WAITERS)]

    def wait(gate: threading.Lock) -> None:
        with gate:
            ran.append(1)

    for gate in gates:
        gate.acquire()
    threads = [threading.Thread(target=wait, args=(gate,)) for gate in gates]
    for thread in threads:
        thread.start()
    time.sleep(0.02)  # until they wait for their gates
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        for gate in gates:
            gate.release()  # from here on they wait for the GIL
        begin = time.perf_counter()
        while not ran and time.perf_counter() < begin + seconds:
            call()
        return bool(ran)
    finally:
        sys.setswitchinterval(interval)
        for thread in threads:
            thread.join()


class Site:
    """The extension's objects for a volume with a directory of files."""

    def __init__(self, path: Path) -> None:
        self.volume = warren.Volume.create(path, 64 << 20, engine=ENGINE)
        self.volume.mkdir("/d")
        self.volume.write_many(NAMES, [b"data"] * len(NAMES), strict=True)
        self.volume.symlink("d", "/link")
        self.volume.setxattr("/d", "user.a", b"1")
        self.native = self.volume._native
        self.file = self.native.open(b"/d/000", 6, False, False, False)
        self.other = self.native.open(b"/d/001", 6, False, False, False)
        self.map = self.native.map(b"/d/002", "uint8", None, 0, True)
        self.large = np.zeros(4 << 20, np.uint8)
        self.volume.write_many(["/large"], [self.large], strict=True)
        found = self.native.read_many(
            ["/large"], None, None, None, None, None, None, True, None
        )
        self.array = found[0]
        closed = warren.Volume.create(path.with_suffix(".closed"), 16 << 20)
        closed.close()
        self.closed = closed._native
        self.kept: list[object] = []  # what would let the GIL go when it is freed
        self.count = 0

    def keep(self, made: object) -> None:
        self.kept.append(made)

    def next(self) -> bytes:
        self.count += 1
        return b"/new%d" % self.count


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("gil") / "v.img")
    yield made
    made.kept.clear()
    made.volume.close()


Call = Callable[[Site], object]
KEEP: dict[str, Call] = {
    "Volume.is_closed": lambda s: s.native.is_closed(),
    "Volume.is_forked": lambda s: s.native.is_forked(),
    "Volume.stat": lambda s: s.native.stat(b"/d/063", True),
    "Volume.has_access": lambda s: s.native.has_access(b"/d/063", 4),
    "Volume.exists_many": lambda s: s.native.exists_many(NAMES, None, None),
    "Volume.engine": lambda s: s.native.engine(),
    "Array.to_host": lambda s: s.array.to_host(),
    "Map.to_host": lambda s: s.map.to_host(),
    "File.size": lambda s: s.file.size(),
}


def refused(call: Callable[[], object]) -> None:
    with pytest.raises(OSError):
        call()


LET_GO: dict[str, Call] = {
    "Volume.format": lambda s: refused(lambda: _native.Volume.format(b"/none/v", 1, "", False)),
    "Volume.close": lambda s: s.closed.close(b""),
    "Volume.sync": lambda s: s.native.sync(),
    "Volume.list": lambda s: s.native.list(b"/d"),
    "Volume.make": lambda s: s.native.make(s.next(), 0o100644, b""),
    "Volume.read_link": lambda s: s.native.read_link(b"/link"),
    "Volume.unlink": lambda s: refused(lambda: s.native.unlink(b"/none")),
    "Volume.remove_directory": lambda s: refused(lambda: s.native.remove_directory(b"/none")),
    "Volume.remove_tree": lambda s: refused(lambda: s.native.remove_tree(b"/none", None)),
    "Volume.rename": lambda s: s.native.rename(b"/d/003", b"/d/003"),
    "Volume.open": lambda s: s.keep(s.native.open(b"/d/003", 4, False, False, False)),
    "Volume.change_mode": lambda s: s.native.change_mode(b"/d/003", 0o644, True),
    "Volume.change_owner": lambda s: s.native.change_owner(b"/d/003", 1, 1, True),
    "Volume.change_times": lambda s: s.native.change_times(b"/d/003", (1, 1), True),
    "Volume.truncate": lambda s: s.native.truncate(b"/d/003", 4),
    "Volume.link": lambda s: refused(lambda: s.native.link(b"/d/003", b"/d/004")),
    "Volume.get_attribute": lambda s: s.native.get_attribute(b"/d", b"user.a", True),
    "Volume.list_attributes": lambda s: s.native.list_attributes(b"/d", True),
    "Volume.set_attribute": lambda s: s.native.set_attribute(b"/d", b"user.a", b"1", 0, True),
    "Volume.remove_attribute": lambda s: refused(
        lambda: s.native.remove_attribute(b"/d", b"user.none", True)
    ),
    "Volume.statistics": lambda s: s.native.statistics(),
    "Volume.lookup_many": lambda s: s.native.lookup_many(ROWS, None, True, False, None),
    "Volume.exists_many of 4097": lambda s: s.native.exists_many(ROWS, None, None),
    "Volume.create_many": lambda s: s.native.create_many(NAMES, None, 0o100644, False, None),
    "Volume.remove_many": lambda s: s.native.remove_many([b"/none"], None, False, False, None),
    "Volume.move_many": lambda s: s.native.move_many([b"/d/004"], [b"/d/004"], None, False, None),
    "Volume.read_many": lambda s: s.native.read_many(
        NAMES, None, None, None, None, None, None, False, None
    ),
    "Volume.write_many": lambda s: s.native.write_many(
        [b"/d/005"], s.large, np.array([0, 4]), None, 0o100644, False, None
    ),
    "Volume.scan": lambda s: s.native.scan(
        b"/", ["path"], b"", False, 0xFFFF, 9, (0, 1 << 60), (0, 1 << 62), None, None
    ),
    "Volume.usage": lambda s: s.native.usage(b"/", 1, False, None),
    "Volume.map": lambda s: s.keep(s.native.map(b"/d/003", "uint8", None, 0, False)),
    "Volume.hash": lambda s: s.native.hash(NAMES, None, "md5", False, None),
    "Volume.compare": lambda s: s.native.compare(NAMES, None, 4096, "", False, False, None),
    "Volume.rebuild": lambda s: s.native.rebuild(b"/d", None),
    "File.read": lambda s: s.file.read(0, 4),
    "File.write": lambda s: s.file.write(0, b"data"),
    "File.append": lambda s: s.file.append(b"data"),
    "File.read_into": lambda s: s.file.read_into(s.large, 0, None),
    "File.write_from": lambda s: s.file.write_from(s.large[:4], 0, None),
    "File.share_from": lambda s: s.file.share_from(s.other),
    "File.truncate": lambda s: s.file.truncate(4),
    "File.sync": lambda s: s.file.sync(),
    "Map.write_back": lambda s: s.map.write_back(),
    "Array.to_gpu": lambda s: refused(lambda: s.array.to_gpu(99)),
    "Map.to_gpu": lambda s: refused(lambda: s.map.to_gpu(99)),
    "chunk": lambda s: warren.chunk(s.large, "fastcdc"),
    "Array.__dlpack__ of a large copy": lambda s: s.array.__dlpack__(
        max_version=(1, 0), copy=True
    ),
}

if ENGINE == "cuda":  # its maps are in the memory of the GPU
    LET_GO["Map.to_host"] = KEEP.pop("Map.to_host")

# They make objects of Python or wrap what is there, and never reach a volume.
OF_PYTHON = {"Array.tolist", "arrow_stream", "arrow_device_array"}


@pytest.mark.parametrize("name", KEEP)
def test_short_calls_keep_the_gil(site: Site, name: str) -> None:
    assert not lets_go(lambda: KEEP[name](site), 0.2)


@pytest.mark.skipif("PYTHONMALLOC" in os.environ, reason="a sanitizer makes every call longer")
@pytest.mark.parametrize("name", KEEP)
def test_calls_that_keep_the_gil_are_short(site: Site, name: str) -> None:
    shortest = 1.0
    for _ in range(1000):
        begin = time.perf_counter()
        KEEP[name](site)
        shortest = min(shortest, time.perf_counter() - begin)
    assert shortest < 100e-6


def test_short_calls_let_the_gil_go_while_metadata_are_read(tmp_path: Path) -> None:
    # The CUDA engine reads all metadata when it opens a volume.
    names = [f"/d/{i:04}" for i in range(4000)]
    with warren.Volume.create(tmp_path / "v.img", 64 << 20, engine="cpu") as volume:
        volume.mkdir("/d")
        volume.create_many(names)
    with warren.Volume.open(tmp_path / "v.img", engine="cpu") as volume:
        native = volume._native
        # From the second call on the metadata are in memory.
        assert lets_go(lambda: native.exists_many(names, None, None), 0.2)
        assert not lets_go(lambda: native.exists_many(names, None, None), 0.2)


@pytest.mark.parametrize("name", LET_GO)
def test_other_calls_let_the_gil_go(site: Site, name: str) -> None:
    assert lets_go(lambda: LET_GO[name](site), 60)


def test_freeing_lets_the_gil_go(site: Site, tmp_path: Path) -> None:
    """The last reference to a volume closes it; one to a map waits for calls on its file."""

    def volume(number: int) -> _native.Volume:
        path = bytes(tmp_path / str(number))
        _native.Volume.format(path, 16 << 20, "", False)
        made = _native.Volume(path, False, "cpu", 0, 0)
        made.make(b"/f", 0o100644, b"")
        return made

    def freed(objects: list[object]) -> bool:
        return lets_go(lambda: objects and objects.pop(), 5)

    assert freed([volume(i) for i in range(3)])
    # Freeing a map takes microseconds, in which a busy machine may run no other thread.
    assert any(
        freed([site.native.map(b"/d/002", "uint8", None, 0, True) for _ in range(200)])
        for _ in range(4)
    )
    files: list[object] = [volume(i).open(b"/f", 4, False, False, False) for i in range(3, 6)]
    assert freed(files)  # each has the last reference to its volume


def test_every_call_is_of_one_kind() -> None:
    calls = {name for name, value in vars(_native).items() if callable(value)}
    calls -= {"Array", "Map", "File", "Volume"}
    for kind in (_native.Array, _native.Map, _native.File, _native.Volume):
        calls |= {
            f"{kind.__name__}.{name}"
            for name, value in vars(kind).items()
            if callable(value) and not name.startswith("_")
        }
    assert calls == {name for name in {*KEEP, *LET_GO, *OF_PYTHON} if " " not in name}


def test_no_call_waits_for_a_callback_with_the_gil(tmp_path: Path) -> None:
    """A callback runs while its call has all workers. Other calls must not keep the GIL from it."""
    program = """
        import sys, threading, time, warren

        names = [f"{i:07}" for i in range(1 << 20)]
        volume = warren.Volume.create(sys.argv[1], 1 << 30)
        volume.mkdir("/d")
        called, done, count = threading.Event(), 0, 100_000

        def wait(more):
            global done
            done += more
            if done < count:  # so the call goes on after this one
                called.set()
                time.sleep(0.5)

        def ask():
            while called.wait():
                for few in (1000, 2000, 4096, 5000):
                    volume.exists_many(names[:few], directory="/d")

        threading.Thread(target=ask, daemon=True).start()
        while not called.is_set() and count <= len(names):  # until it takes long enough
            volume.create_many(names[done:count], directory="/d", strict=True)
            done = 0
            volume.rebuild("/d", progress=wait)
            done, count = count, 2 * count
        print("called" if called.is_set() else "never called")
    """
    found = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "v.img")],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert found.stdout == "called\n", found.stderr
