# SPDX-License-Identifier: Apache-2.0
"""The examples at a small size."""

import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest
import warren


def example(name: str) -> Any:
    path = Path(__file__).resolve().parent.parent / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_train_on_samples(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    train = example("train_on_samples")
    train.FILES_IN_DIRECTORY = 1000
    arguments = [str(tmp_path / "v.img"), "--samples", "5000", "--epochs", "3"]
    first = train.main(arguments)
    assert first > 0.9
    assert train.main(arguments) == first  # the samples of the first run, in the same order


def test_tree_as_table(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("pandas")
    tree = example("tree_as_table")
    with warren.Volume.create(tmp_path / "v.img", 64 << 20) as volume:
        for i in range(5):
            volume.makedirs(f"/data/{i}/below")
            volume.write_many(
                [f"/data/{i}/a.bin", f"/data/{i}/below/b.txt"], [bytes(i * 10_000), b"x" * 5000]
            )
        kinds = tree.largest_kinds(volume, "/")
        assert kinds.loc[".bin", "count"] == 5 and kinds.loc[".bin", "sum"] == 100_000
        usage = volume.usage("/", depth_max=3)
        sizes = usage.array("bytes").tolist()
        tiles = tree.tiles(usage)
        assert len(tiles) == usage.rows == 12
        for tile in tiles:
            # Its share of the picture is its share of the bytes, and it lies in the picture.
            assert tile.width * tile.height == pytest.approx(sizes[tile.row] / sizes[0])
            assert 0 <= tile.x <= tile.x + tile.width <= 1.0001
            assert 0 <= tile.y <= tile.y + tile.height <= 1.0001
    png = tmp_path / "tree.png"
    tree.main([str(tmp_path / "v.img"), str(png)])
    assert png.read_bytes().startswith(b"\x89PNG") and png.stat().st_size > 5000


def test_deduplicate_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dedup = example("deduplicate_models")
    image = tmp_path / "v.img"
    weights, other = os.urandom(3_000_000), os.urandom(3_000_000)
    models = {
        "/models/a/model.bin": weights,
        "/models/b/copy.bin": weights,
        "/models/b/other.bin": other,  # of the same size
        "/models/c/again.bin": weights,
        "/models/c/tiny": b"x",
        "/models/c/empty": b"",
        "/models/c/empty too": b"",
    }
    with warren.Volume.create(image, 64 << 20) as volume:
        volume.mkdir("/models")
        volume.create_many([f"/models/{name}" for name in "abc"], directories=True, strict=True)
        volume.write_many(list(models), list(models.values()), strict=True)
        volume.link("/models/a/model.bin", "/models/c/second name")
        volume.chmod("/models/b/copy.bin", 0o640)
        free = volume.statvfs().f_bfree
    assert dedup.main([str(image), "/models"]) == 6_000_000
    assert "as  /models/a/model.bin" in capsys.readouterr().out
    assert dedup.main([str(image), "/models", "--apply"]) == 6_000_000
    with warren.Volume(image) as volume:
        found = volume.read_many(list(models), strict=True)
        for i, data in enumerate(models.values()):
            assert found[i] == data
        assert dedup.equal_files(volume, "/models/c/empty") == []
        assert volume.stat("/models/b/copy.bin").st_mode == 0o100640
        assert volume.statvfs().f_bfree - free > 2 * 3_000_000 // 4096 - 20
