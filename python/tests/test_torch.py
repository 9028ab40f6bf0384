# SPDX-License-Identifier: Apache-2.0
"""Tensors of torch, which take everything by DLPack."""

import copy
import errno
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import warren

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader  # type: ignore[import-not-found,unused-ignore] # noqa: E402
from warren.torch import FileDataset, order_of  # noqa: E402

FILES = 1000


@pytest.fixture
def samples(volume: warren.Volume) -> dict[str, bytes]:
    """Files of the volume by their paths: samples of several lengths, and others."""
    data = {f"/train/{i % 10}/{i:04}.pcm": os.urandom(i % 500 + 1) for i in range(FILES)}
    volume.mkdir("/train")
    volume.create_many([f"/train/{i}" for i in range(10)], directories=True, strict=True)
    volume.write_many(list(data), list(data.values()), strict=True)
    volume.write_many(["/train/notes.txt", "/train/empty.pcm"], [b"no sample", b""], strict=True)
    return data


def test_tensors(volume: warren.Volume) -> None:
    numbers = torch.arange(4096, dtype=torch.float32).view(64, 64)
    with volume.open("/f", "w+") as file:
        assert file.write_from(numbers) == 16384
        back = torch.zeros_like(numbers)
        assert file.read_into(back) == 16384 and torch.equal(back, numbers)
        assert file.read_into(back.to(torch.bfloat16)) == 8192
        assert file.pread(back[:32], 8192).result() == 8192
        assert torch.equal(back[:32], numbers[32:])
        with pytest.raises(TypeError):
            file.read_into(back.T)
        with pytest.raises(ValueError, match="meta"):  # torch's own
            file.read_into(torch.zeros(4, device="meta"))
        for refused in (torch.zeros(4, requires_grad=True), numbers.to(torch.complex64).conj()):
            with pytest.raises((TypeError, RuntimeError)) as caught:  # by its version
                file.write_from(refused)
            assert "Can't export" in f"{caught.value} {caught.value.__cause__}"
        assert file.write_from(torch.zeros(0, 3)) == 0
    mapped = torch.from_dlpack(volume.map("/f", torch.float32, (64, -1), writable=True))
    assert torch.equal(mapped.cpu(), numbers)
    halves = torch.from_dlpack(volume.map("/f", torch.bfloat16, writable=True))
    assert halves.dtype == torch.bfloat16 and len(halves) == 8192
    assert torch.equal(torch.from_dlpack(volume.exists_many(["/f", "/g"])),
                       torch.tensor([True, False]))  # fmt: skip
    keys = torch.arange(256, dtype=torch.uint8).view(8, 32) % 10 + 48
    assert not volume.create_many(keys).errno.tolist()[0]
    assert torch.from_dlpack(volume.exists_many(keys)).all()
    assert len(warren.chunk(torch.zeros(1000, dtype=torch.uint8))) > 0


def test_read_only_map(volume: warren.Volume) -> None:
    """torch does not know read-only tensors: some versions refuse, others ask for a copy."""
    volume.write_many(["f"], [b"data"], strict=True)
    mapped = volume.map("f")
    try:
        tensor = torch.from_dlpack(mapped)
    except BufferError as error:
        assert "copy=True" in str(error) or "readonly" in str(error).replace("-", "")
    else:
        assert bytes(tensor.tolist()) == b"data"


@pytest.mark.parametrize("prefetch", [0, 2])
def test_batches(volume: warren.Volume, samples: dict[str, bytes], prefetch: int) -> None:
    dataset = FileDataset(
        volume, "/train", pattern="*.pcm", size_min=1, batch_size=64, prefetch=prefetch
    )
    assert dataset.files == FILES and len(dataset) == 16
    for source in (dataset, DataLoader(dataset, batch_size=None)):
        seen: dict[str, bytes] = {}
        for batch in source:
            assert batch.values.dtype == torch.uint8 and len(batch.offsets) == len(batch.rows) + 1
            for i, row in enumerate(batch.rows.tolist()):
                part = batch.values[batch.offsets[i] : batch.offsets[i + 1]]
                seen[dataset.path(row)] = bytes(part.tolist())
                assert len(part) == dataset.sizes[row]
        assert seen == samples
    nested = torch.nested.nested_tensor_from_jagged(batch.values, batch.offsets)
    assert nested.size(0) == len(batch.rows)


def order_by_hand(count: int, seed: int) -> list[int]:
    def split_mix(state: int) -> int:
        word = state % 2**64
        word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        word = (word ^ word >> 27) * 0x94D049BB133111EB % 2**64
        word ^= word >> 31
        return word - 2**64 if word >= 2**63 else word

    return sorted(range(count), key=lambda i: split_mix(seed + (i + 1) * 0x9E3779B97F4A7C15))


@pytest.mark.parametrize("seed", [0, -1, 2**63 + 5, 2**70])
def test_orders(seed: int) -> None:
    assert order_of(1000, seed, "cpu").tolist() == order_by_hand(1000, seed)
    assert order_of(0, seed, "cpu").tolist() == []


def test_shuffle(volume: warren.Volume, samples: dict[str, bytes]) -> None:
    def rows(dataset: Any) -> list[int]:
        return torch.cat([batch.rows for batch in dataset]).tolist()  # type: ignore[no-any-return]

    dataset = FileDataset(volume, "/train", pattern="*.pcm", size_min=1, shuffle=True, seed=7)
    first = rows(dataset)
    assert sorted(first) == list(range(FILES)) and first != sorted(first) and rows(dataset) == first
    assert first == order_by_hand(FILES, 7)
    dataset.set_epoch(1)
    assert sorted(rows(dataset)) == list(range(FILES)) and rows(dataset) != first
    parts = [
        FileDataset(
            volume, "/train", pattern="*.pcm", size_min=1, shuffle=True, seed=7, batch_size=64,
            rank=rank, ranks=3,
        )  # fmt: skip
        for rank in range(3)
    ]
    assert [len(part) for part in parts] == [6, 5, 5]
    assert sorted(sum((rows(part) for part in parts), [])) == list(range(FILES))
    dropping = FileDataset(volume, "/train", batch_size=300, drop_last=True)
    assert len(dropping) == 3 == len(list(dropping))


def test_samples_of_one_size(volume: warren.Volume) -> None:
    numbers = torch.arange(600, dtype=torch.int16).view(100, 2, 3)
    volume.write_many([f"{i:03}" for i in range(100)], [bytes(n.numpy().data) for n in numbers])
    dataset = FileDataset(volume, batch_size=32)
    got = torch.cat([batch.samples(torch.int16, 2, 3) for batch in dataset])
    order = [int(dataset.path(row)[1:]) for row in range(100)]
    assert torch.equal(got, numbers[order])
    with pytest.raises(RuntimeError):
        next(iter(dataset)).samples(torch.int16, 7)
    volume.write_many(["odd"], [b"x" * 10], strict=True)
    with pytest.raises(ValueError, match="several sizes"):
        for batch in FileDataset(volume, batch_size=32):
            batch.samples(torch.int16, 2, 3)


def test_errors(volume: warren.Volume, samples: dict[str, bytes]) -> None:
    for options in ({"batch_size": 0}, {"prefetch": -1}, {"rank": 1}, {"rank": -1, "ranks": 2}):
        with pytest.raises(ValueError, match="FileDataset"):
            FileDataset(volume, **options)  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        FileDataset(volume, "/none")
    dataset = FileDataset(volume, "/train", batch_size=10)
    assert list(FileDataset(volume, pattern="none")) == []
    for _ in zip(range(2), dataset, strict=False):
        pass  # the rest is not read
    volume.unlink("/train/3/0003.pcm")
    with pytest.raises(OSError) as caught:
        list(dataset)
    assert caught.value.errno == errno.ESTALE
    volume.close()
    with pytest.raises(ValueError, match="closed"):
        list(dataset)


def test_processes(tmp_path: Path) -> None:
    with warren.Volume.create(tmp_path / "v.img", 64 << 20) as made:
        made.write_many([f"{i}" for i in range(100)], [b"%d" % i for i in range(100)], strict=True)
    by_path = FileDataset(tmp_path / "v.img", batch_size=7)
    assert sum(len(batch.rows) for batch in by_path) == 100
    by_path.volume.close()
    with warren.Volume(tmp_path / "v.img", read_only=True) as volume:
        dataset = FileDataset(volume, batch_size=7, shuffle=True)
        assert copy.copy(dataset).path(5) == dataset.path(5)
        assert pickle.loads(pickle.dumps(dataset)).path(5) == dataset.path(5)
        spawned = DataLoader(
            dataset, batch_size=None, num_workers=2, multiprocessing_context="spawn"
        )
        rows = torch.cat([batch.rows for batch in spawned])
        assert sorted(rows.tolist()) == list(range(100))
        forked = DataLoader(
            dataset, batch_size=None, num_workers=1, multiprocessing_context="fork"
        )
        with pytest.raises(RuntimeError, match="fork"):
            list(forked)
