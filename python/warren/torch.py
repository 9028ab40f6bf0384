# SPDX-License-Identifier: Apache-2.0
# Where torch is not installed, pyright takes this file for it.
# pyright: reportAttributeAccessIssue=false
"""Files of a volume as batches of tensors."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import torch  # type: ignore[import-not-found,unused-ignore]
from torch.utils.data import (  # type: ignore[import-not-found,unused-ignore]
    IterableDataset,
    get_worker_info,
)

from ._paths import Path
from ._shared import shared_volume
from ._table import gpu_number
from ._volume import Volume


def order_of(count: int, seed: int, device: str) -> Any:
    """A random order of the numbers below `count`, int64[count]: sorted by SplitMix64 (Steele, Lea,
    Flood 2014) of seed and number, so it is the same on every device."""

    def signed(word: int) -> int:
        word &= (1 << 64) - 1
        return word - (1 << 64) if word >> 63 else word

    words = torch.arange(1, count + 1, device=device) * signed(0x9E3779B97F4A7C15) + signed(seed)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        words = (words ^ (words >> shift & (1 << 64 - shift) - 1)) * signed(factor)
    return torch.argsort(words, stable=True)


class Batch(NamedTuple):
    """The contents of n files, one behind the other; torch.nested.nested_tensor_from_jagged() and
    segment operations take `values` and `offsets`."""

    values: Any  # uint8[...]; file i is values[offsets[i]:offsets[i + 1]]
    offsets: Any  # int64[n + 1]
    rows: Any  # int64[n]: the rows of the files in the dataset's columns

    def samples(self, dtype: Any, *shape: int) -> Any:
        """The batch as a tensor of n samples of one type and shape, without a copy. RuntimeError
        if it is not that long, ValueError if a file has another size than the rest."""
        sizes = self.offsets.diff()
        if len(sizes) > 0 and bool((sizes != sizes[0]).any()):
            raise ValueError("the files of the batch have several sizes: use values and offsets")
        return self.values.view(dtype).view(len(self.rows), *shape)


class FileDataset(IterableDataset):  # type: ignore[misc,unused-ignore]
    """The files below a path that match a pattern, as batches of their contents.

    It is iterated as it is or by DataLoader(dataset, batch_size=None); all cores read `prefetch`
    batches ahead. Worker processes share the batches. They must be spawned, because a forked one
    raises RuntimeError, and the volume must be open `read_only`: a dataset that was pickled opens
    it anew. A file that cannot be read raises OSError. One thread at a time may use a dataset.

    volume: a Volume, or the path of its image, which file systems and datasets of this process
    share.
    pattern, size_min, size_max: as for Volume.find().
    batch_size: files in a batch; the last one has fewer, or is left out with `drop_last`.
    shuffle: each epoch has an order of its own, computed on `device` from `seed` and set_epoch(),
    the same on all devices; else files come in the order of their inode numbers.
    rank, ranks: this process takes each batch whose number leaves the remainder `rank`.
    device: where `values` and `offsets` are to be: cpu (the default), cuda or cuda:N.
    """

    def __init__(
        self,
        volume: Volume | str | os.PathLike[str],
        path: Path = "/",
        *,
        pattern: str | bytes = b"",
        size_min: int = 0,
        size_max: int | None = None,
        batch_size: int = 256,
        shuffle: bool = False,
        drop_last: bool = False,
        seed: int = 0,
        rank: int = 0,
        ranks: int = 1,
        prefetch: int = 2,
        device: str | None = None,
    ) -> None:
        super().__init__()
        if batch_size < 1 or prefetch < 0 or not 0 <= rank < ranks:
            raise ValueError(
                "FileDataset: batch_size >= 1, prefetch >= 0 and 0 <= rank < ranks are needed"
            )
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.seed = seed
        self.epoch = 0
        self.prefetch = prefetch
        self._part = rank, ranks
        self._device = device or "cpu"
        gpu_number(device)
        self._volume = volume if isinstance(volume, Volume) else None
        self._image = volume.path if isinstance(volume, Volume) else os.path.abspath(volume)
        self._read_only = isinstance(volume, Volume) and volume.read_only
        found = self.volume.find(
            path, pattern=pattern, types="f", size_min=size_min, size_max=size_max,
            columns=["handle", "size", "path"],
        )  # fmt: skip
        handles = torch.from_dlpack(found.array("handle"))
        self._order = torch.argsort(handles[:, 0])
        self._paths = found.text("path")
        self.handles = handles[self._order]  # int64[n, 2]
        self.sizes = torch.from_dlpack(found.array("size"))[self._order]  # int64[n], bytes

    @property
    def volume(self) -> Volume:
        """The open volume."""
        if self._volume is not None:
            return self._volume
        return shared_volume(self._image, self._read_only)

    @property
    def files(self) -> int:
        """The number of files."""
        return len(self.handles)

    def path(self, row: int) -> str:
        """The path that file `row` had."""
        return self._paths[int(self._order[row])]

    def __len__(self) -> int:
        """The number of batches."""
        rank, ranks = self._part
        whole, rest = divmod(self.files, self.batch_size)
        batches = whole + (rest > 0 and not self.drop_last)
        return (batches - rank + ranks - 1) // ranks

    def set_epoch(self, epoch: int) -> None:
        """Chooses the order of the next iteration; all ranks must choose the same."""
        self.epoch = epoch

    def _batches(self) -> Iterator[Any]:
        """The rows of each batch of this process."""
        if self.shuffle:
            order = order_of(self.files, self.seed + self.epoch, self._device)
            rows = order.cpu()  # where read() and its callers index by them
        else:
            rows = torch.arange(self.files)
        rank, ranks = self._part
        worker = get_worker_info()
        for i in range(worker.id if worker else 0, len(self), worker.num_workers if worker else 1):
            first = (rank + i * ranks) * self.batch_size
            yield rows[first : first + self.batch_size]

    def read(self, rows: Any) -> Batch:
        """The batch of the files of these rows (int64[n])."""
        found = self.volume.read_many(self.handles[rows], device=self._device, strict=True)
        offsets = torch.from_dlpack(found.offsets).to(self._device)
        return Batch(torch.from_dlpack(found.values), offsets, rows)

    def __iter__(self) -> Iterator[Batch]:
        if self.prefetch == 0:
            yield from map(self.read, self._batches())
            return
        pool = ThreadPoolExecutor(1, thread_name_prefix="warren.FileDataset")
        waiting: deque[Future[Batch]] = deque()
        try:
            for rows in self._batches():
                waiting.append(pool.submit(self.read, rows))
                if len(waiting) > self.prefetch:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_volume": None, "_paths": self._paths.tolist()}
