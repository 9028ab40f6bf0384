# SPDX-License-Identifier: Apache-2.0
"""Many names in a call."""

from __future__ import annotations

import os
import stat
from array import array
from collections.abc import Iterable, Sequence, Sized
from itertools import accumulate
from typing import TYPE_CHECKING, Union, cast

from ._file import stream_address
from ._native import Array
from ._paths import Path, Paths, Progress
from ._results import Contents, Found, Rebuilt
from ._table import gpu_number

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ._native import HasDLPack

Names = Union[Iterable[Path], "HasDLPack", "Buffer"]
Handles = Union["HasDLPack", "Buffer"]
Directory = Path | tuple[int, int] | None


def start_of(directory: Directory) -> bytes | tuple[int, int] | None:
    if directory is None or isinstance(directory, tuple):
        return directory
    return os.fsencode(directory)


class Many(Paths):
    """The calls of a Volume that take many names, or pack a directory of many."""

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
        start = start_of(directory)
        return Found(
            *self._native.lookup_many(names, start, follow_symlinks, strict, progress)
        )

    def exists_many(
        self, names: Names, *, directory: Directory = None, progress: Progress = None
    ) -> Array:
        """bool[n]: what os.path.exists() says of each name."""
        return self._native.exists_many(names, start_of(directory), progress)

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
        return Found(*self._native.create_many(names, start_of(directory), mode, strict, progress))

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
        start = start_of(directory)
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
        return self._native.move_many(names, targets, start_of(directory), strict, progress)

    def read_many(
        self,
        files: Names | Handles,
        *,
        directory: Directory = None,
        starts: Buffer | HasDLPack | None = None,
        ends: Buffer | HasDLPack | None = None,
        out: Buffer | HasDLPack | None = None,
        device: str | None = None,
        stream: object = None,
        strict: bool = False,
        progress: Progress = None,
    ) -> Contents:
        """Reads n files, or a range of each, into one buffer, by all cores.

        `starts` and `ends` (int64[n]) are those of a slice of the file: negative ones count from
        its end, and what is behind its end is left out.
        `files` are names, or handles as int64[n, 2]. `out`: a writable uint8 array of one dimension
        to read into, at least as long as the files together (ValueError says how long). A file
        that shrinks meanwhile ends in zeros.

        In the memory of a CUDA GPU: without `out`, `device` is cuda or cuda:N (MemoryError if it
        has too little). An `out` there has the bytes when `stream` has come to them, as with
        File.read_into().
        """
        gpu = gpu_number(device)
        if out is not None and device is not None:
            raise ValueError("device: it is that of `out`")
        values, offsets, codes = self._native.read_many(
            files, start_of(directory), starts, ends, out, gpu, stream_address(stream), strict,
            progress,
        )  # fmt: skip
        return Contents(values, offsets, codes)

    def write_many(
        self,
        names: Names,
        values: Buffer | HasDLPack | Sequence[Buffer],
        offsets: Buffer | HasDLPack | None = None,
        *,
        directory: Directory = None,
        mode: int = 0o666,
        strict: bool = False,
        progress: Progress = None,
    ) -> Found:
        """Makes n files or replaces the contents of those that are there, by all cores.

        File i gets values[offsets[i]:offsets[i + 1]], of a uint8 array and an int64 array of n + 1,
        each in the memory of the host or of a CUDA GPU; without `offsets`, `values` is a sequence
        of n buffers. Of values for the same file the last ones count. Values in GPU memory have
        been read when the call ends.
        """
        if offsets is None:
            views = [memoryview(value) for value in cast("Sequence[Buffer]", values)]
            if isinstance(names, Sized) and len(names) != len(views):
                raise ValueError(f"values: there are {len(views)} for {len(names)} names")
            offsets = array("q", accumulate((view.nbytes for view in views), initial=0))
            values = b"".join(view if view.c_contiguous else view.tobytes() for view in views)
        start = start_of(directory)
        mode = stat.S_IFREG | stat.S_IMODE(mode)
        return Found(
            *self._native.write_many(
                names, cast("Buffer", values), offsets, start, mode, strict, progress
            )
        )

    def rebuild(self, directory: Directory, *, progress: Progress = None) -> Rebuilt:
        """Packs a directory's names into as few blocks as they need. Ctrl-C leaves the rest."""
        return Rebuilt(*self._native.rebuild(start_of(directory), progress))
