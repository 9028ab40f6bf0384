# SPDX-License-Identifier: Apache-2.0
"""What is refused without a GPU, or without the one that is asked for."""

import contextlib
import ctypes
import errno
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import warren
from warren._file import stream_address


def test_engines(tmp_path: Path) -> None:
    path = tmp_path / "v.img"
    with warren.Volume.create(path, 64 << 20) as volume:
        assert volume.engine == "cpu" and "engine cpu" in volume.doctor()[0].detail
    with warren.Volume(path, engine="auto") as volume:
        assert volume.engine == "cpu"
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
    with pytest.raises(ValueError, match="device: .*, not 5"):
        volume.find(device=5)  # type: ignore[arg-type]
    torch_device = type("device", (), {"__str__": lambda _: "cpu"})()
    assert volume.find(device=torch_device).rows == volume.find(device="cpu").rows == 2
    with pytest.raises(OSError) as caught:
        volume.find(device="cuda:99")
    assert caught.value.errno == errno.ENODEV and caught.value.strerror


class InGpuMemory:
    """An array of the host that claims to be in the memory of a GPU that does not exist."""

    device = 2, 99

    def __init__(self, array: Any) -> None:
        self.array = array
        self.streams: list[object] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, *, stream: object = None) -> object:
        self.streams.append(stream)
        capsule = self.array.__dlpack__()
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        device = pointer(capsule, b"dltensor") + ctypes.sizeof(ctypes.c_void_p)
        ctypes.c_int32.from_address(device).value, ctypes.c_int32.from_address(device + 4).value = (
            self.device
        )
        return capsule


class Pinned(InGpuMemory):
    """An array in memory of the host that CUDA has allocated."""

    device = 3, 0


class OfAnotherSort(InGpuMemory):
    """An array in the memory of a GPU that CUDA does not know: Metal's."""

    device = 8, 0


def test_arrays_of_no_gpu(host_volume: warren.Volume) -> None:
    """What takes no stream waits for that of the array; then the GPU is missed."""
    names = np.full((3, 8), ord("n"), np.uint8)
    calls: list[tuple[Any, Any]] = [
        (lambda names: host_volume.move_many(["a"] * 3, names), names),
        (host_volume.hash, np.zeros((1, 2), np.int64)), (warren.chunk, np.zeros(9, np.uint8)),
    ]  # fmt: skip
    for many in ("lookup", "exists", "create", "remove", "read"):
        calls.append((getattr(host_volume, f"{many}_many"), names))
    values, offsets = np.zeros(9, np.uint8), np.array([0, 9])
    calls += [
        (lambda values: host_volume.write_many(["a"], values, offsets), values),
        (lambda offsets: host_volume.write_many(["a"], values, offsets), offsets),
        (lambda starts: host_volume.read_many(["a", "b"], starts=starts), offsets),
        (lambda ends: host_volume.read_many(["a", "b"], ends=ends), offsets),
    ]
    for call, array in calls:
        given = InGpuMemory(array)
        with pytest.raises(OSError) as caught:
            call(given)
        assert caught.value.errno == errno.ENODEV and caught.value.strerror
        assert given.streams[-1] == 1 and set(given.streams[:-1]) <= {None}
    assert host_volume.listdir("/") == []
    for wrong in (names[::2], names[:, ::2]):
        with pytest.raises(ValueError, match="names: .*contiguous"):
            host_volume.exists_many(InGpuMemory(wrong))


def test_other_memory(host_volume: warren.Volume) -> None:
    data = np.arange(9, dtype=np.uint8)
    with host_volume.open("/f", "w+") as file:
        assert file.write_from(Pinned(data)) == 9
        target = Pinned(np.zeros(9, np.uint8))
        assert file.read_into(target) == 9 and (target.array == data).all()
        with pytest.raises(TypeError, match="source: must be in host or CUDA memory"):
            file.write_from(OfAnotherSort(data))
    assert warren.chunk(Pinned(data)).tolist() == [9]
    rows = np.full((2, 8), ord("n"), np.uint8)
    for wrong in (rows[:, ::2], Pinned(rows[:, ::2])):
        with pytest.raises(ValueError, match="names: a row must be contiguous"):
            host_volume.exists_many(wrong)


def test_gpus_that_are_not_current(
    host_volume: warren.Volume, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch exports tensors of its current GPU alone, which is another one in another thread."""
    current = [0]

    @contextlib.contextmanager
    def device(gpu: int) -> Iterator[None]:
        current.append(gpu)
        yield
        current.pop()

    class Tensor:
        error: Exception | None = None

        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 7

        def __dlpack__(self, **options: Any) -> object:
            if current[-1] != 7:
                raise BufferError("on a different CUDA device index")
            if self.error:
                raise self.error
            return data.__dlpack__()

    data = np.arange(9, dtype=np.uint8)
    torch = SimpleNamespace(Tensor=Tensor, cuda=SimpleNamespace(device=device))
    monkeypatch.setitem(sys.modules, "torch", torch)  # type: ignore[arg-type]
    with host_volume.open("/f", "w+") as file:
        assert file.write_from(Tensor()) == 9
        assert file.pread(Tensor()).result() == 9
        Tensor.error = KeyError("own")
        with pytest.raises(KeyError, match="own"):
            file.write_from(Tensor())
    assert host_volume.read_bytes("/f") == data.tobytes() and current == [0]


def test_streams() -> None:
    assert stream_address(None) is None and stream_address(5) == 5
    assert stream_address(SimpleNamespace(__cuda_stream__=lambda: (0, 6))) == 6
    assert stream_address(SimpleNamespace(__cuda_stream__=(0, 7))) == 7
    assert stream_address(SimpleNamespace(cuda_stream=8)) == 8
    assert stream_address(SimpleNamespace(ptr=9)) == 9
