# SPDX-License-Identifier: Apache-2.0
"""Many names in a call, against the same calls of `os` one by one on a tree of the host."""

import errno
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import warren


def code_of(call: Callable[..., object], *paths: Path) -> int:
    try:
        call(*paths)
    except OSError as error:
        return error.errno or 0
    return 0


def create(path: Path) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))


def tree(volume: warren.Volume, path: str = "") -> set[str]:
    found = set()
    for name in volume.listdir(path):
        found.add(f"{path}/{name}")
        if volume.stat(f"{path}/{name}").st_mode & 0o40000:
            found |= tree(volume, f"{path}/{name}")
    return found


def test_as_one_by_one_in_os(volume: warren.Volume, tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    host = tmp_path / "host"
    host.mkdir()
    create(host / "file")
    volume.open("file", "x").close()
    for name in ("a", "b", "a/c"):
        (host / name).mkdir()
        volume.mkdir(name)

    def names(count: int) -> list[str]:
        folders = ["", "a/", "b/", "a/c/", "none/", "file/", "a/../b/", "./a/c/"]
        return [rng.choice(folders) + f"f{rng.randrange(60)}" for _ in range(count)]

    for _ in range(10):
        some = names(80)
        made = volume.create_many(some)
        assert made.errno.tolist() == [code_of(create, host / n) for n in some]
        some = names(40)
        codes = volume.remove_many(some)
        assert codes.tolist() == [code_of(os.unlink, host / n) for n in some]
        some, targets = names(30), names(30)
        codes = volume.move_many(some, targets)
        assert codes.tolist() == [
            code_of(os.rename, host / n, host / t)
            for n, t in zip(some, targets, strict=True)
        ]
        some = names(200)
        assert volume.exists_many(some).tolist() == [(host / n).exists() for n in some]
        found = volume.lookup_many(some)
        assert found.errno.tolist() == [code_of(os.stat, host / n) for n in some]
        for name, handle in zip(some, found.handles.tolist(), strict=True):
            wanted = volume.handle(name) if (host / name).exists() else (0, 0)
            assert tuple(handle) == wanted
    assert tree(volume) == {"/" + str(p.relative_to(host)) for p in host.rglob("*")}


def test_directories(volume: warren.Volume) -> None:
    made = volume.create_many(["x", "y", b"x", Path("z")], directories=True, mode=0o750)
    assert made.errno.tolist() == [0, 0, errno.EEXIST, 0]
    assert volume.stat("/z").st_mode == 0o40750
    volume.create_many([f"n{i}" for i in range(100)], directory="/y", strict=True)
    below = volume.handle("/y")
    assert below == tuple(made.handles[1])
    assert volume.lookup_many(["n5", "/x"], directory=below).errno.tolist() == [0, 0]
    assert volume.remove_many(["x", "y", "/"], directories=True).tolist() == [
        0,
        errno.ENOTEMPTY,
        errno.EBUSY,
    ]
    assert volume.rebuild("/y").entries == 100


def test_rows_of_bytes(volume: warren.Volume) -> None:
    keys = np.frombuffer(b"".join(b"%08d" % i for i in range(1000)), np.uint8).reshape(1000, 8)
    volume.mkdir("/kv")
    volume.create_many(keys[::2], directory="/kv", strict=True)
    assert np.array_equal(
        np.asarray(volume.exists_many(keys, directory="/kv")), np.arange(1000) % 2 == 0
    )
    with pytest.raises(ValueError, match="contiguous"):
        volume.exists_many(keys[:, ::2])
    padded = np.zeros((2, 12), np.uint8)
    padded[:, :8] = keys[:2]
    assert volume.exists_many(padded, directory="/kv").tolist() == [True, False]
    assert volume.lookup_many(np.full((1, 4), 7, np.uint8)).errno.tolist() == [errno.ENOENT]
    assert volume.create_many([b"a\0b"]).errno.tolist() == [errno.EINVAL]
    assert volume.create_many(["x" * 256]).errno.tolist() == [errno.ENAMETOOLONG]
    assert volume.exists_many(np.zeros((0, 8), np.uint8)).tolist() == []
    assert volume.exists_many(n for n in ("kv", "none")).tolist() == [True, False]


@pytest.mark.parametrize(
    "names", ["name", b"name", Path("name"), 5, [5], np.zeros(8, np.uint8), np.zeros((2, 2))]
)
def test_what_is_no_list_of_names(volume: warren.Volume, names: object) -> None:
    with pytest.raises(TypeError, match="names"):
        volume.lookup_many(names)  # type: ignore[arg-type]


def test_names_of_all_kinds(volume: warren.Volume) -> None:
    """The list may change during the call, and nobody else may have the strings then."""
    kept = [*(f"{i:0100}" for i in range(2000)), "ä", "\udcff", "\udcffä", "e" * 100 + "0"]

    class Emptying:
        def __fspath__(self) -> str:
            names.clear()
            return f"{'e' * 100}{len(names)}"

    volume.create_many(kept, strict=True)
    names: list[object] = [
        *(f"{i:0100}" for i in range(1000)),
        *(b"%0100d" % i for i in range(1000, 2000)),
        "ä", "\udcff", b"\xff\xc3\xa4", "", Emptying(), Path("\udcff"), "none", b"none",
    ]  # fmt: skip
    found = list(volume.exists_many(names))  # type: ignore[arg-type]
    assert found == [True] * 2006 + [False] * 2 and not names
    assert sorted(volume.listdir("/")) == sorted(kept)


def test_errors(volume: warren.Volume) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        volume.lookup_many(["/", "none"], strict=True)
    assert caught.value.filename == "none"
    with pytest.raises(NotADirectoryError):
        volume.open("f", "w").close()
        volume.exists_many(["x"], directory="f")
    with pytest.raises(ValueError, match="targets"):
        volume.move_many(["a"], ["b", "c"])
    with pytest.raises(TypeError, match="directory"):
        volume.lookup_many(["a"], directory=(1, 2, 3))  # type: ignore[arg-type]
    assert volume.lookup_many(["x"], directory=(99999, 1)).errno.tolist() == [errno.ESTALE]
    with pytest.raises(TypeError, match="progress"):
        volume.lookup_many(["a"], progress=5)  # type: ignore[arg-type]


def test_arrays(volume: warren.Volume) -> None:
    found = volume.lookup_many(["/", "none"])
    array = found.handles
    assert array.shape == (2, 2) and array.dtype == "int64" and not array.readonly
    assert len(array) == 2 and array[-1] == (0, 0) and array.nbytes == 32
    assert found.errno[1] == errno.ENOENT
    with pytest.raises(IndexError):
        array[2]
    assert memoryview(array).tolist() == array.tolist()
    shared = np.from_dlpack(array)
    shared[1, 0] = 7
    assert array[1] == (7, 0) and np.asarray(array)[1, 0] == 7
    copy = np.from_dlpack(array, copy=True)
    copy[1, 0] = 8
    assert array[1] == (7, 0)
    assert array.__dlpack_device__() == (1, 0)
    del array, found
    assert shared[1, 0] == 7
    array = volume.exists_many(["/"])
    with pytest.raises(ValueError, match="stream"):
        array.__dlpack__(stream=1)  # type: ignore[arg-type]
    with pytest.raises(BufferError, match="dl_device"):
        array.__dlpack__(dl_device=(2, 0))
    assert "versioned" in repr(array.__dlpack__(max_version=(1, 1)))
    assert "versioned" not in repr(array.__dlpack__(max_version=(0, 8)))


def test_progress_and_interrupts(volume: warren.Volume) -> None:
    # So many take longer than the time between two reports of progress on as many cores.
    cores = min(len(os.sched_getaffinity(0)), 32)
    names = np.full((1_500_000 * cores, 1), ord("a"), np.uint8)
    steps: list[int] = []

    def step(count: int) -> None:
        steps.append(count)
        assert volume.exists("/")  # a callback may use the volume
        if sum(steps) < len(names):
            with pytest.raises(RuntimeError):
                volume.close()

    assert not any(volume.exists_many(names, progress=step))
    assert len(steps) > 1 and sum(steps) == len(names)

    def fail(count: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        volume.exists_many(names, progress=fail)
    thread = threading.Timer(0.15, lambda: os.kill(os.getpid(), signal.SIGINT))
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        thread.start()
        while time.monotonic() < begin + 60:
            volume.lookup_many(names)
    assert time.monotonic() < begin + 30
    thread.join()
    assert volume.create_many(["after"]).errno.tolist() == [0]


def test_threads(volume: warren.Volume) -> None:
    names = [f"{i}" for i in range(500)]

    def work(number: int) -> None:
        volume.mkdir(f"/{number}")
        for _ in range(5):
            volume.create_many(names, directory=f"/{number}", strict=True)
            assert all(volume.exists_many(names, directory=f"/{number}").tolist())
            volume.remove_many(names, directory=f"/{number}", strict=True)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(volume.listdir()) == [f"{i}" for i in range(8)]
    assert volume.listdir("/3") == []
