# SPDX-License-Identifier: Apache-2.0
"""What the calls of a volume return."""

from __future__ import annotations

from typing import NamedTuple

from ._native import Array


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
