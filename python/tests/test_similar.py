# SPDX-License-Identifier: Apache-2.0
"""Likeness of files, against a model that compares blocks as bytes."""

import errno
import os
import random
from collections.abc import Callable

import numpy as np
import pytest
import warren

BLOCK = 4096


def blocks(data: bytes, size: int) -> list[bytes]:
    return [data[i : i + size] for i in range(0, len(data), size)]


def model(files: list[bytes], size: int) -> list[dict[str, int]]:
    rows = []
    first: dict[bytes, int] = {}
    previous: set[bytes] = set()
    for number, data in enumerate(files):
        row = dict.fromkeys(("bytes", "zero_bytes", "in_previous", "in_earlier", "in_self"), 0)
        votes = [0] * (number + 1)
        own: set[bytes] = set()
        for block in blocks(data, size):
            row["bytes"] += len(block)
            if not any(block):
                row["zero_bytes"] += len(block)
                continue
            row["in_previous"] += len(block) if block in previous else 0
            original = first.setdefault(block, number)
            if original < number:
                row["in_earlier"] += len(block)
                votes[original] += len(block)
            elif block in own:
                row["in_self"] += len(block)
            own.add(block)
        row["most_like"] = votes.index(max(votes)) if any(votes) else -1
        rows.append(row)
        previous = own
    return rows


def random_files(rng: random.Random, count: int) -> list[bytes]:
    known = [rng.randbytes(BLOCK) for _ in range(40)] + [bytes(BLOCK)] * 5
    files = []
    for _ in range(count):
        parts = [rng.choice(known) for _ in range(rng.randrange(40))]
        files.append(b"".join(parts) + rng.choice([b"", b"tail", rng.randbytes(100)]))
    return files


@pytest.mark.parametrize("size", [BLOCK, 512, 10_000])
def test_similar(volume: warren.Volume, size: int) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    files = random_files(random.Random(seed), 30)
    names = [f"f{i:02}" for i in range(len(files))]
    volume.write_many(names, files, strict=True)
    table = volume.similar(names, block_bytes=size)
    for column in (*model(files, size)[0], "errno"):
        wanted = [row.get(column, 0) for row in model(files, size)]
        assert table.array(column).tolist() == wanted, column
    found = volume.similar(["f00", "none", "f00"])
    assert found.array("errno").tolist() == [0, errno.ENOENT, 0]
    assert found.array("in_previous").tolist() == [0, 0, 0]
    own = found.array("in_self").tolist(), found.array("in_earlier").tolist()
    assert own[1][2] == len(files[0]) - found.array("zero_bytes")[0] and own[0][2] == 0


def test_by_contents(volume: warren.Volume) -> None:
    """An insertion at the front moves blocks, but not chunks that contents cut."""
    data = os.urandom(2 << 20)
    volume.write_many(["a", "b"], [data, b"new" + data], strict=True)
    assert volume.similar(["a", "b"]).array("in_previous")[1] == 0
    table = volume.similar(["a", "b"], preset="fastcdc")
    assert table.array("in_previous")[1] > 0.9 * len(data) and table.array("most_like")[1] == 0


def test_dedup(volume: warren.Volume) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    common = [rng.randbytes(100 * BLOCK) for _ in range(3)]
    files = [
        rng.randbytes(rng.randrange(9) * BLOCK)
        + rng.choice(common)
        + rng.randbytes(rng.randrange(3 * BLOCK))
        for _ in range(20)
    ]
    volume.mkdir("/d")
    names = [f"/d/{i}" for i in range(len(files))]
    volume.write_many(names, files, strict=True)
    volume.utime("/d/3", ns=(1, 2))
    volume.sync()
    free = volume.statvfs().f_bfree
    table = volume.dedup("/d", strict=True)
    assert sorted(table.text("path")) == sorted(names)
    shared = sum(table.array("shared_bytes"))
    assert shared == sum(table.array("in_earlier")) and shared >= 17 * 100 * BLOCK
    volume.sync()
    assert volume.statvfs().f_bfree - free > shared // BLOCK - 100
    assert volume.stat("/d/3").st_mtime_ns == 2
    for name, data in zip(names, files, strict=True):
        assert volume.open(name).read() == data
    with volume.open("/d/3", "r+") as file:
        file.write(b"x" * 5000)
    for name, data in zip(names, files, strict=True):
        assert volume.open(name).read() == (b"x" * 5000 + data[5000:] if name == "/d/3" else data)
    again = volume.dedup(names[5:], strict=True)  # what is shared stays so
    assert np.asarray(again.array("errno")).sum() == 0
    assert volume.open(names[7]).read() == files[7]


def test_errors(volume: warren.Volume) -> None:
    volume.write_many(["f"], [b"data"], strict=True)
    calls: list[tuple[Callable[[], object], type[Exception]]] = [
        (lambda: volume.similar(["f"], block_bytes=0), ValueError),
        (lambda: volume.similar(["f"], block_bytes=1 << 40), ValueError),
        (lambda: volume.similar(["f"], block_bytes=-1), ValueError),
        (lambda: volume.similar(["f"], preset="none"), ValueError),
        (lambda: volume.similar(["f", "none"], strict=True), FileNotFoundError),
        (lambda: volume.dedup("/none"), FileNotFoundError),
        (lambda: volume.similar(5), TypeError),  # type: ignore[arg-type]
        (lambda: volume.similar("f"), TypeError),
    ]
    for call, error in calls:
        with pytest.raises(error):
            call()
    assert volume.similar([]).rows == 0 == volume.dedup([]).rows

    def fail(count: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        volume.similar(["f"], progress=fail)
