# SPDX-License-Identifier: Apache-2.0
"""Files in a Warren volume, from this process, without a mount. See docs/PYTHON.md."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from . import _native

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Buffer

__all__ = ["File", "Removal", "Volume"]

Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]

_READ, _WRITE = 4, 2


class Removal(NamedTuple):
    """What remove_tree() removed."""

    files: int
    directories: int
    blocks: int  # of 4 KiB


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
            raise io.UnsupportedOperation("not writable" if access & _WRITE else "not readable")
        return self._native

    def readable(self) -> bool:
        self._open()
        return bool(self._access & _READ)

    def writable(self) -> bool:
        self._open()
        return bool(self._access & _WRITE)

    def seekable(self) -> bool:
        self._open()
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        """Fills a writable buffer from the position on; returns the bytes read, 0 at the end."""
        native = self._open(_READ)
        with memoryview(buffer).cast("B") as target:
            data = native.read(self._position, len(target))
            target[: len(data)] = data
        self._position += len(data)
        return len(data)

    def readall(self) -> bytes:
        native = self._open(_READ)
        data = native.read(self._position, max(0, native.size() - self._position))
        self._position += len(data)
        return data

    def write(self, data: Buffer, /) -> int:
        """Writes at the position, or at the end in mode "a"; returns the bytes written."""
        native = self._open(_WRITE)
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
        native = self._open(_WRITE)
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


class Volume:
    """An open volume. Any thread may call any method.

    Paths begin at the root of the volume, with or without "/"; symbolic links are not followed and
    ".." is refused. Errors are OSError or its subclasses, with errno and filename. After close()
    every method raises ValueError, in a forked process RuntimeError.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        """Opens the volume in a file or device. Nobody else may have it open."""
        self._name = os.fsencode(path)
        self._native = _native.Volume(self._name, read_only)

    @classmethod
    def create(cls, path: Path, size: int = 0, *, label: str = "", force: bool = False) -> Volume:
        """Makes an empty volume of `size` bytes in a file or device and opens it.

        0: the size that the file or device has. `force` overwrites another file system.
        """
        if size < 0:
            raise ValueError(f"negative size: {size}")
        _native.Volume.make(os.fsencode(path), size, label, force)
        return cls(path)

    def close(self) -> None:
        """Makes all changes durable and closes the volume; a second call does nothing."""
        self._native.close(self._name)

    @property
    def closed(self) -> bool:
        return self._native.is_closed()

    def __enter__(self) -> Volume:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("an open volume cannot be pickled")

    def sync(self) -> None:
        """Makes all changes durable."""
        self._native.sync()

    def open(self, path: Path, mode: str = "r") -> File:
        """Opens a regular file as open() does: r, w, a or x, with + for both; b is implied."""
        kind = mode.replace("b", "", 1).replace("+", "", 1)
        if kind not in ("r", "w", "a", "x"):
            raise ValueError(f"invalid mode: {mode!r}")
        access = _READ | _WRITE if "+" in mode else _READ if kind == "r" else _WRITE
        native = self._native.open(os.fsencode(path), access, kind != "r", kind == "x", kind == "w")
        return File(native, os.fsdecode(path), access, kind == "a")

    def stat(self, path: Path) -> os.stat_result:
        """As os.lstat(); st_dev is 0."""
        mode, inode, links, user, group, size, accessed, modified, changed, _ = self._native.stat(
            os.fsencode(path)
        )
        times = {"st_atime": accessed, "st_mtime": modified, "st_ctime": changed}
        named = {name: value / 1e9 for name, value in times.items()}
        exact = {name + "_ns": value for name, value in times.items()}
        whole = (value // 10**9 for value in times.values())
        return os.stat_result(
            (mode, inode, 0, links, user, group, size, *whole), {**named, **exact}
        )

    def exists(self, path: Path) -> bool:
        """As os.path.lexists(): False, too, where the way to it is no directory."""
        try:
            self._native.stat(os.fsencode(path))
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def listdir(self, path: Path = "/") -> list[str]:
        """The names in a directory, in no order."""
        return [os.fsdecode(name) for name in self._native.list(os.fsencode(path))]

    def mkdir(self, path: Path, mode: int = 0o777) -> None:
        """Makes a directory; the umask is 022."""
        self._native.make_directory(os.fsencode(path), mode)

    def unlink(self, path: Path) -> None:
        self._native.unlink(os.fsencode(path))

    def rmdir(self, path: Path) -> None:
        self._native.remove_directory(os.fsencode(path))

    def remove_tree(self, path: Path) -> Removal:
        """Removes a file or a directory with all below it, at once."""
        return Removal(*self._native.remove_tree(os.fsencode(path)))

    def rename(self, path: Path, target: Path) -> None:
        """As os.replace(): an existing target is replaced."""
        self._native.rename(os.fsencode(path), os.fsencode(target))
