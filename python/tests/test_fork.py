# SPDX-License-Identifier: Apache-2.0
"""What a forked process can do with volumes that it opens itself."""

import faulthandler
import os
from collections.abc import Callable
from pathlib import Path

import warren
from warren import _shared


def in_child(call: Callable[[], object]) -> int:
    """The exit status of a forked process that makes a call: 0 if it returns in time."""
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(30, exit=True)
        code = 1
        try:
            call()
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1]


def test_pread_in_a_forked_process(volume: warren.Volume, tmp_path: Path) -> None:
    """The threads that read for the parent do not exist in the child."""
    volume.write_many(["f"], [b"data"], strict=True)
    target = bytearray(4)
    assert volume.open("f").pread(target).result() == 4

    def read() -> None:
        with warren.Volume.create(tmp_path / "other.img", 64 << 20) as other:
            other.write_many(["f"], [b"else"], strict=True)
            assert other.open("f").pread(target).result(10) == 4 and target == b"else"

    assert in_child(read) == 0
    assert volume.open("f").pread(target).result(10) == 4 and target == b"data"


def test_shared_volume_in_a_forked_process(tmp_path: Path) -> None:
    """Another thread of the parent opens a volume at the time of the fork."""
    with warren.Volume.create(tmp_path / "other.img", 64 << 20) as other:
        path = other.path
    with _shared._lock:
        assert in_child(lambda: _shared.shared_volume(path).close()) == 0
    _shared.shared_volume(path).close()
