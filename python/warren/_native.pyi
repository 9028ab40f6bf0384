# SPDX-License-Identifier: Apache-2.0
# The extension: paths and names are bytes. warren/_volume.py says what the calls do.
from collections.abc import Callable, Iterable, Iterator, Mapping
from os import PathLike
from typing import Any, NoReturn, Protocol

from typing_extensions import Buffer, CapsuleType

_List = list
_Path = str | bytes | PathLike[str] | PathLike[bytes]
_Start = bytes | tuple[int, int] | None
_Progress = Callable[[int], object] | None

__version__: str

class HasDLPack(Protocol):
    # The streams that a library takes are of types of its own.
    def __dlpack__(self, *, stream: Any = None) -> CapsuleType: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

_Array = Buffer | HasDLPack
_Names = Iterable[_Path] | _Array

class Array:
    """Memory with a shape: numpy.asarray(), memoryview() and from_dlpack() take it.

    That of a GPU is taken by from_dlpack() and, as it has __cuda_array_interface__, by
    cupy.asarray(); all of it has been written by then. Nothing is copied. Several threads may read
    an array; they must agree on who writes to it.
    """

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str:
        """The name that numpy, or for types without one torch, has for it."""
    @property
    def readonly(self) -> bool: ...
    @property
    def nbytes(self) -> int: ...
    def tolist(self) -> list[Any]: ...
    def to_host(self) -> Array:
        """The array itself, or a copy of one that is in the memory of a GPU. Kernels that write to
        it must have ended.
        """
    def to_gpu(self, gpu: int, /) -> Array:
        """A copy in the memory of a GPU. OSError ENODEV if there is none of that number,
        MemoryError if it has too little memory.
        """
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """AttributeError for memory of the host."""
    def __eq__(self, other: object, /) -> NoReturn:
        """TypeError: compare numpy.asarray(array), or tolist()."""
    def __ne__(self, other: object, /) -> NoReturn: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, index: int | slice, /) -> Any:
        """The item of an array of one dimension; of others a tuple. A slice is an array that shares
        the memory; ValueError if it has a step.
        """
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> CapsuleType: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

class Map(Array):
    """A file's bytes in place. It keeps the file open, and stays as it is when the volume is closed.

    A map that is not writable shows later writes to the file. A writable one is a private copy
    until write_back().
    """

    def write_back(self, stream: int | None = None) -> None:
        """Writes the map to the file, up to the file's present end. OSError EBADF if read-only.

        A map in the memory of a GPU is written when `stream`, the address of a CUDA stream, or else
        the default stream, has come to its end.
        """

def chunk(data: _Array, preset: str, /) -> Array: ...
def arrow_stream(columns: Mapping[str, Array | tuple[Array, Array]], /) -> CapsuleType: ...
def arrow_device_array(
    columns: Mapping[str, Array | tuple[Array, Array]], /
) -> tuple[CapsuleType, CapsuleType]: ...

class File:
    def read(self, offset: int, size: int, /) -> bytes: ...
    def write(self, offset: int, data: bytes, /) -> int: ...
    def append(self, data: bytes, /) -> int: ...
    def read_into(self, target: _Array, offset: int, stream: int | None, /) -> int: ...
    def write_from(self, source: _Array, offset: int, stream: int | None, /) -> int: ...
    def share_from(self, source: File, /) -> int: ...
    def truncate(self, size: int, /) -> None: ...
    def size(self) -> int: ...
    def sync(self) -> None: ...

class Volume:
    def __init__(
        self, path: bytes, read_only: bool, engine: str, host_memory: int, gpu: int, /
    ) -> None: ...
    @staticmethod
    def format(path: bytes, size: int, label: str, force: bool, /) -> None: ...
    def is_closed(self) -> bool: ...
    def is_forked(self) -> bool: ...
    def close(self, path: bytes, /) -> None: ...
    def sync(self) -> None: ...
    def engine(self) -> tuple[str, str]: ...
    def stat(
        self, path: bytes, follows: bool, /
    ) -> tuple[int, int, int, int, int, int, int, int, int, int, int]: ...
    def list(self, path: bytes, /) -> _List[tuple[bytes, int, int]]: ...
    def make(self, path: bytes, mode: int, target: bytes, /) -> None: ...
    def read_link(self, path: bytes, /) -> bytes: ...
    def unlink(self, path: bytes, /) -> None: ...
    def remove_directory(self, path: bytes, /) -> None: ...
    def remove_tree(self, path: bytes, progress: _Progress, /) -> tuple[int, int, int]: ...
    def rename(self, path: bytes, target: bytes, /) -> None: ...
    def open(
        self, path: bytes, access: int, creates: bool, exclusive: bool, empties: bool, /
    ) -> File: ...
    def change_mode(self, path: bytes, mode: int, follows: bool, /) -> None: ...
    def change_owner(
        self, path: bytes, user: int | None, group: int | None, follows: bool, /
    ) -> None: ...
    def change_times(
        self, path: bytes, times: tuple[int, int] | None, follows: bool, /
    ) -> None: ...
    def truncate(self, path: bytes, size: int, /) -> None: ...
    def link(self, path: bytes, target: bytes, /) -> None: ...
    def has_access(self, path: bytes, mode: int, /) -> bool: ...
    def get_attribute(self, path: bytes, name: bytes, follows: bool, /) -> bytes: ...
    def list_attributes(self, path: bytes, follows: bool, /) -> bytes: ...
    def set_attribute(
        self, path: bytes, name: bytes, value: bytes, flags: int, follows: bool, /
    ) -> None: ...
    def remove_attribute(self, path: bytes, name: bytes, follows: bool, /) -> None: ...
    def statistics(self) -> tuple[int, int, int, int, int]: ...
    def lookup_many(
        self, names: _Names, start: _Start, follows: bool, strict: bool, progress: _Progress, /
    ) -> tuple[Array, Array]: ...
    def exists_many(self, names: _Names, start: _Start, progress: _Progress, /) -> Array: ...
    def create_many(
        self, names: _Names, start: _Start, mode: int, strict: bool, progress: _Progress, /
    ) -> tuple[Array, Array]: ...
    def remove_many(
        self, names: _Names, start: _Start, directories: bool, strict: bool, progress: _Progress, /
    ) -> Array: ...
    def move_many(
        self, names: _Names, targets: _Names, start: _Start, strict: bool, progress: _Progress, /
    ) -> Array: ...
    def read_many(
        self,
        files: _Names | _Array,
        start: _Start,
        starts: _Array | None,
        ends: _Array | None,
        out: _Array | None,
        gpu: int | None,
        stream: int | None,
        strict: bool,
        progress: _Progress,
        /,
    ) -> tuple[Array, Array, Array]: ...
    def write_many(
        self,
        names: _Names,
        values: _Array,
        offsets: _Array,
        start: _Start,
        mode: int,
        strict: bool,
        progress: _Progress,
        /,
    ) -> tuple[Array, Array]: ...
    def scan(
        self,
        path: bytes,
        columns: _List[str],
        pattern: bytes,
        folds_case: bool,
        types: int,
        depth_max: int,
        sizes: tuple[int, int],
        times: tuple[int, int],
        gpu: int | None,
        progress: _Progress,
        /,
    ) -> dict[str, Array | tuple[Array, Array]]: ...
    def usage(
        self, path: bytes, depth_max: int, counts_links: bool, progress: _Progress, /
    ) -> dict[str, Array | tuple[Array, Array]]: ...
    def map(
        self,
        path: bytes,
        dtype: str,
        shape: Iterable[int] | None,
        offset: int,
        writable: bool,
        /,
    ) -> Map: ...
    def hash(
        self,
        files: _Names | _Array,
        start: _Start,
        algorithm: str,
        strict: bool,
        progress: _Progress,
        /,
    ) -> tuple[Array, Array]: ...
    def compare(
        self,
        files: _Names | _Array,
        start: _Start,
        block_bytes: int,
        preset: str,
        shares: bool,
        strict: bool,
        progress: _Progress,
        /,
    ) -> dict[str, Array | tuple[Array, Array]]: ...
    def rebuild(self, start: _Start, progress: _Progress, /) -> tuple[int, int, int, bool]: ...
