# SPDX-License-Identifier: Apache-2.0
"""Files in a Warren volume, from this process, without a mount. See docs/PYTHON.md."""

from ._file import File
from ._native import Array
from ._results import Contents, Found, Handle, Rebuilt, Removal
from ._table import Strings, Table
from ._volume import Volume

__all__ = [
    "Array",
    "Contents",
    "File",
    "Found",
    "Handle",
    "Rebuilt",
    "Removal",
    "Strings",
    "Table",
    "Volume",
]
