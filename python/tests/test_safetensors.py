# SPDX-License-Identifier: Apache-2.0
"""Tensors of safetensors files, mapped in place and read by the library."""

import json

import numpy as np
import pytest
import warren

safetensors = pytest.importorskip("safetensors.numpy")


def test_safetensors(volume: warren.Volume) -> None:
    rng = np.random.default_rng()
    weights = {
        f"layer.{i}": rng.standard_normal((64, i + 1)).astype(dtype)
        for i, dtype in enumerate([np.float32, np.float16, np.int64, np.uint8])
    }
    volume.write_many(["/m.safetensors"], [safetensors.save(weights)], strict=True)
    with volume.open("/m.safetensors") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    names = {"F32": "float32", "F16": "float16", "I64": "int64", "U8": "uint8"}
    for name, wanted in weights.items():
        about = header[name]
        begin, _ = about["data_offsets"]
        mapped = volume.map(
            "/m.safetensors", names[about["dtype"]], about["shape"], offset=8 + length + begin
        )
        assert np.array_equal(np.asarray(mapped), wanted)
    again = safetensors.load(bytes(volume.read_many(["/m.safetensors"])[0]))
    assert all(np.array_equal(again[name], wanted) for name, wanted in weights.items())
