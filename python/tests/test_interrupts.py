# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C and callbacks that raise in long calls: the call ends, and the volume stays sound."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import warren

from conftest import ENGINE

FILES = 1000
NAMES = [f"/d/{i:05}" for i in range(FILES)]
DATA = [bytes([i % 256]) * 20_000 for i in range(FILES)]
LARGE = 16 << 20


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[warren.Volume]:
    """A volume that is checked afterwards."""
    with warren.Volume.create(tmp_path / "v.img", 256 << 20, engine=ENGINE) as made:
        made.mkdir("/d")
        made.write_many(NAMES, DATA, strict=True)
        large = random.randbytes(1 << 20) * (LARGE >> 20)
        made.write_many(["/large", "/empty", "/holes"], [large, b"", b""], strict=True)
        made.truncate("/holes", len(BUFFER))
        yield made
    check = subprocess.run(
        [sys.executable, "-m", "warren", "fsck", str(tmp_path / "v.img")],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert check.returncode == 0, check.stdout + check.stderr


def interrupted(call: Callable[[], object], seconds: float = 0.15) -> float:
    """Calls until Ctrl-C, which comes within a call. How many seconds it took to end it."""
    sent: list[float] = []

    def send() -> None:
        time.sleep(seconds)
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    sender = threading.Thread(target=send)
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        sender.start()
        while time.monotonic() < begin + 100:
            call()
    ended = time.monotonic()
    sender.join()
    return ended - sent[0]


MANY = NAMES * 200
BUFFER = bytearray(100 << 20)  # more than is read in one go
CALLS: dict[str, Callable[[warren.Volume], object]] = {
    "read_many": lambda v: v.read_many(MANY[:20_000]),
    "read_many by handle": lambda v: v.read_many(np.tile(v.handle("/empty"), (2_000_000, 1))),
    "read_many of a large file": lambda v: v.read_many(["/large"] * 80),
    "write_many": lambda v: v.write_many(NAMES, DATA),
    "hash": lambda v: v.hash(MANY, "sha1"),
    "hash of a large file": lambda v: v.hash(["/large"] * 400, "md5"),
    "similar": lambda v: v.similar(MANY, preset="fastcdc"),
    "dedup": lambda v: v.dedup(["/large"] * 20 + MANY[:20_000]),
    "lookup_many": lambda v: v.lookup_many(MANY),
    "exists_many": lambda v: v.exists_many(MANY),
    "create_many": lambda v: v.create_many(MANY),
    "read_into": lambda v: v.open("/holes").read_into(BUFFER),
    "find": lambda v: v.find(columns=["path", "size"]),
    "usage": lambda v: v.usage(depth_max=5),
    "rebuild": lambda v: v.rebuild("/d"),
    "sync": lambda v: v.sync(),
}


@pytest.mark.parametrize("name", CALLS)
def test_call_ends_soon(volume: warren.Volume, name: str) -> None:
    waited = interrupted(lambda: CALLS[name](volume))
    # Most take far more than that to their end. A machine may be busy with other tests.
    assert waited < 15
    assert sorted(volume.listdir("/d")) == [name.rpartition("/")[2] for name in NAMES]
    if name == "write_many":  # what was being replaced may be empty or in parts
        volume.write_many(NAMES, DATA, strict=True)
    found = volume.read_many(NAMES, strict=True)
    assert all(found[i] == data for i, data in enumerate(DATA))


def test_interrupted_writing_replaces_whole_files_or_tells(volume: warren.Volume) -> None:
    """Files of which the call has not been told hold the old bytes, the new ones, or a part."""
    interrupted(lambda: volume.write_many(NAMES, [b"new" * 7000] * FILES))
    found = volume.read_many(NAMES, strict=True)
    new = b"new" * 7000
    for i, data in enumerate(DATA):
        assert found[i] == data or new.startswith(found[i])


def test_interrupted_creation_makes_the_first_names(volume: warren.Volume) -> None:
    volume.mkdir("/new")
    names = [f"{i:06}" for i in range(300_000)]
    told: list[int] = []

    def interrupt(count: int) -> None:
        told.append(count)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        volume.create_many(names, directory="/new", progress=interrupt)
    made = sorted(volume.listdir("/new"))
    assert told and made == names[: len(made)] and len(made) >= told[0]


def test_remove_tree_takes_all_or_nothing(volume: warren.Volume) -> None:
    """It cannot be interrupted: KeyboardInterrupt comes when the tree has gone."""
    names = [f"{i:06}" for i in range(50_000)]
    free = volume.statvfs().f_ffree
    for _ in range(3):
        volume.mkdir("/tree")
        volume.create_many(names, directory="/tree", strict=True)
        removing = threading.Event()

        def send(removing: threading.Event = removing) -> None:
            removing.wait()
            os.kill(os.getpid(), signal.SIGINT)

        sender = threading.Thread(target=send)
        sender.start()
        with pytest.raises(KeyboardInterrupt):
            removing.set()
            volume.remove_tree("/tree")
            while True:
                time.sleep(0.01)
        sender.join()
        if volume.exists("/tree"):  # Ctrl-C came before the call
            assert len(volume.listdir("/tree")) == len(names)
            volume.remove_tree("/tree")
        volume.sync()
        assert volume.statvfs().f_ffree >= free - 2


def test_callback_that_ends_the_call(volume: warren.Volume) -> None:
    def fail(count: int) -> None:
        raise ZeroDivisionError

    for call in (
        lambda: volume.read_many(NAMES * 4, progress=fail),
        lambda: volume.hash(NAMES, progress=fail),
        lambda: volume.find(progress=fail),
        lambda: volume.dedup(NAMES, progress=fail),
        lambda: volume.usage(progress=fail),
        lambda: volume.rebuild("/d", progress=fail),
        lambda: volume.remove_tree("/d", progress=fail),
    ):
        with pytest.raises(ZeroDivisionError):
            call()
    assert not volume.exists("/d")  # what has lost its name is removed to the end


def test_other_threads_run_during_a_call(volume: warren.Volume) -> None:
    """A long call lets the GIL go: another thread goes on while it runs."""
    for call in (
        lambda: volume.read_many(MANY[:20_000]),
        lambda: volume.hash(["/large"] * 10, "sha1"),
        lambda: volume.similar(["/large"] * 16),
        lambda: warren.chunk(bytes(LARGE * 4)),
    ):
        for _ in range(5):  # a busy machine may give this thread no turn
            turns, ended = 0, threading.Event()

            def work(call: Callable[[], object] = call, ended: threading.Event = ended) -> None:
                call()
                ended.set()

            thread = threading.Thread(target=work)
            thread.start()
            while not ended.wait(0.001):
                turns += 1
            thread.join()
            if turns > 2:
                break
        assert turns > 2
