# SPDX-License-Identifier: Apache-2.0
"""Memory of a GPU: maps, columns, names."""

import ctypes
import errno
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import warren

from test_examples import example


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
        again = gpu.read_many(chosen, strict=True)  # handles in the memory of the GPU
        assert again.values.tolist() == found.values.tolist()
        assert gpu.hash(chosen[:9]).digests.tolist() == gpu.hash(chosen[:9].cpu()).digests.tolist()
        assert sorted(table.text("path")) == sorted(table.text("path").tolist())
        assert set(names) <= set(table.text("path"))
        assert table.text("name")[3] == table.text("name").tolist()[3]
    usage = gpu.usage("/", depth_max=1, device="cuda")
    assert usage.array("entries").tolist() == gpu.usage("/", depth_max=1)["entries"].tolist()


def test_chunk(gpu: warren.Volume) -> None:
    torch = pytest.importorskip("torch")
    data = torch.randint(0, 256, ((5 << 20) + 77,), dtype=torch.uint8, device="cuda")
    for part in (data, data[3:], data[:1000], data[:0], torch.zeros_like(data)):
        for preset in ("fastcdc", "lbfs", "gear"):
            ends = warren.chunk(part, preset)
            assert ends.__dlpack_device__() == (2, 0)
            assert ends.tolist() == warren.chunk(part.cpu().numpy(), preset).tolist()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):  # it waits for what makes the data
        for _ in range(50):
            data += 1
        ends = warren.chunk(data)
    assert ends.tolist() == warren.chunk(data.cpu().numpy()).tolist()
    with pytest.raises(TypeError, match="data"):
        warren.chunk(data.float())
    with pytest.raises(TypeError, match="data"):
        warren.chunk(data[::2])


def test_names(gpu: warren.Volume) -> None:
    torch = pytest.importorskip("torch")
    names = torch.tensor([[*b"%07d" % i, 0] for i in range(1000)], dtype=torch.uint8).cuda()
    written = gpu.write_many(names[::2].contiguous(), [b"x" * i for i in range(500)], strict=True)
    assert gpu.exists_many(names).tolist() == [True, False] * 500
    assert sorted(gpu.listdir("/")) == [f"{i:07}" for i in range(0, 1000, 2)]
    busy = torch.zeros(256 << 20, dtype=torch.uint8, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):  # the call waits for what makes the names
        made = torch.zeros_like(names)
        stream.synchronize()
        for _ in range(100):
            busy += 1
        made += names
        assert gpu.lookup_many(made[::2].contiguous()).handles.tolist() == written.handles.tolist()
    gpu.write_many(["/names"], [names.cpu().numpy().ravel()], strict=True)
    mapped = gpu.map("/names", "uint8", (-1, 8))
    assert gpu.exists_many(mapped).tolist() == [True, False] * 500
    targets = names[::2].contiguous()
    targets[:, 0] = ord("t")
    gpu.move_many(names[::2].contiguous(), targets, strict=True)
    assert np.diff(gpu.read_many(targets, strict=True).offsets).tolist() == list(range(500))
    gpu.remove_many(targets, strict=True)
    assert gpu.listdir("/") == ["names"]
    with pytest.raises(ValueError, match="contiguous"):
        gpu.exists_many(names[::2])
    assert all(gpu.exists_many(names[:, :0]).tolist())  # the empty name is the root's


def sorted_rows(table: warren.Table) -> list[tuple[object, ...]]:
    columns = [table[name].tolist() for name in table]  # type: ignore[union-attr]
    return sorted(zip(*columns, strict=True), key=repr)


def test_columns_of_the_gpu_and_the_cpu(gpu: warren.Volume, tmp_path: Path) -> None:
    """A GPU makes the columns itself. They are those that the CPU engine collects."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    folders = [""]
    for i in range(300):
        folders.append(f"{rng.choice(folders)}/{'d' * rng.choice([1, 60, 200])}{i}")
        gpu.mkdir(folders[-1])
    names = [f"{rng.choice(folders)}/{'f' * rng.choice([1, 7, 200])}{i}" for i in range(5000)]
    gpu.write_many(names, [b"x" * rng.choice([0, 9, 5000]) for _ in names], strict=True)
    gpu.symlink("f", "/link")
    gpu.link(names[0], "/another")
    gpu.chmod(names[1], 0o600)
    gpu.chown(names[2], 7, 8)
    columns = ("handle", "parent", "size", "blocks", "mtime", "atime", "ctime", "mode", "links",
               "user", "group", "depth", "name", "path")  # fmt: skip
    calls: list[dict[str, Any]] = [
        {}, {"path": folders[1]}, {"path": folders[-1] + "/"}, {"path": names[0]},
        {"path": "/link"}, {"pattern": "*7"}, {"types": "d"}, {"types": "lf", "size_max": 9},
        {"size_min": 5000}, {"depth_max": 0}, {"depth_max": 2}, {"mtime_max": 0},
        {"pattern": b"D*", "ignore_case": True},
    ]  # fmt: skip
    found = []
    for call in calls:
        on_host = gpu.find(columns=columns, **call)
        on_gpu = gpu.find(columns=columns, device="cuda", **call)
        assert on_host.array("size").__dlpack_device__() == (1, 0)
        assert on_gpu.array("size").__dlpack_device__() == (2, 0)
        found.append(sorted_rows(on_host))
        assert found[-1] == sorted_rows(on_gpu)
        assert sorted(gpu.find(columns=["path"], device="cuda", **call).text("path")) == sorted(
            on_host.text("path")
        )
    gpu.close()
    with warren.Volume(tmp_path / "v.img") as volume:
        for call, rows in zip(calls, found, strict=True):
            assert rows == sorted_rows(volume.find(columns=columns, **call)), call
    assert len(found[0]) == 5303 and len(found[11]) == 0
    with pytest.raises(ValueError, match="closed"):
        gpu.find(device="cuda")
    assert on_gpu.rows == len(found[-1]) and on_gpu.text("path")[0]  # it outlives the volume


def test_columns_without_room_on_the_gpu(gpu: warren.Volume) -> None:
    torch = pytest.importorskip("torch")
    count = 200_000
    gpu.create_many([f"{i:08}" for i in range(count)], strict=True)
    columns = ["handle", "parent", "size", "blocks", "mtime", "path"]
    whole = sorted_rows(gpu.find(columns=columns))
    torch.cuda.empty_cache()
    hold = torch.empty(torch.cuda.mem_get_info()[0] - (6 << 20), dtype=torch.uint8, device="cuda")
    assert sorted_rows(gpu.find(columns=columns)) == whole and len(whole) == count + 1
    del hold
    torch.cuda.empty_cache()
    assert sorted_rows(gpu.find(columns=columns, device="cuda")) == whole


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


@pytest.mark.parametrize("engine", ["auto", "cuda"])
def test_selected_gpu(gpu: warren.Volume, tmp_path: Path, engine: str) -> None:
    """The volume is on the GPU that it was given, the caller's stays selected."""
    torch = pytest.importorskip("torch")
    for own in range(min(torch.cuda.device_count(), 2)):
        other = (own + 1) % torch.cuda.device_count()
        torch.cuda.set_device(own)
        path = tmp_path / f"{own}.img"
        with warren.Volume.create(path, 512 << 20, engine=engine, device=f"cuda:{other}") as volume:
            names = [f"f{i}" for i in range(5000)]
            volume.write_many(names, [b"x"] * len(names), strict=True)
            for device in (f"cuda:{own}", f"cuda:{other}"):
                found = volume.find("/", columns=["size"], device=device)
                assert torch.from_dlpack(found["size"]).device == torch.device(device)
            if engine == "cuda":
                assert volume.map("f0").__dlpack_device__() == (2, other)
            volume.rebuild("/")
            volume.remove_many(names, strict=True)
        assert torch.cuda.current_device() == own
    torch.cuda.set_device(0)


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


OLD_DRIVER = """
int cuDriverGetVersion(int* version) {
    *version = 12000;
    return 0;
}
"""
WITH_OLD_DRIVER = """
import json, sys, warren
with warren.Volume(sys.argv[1]) as volume:
    print(json.dumps([volume.engine, volume.doctor()]))
try:
    warren.Volume(sys.argv[1], engine="cuda")
except OSError as error:
    print(json.dumps([error.errno, error.strerror]))
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs cc")
def test_old_driver(gpu: warren.Volume, tmp_path: Path) -> None:
    """A driver too old for CUDA 13 means the CPU engine."""
    (tmp_path / "driver.c").write_text(OLD_DRIVER)
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", "libcuda.so.1", "driver.c"], cwd=tmp_path, check=True
    )
    gpu.close()
    environment = os.environ | {
        "LD_LIBRARY_PATH": str(tmp_path),
        "PYTHONPATH": str(Path(warren.__file__).parent.parent),
    }
    done = subprocess.run(
        [sys.executable, "-c", WITH_OLD_DRIVER, str(tmp_path / "v.img")],
        env=environment, capture_output=True, check=True,
    )  # fmt: skip
    opened, refused = map(json.loads, done.stdout.splitlines())
    assert opened[0] == "cpu"
    told = {subject: (state, detail) for state, subject, detail in opened[1]}
    assert told["gpu"][0] == "note" and "driver 580 or later" in told["gpu"][1]
    assert refused[0] == errno.ENODEV and "GPU" in refused[1]
