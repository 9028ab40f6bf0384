# SPDX-License-Identifier: Apache-2.0
"""An open volume."""

from __future__ import annotations

import contextlib
import errno
import operator
import os
import stat
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NoReturn, Protocol, overload

from . import _native
from ._file import READ, WRITE, File
from ._many import Directory, Handles, Many, Names, start_of
from ._native import Map
from ._paths import PAST, Path, Progress, host_path, number
from ._program import Finding, examine
from ._results import Digests
from ._table import Strings, Table, gpu_number, table

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Buffer

_DEPTH_MAX = (1 << 32) - 1
_FAR = (1 << 63) - 1
_KINDS = {
    "f": stat.S_IFREG,
    "d": stat.S_IFDIR,
    "l": stat.S_IFLNK,
    "p": stat.S_IFIFO,
    "s": stat.S_IFSOCK,
    "b": stat.S_IFBLK,
    "c": stat.S_IFCHR,
}


class _OpenFile(Protocol):
    def __call__(self, path: Path, mode: str = "r") -> File: ...


class _Open:
    """What `open` is: of the class a way to open volumes, of a volume one to open its files."""

    @overload
    def __get__(self, volume: None, kind: type[Volume]) -> type[Volume]: ...
    @overload
    def __get__(self, volume: Volume, kind: type[Volume]) -> _OpenFile: ...
    def __get__(self, volume: Volume | None, kind: type[Volume]) -> type[Volume] | _OpenFile:
        return kind if volume is None else volume._open_file


class Volume(Many):
    """An open volume. Any thread may call any method.

    Volume.create(path, size) makes one, Volume.open(path) and Volume(path) open one.
    volume.open(path, mode) opens a file of it.

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

    def __init__(
        self,
        path: Path,
        *,
        read_only: bool = False,
        engine: str = "cpu",
        device: str | None = None,
        host_memory: int = 0,
    ) -> None:
        """Opens the volume in a file or device. Nobody else may have it open, unless all open it
        read-only.

        engine: what runs the operations: cpu; cuda, a GPU, whose memory then holds the metadata and
        what map() shows (OSError ENODEV: there is none that can be used); or auto, the CPU, with a
        GPU beside it once a call would have been at least 1 ms faster there.
        device: the GPU of the engines cuda and auto: cuda:N, by default the first one. Whichever
        GPU the calling thread has selected stays selected.
        host_memory: bytes of memory for contents, at least 256 KiB, or 0: they are read from and
        written to the file at once. Where there is a GPU, the memory is pinned when it is first
        used, and copies to the GPU begin there. Writes wait there until sync(), or for room.
        """
        _check_host_memory(host_memory)
        gpu = _engine_gpu(engine, device)
        self._name = os.path.abspath(host_path(path))
        self._read_only = read_only
        self._native = _native.Volume(self._name, read_only, engine, host_memory, gpu)

    @classmethod
    def create(
        cls,
        path: Path,
        size: int = 0,
        *,
        label: str = "",
        force: bool = False,
        engine: str = "cpu",
        device: str | None = None,
        host_memory: int = 0,
    ) -> Volume:
        """Makes an empty volume of `size` bytes in a file or device and opens it.

        0: the size that the file or device has. `force` overwrites another file system. `engine`,
        `device` and `host_memory` are as for Volume().
        """
        size = number("size", size)
        _check_host_memory(host_memory)
        _engine_gpu(engine, device)
        _native.Volume.format(host_path(path), size, label, force)
        return cls(path, engine=engine, device=device, host_memory=host_memory)

    def close(self) -> None:
        """Makes all changes durable and closes the volume; a second call does nothing."""
        self._native.close(self._name)

    @property
    def path(self) -> str:
        """The absolute path of the file or device."""
        return os.fsdecode(self._name)

    @property
    def read_only(self) -> bool:
        """Whether it was opened for reading only."""
        return self._read_only

    @property
    def engine(self) -> str:
        """What runs the operations: cpu or cuda."""
        return self._native.engine()[0]

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._native.is_closed()

    @property
    def forked(self) -> bool:
        """Whether this process was forked from the one that opened the volume."""
        return self._native.is_forked()

    def __enter__(self) -> Volume:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<warren.Volume {self.path!r}{', closed' if self.closed else ''}>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("an open volume cannot be pickled")

    def sync(self) -> None:
        """Makes all changes durable."""
        self._native.sync()

    def doctor(self) -> list[Finding]:
        """What engine the volume has and, as `warren doctor --quick` tells, what this machine
        gives: why there is no CUDA engine, whether volumes can be mounted, and so on."""
        path = os.fsdecode(self._name)
        mode = ", read-only" if self._read_only else ""
        name, note = self._native.engine()
        mine = Finding("ok", "volume", f"{path}, engine {name}{mode}{note and f' ({note})'}")
        return [mine, *examine(os.path.dirname(path))]

    open = _Open()

    def _open_file(self, path: Path, mode: str = "r") -> File:
        """Opens a regular file as open() does: r, w, a or x, with + for both; b is implied."""
        kind = mode.replace("b", "", 1).replace("+", "", 1)
        if kind not in ("r", "w", "a", "x"):
            raise ValueError(f"invalid mode: {mode!r}")
        access = READ | WRITE if "+" in mode else READ if kind == "r" else WRITE
        native = self._native.open(os.fsencode(path), access, kind != "r", kind == "x", kind == "w")
        return File(native, os.fsdecode(path), access, kind)

    # As in pathlib.

    def read_bytes(self, path: Path) -> bytes:
        """All bytes of a file."""
        with self.open(path) as file:
            return file.readall()

    def write_bytes(self, path: Path, data: Buffer) -> int:
        """Replaces the contents of a file, or makes it. Returns the number of bytes."""
        with self.open(path, "w") as file:
            return file.write(data)

    def read_text(self, path: Path, encoding: str = "utf-8") -> str:
        """Newlines stay as they are."""
        return self.read_bytes(path).decode(encoding)

    def write_text(self, path: Path, data: str, encoding: str = "utf-8") -> int:
        """Returns the number of bytes; newlines stay as they are."""
        return self.write_bytes(path, data.encode(encoding))

    def touch(self, path: Path, exist_ok: bool = True) -> None:
        """Makes an empty file, or gives what is there the present time."""
        if exist_ok:
            with contextlib.suppress(FileNotFoundError):
                return self.utime(path)
        self.open(path, "a" if exist_ok else "x").close()

    def copy(self, path: Path, target: Path) -> None:
        """Makes the target a file with the contents of another, which share blocks until one of
        them is changed, where the volume has shared blocks."""
        with self.open(path) as source:
            if self.exists(target) and self.handle(target) == self.handle(path):
                raise OSError(errno.EINVAL, "it is the same file", os.fsdecode(target))
            with self.open(target, "w") as copy:
                copy.copy_from(source)

    def _tree(self, path: str, types: str) -> Iterator[str]:
        return iter(self.find(path, types=types, columns=["path"]).text("path"))

    def find(
        self,
        path: Path = "/",
        *,
        pattern: str | bytes = b"",
        ignore_case: bool = False,
        types: str = "",
        size_min: int = 0,
        size_max: int | None = None,
        mtime_min: int | None = None,
        mtime_max: int | None = None,
        depth_max: int | None = None,
        columns: Iterable[str] = ("handle", "path"),
        device: str | None = None,
        progress: Progress = None,
    ) -> Table:
        """The files below a path, itself included, that pass a filter; in no order.

        A link at the end of the path is met itself, as by find(1); a slash behind it goes through.
        pattern: of names, with * ? [a-z] [!a-z] and \\; case of ASCII letters alone.
        types: any of the letters of find(1): f d l p s b c; empty: all.
        size_min, size_max: bytes. mtime_min, mtime_max: nanoseconds since 1970.
        depth_max: the depth of the path is 0.
        columns: handle and parent (int64[n, 2]), size (bytes), blocks (of 4 KiB), mtime, atime and
        ctime (nanoseconds since 1970), links, user and group (int64[n]), mode and depth
        (int32[n]), name and path (text).
        device: where the columns are to be: cpu (the default), cuda or cuda:N.

        An entry that vanishes meanwhile is left out, and one that is moved may be met twice or not.
        Raises PermissionError for a directory that the user may not read. Ctrl-C ends the call.
        """
        gpu = gpu_number(device)
        if isinstance(columns, str):
            raise TypeError(f"columns: a list of names is needed, such as [{columns!r}]")
        names = list(columns)
        kinds = 0xFFFF if not types else 0
        for letter in types:
            if letter not in _KINDS:
                raise ValueError(f"types: there is no {letter!r}")
            kinds |= 1 << (_KINDS[letter] >> 12)
        found = self._native.scan(
            os.fsencode(path),
            names,
            os.fsencode(pattern),
            ignore_case,
            kinds,
            _DEPTH_MAX if depth_max is None else number("depth_max", depth_max, most=_DEPTH_MAX),
            (
                number("size_min", size_min),
                _FAR if size_max is None else number("size_max", size_max),
            ),
            (
                PAST if mtime_min is None else number("mtime_min", mtime_min, PAST),
                _FAR if mtime_max is None else number("mtime_max", mtime_max, PAST),
            ),
            gpu,
            progress,
        )
        return table({name: found[name] for name in names})

    def stat_tree(
        self,
        path: Path = "/",
        *,
        columns: Iterable[str] = ("handle", "parent", "size", "mtime", "mode", "name"),
        device: str | None = None,
        progress: Progress = None,
    ) -> Table:
        """All that is below a path, itself included, as columns; see find()."""
        return self.find(path, columns=columns, device=device, progress=progress)

    def usage(
        self,
        path: Path = "/",
        *,
        depth_max: int = 0,
        counts_links: bool = False,
        device: str | None = None,
        progress: Progress = None,
    ) -> Table:
        """The space that a directory takes with all below it, and that of directories below it.

        One row for the directory, which is the first, and for each directory down to `depth_max`
        below it, which comes after the one that it is in. Columns: handle (int64[n, 2]), above (row
        of the directory that it is in), depth, entries (itself and the names below it), blocks (of
        4 KiB), bytes (int64[n]), name (text; empty for the first). A file with several names counts
        at one of them, or with `counts_links` at each. device: see find().
        """
        gpu_number(device)  # before all the work
        depth = number("depth_max", depth_max, most=_DEPTH_MAX)
        found = self._native.usage(os.fsencode(path), depth, counts_links, progress)
        return table(found, device)

    def map(
        self,
        path: Path,
        dtype: object = "uint8",
        shape: int | Iterable[int] | None = None,
        *,
        offset: int = 0,
        writable: bool = False,
    ) -> Map:
        """Maps a file from `offset` (bytes) to its end into the memory of the engine, as an array.

        dtype: a name such as "float32" or "bfloat16", or a dtype of numpy or torch, in the byte
        order of this machine. shape: at most what the file has; one length may be -1; None: one
        dimension. Types that the buffer protocol does not know are bytes there. OSError EINVAL:
        there is nothing to map. MemoryError: it does not fit into the memory of the GPU.
        """
        if not getattr(dtype, "isnative", True):
            raise TypeError(f"dtype: {dtype} has the byte order of another machine")
        if shape is not None and not isinstance(shape, Iterable):
            shape = (shape,)
        name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
        return self._native.map(
            os.fsencode(path), name.rpartition(".")[2], shape, number("offset", offset), writable
        )

    def hash(
        self,
        files: Path | Names | Handles,
        algorithm: str = "blake3",
        *,
        directory: Directory = None,
        strict: bool = False,
        progress: Progress = None,
    ) -> Digests:
        """The digests of n files by all cores: md5, sha1, sha256, blake3 or xxh3-128.

        `files` are names, handles as int64[n, 2], or one path: then all regular files that find()
        meets below it, in no order.
        """
        files, paths = self._files(files)
        digests, codes = self._native.hash(files, start_of(directory), algorithm, strict, progress)
        return Digests(digests, codes, paths)

    def similar(
        self,
        files: Names | Handles,
        *,
        block_bytes: int = 4096,
        preset: str = "",
        directory: Directory = None,
        strict: bool = False,
        progress: Progress = None,
    ) -> Table:
        """How much of each of n files is in those before it, by digests of its chunks.

        `files` are names, or handles as int64[n, 2]. Chunks have `block_bytes`, or with a preset of
        warren.chunk() they are cut by contents. Columns (int64[n], bytes): bytes; zero_bytes, in
        chunks of zeros, which are in none of the others; in_previous, in the file before it;
        in_earlier, in any file before it; in_self, only in an earlier part of it; most_like, the
        row of the file that has most of them, or -1; errno (int32[n]).
        """
        start = start_of(directory)
        found = self._native.compare(
            files, start, number("block_bytes", block_bytes), preset, False, strict, progress
        )
        del found["shared_bytes"]
        return table(found)

    def dedup(
        self,
        files: Path | Names | Handles,
        *,
        directory: Directory = None,
        strict: bool = False,
        progress: Progress = None,
    ) -> Table:
        """Lets equal blocks of 4096 bytes of n files be one, in runs of 32 KiB or more.

        `files` as for hash(). They stay as they are: a later change of one of them gets blocks of
        its own. Nobody may write to them meanwhile. The columns are those of similar(), and
        shared_bytes: what refers to the blocks of other files now, even if it did before; path, of
        a tree. EOPNOTSUPP in errno: the volume was made without shared blocks.
        """
        files, paths = self._files(files)
        start = start_of(directory)
        found = self._native.compare(files, start, 4096, "", True, strict, progress)
        columns = table(found)
        return Table({**columns, "path": paths}) if paths is not None else columns

    def _files(self, files: Path | Names | Handles) -> tuple[Names | Handles, Strings | None]:
        """The files of a call, and their paths if one path was given: all files below it."""
        if not isinstance(files, str | bytes | os.PathLike):
            return files, None
        tree = self.find(files, types="f", columns=["handle", "path"])
        return tree.array("handle"), tree.text("path")


def _engine_gpu(engine: str, device: str | None) -> int:
    """The number of the GPU that an engine may use."""
    if engine not in ("cpu", "cuda", "auto"):
        raise ValueError(f"engine: must be cpu, cuda or auto, not {engine!r}")
    gpu = gpu_number(device)
    if device is not None and (gpu is None or engine == "cpu"):
        raise ValueError(f"device: engine={engine} with device={device} names no GPU to use")
    return gpu or 0


def _check_host_memory(size: int) -> None:
    size = operator.index(size)
    if size < 0 or 0 < size < 256 << 10:
        raise ValueError(f"host_memory: must be 0 or at least 256 KiB, not {size}")
