# SPDX-License-Identifier: Apache-2.0
"""Memory of a GPU: maps, columns, files read into tensors. Without a GPU: what is refused then."""

import ctypes
import errno
import random
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import warren
from warren._file import stream_address

from test_examples import example


@pytest.fixture
def gpu(tmp_path: Path) -> Iterator[warren.Volume]:
    """A volume on a GPU."""
    try:
        volume = warren.Volume.create(tmp_path / "v.img", 512 << 20, engine="cuda")
    except OSError as error:
        if error.errno != errno.ENODEV:
            raise
        pytest.skip("needs a GPU and warren-cu13")
    with volume:
        yield volume


def test_engines(tmp_path: Path) -> None:
    path = tmp_path / "v.img"
    with warren.Volume.create(path, 64 << 20) as volume:
        assert volume.engine == "cpu" and "engine cpu" in volume.doctor()[0].detail
    with warren.Volume(path, engine="auto") as volume:
        assert volume.engine in ("cpu", "cuda")
    with pytest.raises(ValueError, match="engine"):
        warren.Volume(path, engine="fast")


def test_what_the_host_refuses(host_volume: warren.Volume) -> None:
    volume = host_volume
    volume.write_many(["/f"], [b"data"], strict=True)
    buffer, mapped = bytearray(4), volume.map("/f", writable=True)
    with volume.open("/f", "r+") as file:
        for stream in (1, SimpleNamespace(cuda_stream=7), SimpleNamespace(ptr=0)):
            with pytest.raises(ValueError, match="stream"):
                file.read_into(buffer, stream=stream)
            with pytest.raises(ValueError, match="stream"):
                file.write_from(buffer, stream=stream)
        with pytest.raises(TypeError, match="stream"):
            file.read_into(buffer, stream="s")
    with pytest.raises(ValueError, match="stream"):
        mapped.write_back(1)
    with pytest.raises(ValueError, match="stream"):
        mapped.__dlpack__(stream=1)
    with pytest.raises(BufferError, match="dl_device"):
        mapped.__dlpack__(dl_device=(2, 0))
    assert not hasattr(mapped, "__cuda_array_interface__")
    assert mapped.to_host().tolist() == [*b"data"]
    for device in ("gpu", "cuda:x", "cpu:1", "cuda:-1"):
        with pytest.raises(ValueError, match="device"):
            volume.find(device=device)
    with pytest.raises(ValueError, match="device"):
        volume.usage(device="tpu")
    assert volume.find(device="cpu").rows == 2
    with pytest.raises(OSError) as caught:
        volume.find(device="cuda:99")
    assert caught.value.errno == errno.ENODEV and caught.value.strerror


def test_streams() -> None:
    assert stream_address(None) is None and stream_address(5) == 5
    assert stream_address(SimpleNamespace(__cuda_stream__=lambda: (0, 6))) == 6
    assert stream_address(SimpleNamespace(__cuda_stream__=(0, 7))) == 7
    assert stream_address(SimpleNamespace(cuda_stream=8)) == 8
    assert stream_address(SimpleNamespace(ptr=9)) == 9


def test_map(gpu: warren.Volume) -> None:
    numbers = np.arange(3_000_000, dtype=np.int32)
    gpu.write_many(["/f"], [numbers.tobytes()], strict=True)
    mapped = gpu.map("/f", "int32", (1000, -1))
    assert mapped.__dlpack_device__() == (2, 0) and mapped.shape == (1000, 3000)
    interface = mapped.__cuda_array_interface__
    assert interface["shape"] == (1000, 3000) and interface["typestr"] == "<i4"
    assert interface["data"][1] is True and interface["version"] == 3
    halves = gpu.map("/f", "bfloat16", (-1, 2)).__cuda_array_interface__
    assert halves["shape"] == (3_000_000, 4) and halves["typestr"] == "|u1"
    with pytest.raises(BufferError, match="GPU"):
        memoryview(mapped)
    assert mapped.tolist() == numbers.reshape(1000, 3000).tolist()
    assert mapped[7] == tuple(numbers[21_000:24_000].tolist())
    assert (np.from_dlpack(mapped.to_host()).ravel() == numbers).all()
    for stream in (0, -2):
        with pytest.raises(ValueError, match="stream"):
            mapped.__dlpack__(stream=stream, max_version=(1, 0))
    with pytest.raises(BufferError, match="copy=True"):
        mapped.__dlpack__(stream=1)
    mapped.__dlpack__(stream=1, max_version=(1, 0))
    assert (np.from_dlpack(mapped, device="cpu").ravel() == numbers).all()
    with gpu.open("/f", "r+") as file:
        file.write(b"\7\0\0\0")
    assert mapped[0][0] == 7


def test_map_in_torch(gpu: warren.Volume) -> None:
    torch = pytest.importorskip("torch")
    numbers = np.arange(1 << 20, dtype=np.float32)
    gpu.write_many(["/f"], [numbers.tobytes()], strict=True)
    mapped = gpu.map("/f", torch.float32, (1024, -1), writable=True)
    tensor = torch.from_dlpack(mapped)
    assert tensor.is_cuda and tensor.sum(dtype=torch.float64).item() == numbers.sum(dtype=float)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(100):
            tensor += 1
    mapped.write_back(stream.cuda_stream)
    assert (np.frombuffer(gpu.read_many(["/f"])[0], np.float32) == numbers + 100).all()
    gpu.close()
    assert tensor[0, 0].item() == 100  # it outlives the volume


def test_columns(gpu: warren.Volume) -> None:
    torch = pytest.importorskip("torch")
    names = [f"/d/{i:05}" for i in range(20_000)]
    gpu.mkdir("/d")
    gpu.write_many(names, [b"x" * (i % 9) for i in range(len(names))], strict=True)
    columns = ["handle", "parent", "size", "mtime", "mode", "name", "path"]
    for table in (gpu.find("/d", types="f", columns=columns, device="cuda"),
                  gpu.stat_tree("/d", columns=columns, device="cuda:0")):  # fmt: skip
        assert table["size"].__dlpack_device__() == (2, 0)  # type: ignore[union-attr]
        sizes = torch.from_dlpack(table.array("size"))
        chosen = torch.from_dlpack(table.array("handle"))[sizes == 8]
        found = gpu.read_many(chosen.cpu(), strict=True)
        assert len(found) == len(range(8, 20_000, 9)) and found[0] == b"x" * 8
        assert sorted(table.text("path")) == sorted(table.text("path").tolist())
        assert set(names) <= set(table.text("path"))
        assert table.text("name")[3] == table.text("name").tolist()[3]
    usage = gpu.usage("/", depth_max=1, device="cuda")
    assert usage.array("entries").tolist() == gpu.usage("/", depth_max=1)["entries"].tolist()


def test_columns_in_other_libraries(gpu: warren.Volume) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pandas")
    gpu.write_many([f"/{i}" for i in range(100)], [b"x" * i for i in range(100)], strict=True)
    host = gpu.stat_tree("/", columns=["handle", "size", "mode", "name"])
    device = host.to_gpu(0)
    assert pyarrow.table(device).equals(pyarrow.table(host))
    assert device.to_pandas().equals(host.to_pandas())
    _, capsule = device.__arrow_c_device_array__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = pointer(capsule, b"arrow_device_array")
    array_bytes = 5 * 8 + 5 * 8  # of struct ArrowArray
    assert ctypes.c_int64.from_address(address).value == host.rows
    assert ctypes.c_int64.from_address(address + array_bytes).value == 0  # the GPU
    assert ctypes.c_int32.from_address(address + array_bytes + 8).value == 2  # CUDA
    mixed = warren.Table({"size": device["size"], "mode": host["mode"]})
    with pytest.raises(ValueError, match="several devices"):
        mixed.__arrow_c_device_array__()


@pytest.mark.parametrize("engine", ["cpu", "cuda"])
def test_read_into(gpu: warren.Volume, tmp_path: Path, engine: str) -> None:
    """The GPU's memory is filled whatever engine the volume has."""
    torch = pytest.importorskip("torch")
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    size = (100 << 20) + 1234
    data = rng.integers(0, 256, size, np.uint8)
    with warren.Volume.create(tmp_path / "w.img", 512 << 20, engine=engine) as volume:
        volume.write_many(["/f"], [data], strict=True)
        with volume.open("/f", "r+") as file:
            target = torch.zeros(size + 100, dtype=torch.uint8, device="cuda")
            stream = torch.cuda.Stream()
            assert file.read_into(target, stream=stream) == size
            with torch.cuda.stream(stream):
                target += 1  # behind the copies, which need not be done
            stream.synchronize()
            assert (target[:size].cpu().numpy() == data + 1).all()
            assert (target[size:] == 1).all()
            for _ in range(20):
                begin = int(rng.integers(0, size))
                length = int(rng.integers(1, 70 << 20))
                part = torch.zeros(length, dtype=torch.uint8, device="cuda")
                got = file.read_into(part, begin)
                assert got == min(length, size - begin)
                assert (part[:got].cpu().numpy() == data[begin : begin + got]).all()
            reads = [torch.zeros(1 << 20, dtype=torch.uint8, device="cuda") for _ in range(50)]
            later = [file.pread(read, i << 20) for i, read in enumerate(reads)]
            assert [one.result() for one in later] == [1 << 20] * 50
            assert (torch.cat(reads).cpu().numpy() == data[: 50 << 20]).all()
            with torch.cuda.stream(stream):
                target *= 3
            assert file.write_from(target, stream=stream) == size + 100
            wanted = target.cpu().numpy()
        assert (np.frombuffer(volume.read_many(["/f"])[0], np.uint8) == wanted).all()
        with volume.open("/f") as file, pytest.raises(TypeError):
            file.read_into(target[::2])
        with volume.open("/f", "w") as file, pytest.raises(OSError) as caught:
            file.write_from(torch.zeros(1 << 30, dtype=torch.uint8, device="cuda"))
        assert caught.value.errno == errno.ENOSPC


def test_kernels_on_files(gpu: warren.Volume, tmp_path: Path) -> None:
    pytest.importorskip("cupy")
    kernels: Any = example("kernels_on_files")
    text = random.randbytes(3_000_000).hex().encode()
    gpu.write_many(["/zeros", "/text", "/all"], [bytes(5000), text, bytes(range(256)) * 99])
    counts = kernels.byte_counts(gpu.map("/text")).get()
    assert (counts == np.bincount(np.frombuffer(text, np.uint8), minlength=256)).all()
    kernels.to_upper(gpu, "/text")
    assert gpu.read_many(["/text"])[0] == text.upper()
    gpu.close()
    found = kernels.main([str(tmp_path / "v.img"), "/"])
    assert found["/zeros"] == 0 and found["/all"] == pytest.approx(8)
    assert found["/text"] == pytest.approx(4, abs=0.01)
