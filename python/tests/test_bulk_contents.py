# SPDX-License-Identifier: Apache-2.0
"""Contents of many files in a call, against a dict."""

import errno
import os
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import warren


def test_against_a_dict(volume: warren.Volume) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    model: dict[str, bytes] = {}
    volume.mkdir("/d")
    for _ in range(8):
        names = [f"f{i}" for i in rng.sample(range(400), 150)]
        data = [rng.randbytes(rng.choice([0, 1, 100, 128, 129, 4096, 9000])) for _ in names]
        if rng.random() < 0.5:
            found = volume.write_many(names, data, directory="/d")
        else:
            ends = np.cumsum([0] + [len(part) for part in data])
            values = np.frombuffer(b"".join(data) + b"rest", np.uint8)
            found = volume.write_many(names, values, ends, directory="/d")
        assert not any(found.errno)
        model.update(zip(names, data, strict=True))
        assert tuple(found.handles[7]) == volume.handle(f"/d/{names[7]}")
        some = [f"f{i}" for i in range(400)]
        contents = volume.read_many(some, directory="/d")
        assert contents.offsets[0] == 0 and len(contents.offsets) == 401
        for i, name in enumerate(some):
            if name in model:
                assert contents.errno[i] == 0 and contents[i] == model[name]
            else:
                assert contents.errno[i] == errno.ENOENT
                with pytest.raises(FileNotFoundError):
                    contents[i]
    order = rng.sample(sorted(model), len(model))
    handles = np.asarray(volume.lookup_many(order, directory="/d", strict=True).handles)
    rows = np.frombuffer(b"row1\0row22", np.uint8).reshape(2, 5)
    volume.write_many(rows, [b"one", b"two"], strict=True)
    assert [bytes(one) for one in volume.read_many(rows, strict=True)] == [b"one", b"two"]
    volume.remove_many(rows, strict=True)
    out = np.full(sum(map(len, model.values())) + 5, 7, np.uint8)
    contents = volume.read_many(handles, out=out, strict=True)
    assert out.tobytes() == b"".join(model[name] for name in order) + b"\7" * 5
    assert np.shares_memory(np.asarray(contents.values), out)


def test_index_of_contents(volume: warren.Volume) -> None:
    data = [b"0", b"11", b"222"]
    volume.write_many(["a", "b", "c"], data, strict=True)
    contents = volume.read_many(["a", "b", "c"], strict=True)
    assert [bytes(contents[i]) for i in range(-3, 3)] == data * 2
    assert [bytes(part) for part in contents] == data
    for index in (3, 4, -4, -5, -7):
        with pytest.raises(IndexError):
            contents[index]
    with pytest.raises(IndexError):
        volume.read_many([])[-1]


def test_a_file_that_is_written_twice(volume: warren.Volume) -> None:
    for _ in ("made", "replaced"):
        names = ["a", "b", "./a", "a", "c"]
        found = volume.write_many(names, [b"longest", b"b", b"second", b"x", b""], strict=True)
        assert [bytes(part) for part in volume.read_many(["a", "b", "c"])] == [b"x", b"b", b""]
        assert found.handles[0] == found.handles[2] == found.handles[3]
    volume.link("a", "hard")
    volume.write_many(["hard", "a", "b"], [b"by another name", b"last", b"b"], strict=True)
    assert bytes(volume.read_many(["hard"])[0]) == b"last"


def test_large_file(volume: warren.Volume) -> None:
    data = os.urandom(9_000_001)
    volume.write_many(["a", "b"], [data, b""], strict=True)
    assert volume.open("a").read() == data
    assert volume.read_many(["b", "a"])[1] == data
    volume.write_many(["a"], [b"short"], strict=True)
    assert volume.open("a").read() == b"short"


def test_ranges(volume: warren.Volume) -> None:
    data = os.urandom(10_000)
    volume.write_many(["f"], [data], strict=True)
    points = [0, 1, 5000, 9999, 10_000, 10_001, 1 << 62, -1, -9999, -10_000, -10_001, -(1 << 62)]
    starts, ends = (np.ravel(x) for x in np.meshgrid(points, points))
    contents = volume.read_many(["f"] * len(starts), starts=starts, ends=ends, strict=True)
    for i, (begin, end) in enumerate(zip(starts, ends, strict=True)):
        assert contents[i] == data[begin:end]
    assert volume.read_many(["f"], starts=np.array([-3]))[0] == data[-3:]
    with pytest.raises(ValueError, match="starts"):
        volume.read_many(["f"], starts=np.array([1, 2]))
    with pytest.raises(TypeError, match="ends"):
        volume.read_many(["f"], ends=np.array([1.5]))


def test_files_that_change_meanwhile(volume: warren.Volume) -> None:
    """Each file has its own number in all of its bytes: read_many() gives those, zeros behind the
    end of a file that was truncated, or an error; never another file's bytes."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    known: list[tuple[tuple[int, int], int]] = []
    failures: list[str] = []
    good = 0
    ended = threading.Event()

    def change(thread: int) -> None:
        rng = random.Random(seed + thread)
        try:
            for turn in range(60):
                folder = f"/{thread}.{turn}"
                volume.mkdir(folder)
                names = [f"{folder}/{i}" for i in range(30)]
                numbers = [rng.randrange(1, 256) for _ in names]
                data = [bytes([n]) * rng.choice([100, 4096, 9000, 200_000]) for n in numbers]
                found = volume.write_many(names, data, strict=True)
                handles = [(inode, generation) for inode, generation in found.handles]
                known[:] = known[-200:] + list(zip(handles, numbers, strict=True))
                for name in rng.sample(names, 8):
                    if rng.random() < 0.5:
                        volume.unlink(name)
                    else:
                        volume.truncate(name, rng.randrange(5000))
                volume.remove_tree(folder)
                volume.sync()
        except BaseException as error:
            failures.append(repr(error))
            raise
        finally:
            ended.set()

    threads = [threading.Thread(target=change, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    while not ended.is_set():
        some = known[-150:]
        if not some:
            continue
        contents = volume.read_many(np.array([handle for handle, _ in some], np.int64))
        for i, (handle, number) in enumerate(some):
            if code := contents.errno[i]:
                assert code == errno.ESTALE
                continue
            good += 1
            wrong = set(bytes(contents[i])) - {0, number}
            assert not wrong, (handle, number, wrong)
    for thread in threads:
        thread.join()
    assert not failures and good > 0


def test_errors(volume: warren.Volume) -> None:
    volume.mkdir("/d")
    volume.symlink("f", "/link")
    found = volume.write_many(["f", "d", "none/x", "/"], [b"x"] * 4)
    assert found.errno.tolist() == [0, errno.EISDIR, errno.ENOENT, errno.EISDIR]
    assert volume.read_many(["link", "d", "none"]).errno.tolist() == [
        0,
        errno.EISDIR,
        errno.ENOENT,
    ]
    handles = np.array([[1 << 40, 5], volume.handle("f")])
    assert volume.read_many(handles).errno.tolist() == [errno.ESTALE, 0]
    with pytest.raises(IsADirectoryError) as caught:
        volume.read_many(["f", "d"], strict=True)
    assert caught.value.filename == "d"
    with pytest.raises(OSError) as failed:
        volume.read_many(handles, strict=True)
    assert failed.value.errno == errno.ESTALE
    with pytest.raises(ValueError, match="1 bytes, there is room for 0"):
        volume.read_many(["f"], out=np.zeros(0, np.uint8))
    frozen = np.zeros(9, np.uint8)
    frozen.flags.writeable = False
    wrong: list[Callable[[], object]] = [
        lambda: volume.read_many(["f"], out=frozen),
        lambda: volume.read_many(["f"], out=np.zeros(9, np.int8)),
        lambda: volume.read_many(["f"], out=np.zeros((3, 3), np.uint8)),
        lambda: volume.read_many(np.zeros((1, 3), np.int64)),
        lambda: volume.write_many(["f"], np.zeros(9, np.uint8), np.zeros(2, np.int32)),
        lambda: volume.write_many(["f"], ["text"]),  # type: ignore[list-item]
    ]
    for call in wrong:
        with pytest.raises(TypeError):
            call()
    for ends in ([0], [0, 10], [5, 2], [-1, 2]):
        with pytest.raises(ValueError, match="offsets"):
            volume.write_many(["f"], np.zeros(9, np.uint8), np.array(ends))


def test_full_volume(tmp_path: Path) -> None:
    with warren.Volume.create(tmp_path / "small.img", 16 << 20) as small:
        found = small.write_many([f"f{i}" for i in range(64)], [bytes(1 << 20)] * 64)
        assert errno.ENOSPC in found.errno.tolist() and found.errno[0] in (0, errno.ENOSPC)
        small.remove_many([f"f{i}" for i in range(64)])
        small.sync()
        small.write_many(["f"], [b"again"], strict=True)



def test_permission(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    with warren.Volume.create(tmp_path / "v.img", 64 << 20) as made:
        made.write_many(["private", "public"], [b"x", b"y"], mode=0o600, strict=True)
    try:
        os.seteuid(1000)
        os.seteuid(0)
        (tmp_path / "v.img").chmod(0o666)
        for folder in (tmp_path, *tmp_path.parents):
            if folder.stat().st_mode & 0o005 != 0o005:
                folder.chmod(0o755)
        os.seteuid(1000)
        with warren.Volume(tmp_path / "v.img", read_only=True) as opened:
            assert opened.read_many(["private"]).errno.tolist() == [errno.EACCES]
    finally:
        os.seteuid(0)


def test_tensors_without_a_buffer(volume: warren.Volume) -> None:
    """As torch's: they are filled, and the error of an item says how to get it."""

    class Tensor:
        def __init__(self, memory: np.ndarray) -> None:
            self.memory = memory

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.memory.__dlpack_device__()

        def __dlpack__(self, **options: Any) -> Any:
            return self.memory.__dlpack__(**options)

    volume.write_many(["a", "b"], [b"one", b"two"], strict=True)
    memory = np.zeros(6, np.uint8)
    tensor = Tensor(memory)
    contents = volume.read_many(["a", "b"], out=tensor, strict=True)
    assert memory.tobytes() == b"onetwo" and id(contents.values) == id(tensor)
    with pytest.raises(TypeError, match="offsets"):
        contents[0]
    with volume.open("a", "r+") as file:
        assert file.write_from(Tensor(np.arange(3, dtype=np.int16)), 1) == 6
        assert file.read_into(tensor, 1) == 6 and memory.tobytes() == bytes([0, 0, 1, 0, 2, 0])


def test_devices(volume: warren.Volume) -> None:
    volume.write_many(["a"], [b"data"], strict=True)
    assert volume.read_many(["a"], device="cpu")[0] == b"data"
    for arguments in ({"device": "gpu"}, {"out": bytearray(9), "device": "cpu"}, {"stream": 1},
                      {"out": bytearray(9), "stream": 1}):  # fmt: skip
        with pytest.raises(ValueError, match=r"device|stream"):
            volume.read_many(["a"], **arguments)  # type: ignore[arg-type]
    with pytest.raises(OSError) as caught:
        volume.read_many(["a"], device="cuda:99")
    assert caught.value.errno == errno.ENODEV and caught.value.strerror
    assert caught.value.filename is None  # it is about no file
