# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from pathlib import Path

import pytest
import warren


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[warren.Volume]:
    with warren.Volume.create(tmp_path / "v.img", 64 << 20) as made:
        yield made
