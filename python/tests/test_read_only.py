# SPDX-License-Identifier: Apache-2.0
"""A volume that is open read-only: no call changes it."""

import errno
import functools
import io
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import warren

from test_bad_input import CALLS


def test_read_only(tmp_path: Path) -> None:
    with warren.Volume.create(tmp_path / "v.img", 64 << 20) as made:
        made.write_many(["f", "h", "i"], [b"data", *[os.urandom(1 << 18)] * 2], strict=True)
        made.mkdir("e")
        made.setxattr("f", "user.x", b"1")
    with warren.Volume(tmp_path / "v.img", read_only=True) as volume:
        assert volume.read_only
        file = volume.open("f")
        changes = ("chmod", "chown", "utime", "truncate", "unlink", "remove", "rename", "replace",
                   "link", "symlink", "mkdir", "makedirs", "remove_tree", "setxattr", "removexattr",
                   "copy", "rebuild", "touch", "write_bytes")  # fmt: skip
        for call in (
            *(functools.partial(CALLS[name], volume) for name in changes),
            lambda: volume.open("g", "w"), lambda: volume.open("f", "w"),
            lambda: volume.open("f", "r+"), lambda: volume.open("f", "a"),
            lambda: volume.rmdir("e"),
            lambda: volume.create_many(["g"], strict=True),
            lambda: volume.remove_many(["f"], strict=True),
            lambda: volume.move_many(["f"], ["g"], strict=True),
            lambda: volume.write_many(["f"], [b""], strict=True),
            lambda: volume.dedup(["h", "i"], strict=True),
            lambda: volume.map("f", writable=True).write_back(),
        ):  # fmt: skip
            with pytest.raises(OSError) as caught:
                call()
            assert caught.value.errno == errno.EROFS
        for call, error in (
            (lambda: volume.open("none", "r+"), FileNotFoundError),
            (lambda: volume.open("e", "r+"), IsADirectoryError),
        ):
            with pytest.raises(error):
                call()
        assert volume.access("f", os.R_OK) and not volume.access("f", os.R_OK | os.W_OK)
        mapped = volume.map("f")
        shown = np.asarray(mapped)
        with pytest.raises(ValueError):
            shown[0] = 1
        with pytest.raises(ValueError):
            np.asarray(mapped).flags.writeable = True
        with pytest.raises(TypeError):
            memoryview(mapped)[0] = 1
        with pytest.raises(BufferError):
            mapped.__buffer__(1) if sys.version_info >= (3, 12) else mapped.__dlpack__()
        with pytest.raises(io.UnsupportedOperation):
            file.write(b"x")
        # Others may read it too.
        with warren.Volume(tmp_path / "v.img", read_only=True) as other:
            assert other.open("f").read() == b"data"
    with warren.Volume(tmp_path / "v.img") as volume:
        assert volume.open("f").read() == b"data"
