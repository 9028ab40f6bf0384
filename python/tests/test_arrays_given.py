# SPDX-License-Identifier: Apache-2.0
"""Arrays that a caller passes: of libraries whose methods fail, without elements, of handles."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import warren

# The arguments that take an array by DLPack.
TAKERS: dict[str, Callable[[warren.Volume, Any], object]] = {
    "names": lambda v, array: v.exists_many(array),
    "targets": lambda v, array: v.move_many(["f"], array),
    "files": lambda v, array: v.read_many(array),
    "hashed": lambda v, array: v.hash(array),
    "starts": lambda v, array: v.read_many(["f"], starts=array),
    "out": lambda v, array: v.read_many(["f"], out=array),
    "values": lambda v, array: v.write_many(["f"], array, np.array([0, 1])),
    "offsets": lambda v, array: v.write_many(["f"], b"x", array),
    "target": lambda v, array: v.open("f").read_into(array),
    "later": lambda v, array: v.open("f").pread(array).result(),
    "source": lambda v, array: v.open("f", "r+").write_from(array),
    "data": lambda v, array: warren.chunk(array),
}


class Exporter:
    """A producer with the methods of DLPack and no others, as the tensors of torch."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.asked: list[dict[str, Any]] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **options: Any) -> Any:
        self.asked.append(options)
        return self.array.__dlpack__(**options)


class Failing(Exporter):
    def __init__(self, error: Exception) -> None:
        super().__init__(None)
        self.error = error

    def __dlpack__(self, **options: Any) -> Any:
        raise self.error


class WithoutDevice(Exporter):
    def __dlpack_device__(self) -> tuple[int, int]:
        raise KeyError("own")


class OnGpu(Failing):
    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self, **options: Any) -> Any:
        self.asked.append(options)
        raise self.error


@pytest.mark.parametrize("taker", TAKERS)
def test_errors_of_the_producer_reach_the_caller(volume: warren.Volume, taker: str) -> None:
    volume.write_bytes("f", b"data")
    take = TAKERS[taker]
    for error in (KeyError("own"), TypeError("own"), RuntimeError("own"), MemoryError("own")):
        with pytest.raises(type(error), match="own"):
            take(volume, Failing(error))
    with pytest.raises(KeyError, match="own"):
        take(volume, WithoutDevice(np.zeros(4, np.uint8)))
    # By a BufferError a producer says that the array cannot be exported.
    with pytest.raises(TypeError, match="is needed") as caught:
        take(volume, Failing(BufferError("it requires gradients")))
    assert "it requires gradients" in str(caught.value.__cause__)
    assert volume.read_bytes("f") == b"data"


@pytest.mark.parametrize("taker", TAKERS)
def test_work_on_an_array_of_a_gpu_is_awaited(volume: warren.Volume, taker: str) -> None:
    """The default stream of CUDA is passed where a call has no `stream` of its own."""
    volume.write_bytes("f", b"data")
    array = OnGpu(RuntimeError("own"))
    with pytest.raises(RuntimeError, match="own"):
        TAKERS[taker](volume, array)
    is_waiting = taker not in ("out", "target", "later", "source")
    streams = [asked.get("stream") for asked in array.asked]
    # Whether `files` are names or handles is found out first.
    assert streams == [1 if is_waiting and taker not in ("files", "hashed") else None]


def test_producers_of_all_ages(volume: warren.Volume) -> None:
    class Old(Exporter):
        def __dlpack__(self, *, stream: object = None) -> Any:
            return super().__dlpack__()

    data = np.arange(8, dtype=np.uint8)
    for make in (Exporter, Old):
        with volume.open("f", "w+") as file:
            assert file.write_from(make(data)) == 8
            back = np.zeros(8, np.uint8)
            assert file.read_into(make(back)) == 8 and (back == data).all()
        assert volume.read_many(make(np.array([volume.handle("f")])))[0] == data.tobytes()
    frozen = data.copy()
    frozen.flags.writeable = False
    with volume.open("f", "r+") as file:
        assert file.write_from(frozen) == file.write_from(Exporter(frozen)) == 8
        for wrong in (frozen, Exporter(frozen), Old(frozen)):
            with pytest.raises(TypeError, match="target: a writable"):
                file.read_into(wrong)
        with pytest.raises(ValueError, match="released"):
            released = memoryview(bytearray(8))
            released.release()
            file.read_into(released)


def test_no_elements(volume: warren.Volume) -> None:
    """Arrays of size zero are empty contents, whatever their shape."""
    for shape in ((0,), (0, 3), (3, 0), (2, 0, 5)):
        for dtype in (np.uint8, np.float32):
            empty = np.zeros(shape, dtype)
            volume.write_bytes("a", b"old")
            volume.write_many(["a", "b"], [empty, b"b"], strict=True)
            assert volume.read_bytes("a") == b"" and volume.read_bytes("b") == b"b"
            with volume.open("b", "r+") as file:
                assert file.write(empty) == 0
                assert file.readinto(empty) == 0
                for form in (empty, Exporter(empty)):
                    assert file.write_from(form) == file.read_into(form) == 0
            volume.setxattr("a", "user.x", empty)
            assert volume.getxattr("a", "user.x") == b""
    none, ends = np.zeros(0, np.uint8), np.zeros(2, np.int64)
    for values in (none, Exporter(none)):
        volume.write_many(["b"], values, ends, strict=True)
    assert volume.read_bytes("b") == b""
    assert bytes(volume.read_many(["a"], out=Exporter(none), strict=True).values.array) == b""
    assert warren.chunk(Exporter(none)).tolist() == []
    column = np.arange(16).reshape(4, 4)[:, 1]  # not contiguous
    volume.write_many(["a"], [column], strict=True)
    assert volume.write_bytes("b", column) == 32
    assert volume.read_bytes("a") == volume.read_bytes("b") == column.tobytes()
    assert volume.write_many(np.zeros((0, 5), np.uint8), []).handles.shape == (0, 2)


def test_numbers_that_no_handle_has(volume: warren.Volume) -> None:
    volume.write_bytes("f", b"data")
    volume.mkdir("d")
    volume.write_bytes("d/g", b"data")
    inode, generation = volume.handle("f")
    good = np.array([[inode, generation]])
    assert volume.read_many(good)[0] == b"data"
    wrong = [(inode, generation + (1 << 32)), (inode, generation - (1 << 32)), (-1, -1),
             (inode, -1), (-inode, generation), (1, 1 << 40)]  # fmt: skip
    for numbers in wrong:
        for call in (volume.read_many, volume.hash, volume.similar, volume.dedup):
            with pytest.raises(ValueError, match=f"files:.*{numbers[0]}, {numbers[1]}"):
                call(np.vstack([good, numbers]))
    for numbers in ((0, 0), (1 << 62, 1)):
        assert volume.read_many(np.array([numbers])).errno.tolist()[0] in (
            errno.ENOENT, errno.ESTALE,
        )  # fmt: skip
    assert volume.read_many(np.zeros((0, 2), np.int64)).offsets.tolist() == [0]
    inode, generation = volume.handle("d")
    assert volume.exists_many(["g"], directory=(inode, generation)).tolist() == [True]
    assert volume.exists_many(["g"], directory=(np.int64(inode), generation)).tolist() == [True]
    for pair in ((inode, generation + (1 << 32)), (inode, -1), (-1, generation)):
        with pytest.raises(ValueError, match="directory: no file has the handle"):
            volume.exists_many(["g"], directory=pair)
    with pytest.raises(OverflowError):
        volume.exists_many(["g"], directory=(1 << 70, generation))
    for wrong in ((1,), (1, 2, 3), ("1", 1), (1.0, 1)):
        with pytest.raises(TypeError, match=r"directory: a path or|interpreted as an integer"):
            volume.exists_many(["g"], directory=wrong)  # type: ignore[arg-type]


def test_names_in_arrays_of_strings(volume: warren.Volume) -> None:
    names = ["ä", "b", "long name"]
    volume.create_many(names, strict=True)
    table = pa.table({"name": ["no", *names]})
    for given in (
        np.array(names),
        np.array([os.fsencode(name) for name in names]),
        np.array([Path(name) for name in names]),
        pa.array(names),
        pa.array(names).dictionary_encode(),
        table.column("name").slice(1),
        table.to_pandas()["name"][1:],
        table.to_pandas()["name"][1:].to_numpy(),
    ):
        assert volume.exists_many(given).tolist() == [True] * 3, type(given)
        assert volume.read_many(given, strict=True).offsets.tolist() == [0] * 4
        assert len(volume.hash(given).digests) == 3
    for wrong in (np.array([1.0]), pa.array([1]), pa.array(["b", None]), np.array("b")):
        with pytest.raises(TypeError, match="names: a sequence of|names: for each|names: an array"):
            volume.exists_many(wrong)


def test_arrays_are_not_compared(volume: warren.Volume) -> None:
    codes = volume.remove_many(["no"])
    with pytest.raises(TypeError, match="numpy.asarray"):
        assert codes == errno.ENOENT
    with pytest.raises(TypeError, match="tolist"):
        assert codes != 0
    assert codes in [codes] and len({codes}) == 1
