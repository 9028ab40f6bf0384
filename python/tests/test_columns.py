# SPDX-License-Identifier: Apache-2.0
"""Trees as columns, against os.walk() on a tree of the host."""

import ctypes
import fnmatch
import io
import os
import random
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow  # type: ignore[import-untyped,import-not-found,unused-ignore]
import pytest
import warren


@pytest.fixture
def twins(volume: warren.Volume, tmp_path: Path) -> tuple[warren.Volume, Path]:
    """The same random tree in a volume and on the host."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    host = tmp_path / "host"
    host.mkdir()
    folders = [""]
    for i in range(60):
        folder = f"{rng.choice(folders) if i > 2 else ''}/d{i}"
        folders.append(folder)
        volume.mkdir(folder)
        os.mkdir(f"{host}{folder}")
    for i in range(700):
        path = f"{rng.choice(folders)}/{rng.choice('aBc')}{i}.{rng.choice(['txt', 'bin'])}"
        data = rng.randbytes(rng.choice([0, 50, 5000]))
        volume.write_many([path], [data], strict=True)
        Path(f"{host}{path}").write_bytes(data)
    volume.symlink("d1", "/link")
    os.symlink("d1", host / "link")
    return volume, host


def walked(host: Path, top: str = "/") -> set[str]:
    found = {top}
    for folder, folders, files in os.walk(f"{host}{top}"):
        base = folder[len(str(host)) :].rstrip("/")
        found |= {f"{base}/{name}" for name in folders + files}
    return found


def test_stat_tree(twins: tuple[warren.Volume, Path]) -> None:
    volume, host = twins
    names = ("path", "name", "handle", "parent", "size", "mode", "mtime", "links", "depth", "user")
    tree = volume.stat_tree(columns=names)
    assert tuple(tree) == names and len(tree) == len(names)
    paths = tree.text("path").tolist()
    assert set(paths) == walked(host) and tree.rows == len(paths) == len(set(paths))
    by_path = {path: tuple(tree.array("handle")[i]) for i, path in enumerate(paths)}
    for i, path in enumerate(paths):
        real = os.lstat(f"{host}{path}")
        ours = volume.stat(path, follow_symlinks=False)
        assert tree["name"][i] == (path.rsplit("/", 1)[1])
        assert tree["size"][i] == ours.st_size and tree["mtime"][i] == ours.st_mtime_ns
        if path.endswith((".txt", ".bin")):
            assert tree["size"][i] == real.st_size
        assert tree["mode"][i] == ours.st_mode and tree["links"][i] == ours.st_nlink
        assert tree["depth"][i] == (0 if path == "/" else path.count("/"))
        if path != "/":
            assert tree["parent"][i] == by_path[path.rsplit("/", 1)[0] or "/"]
    below = volume.stat_tree("d1/", columns=["path"]).text("path")
    assert set(below) == walked(host, "/d1")
    assert volume.stat_tree("/link", columns=["path"])["path"][0] == "/link"


def test_find(twins: tuple[warren.Volume, Path]) -> None:
    volume, host = twins
    everything = walked(host)

    def found(**filters: object) -> set[str]:
        return set(volume.find(**filters).text("path"))  # type: ignore[arg-type]

    assert found(pattern="*.txt") == {p for p in everything if p.endswith(".txt")}
    assert found(pattern="b*[02].TXT", ignore_case=True) == {
        p for p in everything if fnmatch.fnmatchcase(p.rsplit("/", 1)[1].lower(), "b*[02].txt")
    }
    assert found(types="d") == {p for p in everything if os.path.isdir(f"{host}{p}")} - {"/link"}
    assert found(types="l") == {"/link"}
    assert found(types="f", size_min=1, size_max=50) == {
        p
        for p in everything
        if os.path.isfile(f"{host}{p}") and os.stat(f"{host}{p}").st_size == 50
    }
    assert found(depth_max=1) == {p for p in everything if p.count("/") == 1}
    assert found(mtime_max=0) == set()
    assert found(path="d1", pattern="d1") >= {"/d1"}
    contents = volume.read_many(volume.find(types="f", size_min=5000).array("handle"))
    assert not any(contents.errno) and all(len(contents[i]) == 5000 for i in range(len(contents)))


def test_any_iterable_of_names_is_a_choice_of_columns(volume: warren.Volume) -> None:
    volume.write_bytes("/f", b"data")
    names = ["path", "size", "name"]
    for call in (volume.find, volume.stat_tree):
        for columns in (names, tuple(names), iter(names), (name for name in names),
                        dict.fromkeys(names), map(str, names)):  # fmt: skip
            table = call("/f", columns=columns)
            assert list(table) == names and table["size"].tolist() == [4]
            assert table["path"].tolist() == ["/f"]
        assert list(call(columns=[])) == []
        with pytest.raises(ValueError, match="no 'sise', there are handle, .*, name and path"):
            call(columns=iter(["size", "sise"]))
        with pytest.raises(TypeError, match="columns: a list of names"):
            call(columns="size")
        for wrong in ([None], [b"size"], b"size"):
            with pytest.raises(TypeError, match="columns: names are needed"):
                call(columns=wrong)

    def failing() -> Iterator[str]:
        yield "size"
        raise KeyError("own")

    with pytest.raises(KeyError, match="own"):
        volume.find(columns=failing())


def test_usage(twins: tuple[warren.Volume, Path]) -> None:
    volume, host = twins
    table = volume.usage(depth_max=100)
    tree = volume.stat_tree(columns=["path", "size", "blocks"])
    sizes = dict(zip(tree["path"], zip(tree["size"], tree["blocks"], strict=True), strict=True))
    paths: list[str] = []
    for i, name in enumerate(table.text("name")):
        paths.append(f"{paths[table.array('above')[i]]}/{name}" if i > 0 else "")
        below = [s for p, s in sizes.items() if p == paths[i] or p.startswith(paths[i] + "/")]
        assert table["entries"][i] == len(below)
        assert table["bytes"][i] == sum(size for size, _ in below)
        assert table["blocks"][i] == sum(blocks for _, blocks in below)
    assert len(paths) == 61 and volume.usage("/d1").rows == 1


def test_other_libraries(twins: tuple[warren.Volume, Path]) -> None:
    volume, _ = twins
    names = ["handle", "size", "mode", "mtime", "path"]
    tree = volume.stat_tree(columns=names)
    arrow = pyarrow.table(tree)
    arrow.validate(full=True)
    assert arrow.schema.names == names and arrow.num_rows == tree.rows
    assert arrow["path"].to_pylist() == tree.text("path").tolist()
    assert arrow["size"].to_pylist() == tree.array("size").tolist()
    assert arrow["handle"].to_pylist() == tree.array("handle").tolist()
    assert arrow.schema.field("path").type == pyarrow.large_string()
    tree.__arrow_c_stream__()  # a capsule that nobody takes
    assert np.from_dlpack(tree.array("size")).sum() == sum(tree.array("size"))
    volume.open(b"/\xff", "w").close()
    odd = volume.find(types="f", depth_max=1, pattern=b"\xff", columns=["name"])
    assert odd["name"][0] == os.fsdecode(b"\xff")
    assert pyarrow.table(odd)["name"].to_pylist() == [b"\xff"]
    for parts, kind in (
        ([b"\xc3", b"\xa9"], pyarrow.large_binary()),  # only together they are UTF-8
        ([b"\xa9", b"\xc3"], pyarrow.large_binary()),
        ([b"a\xc3", b"", b"\xa9b"], pyarrow.large_binary()),
        ([b"", b"\xc3\xa9", b"", b"a", b""], pyarrow.large_string()),
    ):
        files = [f"/{i}" for i in range(len(parts))]
        volume.write_many(files, parts, strict=True)
        found = volume.read_many(files, strict=True)
        table = pyarrow.table(
            warren.Table({"name": warren.Strings(found.values, found.offsets)})
        )
        table.validate(full=True)
        assert table.schema.field("name").type == kind
        assert table["name"].cast(pyarrow.large_binary()).to_pylist() == parts
    kept = pyarrow.table(volume.find(columns=["size", "path"]))
    volume.close()
    assert len(kept["path"].to_pylist()) == kept.num_rows > 700


class ArrowArray(ctypes.Structure):
    pass


ArrowArray._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(ArrowArray))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]


class ArrowDeviceArray(ctypes.Structure):
    _fields_: ClassVar = [
        ("array", ArrowArray),
        ("device_id", ctypes.c_int64),
        ("device_type", ctypes.c_int32),
        ("sync_event", ctypes.c_void_p),
        ("reserved", ctypes.c_int64 * 3),
    ]


def test_arrow_device_array(twins: tuple[warren.Volume, Path]) -> None:
    """The struct as its specification lays it out, read field by field."""
    volume, _ = twins
    tree = volume.stat_tree(columns=["handle", "size", "mode", "path"])
    schema, shown = tree.__arrow_c_device_array__()
    address = ctypes.pythonapi.PyCapsule_GetPointer
    address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    device = ArrowDeviceArray.from_address(address(shown, b"arrow_device_array"))
    assert (device.device_type, device.device_id, device.sync_event) == (1, -1, None)
    assert list(device.reserved) == [0, 0, 0] and device.array.release
    assert device.array.length == tree.rows and device.array.n_children == 4
    handle, size, mode, path = (device.array.children[i].contents for i in range(4))

    def numbers(array: ArrowArray, buffer: int, kind: Any, count: int) -> list[int]:
        return list((kind * count).from_address(array.buffers[buffer]))

    pairs = handle.children[0].contents
    assert numbers(pairs, 1, ctypes.c_int64, pairs.length) == [
        each for pair in tree.array("handle") for each in pair
    ]
    assert numbers(size, 1, ctypes.c_int64, tree.rows) == tree.array("size").tolist()
    assert numbers(mode, 1, ctypes.c_int32, tree.rows) == tree.array("mode").tolist()
    ends = numbers(path, 1, ctypes.c_int64, tree.rows + 1)
    text = ctypes.string_at(path.buffers[2], ends[-1])
    assert [text[begin:end].decode() for begin, end in zip(ends, ends[1:], strict=False)] == list(
        tree.text("path")
    )
    # pyarrow takes the same struct where the memory is the host's.
    batch = pyarrow.RecordBatch._import_from_c_device_capsule(schema, shown)
    batch.validate(full=True)
    assert batch.num_rows == tree.rows and batch.schema.names == list(tree)
    assert not device.array.release  # taken
    with pytest.raises(NotImplementedError, match="colour"):
        tree.__arrow_c_device_array__(colour=1)
    tree.__arrow_c_device_array__(later=None)


@pytest.mark.parametrize("count", [7, 20_000])
def test_progress_by_tqdm(volume: warren.Volume, count: int) -> None:
    tqdm = pytest.importorskip("tqdm").tqdm
    names = [f"{i:05}" for i in range(count)]
    calls: list[Callable[[Callable[[int], object]], object]] = [
        lambda update: volume.create_many(names, progress=update),
        lambda update: volume.write_many(names, [b"x"] * len(names), progress=update),
        lambda update: volume.read_many(names, progress=update),
        lambda update: volume.hash(names, progress=update),
        lambda update: volume.similar(names, progress=update),
        lambda update: volume.dedup(names, progress=update),
        lambda update: volume.lookup_many(names, progress=update),
        lambda update: volume.exists_many(names, progress=update),
        lambda update: volume.remove_many([f"{i}x" for i in names], progress=update),
        lambda update: volume.move_many(names, names, progress=update),
        lambda update: volume.rebuild("/", progress=update),
    ]
    for call in calls:
        with tqdm(total=len(names), file=io.StringIO()) as bar:
            call(bar.update)
            assert bar.n == len(names)
    volume.mkdir("/tree")
    volume.create_many(names, directory="/tree", strict=True)
    trees: list[Callable[[Callable[[int], object]], object]] = [
        lambda update: volume.find("/tree", progress=update),
        lambda update: volume.usage("/tree", progress=update),
        lambda update: volume.remove_tree("/tree", progress=update),
    ]
    for call in trees:  # the directory itself counts too
        with tqdm(total=len(names) + 1, file=io.StringIO()) as bar:
            call(bar.update)
            assert bar.n == len(names) + 1


def test_pandas(twins: tuple[warren.Volume, Path]) -> None:
    pytest.importorskip("pandas")
    volume, _ = twins
    tree = volume.stat_tree(columns=["handle", "size", "mtime", "path"])
    frame = tree.to_pandas()
    assert frame["path"].tolist() == tree.text("path").tolist()
    assert frame["handle.inode"].tolist() == [inode for inode, _ in tree.array("handle")]
    assert frame["size"].sum() == sum(tree.array("size"))
    assert str(frame["mtime"].dtype) == "datetime64[ns]"
    assert len(volume.find(pattern="none", columns=["handle", "path"]).to_pandas()) == 0
    none = volume.find(pattern="none", columns=["name"]).to_pandas()
    assert none["name"].str.upper().tolist() == []
    volume.write_bytes(b"/caf\xe9", b"")
    found = volume.find(pattern=b"caf*", columns=["name"]).to_pandas()
    assert found["name"].tolist() == [os.fsdecode(b"caf\xe9")]


def test_errors(volume: warren.Volume) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        volume.find("/none")
    assert caught.value.filename == "/none"
    with pytest.raises(ValueError, match="columns"):
        volume.find(columns=["colour"])
    with pytest.raises(ValueError, match="types"):
        volume.find(types="fx")
    with pytest.raises(OSError):
        volume.find(pattern="x" * 300)
    with pytest.raises(FileNotFoundError):
        volume.usage("/none")
    tree = volume.find(pattern="none", columns=["handle", "path", "size"])
    assert tree.rows == 0 and tree["handle"].shape == (0, 2)  # type: ignore[union-attr]
    assert pyarrow.table(tree).num_rows == 0
    with pytest.raises(TypeError):
        tree.text("size")
    with pytest.raises(TypeError):
        tree.array("path")
    with pytest.raises(IndexError):
        tree["path"][0]


def test_interrupt(volume: warren.Volume) -> None:
    volume.mkdir("/d")
    volume.create_many([f"{i:06}" for i in range(150_000)], directory="/d", strict=True)
    steps: list[int] = []
    assert volume.find("/d", columns=["path"], progress=steps.append).rows == 150_001
    assert sum(steps) == 150_001
    timer = threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        timer.start()
        while True:
            volume.stat_tree("/", columns=["path", "name", "size"])
    timer.join()
    assert volume.find("/d", columns=["handle"]).rows == 150_001
