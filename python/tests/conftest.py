# SPDX-License-Identifier: Apache-2.0
import errno
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import warren

# A shell has the jobs that it starts in the background ignore this.
signal.signal(signal.SIGINT, signal.default_int_handler)

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
