# SPDX-License-Identifier: Apache-2.0
"""Contents of files in the memory of a GPU."""

import errno
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import warren


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
            stream.wait_stream(torch.cuda.current_stream())  # for the zeros
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


def test_out_of_memory(gpu: warren.Volume) -> None:
    torch = pytest.importorskip("torch")
    data = np.arange(200 << 17, dtype=np.int64).view(np.uint8)
    gpu.write_many(["/f"], [data], strict=True)
    handles = gpu.lookup_many(["/f"]).handles
    torch.cuda.empty_cache()
    hold = torch.empty(torch.cuda.mem_get_info()[0] - (64 << 20), dtype=torch.uint8, device="cuda")
    for call in (
        lambda: gpu.map("/f"),
        lambda: gpu.read_many(handles, device="cuda"),
        lambda: gpu.read_many(handles).values.to_gpu(0),
    ):
        with pytest.raises(MemoryError, match="empty_cache"):
            call()
    assert gpu.read_many(handles)[0] == data.tobytes()
    del hold
    torch.cuda.empty_cache()
    assert gpu.map("/f").nbytes == len(data)
    found = torch.from_dlpack(gpu.read_many(handles, device="cuda").values)
    assert (found.cpu().numpy() == data).all()


def test_volumes_give_back_memory(gpu: warren.Volume, tmp_path: Path) -> None:
    """A call that lacks memory of the GPU gets what a volume uses beside the CPU engine."""
    torch = pytest.importorskip("torch")

    def free() -> int:
        torch.cuda.empty_cache()
        return int(torch.cuda.mem_get_info()[0])

    before, end = free(), time.monotonic() + 100
    with warren.Volume.create(tmp_path / "a.img", 2 << 30, engine="auto") as volume:
        volume.create_many([f"{i:08}" for i in range(1_000_000)], strict=True)
        data = random.randbytes(1 << 20) * 48
        handles = volume.write_many(["data"], [data], strict=True).handles
        rows = volume.find(columns=["size"]).rows
        while before - free() < 100 << 20:
            assert time.monotonic() < end, [finding.detail for finding in volume.doctor()]
            volume.find(columns=["size"])
        hold = [torch.empty(free() - (16 << 20), dtype=torch.uint8, device="cuda")]
        found = volume.read_many(handles, device="cuda", strict=True)
        assert bytes(found.values.to_host()) == data
        assert free() > 32 << 20
        hold.append(torch.empty(free() - (16 << 20), dtype=torch.uint8, device="cuda"))
        with pytest.raises(MemoryError, match="gave back.*empty_cache"):
            volume.read_many(handles, device="cuda")
        assert volume.read_many(handles, strict=True)[0] == data
        assert volume.find(columns=["size"]).rows == rows == 1_000_002


def test_tensor_freed_early(gpu: warren.Volume) -> None:
    """What is freed on the stream of the copies gets other bytes only behind them."""
    torch = pytest.importorskip("torch")
    size = 64 << 20
    gpu.write_many(["/f"], [bytes([5]) * size], strict=True)
    with gpu.open("/f") as file:
        for _ in range(10):
            target = torch.empty(size, dtype=torch.uint8, device="cuda")
            assert file.read_into(target) == size
            del target
            other = torch.full((size,), 7, dtype=torch.uint8, device="cuda")
            assert (other == 7).all()
            later = file.pread(torch.empty(size, dtype=torch.uint8, device="cuda"))
            assert later.result() == size


@pytest.mark.parametrize("host_memory", [0, 8 << 20, 256 << 20])
def test_read_many(gpu: warren.Volume, tmp_path: Path, host_memory: int) -> None:
    """From the page cache, from pinned memory that is too small for all, and from enough of it."""
    torch = pytest.importorskip("torch")
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    sizes = rng.choice([0, 1, 100, 128, 129, 4096, 5000, 70_000, 3_000_001], 3000,
                       p=[0.05, 0.1, 0.2, 0.05, 0.1, 0.3, 0.1, 0.09, 0.01])  # fmt: skip
    ends = np.cumsum([0, *sizes])
    data = rng.integers(0, 256, ends[-1], np.uint8)
    names = [f"/{i}" for i in range(len(sizes))]
    with warren.Volume.create(tmp_path / "w.img", 1 << 30, host_memory=host_memory) as volume:
        handles = np.asarray(volume.write_many(names, data, ends, strict=True).handles)
        for round in range(6):
            order = rng.permutation(len(sizes)) if round % 2 else np.arange(len(sizes))
            wanted = np.concatenate([data[ends[i] : ends[i + 1]] for i in order])
            found = volume.read_many(handles[order], device="cuda", strict=True)
            assert found.values.__dlpack_device__() == (2, 0)
            assert (torch.from_dlpack(found.values).cpu().numpy() == wanted).all()
            assert np.diff(found.offsets).tolist() == sizes[order].tolist()
            out = torch.zeros(len(wanted) + 10, dtype=torch.uint8, device="cuda")
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())  # for the zeros
            with torch.cuda.stream(stream):
                out += 5  # the reads come behind this, and go before what follows
                volume.read_many(handles[order], out=out, stream=stream, strict=True)
                out += 1
            stream.synchronize()
            assert (out[: len(wanted)].cpu().numpy() == wanted + 1).all() and (out[-10:] == 6).all()
            starts, stops = rng.integers(0, 3000, (2, len(sizes)))
            parts = volume.read_many(handles, starts=starts, ends=stops, device="cuda:0")
            wanted = np.concatenate(
                [
                    data[begin : begin + size][start:stop]
                    for begin, size, start, stop in zip(ends, sizes, starts, stops, strict=False)
                ]
            )
            assert (torch.from_dlpack(parts.values).cpu().numpy() == wanted).all()
            changed = int(rng.integers(0, len(sizes)))
            data[ends[changed] : ends[changed + 1]] ^= 255
            part = data[ends[changed] : ends[changed + 1]].tobytes()
            volume.write_many([names[changed]], [part], strict=True)
        contents = volume.read_many(["/1", "/none"], device="cuda")
        assert contents.errno.tolist() == [0, errno.ENOENT]
        with pytest.raises(ValueError, match="device"):
            volume.read_many(names, out=out, device="cuda")
        with pytest.raises(ValueError, match="room"):
            volume.read_many(names, out=out[:7])


def ragged(rng: np.random.Generator) -> np.ndarray:
    """Offsets of many small files and some that are longer than what is fetched at once."""
    sizes = rng.choice([0, 1, 100, 128, 129, 4096, 5000, 70_000], 3000)
    large = [4 << 20, (4 << 20) + 1, 9_000_001, (4 << 20) - 1]
    sizes[rng.choice(len(sizes), len(large), replace=False)] = large
    return 7 + np.cumsum([0, *sizes])  # some values are before the first file


@pytest.mark.parametrize("host_memory", [0, 256 << 20])
def test_write_many(gpu: warren.Volume, tmp_path: Path, host_memory: int) -> None:
    """From values, and with offsets, in the memory of the GPU."""
    torch = pytest.importorskip("torch")
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    names = [f"/{i}" for i in range(3000)]
    busy = torch.zeros(256 << 20, dtype=torch.uint8, device="cuda")
    with warren.Volume.create(tmp_path / "w.img", 1 << 30, host_memory=host_memory) as volume:
        for round in range(4):
            ends = ragged(rng)
            values = torch.randint(0, 256, (ends[-1] + 5,), dtype=torch.uint8, device="cuda")
            wanted = values[7 : ends[-1]].cpu().numpy()
            offsets = torch.from_numpy(ends).cuda() if round % 2 else ends
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):  # the call waits for what makes the values
                made = torch.zeros_like(values)
                for _ in range(50):
                    busy += 1
                made += values
                told: list[int] = []
                written = volume.write_many(names, made, offsets, strict=True, progress=told.append)
            made.zero_()  # it has been read
            assert sum(told) == len(names)
            found = volume.read_many(written.handles, strict=True)
            assert (np.asarray(found.values) == wanted).all()
            assert (np.diff(found.offsets) == np.diff(ends)).all()
            starts = rng.integers(-100, 100, len(names))
            part = volume.read_many(names, starts=torch.from_numpy(starts).cuda(),
                                    ends=torch.from_numpy(starts + 50).cuda())  # fmt: skip
            on_host = volume.read_many(names, starts=starts, ends=starts + 50)
            assert part.values.tolist() == on_host.values.tolist()
        none = volume.write_many(["/0", "/new"], made[:0], np.zeros(3, int), strict=True)
        assert volume.read_many(none.handles, strict=True).values.tolist() == []


def test_write_many_from_bad_values(gpu: warren.Volume) -> None:
    torch = pytest.importorskip("torch")
    values = torch.arange(90, dtype=torch.uint8, device="cuda")
    offsets = torch.tensor([0, 40, 90], device="cuda")
    names = ["/a", "/b"]
    wrong: list[tuple[Any, Any, type[Exception], str]] = [
        (values.float(), offsets, TypeError, "values"),
        (values[::2], offsets // 2, TypeError, "values"),
        (values.view(9, 10), offsets, TypeError, "values"),
        (values, offsets.int(), TypeError, "offsets"),
        (values, torch.stack([offsets, offsets], 1)[:, 0], TypeError, "offsets"),
        (values, offsets[:2], ValueError, "offsets"),
        (values, offsets - 1, ValueError, "offsets"),
        (values, offsets.flip(0), ValueError, "offsets"),
        (values[:89], offsets, ValueError, "offsets"),
    ]
    for given, ends, kind, text in wrong:
        with pytest.raises(kind, match=text):
            gpu.write_many(names, given, ends)
    with pytest.raises(ValueError, match="meta"):  # torch's own
        gpu.write_many(names, torch.zeros(90, dtype=torch.uint8, device="meta"), offsets)
    with pytest.raises(TypeError, match="bytes-like"):
        gpu.write_many(names, [values[:40], values[40:]])
    with pytest.raises(ValueError, match="starts"):
        gpu.read_many(names, starts=offsets)
    assert gpu.listdir("/") == []
    for device in range(torch.cuda.device_count()):  # it need not be that of the volume
        gpu.write_many(names, values.to(f"cuda:{device}"), offsets, strict=True)
        assert bytes(gpu.read_many(names, strict=True).values) == bytes(range(90))
    gpu.mkdir("/d")
    found = gpu.write_many(["/d", "/a"], values, offsets)
    assert found.errno.tolist() == [errno.EISDIR, 0]
    assert gpu.read_bytes("/a") == bytes(range(40, 90))


def test_write_many_that_ends_early(gpu: warren.Volume) -> None:
    torch = pytest.importorskip("torch")
    values = torch.zeros(1 << 30, dtype=torch.uint8, device="cuda")
    found = gpu.write_many(["/a", "/b"], values, np.array([0, 1 << 20, 1 << 30]))
    assert found.errno.tolist() == [0, errno.ENOSPC]
    assert gpu.read_bytes("/a") == bytes(1 << 20) and gpu.stat("/b").st_size == 0

    def fail(count: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        gpu.write_many(["/a", "/c"], values, np.arange(3) << 20, progress=fail)
    gpu.close()
    with pytest.raises(ValueError, match="closed"):
        gpu.write_many(["/a"], values, np.array([0, 1]))


def test_host_memory(gpu: warren.Volume, tmp_path: Path) -> None:
    """Tensors go to files that wait in pinned memory, and come back from there."""
    torch = pytest.importorskip("torch")
    size = (200 << 20) + 77
    path = tmp_path / "w.img"
    with warren.Volume.create(path, 1 << 30, host_memory=600 << 20) as volume:
        source = torch.randint(0, 256, (size,), dtype=torch.uint8, device="cuda")
        for offset in (0, 1234):
            with volume.open("/f", "w+") as file:
                assert file.write_from(source, offset) == size
                for _ in range(2):
                    back = torch.zeros_like(source)
                    assert file.read_into(back, offset) == size and torch.equal(back, source)
                middle = torch.zeros(50 << 20, dtype=torch.uint8, device="cuda")
                file.write_from(middle, 33_333_333 + offset)
                source[33_333_333:][: 50 << 20] = 0
                assert file.read_into(back, offset) == size and torch.equal(back, source)
    with warren.Volume(path, read_only=True, host_memory=1 << 20) as volume:
        back = torch.zeros_like(source)
        assert volume.open("/f").read_into(back, 1234) == size and torch.equal(back, source)


def test_batches_on_the_gpu(gpu: warren.Volume) -> None:
    torch = pytest.importorskip("torch")
    from warren.torch import FileDataset, order_of

    data = [bytes([i % 256]) * (1 + i % 700) for i in range(1000)]
    gpu.write_many([f"/{i:04}" for i in range(1000)], data, strict=True)
    dataset = FileDataset(gpu, batch_size=300, shuffle=True, seed=5, device="cuda")
    parts = [FileDataset(gpu, batch_size=300, shuffle=True, seed=5, rank=rank, ranks=2,
                         device="cuda:0") for rank in range(2)]  # fmt: skip
    rows = torch.cat([batch.rows for batch in dataset])
    assert sorted(rows.tolist()) == list(range(1000))
    assert rows.tolist() == order_of(1000, 5, "cpu").tolist()
    shared = [batch.rows.tolist() for batches in zip(*parts, strict=True) for batch in batches]
    assert sum(shared, []) == rows.tolist()
    for batch in dataset:
        assert batch.values.is_cuda and batch.offsets.is_cuda
        assert len(batch.offsets) == len(batch.rows) + 1
        firsts = batch.values[batch.offsets[:-1]].cpu().tolist()
        assert firsts == [int(dataset.path(row)[1:]) % 256 for row in batch.rows]
