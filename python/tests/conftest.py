# SPDX-License-Identifier: Apache-2.0
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import warren

ENGINE = "cuda" if os.environ.get("WARREN_TEST_ENGINE") == "cuda" else "cpu"


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[warren.Volume]:
    with warren.Volume.create(tmp_path / "v.img", 64 << 20, engine=ENGINE) as made:
        yield made


@pytest.fixture
def host_volume(tmp_path: Path) -> Iterator[warren.Volume]:
    """A volume whose maps are in the memory of the host."""
    with warren.Volume.create(tmp_path / "v.img", 64 << 20, engine="cpu") as made:
        yield made
