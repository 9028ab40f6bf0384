# SPDX-License-Identifier: Apache-2.0
"""Arrays read from files, maps, digests and chunks."""

import errno
import hashlib
import os
import pickle
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import warren


def test_read_into(volume: warren.Volume) -> None:
    numbers = np.arange(10_000, dtype=np.float32).reshape(100, 100)
    with volume.open("/f", "w+") as file:
        assert file.write_from(numbers) == numbers.nbytes
        back = np.zeros_like(numbers)
        assert file.read_into(back) == numbers.nbytes and (back == numbers).all()
        part = bytearray(8)
        assert file.read_into(part, 4) == 8 and bytes(part) == numbers.tobytes()[4:12]
        assert file.read_into(part, numbers.nbytes - 3) == 3 and file.tell() == 0
        targets = [np.zeros(100, np.float32) for _ in range(100)]
        reads = [file.pread(target, i * 400) for i, target in enumerate(targets)]
        assert [read.result() for read in reads] == [400] * 100
        assert (np.stack(targets) == numbers).all()
        with pytest.raises(TypeError):
            file.read_into(b"frozen")
        with pytest.raises(TypeError):
            file.read_into(back.T)
        with pytest.raises(ValueError, match="stream"):
            file.pread(part, stream=7).result()
    with pytest.raises(OSError), volume.open("/f") as file:
        file.write_from(part)
    with pytest.raises(ValueError, match="closed"):
        file.read_into(part)


def test_read_into_in_pieces(tmp_path: Path) -> None:
    """More than is moved between two looks at signals."""
    size = 70 << 20
    data = np.arange(size // 8, dtype=np.int64)
    with warren.Volume.create(tmp_path / "v.img", 256 << 20) as volume:
        with volume.open("/f", "w+") as file:
            assert file.write_from(data) == size
            back = np.zeros(size + 100, np.uint8)
            assert file.read_into(back) == size
            assert (back[:size].view(np.int64) == data).all() and not back[size:].any()
            assert file.readall() == data.tobytes()
            assert file.write(data.tobytes()) == size and file.tell() == 2 * size
        with pytest.raises(OSError) as caught, volume.open("/full", "w") as full:
            full.write_from(np.zeros(300 << 20, np.uint8))
        assert caught.value.errno == errno.ENOSPC


def test_map(host_volume: warren.Volume) -> None:
    volume = host_volume
    numbers = np.arange(4096, dtype=np.int32)
    volume.write_many(["f", "empty"], [numbers.tobytes(), b""], strict=True)
    mapped = volume.map("/f", "int32", (64, -1))
    assert mapped.shape == (64, 64) and mapped.readonly and mapped.dtype == "int32"
    seen = np.asarray(mapped)
    assert (seen.ravel() == numbers).all() and not seen.flags.writeable
    volume.open("/f", "r+").write(b"\7\0\0\0")
    assert seen[0, 0] == 7
    assert not np.from_dlpack(mapped).flags.writeable
    with pytest.raises(BufferError, match="copy=True"):
        mapped.__dlpack__()
    copy = np.from_dlpack(mapped, copy=True)
    copy[0, 0] = 9
    assert seen[0, 0] == 7
    with pytest.raises(OSError):
        mapped.write_back()
    with pytest.raises(TypeError):
        pickle.dumps(mapped)

    writable = volume.map("/f", np.dtype("int32"), writable=True)
    array = np.from_dlpack(writable)
    array[1] = 1234
    assert volume.read_many(["/f"])[0][4:8] == numbers[1].tobytes()
    writable.write_back()
    assert np.frombuffer(volume.open("/f").read(), np.int32)[1] == 1234

    assert not hasattr(mapped, "__cuda_array_interface__")  # it is in the host's memory
    flat = volume.map("/f", "bfloat16")
    assert flat[2] == (1234 & 255, 1234 >> 8) and flat[-1] == tuple(numbers.tobytes()[-2:])
    assert volume.map("/f", np.float32, 5).shape == (5,)
    assert volume.map("/f", np.float32, np.int64(5)).shape == (5,)  # type: ignore[arg-type]
    half = volume.map("/f", "torch.bfloat16", (-1, 2), offset=8)
    assert half.shape == ((4096 * 4 - 8) // 4, 2)
    assert memoryview(half).format == "B" and memoryview(half).shape == (4094, 4)
    for dtype in ("float8_e4m3fn", "float8_e5m2"):
        eighth = volume.map("/f", dtype)
        assert eighth.dtype == dtype and memoryview(eighth).format == "B"
        assert bytes(eighth) == volume.open("/f").read()
    for path, dtype, shape, error in (
        ("/f", "int32", (5000,), ValueError),
        ("/f", "int32", (-1, -1), ValueError),
        ("/f", np.dtype(">i4"), None, TypeError),
        ("/f", "colour", None, TypeError),
        ("/empty", "uint8", None, OSError),
        ("/none", "uint8", None, FileNotFoundError),
        ("/", "uint8", None, IsADirectoryError),
    ):
        with pytest.raises(error):
            volume.map(path, dtype, shape)
    volume.close()
    assert seen[0, 0] == 7 and array[1] == 1234
    with pytest.raises(ValueError, match="closed"):
        writable.write_back()


def test_slices(volume: warren.Volume) -> None:
    data = [b"one", b"", b"three"]
    handles = volume.write_many(["a", "b", "c"], data, strict=True).handles
    assert handles[1:].tolist() == handles.tolist()[1:]
    assert handles[5:].shape == (0, 2)
    contents = volume.read_many(["a", "b", "c"])
    values, offsets = contents.values, contents.offsets
    parts = [values[offsets[i] : offsets[i + 1]] for i in range(3)]
    assert np.shares_memory(np.asarray(parts[2]), np.asarray(values))
    for wrong, error in ((slice(None, None, 2), ValueError), (8, IndexError), ("a", TypeError)):
        with pytest.raises(error):
            values[wrong]  # type: ignore[index]
    mapped = volume.map("c")
    assert bytes(mapped[-2:].to_host()) == b"ee"
    del contents, values, offsets
    assert [bytes(part) for part in parts] == data


def test_hash(volume: warren.Volume) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    data = {f"/d/{i}": rng.randbytes(rng.choice([0, 1, 100, 4096, 70_000])) for i in range(300)}
    data["/long"] = os.urandom((32 << 20) + 5)
    volume.mkdir("/d")
    volume.write_many(list(data), list(data.values()), strict=True)
    for name in ("md5", "sha1", "sha256"):
        wanted = {path: hashlib.new(name, part).digest() for path, part in data.items()}
        found = volume.hash([*data, "/none", "/d"], name)
        rows = np.asarray(found.digests)
        assert [bytes(row) for row in rows[:-2]] == list(wanted.values())
        assert found.errno.tolist()[-3:] == [0, errno.ENOENT, errno.EISDIR] and not rows[-2:].any()
        tree = volume.hash("/", name)
        assert tree.paths is not None
        rows = np.asarray(tree.digests)
        assert {p: bytes(row) for p, row in zip(tree.paths, rows, strict=True)} == wanted
    handles = volume.lookup_many(["/d/1"]).handles
    one = volume.hash(handles).digests
    assert one.shape == (1, 32) and volume.hash(["/d/1"]).digests.tolist() == one.tolist()
    assert volume.hash("/d/1").digests.tolist() == one.tolist()
    volume.write_many(["/none of it", "/abc"], [b"", b"abc"], strict=True)
    published = {  # by the authors of BLAKE3, and by xxhsum
        "blake3": [
            "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
            "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85",
        ],
        "xxh3-128": [
            "99aa06d3014798d86001c324468d497f",
            "06b05ab6733a618578af5f94892f3950",
        ],
    }
    for name, texts in published.items():
        rows = np.asarray(volume.hash(["/none of it", "/abc"], name).digests)
        assert [bytes(row).hex() for row in rows] == texts
    with pytest.raises(ValueError, match="algorithm"):
        volume.hash(["/d/1"], "none")
    with pytest.raises(FileNotFoundError):
        volume.hash(["/none"], strict=True)


def test_chunk() -> None:
    data = np.frombuffer(random.randbytes(1 << 20), np.uint8)
    ends = np.asarray(warren.chunk(data, "fastcdc"))
    assert ends[-1] == len(data) and (np.diff(ends) > 0).all() and 10 < len(ends) < 1000
    # An insertion at the start moves the cuts behind it.
    moved = np.asarray(warren.chunk(b"new" + data.tobytes(), "fastcdc")) - 3
    assert len(np.intersect1d(ends, moved)) > len(ends) * 0.8
    assert warren.chunk(b"").tolist() == []
    with pytest.raises(ValueError, match="preset"):
        warren.chunk(data, "none")
    with pytest.raises(TypeError):
        warren.chunk(np.zeros(4, np.int32))


def test_map_of_a_forked_process(volume: warren.Volume, tmp_path: Path) -> None:
    volume.write_many(["f"], [b"data"], strict=True)
    mapped = volume.map("/f", writable=True)
    uses: list[Callable[[], object]] = [
        mapped.write_back,
        lambda: mapped[0],
        mapped.tolist,
        lambda: list(mapped),
        lambda: mapped.__cuda_array_interface__,
        mapped.to_host,
    ]
    child = os.fork()
    if child == 0:
        refused = 0
        for use in uses:
            try:
                use()
            except RuntimeError:
                refused += 1
        os._exit(0 if refused == len(uses) else 1)
    assert os.waitpid(child, 0)[1] == 0
    mapped.write_back()
