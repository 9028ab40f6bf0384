# SPDX-License-Identifier: Apache-2.0
"""An open volume."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NoReturn, Union

from . import _native
from ._file import READ, WRITE, File
from ._native import Array
from ._results import Found, Handle, Rebuilt, Removal

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Buffer

    from ._native import HasDLPack

Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]
Names = Union[Iterable[Path], "HasDLPack", "Buffer"]
Directory = Path | tuple[int, int] | None
Progress = Callable[[int], object] | None


class Volume:
    """An open volume. Any thread may call any method.

    Paths begin at the root of the volume, with or without "/", and follow symbolic links, which
    never lead out of the volume. Errors are OSError or its subclasses, with errno and filename.
    After close() every method raises ValueError, in a forked process RuntimeError.

    The calls named `..._many` take n names at once: a sequence of str, bytes or os.PathLike, or a
    uint8 array of shape [n, w] whose rows are padded with zeros. They are paths that begin at
    `directory`, which is a path, a Handle, or None for the root. Such a call returns an errno for
    each name, and raises for a name only with `strict=True`: the first error, when all is done.
    `progress` is called with the number of names that were done since its last call. Ctrl-C ends a
    call between two names: what was done before stays done.
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
        _native.Volume.format(os.fsencode(path), size, label, force)
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
        access = READ | WRITE if "+" in mode else READ if kind == "r" else WRITE
        native = self._native.open(os.fsencode(path), access, kind != "r", kind == "x", kind == "w")
        return File(native, os.fsdecode(path), access, kind == "a")

    def stat(self, path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        """As os.stat(); st_dev is 0."""
        mode, inode, links, user, group, size, accessed, modified, changed, *_ = self._native.stat(
            os.fsencode(path), follow_symlinks
        )
        times = {"st_atime": accessed, "st_mtime": modified, "st_ctime": changed}
        named = {name: value / 1e9 for name, value in times.items()}
        exact = {name + "_ns": value for name, value in times.items()}
        whole = (value // 10**9 for value in times.values())
        return os.stat_result(
            (mode, inode, 0, links, user, group, size, *whole), {**named, **exact}
        )

    def exists(self, path: Path) -> bool:
        """As os.path.exists()."""
        try:
            self._native.stat(os.fsencode(path), True)
        except OSError:
            return False
        return True

    def handle(self, path: Path) -> Handle:
        """The handle of what a path leads to."""
        found = self._native.stat(os.fsencode(path), True)
        return Handle(found[1], found[10])

    def listdir(self, path: Path = "/") -> list[str]:
        """The names in a directory, in no order."""
        return [os.fsdecode(name) for name in self._native.list(os.fsencode(path))]

    def mkdir(self, path: Path, mode: int = 0o777) -> None:
        """Makes a directory; the umask is 022."""
        self._native.make(os.fsencode(path), stat.S_IFDIR | stat.S_IMODE(mode), b"")

    def symlink(self, target: Path, path: Path) -> None:
        """As os.symlink(target, path)."""
        self._native.make(os.fsencode(path), stat.S_IFLNK | 0o777, os.fsencode(target))

    def readlink(self, path: Path) -> str:
        """As os.readlink()."""
        return os.fsdecode(self._native.read_link(os.fsencode(path)))

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

    def lookup_many(
        self,
        names: Names,
        *,
        directory: Directory = None,
        follow_symlinks: bool = True,
        strict: bool = False,
        progress: Progress = None,
    ) -> Found:
        """The handles of n names."""
        start = _start(directory)
        return Found(
            *self._native.lookup_many(names, start, follow_symlinks, strict, progress)
        )

    def exists_many(
        self, names: Names, *, directory: Directory = None, progress: Progress = None
    ) -> Array:
        """bool[n]: what os.path.exists() says of each name."""
        return self._native.exists_many(names, _start(directory), progress)

    def create_many(
        self,
        names: Names,
        *,
        directory: Directory = None,
        directories: bool = False,
        mode: int | None = None,
        strict: bool = False,
        progress: Progress = None,
    ) -> Found:
        """Makes n empty files, or directories, in the order of their names.

        The umask is 022. A name that is there gets EEXIST. The directory that a name lies in must
        be there before the call.
        """
        if mode is None:
            mode = 0o777 if directories else 0o666
        mode = stat.S_IMODE(mode) | (stat.S_IFDIR if directories else stat.S_IFREG)
        return Found(*self._native.create_many(names, _start(directory), mode, strict, progress))

    def remove_many(
        self,
        names: Names,
        *,
        directory: Directory = None,
        directories: bool = False,
        strict: bool = False,
        progress: Progress = None,
    ) -> Array:
        """Removes n files, or empty directories, in the order of their names.

        Returns int32[n]: the errno of each.
        """
        start = _start(directory)
        return self._native.remove_many(names, start, directories, strict, progress)

    def move_many(
        self,
        names: Names,
        targets: Names,
        *,
        directory: Directory = None,
        strict: bool = False,
        progress: Progress = None,
    ) -> Array:
        """Renames n names, in their order; existing targets are replaced.

        The directories on the way to names and targets are looked up before the first is renamed
        (of more than 65,536 names: of as many). Returns int32[n]: the errno of each.
        """
        return self._native.move_many(names, targets, _start(directory), strict, progress)

    def rebuild(self, directory: Directory) -> Rebuilt:
        """Packs a directory's names into as few blocks as they need."""
        return Rebuilt(*self._native.rebuild(_start(directory)))


def _start(directory: Directory) -> bytes | tuple[int, int] | None:
    if directory is None or isinstance(directory, tuple):
        return directory
    return os.fsencode(directory)
