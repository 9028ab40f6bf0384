# SPDX-License-Identifier: Apache-2.0
"""Columns: numbers are arrays, text is bytes with offsets, a table has both by name."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from . import _native
from ._native import Array

if TYPE_CHECKING:
    from typing_extensions import CapsuleType


class Strings(Sequence[str]):
    """A column of n names or paths. As an item it is a str, as os.fsdecode() makes it.

    values: uint8[...]; string i is values[offsets[i]:offsets[i + 1]].
    offsets: int64[n + 1].
    Any thread may read it.
    """

    def __init__(self, values: Array, offsets: Array) -> None:
        self.values = values
        self.offsets = offsets
        self._data: memoryview | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError("the index is outside of the column")
        if self._data is None:
            self._data = memoryview(self.values.to_host())
        return os.fsdecode(self._data[self.offsets[index] : self.offsets[index + 1]].tobytes())

    def __iter__(self) -> Iterator[str]:
        data, ends = memoryview(self.values.to_host()).tobytes(), self.offsets.tolist()
        for begin, end in zip(ends, ends[1:], strict=False):
            yield os.fsdecode(data[begin:end])

    def __repr__(self) -> str:
        return f"<warren.Strings, {len(self)} rows>"

    def tolist(self) -> list[str]:
        """All rows as str."""
        return list(self)

    def to_gpu(self, gpu: int) -> Strings:
        """A copy in the memory of a GPU. Its first item brings all the bytes back to the host."""
        return Strings(self.values.to_gpu(gpu), self.offsets.to_gpu(gpu))


Column = Array | Strings


class Table(Mapping[str, Column]):
    """Columns of the same number of rows, by name.

    Arrow's libraries take it as it is: pyarrow.table(table), polars.DataFrame(table). Any thread
    may read it.
    """

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._columns = dict(columns)

    def __repr__(self) -> str:
        return f"<warren.Table, {self.rows} rows of {', '.join(self)}>"

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(next(iter(self._columns.values()), ()))

    def __getitem__(self, name: str) -> Column:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        """The number of columns."""
        return len(self._columns)

    def array(self, name: str) -> Array:
        """The column of that name. TypeError if it is text."""
        column = self._columns[name]
        if isinstance(column, Strings):
            raise TypeError(f"{name} is a column of text")
        return column

    def text(self, name: str) -> Strings:
        """The column of that name. TypeError if it is not text."""
        column = self._columns[name]
        if not isinstance(column, Strings):
            raise TypeError(f"{name} is not a column of text")
        return column

    def to_gpu(self, gpu: int) -> Table:
        """A copy in the memory of a GPU. OSError ENODEV if there is none of that number."""
        return Table({name: column.to_gpu(gpu) for name, column in self._columns.items()})

    def __arrow_c_stream__(self, requested_schema: object = None) -> CapsuleType:
        """One record batch, without a copy if the host has the table: numbers as int32 and int64,
        handles as lists of two, text as large strings, or as large binaries if not all of it is
        UTF-8. Arrow allows to ignore the `requested_schema`."""
        return _native.arrow_stream(self._parts())

    def __arrow_c_device_array__(
        self, requested_schema: object = None, **options: object
    ) -> tuple[CapsuleType, CapsuleType]:
        """The same as one struct array in the memory where the table is. Arrow allows to ignore the
        `requested_schema`, and asks for NotImplementedError for options."""
        if any(value is not None for value in options.values()):
            raise NotImplementedError(f"options: {', '.join(options)}")
        return _native.arrow_device_array(self._parts())

    def _parts(self) -> dict[str, Array | tuple[Array, Array]]:
        return {
            name: (column.values, column.offsets) if isinstance(column, Strings) else column
            for name, column in self._columns.items()
        }

    def to_pandas(self) -> Any:
        """A pandas.DataFrame: times as datetime64, handles as columns `.inode`, `.generation`."""
        import numpy
        import pandas  # type: ignore[import-untyped,import-not-found,unused-ignore]

        columns: dict[str, Any] = {}
        for name, column in self._columns.items():
            if isinstance(column, Strings):
                texts = column.tolist()
                try:
                    columns[name] = pandas.Series(texts, dtype="str")
                except UnicodeEncodeError:  # a name that is not UTF-8
                    columns[name] = pandas.Series(texts, dtype="object")
                continue
            values = numpy.asarray(column.to_host())
            if values.ndim == 2:
                columns[f"{name}.inode"] = values[:, 0]
                columns[f"{name}.generation"] = values[:, 1]
            elif name in ("mtime", "atime", "ctime"):
                columns[name] = pandas.to_datetime(values, unit="ns")
            else:
                columns[name] = values
        return pandas.DataFrame(columns)


def table(
    columns: Mapping[str, Array | tuple[Array, Array]], device: str | None = None
) -> Table:
    """The table of what the extension returns, on a device: cpu, cuda or cuda:N."""
    made = Table(
        {
            name: Strings(*column) if isinstance(column, tuple) else column
            for name, column in columns.items()
        }
    )
    gpu = gpu_number(device)
    return made if gpu is None else made.to_gpu(gpu)


def gpu_number(device: str | None) -> int | None:
    """The number of the GPU that a device names; None for the host."""
    kind, _, number = str(device or "cpu").partition(":")
    if kind == "cpu" and not number:
        return None
    if kind != "cuda" or not (number or "0").isdecimal():
        raise ValueError(f"device: must be cpu, cuda or cuda:N, not {device!r}")
    return int(number or "0")
