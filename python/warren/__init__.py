# SPDX-License-Identifier: Apache-2.0
"""Files in a Warren volume, from this process, without a mount. See docs/PYTHON.md."""

from ._program import Finding, refuse_two

refuse_two()

from ._chunk import chunk
from ._file import File
from ._native import Array, Map, __version__
from ._paths import Entry
from ._results import Contents, Digests, Found, Handle, Rebuilt, Removal
from ._table import Strings, Table
from ._volume import Volume

__all__ = [
    "Array",
    "Contents",
    "Digests",
    "Entry",
    "File",
    "Finding",
    "Found",
    "Handle",
    "Map",
    "Rebuilt",
    "Removal",
    "Strings",
    "Table",
    "Volume",
    "__version__",
    "chunk",
]
