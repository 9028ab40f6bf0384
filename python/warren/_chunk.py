# SPDX-License-Identifier: Apache-2.0
"""Content-defined chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _native
from ._native import Array

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ._native import HasDLPack


def chunk(data: Buffer | HasDLPack, preset: str = "fastcdc") -> Array:
    """Where the contents of a uint8 array or buffer of one dimension cut it, by all cores.

    Returns int64[n]: the end of each chunk. preset: a name of `warren chunk --help`. A GPU cuts
    what is in its memory, and has the ends there. Any thread may call it.
    """
    return _native.chunk(data, preset)
