# SPDX-License-Identifier: Apache-2.0
"""Open files of a volume."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, NoReturn

from . import _native

if TYPE_CHECKING:
    from typing_extensions import Buffer

READ, WRITE = 4, 2


class File(io.RawIOBase):
    """An open file of a volume: bytes, without a buffer. Volume.open() makes them.

    Threads that share a File share its position and must agree on who uses it.
    """

    def __init__(self, native: _native.File, name: str, access: int, appends: bool) -> None:
        self._native: _native.File | None = native
        self._access = access
        self._appends = appends
        self._position = 0
        self.name = name

    def _open(self, access: int = 0) -> _native.File:
        if self._native is None:
            raise ValueError("I/O operation on a closed file")
        if self._access & access != access:
            raise io.UnsupportedOperation("not writable" if access & WRITE else "not readable")
        return self._native

    def readable(self) -> bool:
        self._open()
        return bool(self._access & READ)

    def writable(self) -> bool:
        self._open()
        return bool(self._access & WRITE)

    def seekable(self) -> bool:
        self._open()
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        """Fills a writable buffer from the position on; returns the bytes read, 0 at the end."""
        native = self._open(READ)
        with memoryview(buffer).cast("B") as target:
            data = native.read(self._position, len(target))
            target[: len(data)] = data
        self._position += len(data)
        return len(data)

    def readall(self) -> bytes:
        native = self._open(READ)
        data = native.read(self._position, max(0, native.size() - self._position))
        self._position += len(data)
        return data

    def write(self, data: Buffer, /) -> int:
        """Writes at the position, or at the end in mode "a"; returns the bytes written."""
        native = self._open(WRITE)
        with memoryview(data) as view:  # TypeError: not an object with a buffer
            content = view.tobytes()
        if self._appends:
            self._position = native.size()
        count = native.write(self._position, content)
        self._position += count
        return count

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        native = self._open()
        if whence not in (os.SEEK_SET, os.SEEK_CUR, os.SEEK_END):
            raise ValueError(f"invalid whence: {whence}")
        if whence == os.SEEK_CUR:
            offset += self._position
        elif whence == os.SEEK_END:
            offset += native.size()
        if offset < 0:
            raise ValueError(f"negative position: {offset}")
        self._position = offset
        return offset

    def tell(self) -> int:
        self._open()
        return self._position

    def truncate(self, size: int | None = None, /) -> int:
        native = self._open(WRITE)
        size = self._position if size is None else size
        if size < 0:
            raise ValueError(f"negative size: {size}")
        native.truncate(size)
        return size

    def sync(self) -> None:
        """Makes the file durable, as os.fsync()."""
        self._open().sync()

    def close(self) -> None:
        super().close()
        self._native = None

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("an open file of a volume cannot be pickled")
