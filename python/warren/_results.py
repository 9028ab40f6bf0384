# SPDX-License-Identifier: Apache-2.0
"""What the calls of a volume return."""

from __future__ import annotations

import os
from typing import NamedTuple

from ._native import Array
from ._table import Strings


class Handle(NamedTuple):
    """Names a file for as long as it lives, whatever its path."""

    inode: int
    generation: int


class Removal(NamedTuple):
    """What remove_tree() removed."""

    files: int
    directories: int
    blocks: int  # of 4 KiB


class Rebuilt(NamedTuple):
    """What rebuild() did."""

    entries: int
    blocks_before: int  # of 4 KiB
    blocks_after: int
    in_steps: bool  # not at once: more than one commit holds


class Found(NamedTuple):
    """What became of n names."""

    handles: Array  # int64[n, 2]: inode number and generation; 0 where there is an error
    errno: Array  # int32[n]; 0: no error


class Digests(NamedTuple):
    """Digests of n files."""

    digests: Array  # uint8[n, w]; w is the length of the algorithm's; zeros where there is an error
    errno: Array  # int32[n]; 0: no error
    paths: Strings | None  # of a tree


class Contents:
    """The contents of n files, one behind the other.

    values: uint8[...]; file i is values[offsets[i]:offsets[i + 1]], empty where there is an error.
    offsets: int64[n + 1].
    errno: int32[n]; 0: no error.
    Any thread may read it.
    """

    def __init__(self, values: Array, offsets: Array, errno: Array) -> None:
        self.values = values
        self.offsets = offsets
        self.errno = errno
        self._bytes: memoryview | None = None

    def __repr__(self) -> str:
        return f"<warren.Contents of {len(self)} files>"

    def __len__(self) -> int:
        return len(self.errno)

    def __getitem__(self, index: int) -> memoryview:
        """The contents of one file, without a copy. Raises OSError if it was not read, TypeError if
        `values` are in the memory of a GPU or have no buffer, as tensors of torch."""
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError("the index is outside of the contents")
        if code := self.errno[index]:
            raise OSError(code, os.strerror(code))
        if self._bytes is None:
            try:
                self._bytes = memoryview(self.values)
            except (BufferError, TypeError) as error:
                raise TypeError(
                    "the contents are in a tensor: use values[offsets[i]:offsets[i + 1]]"
                ) from error
        return self._bytes[self.offsets[index] : self.offsets[index + 1]]
