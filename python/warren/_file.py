# SPDX-License-Identifier: Apache-2.0
"""Open files of a volume."""

from __future__ import annotations

import errno
import io
import os
from functools import cache
from typing import TYPE_CHECKING, NoReturn, cast

from . import _native
from ._paths import number

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    from typing_extensions import Buffer

    from ._native import HasDLPack

READ, WRITE = 4, 2
_COPIED_AT_ONCE = 8 << 20  # bytes


@cache
def _executor() -> ThreadPoolExecutor:
    from concurrent.futures import ThreadPoolExecutor  # 4 ms that few programs need

    return ThreadPoolExecutor(thread_name_prefix="warren.pread")


def stream_address(stream: object) -> int | None:
    """The address of a CUDA stream: an int, or a stream of cuda.core, torch or CuPy."""
    if stream is None or isinstance(stream, int):
        return stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        pair = cast("tuple[int, int]", protocol() if callable(protocol) else protocol)
        return pair[1]
    for name in ("cuda_stream", "ptr"):
        address = getattr(stream, name, None)
        if isinstance(address, int):
            return address
    raise TypeError("stream: an int or a stream of cuda.core, torch or CuPy is needed")


# The threads of the executor do not exist in a forked process.
os.register_at_fork(after_in_child=_executor.cache_clear)


class File(io.RawIOBase):
    """An open file of a volume: bytes, without a buffer. Volume.open() makes them.

    Threads that share a File share its position and must agree on who uses it.
    """

    def __init__(self, native: _native.File, name: str, access: int, kind: str) -> None:
        self._native: _native.File | None = native
        self._access = access
        self._appends = kind == "a"
        self._position = native.size() if kind == "a" else 0
        self.name = name
        self.mode = f"{kind}b" if access != READ | WRITE else f"{kind.replace('w', 'r')}b+"

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
        count = self._open(READ).read_into(buffer, self._position, None)
        self._position += count
        return count

    def readall(self) -> bytes:
        native = self._open(READ)
        data = native.read(self._position, max(0, native.size() - self._position))
        self._position += len(data)
        return data

    def write(self, data: Buffer, /) -> int:
        """Writes at the position, or at the end in mode "a"; returns the bytes written.

        Threads may append at the same time: up to 32 MiB of a call are in one place.
        """
        native = self._open(WRITE)
        with memoryview(data) as view:  # TypeError: not an object with a buffer
            content = view.tobytes()
        if self._appends and content:
            self._position = native.append(content)
            return len(content)
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
        self._position = self._not_negative("position", offset)
        return self._position

    def _not_negative(self, what: str, value: int) -> int:
        """The value; OSError EINVAL, as of io.FileIO, if it is negative."""
        if value < 0:
            raise OSError(errno.EINVAL, f"{what} {value} is negative", self.name)
        return number(what, value)

    def tell(self) -> int:
        self._open()
        return self._position

    def truncate(self, size: int | None = None, /) -> int:
        native = self._open(WRITE)
        size = self._not_negative("size", self._position if size is None else size)
        native.truncate(size)
        return size

    def read_into(
        self, target: Buffer | HasDLPack, offset: int = 0, *, stream: object = None
    ) -> int:
        """Fills a writable, contiguous array or buffer with the bytes from `offset` on, whatever
        its type and shape; returns the bytes read, fewer where the file ends. The position stays.

        In the memory of a CUDA GPU, the bytes are there when `stream`, an int or a stream of
        cuda.core, torch or CuPy, or else the default stream, has come to them. Until then the array
        must not be freed; what libraries free on that stream itself is kept until then.
        """
        native, address = self._open(READ), stream_address(stream)
        return native.read_into(target, number("offset", offset), address)

    def pread(
        self, target: Buffer | HasDLPack, offset: int = 0, *, stream: object = None
    ) -> Future[int]:
        """As read_into() in another thread: result() waits. The target must not be used before."""
        native, address = self._open(READ), stream_address(stream)
        return _executor().submit(native.read_into, target, number("offset", offset), address)

    def write_from(
        self, source: Buffer | HasDLPack, offset: int = 0, *, stream: object = None
    ) -> int:
        """Writes the bytes of a contiguous array or buffer at `offset`; returns their number.

        What is in the memory of a CUDA GPU is written when `stream` has come to it; see
        read_into().
        """
        native, address = self._open(WRITE), stream_address(stream)
        return native.write_from(source, number("offset", offset), address)

    def copy_from(self, source: File) -> None:
        """Replaces the contents by those of another file of the volume. Both share blocks until one
        of them is changed, where the volume has shared blocks."""
        native, other = self._open(WRITE), source._open(READ)
        try:
            native.share_from(other)
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:
                raise
            offset = 0
            while part := other.read(offset, _COPIED_AT_ONCE):
                offset += native.write(offset, part)

    def sync(self) -> None:
        """Makes the file durable, as os.fsync()."""
        self._open().sync()

    def close(self) -> None:
        super().close()
        self._native = None

    def __repr__(self) -> str:
        return f"<warren.File {self.name!r}{', closed' if self.closed else ''}>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("an open file of a volume cannot be pickled")
