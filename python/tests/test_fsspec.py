# SPDX-License-Identifier: Apache-2.0
"""fsspec's own tests for file systems, and the libraries that come through it."""

import errno
import multiprocessing
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import warren

fsspec = pytest.importorskip("fsspec")
from fsspec.tests import abstract  # type: ignore # noqa: E402
from warren.fsspec import WarrenFileSystem  # noqa: E402

fsspec.register_implementation("warren", WarrenFileSystem, clobber=True)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    warren.Volume.create(tmp_path / "v.img", 64 << 20).close()
    return tmp_path / "v.img"


@pytest.fixture
def fs(image: Path) -> Iterator[Any]:
    made = WarrenFileSystem(volume=str(image))
    yield made
    made.close()


class Fixtures(abstract.AbstractFixtures):  # type: ignore
    @pytest.fixture
    def fs(self, image: Path) -> Iterator[Any]:
        made = WarrenFileSystem(volume=str(image))
        yield made
        made.close()

    @pytest.fixture
    def fs_path(self, fs: Any) -> str:
        fs.mkdir("/work")
        return "/work"


class TestCopy(abstract.AbstractCopyTests, Fixtures):  # type: ignore
    pass


class TestGet(abstract.AbstractGetTests, Fixtures):  # type: ignore
    pass


class TestPut(abstract.AbstractPutTests, Fixtures):  # type: ignore
    pass


class TestOpen(abstract.AbstractOpenTests, Fixtures):  # type: ignore
    pass


class TestPipe(abstract.AbstractPipeTests, Fixtures):  # type: ignore
    pass


def test_urls(image: Path) -> None:
    url = f"warren://{image}!/a/f.txt"
    with fsspec.open(url, "w") as file:
        file.write("text")
    fs, path = fsspec.url_to_fs(url)
    assert path == "/a/f.txt" and fs.cat(path) == b"text"
    assert fs.unstrip_protocol(path) == url
    assert fsspec.url_to_fs(f"warren://{image}")[1] == "/"
    assert fs.volume is WarrenFileSystem(volume=str(image)).volume
    fs.close()
    assert fs.cat(path) == b"text"  # it is opened again
    fs.close()
    with warren.Volume(image) as volume:
        fs.close()  # not by opening it
        assert not volume.closed


def test_names(fs: Any) -> None:
    fs.pipe({f"/d/{i % 3}/f{i}": b"x" * i for i in range(30)})
    assert fs.ls("/d", detail=False) == ["/d/0", "/d/1", "/d/2"]
    assert len(fs.find("/d")) == 30 and len(fs.find("/", withdirs=True)) == 35
    assert fs.find("/d", maxdepth=1) == [] and fs.find("/none") == []
    assert fs.find("/d/1/f7") == ["/d/1/f7"]
    assert fs.find("/d", detail=True)["/d/1/f7"] == fs.info("/d/1/f7")
    assert fs.du("/d") == sum(range(30))
    assert fs.glob("/d/*/f1?") == sorted(f"/d/{i % 3}/f{i}" for i in range(10, 20))
    assert fs.info("/d")["type"] == "directory" and fs.size("/d/0/f9") == 9
    fs.symlink("d/0", "/link")
    assert fs.isdir("/link") and fs.info("/link")["islink"]
    assert len(fs.ls("/link")) == 10
    fs.mv("/d/0", "/e")
    assert fs.exists("/e/f3") and not fs.exists("/d/0")
    fs.mv("/e/f3", "/d/1/")
    fs.mv(["/e/f6", "/e/f9"], ["/x/6", "/x/9"])
    assert fs.cat("/d/1/f3") == b"xxx" and fs.ls("/x", detail=False) == ["/x/6", "/x/9"]
    fs.rm(["/x/6", "/x/9"])
    with pytest.raises(IsADirectoryError):
        fs.rm("/d")
    with pytest.raises(FileNotFoundError):
        fs.rm("/none")
    fs.rm("/d/*/f2?")
    assert not fs.glob("/d/*/f2?") and fs.exists("/d/1/f1")
    fs.rm("/", recursive=True)
    assert fs.ls("/") == []
    with pytest.raises(FileExistsError) as caught:
        fs.makedirs("/")
    assert caught.value.errno == errno.EEXIST and caught.value.filename == "/"
    fs.touch("/f")
    with pytest.raises(OSError):
        fs.pipe({"/f/g": b""})
    for below in ("/f/g", "/f/g/h"):
        with pytest.raises(NotADirectoryError):
            fs.makedirs(below)
    with pytest.raises(FileExistsError):
        fs.makedirs("/f", exist_ok=True)
    assert fs.modified("/f") >= fs.created("/f").replace(year=2000)


def test_ranges(fs: Any) -> None:
    fs.pipe("/f", b"0123456789")
    assert fs.cat_ranges(["/f", "/f"], [0, -3], [2, None]) == [b"01", b"789"]
    assert fs.cat_file("/f", 4, 6) == b"45" and fs.tail("/f", 2) == b"89"
    found = fs.cat_ranges(["/f", "/none"], 0, 3)
    assert found[0] == b"012" and found[1].errno == errno.ENOENT
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges(["/none"], 0, 3, on_error="raise")
    assert fs.cat(["/f", "/none"], on_error="omit") == {"/f": b"0123456789"}
    with fs.open("/f", "r+b") as file:
        file.seek(5)
        file.write(b"!")
    with fs.open("/f", "ab") as file:
        file.write(b"+")
    assert fs.read_text("/f") == "01234!6789+"


def test_cat_as_in_fsspec(fs: Any, tmp_path: Path) -> None:
    """What is returned, and what is raised, is that of fsspec's own file systems."""
    local = fsspec.filesystem("file")
    for each, top in ((fs, ""), (local, str(tmp_path))):
        each.makedirs(f"{top}/d/e")
        each.pipe({f"{top}/d/a": b"a", f"{top}/d/e/b": b"bb"})

    def outcome(each: Any, top: str, path: str | list[str], **options: Any) -> object:
        def below(name: str) -> str:
            return name.removeprefix(top)

        given = top + path if isinstance(path, str) else [top + name for name in path]
        try:
            found = each.cat(given, **options)
        except OSError as error:
            return type(error)
        if isinstance(found, bytes):
            return found
        return {below(name): data if isinstance(data, bytes) else type(data)
                for name, data in found.items()}  # fmt: skip

    outcomes = []
    paths: list[str | list[str]] = [
        "/d/a", "/d", "/none", "/d/*", "/d/a*", "/x*", ["/d/a"], ["/d/a", "/d/e/b"],
        ["/d/a", "/d"], ["/d/a", "/none"],
    ]  # fmt: skip
    for path in paths:
        for recursive in (False, True):
            for on_error in ("raise", "omit", "return"):
                options = {"recursive": recursive, "on_error": on_error}
                wanted = outcome(local, str(tmp_path), path, **options)
                assert outcome(fs, "", path, **options) == wanted, (path, options)
                outcomes.append(wanted)
    assert b"a" in outcomes and {"/d/a": b"a", "/d/e/b": b"bb"} in outcomes
    assert IsADirectoryError in outcomes and FileNotFoundError in outcomes
    assert outcome(fs, "", ["/d/e/b"], start=1) == {"/d/e/b": b"b"}


def test_paths_of_pathlib(fs: Any) -> None:
    fs.pipe(Path("/a"), b"a")
    fs.mkdir("/d")
    fs.mv(Path("/a"), Path("/b"))
    fs.mv("/b", Path("/d"))
    assert fs.find("/") == ["/d/b"] and fs.cat(Path("/d/b")) == b"a"
    with pytest.raises(TypeError, match="one target"):
        fs.mv("/d/b", ["/x"])


def test_relative_names_of_volumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are those of the working directory in which the file system is made."""
    made = {}
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        warren.Volume.create("v.img", 64 << 20).close()
        made[name] = WarrenFileSystem(volume="v.img")
        made[name].pipe("/f", name.encode())
    one, two = made["one"], made["two"]
    assert one != two and one.cat("/f") == b"one" and two.cat("/f") == b"two"
    for form in ("v.img", b"v.img", Path("v.img"), str(tmp_path / "two" / "v.img")):
        assert WarrenFileSystem(volume=form) is two
    assert fsspec.url_to_fs("warren://v.img!/f")[0] is two
    assert WarrenFileSystem("v.img").volume is two.volume
    assert WarrenFileSystem("v.img") is WarrenFileSystem(str(tmp_path / "two" / "v.img"))
    assert pickle.loads(pickle.dumps(one)).cat("/f") == b"one"
    assert fsspec.AbstractFileSystem.from_json(one.to_json()).cat("/f") == b"one"
    with pytest.raises(TypeError, match="volume"):
        WarrenFileSystem()
    for each in (one, two):
        each.close()


def in_process(packed: bytes, queue: Any) -> None:
    queue.put(pickle.loads(packed).cat("/f"))


def test_reopens_after_pickling(fs: Any) -> None:
    fs.pipe("/f", b"data")
    assert pickle.loads(pickle.dumps(fs)).volume is fs.volume
    fs.close()
    reader = WarrenFileSystem(volume=fs.volume.path, read_only=True)
    fs.close()
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    for each in (fs, reader, reader):
        if each is reader:
            assert reader.cat("/f") == b"data"  # it stays open beside the other process
        child = context.Process(target=in_process, args=(pickle.dumps(each), queue))
        child.start()
        assert queue.get(timeout=60) == b"data"
        child.join()
        assert child.exitcode == 0
    with pytest.raises(OSError) as caught:
        reader.pipe("/g", b"")
    assert caught.value.errno == errno.EROFS
    reader.close()


def test_forked_process(fs: Any) -> None:
    fs.pipe("/f", b"data")
    child = os.fork()
    if child == 0:
        try:
            fs.cat("/f")
        except RuntimeError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert fs.cat("/f") == b"data"


def test_bulk(fs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The calls of a volume do not grow in number with the files."""
    calls: list[str] = []

    def count(name: str) -> None:
        original = getattr(warren.Volume, name)

        def counted(self: warren.Volume, *arguments: Any, **options: Any) -> Any:
            calls.append(name)
            return original(self, *arguments, **options)

        monkeypatch.setattr(warren.Volume, name, counted)

    for name in ("_open_file", "stat", "read_many", "write_many", "find", "remove_many",
                 "move_many", "remove_tree", "unlink", "rename", "mkdir"):  # fmt: skip
        count(name)

    def called(work: Any) -> list[str]:
        calls.clear()
        work()
        return list(calls)

    names = [f"/d/{i}" for i in range(300)]
    assert called(lambda: fs.pipe({name: b"data" for name in names})) == ["write_many"]
    assert called(lambda: fs.cat_ranges(names, 1, 3)) == ["read_many"]
    assert called(lambda: fs.find("/d")) == ["stat", "stat", "find"]
    assert called(lambda: fs.mv(names[:100], [f"/e{name}" for name in names[:100]])) == [
        "move_many"
    ]
    assert called(lambda: fs.rm(names[100:200])) == ["remove_many"]
    assert called(lambda: fs.rm("/d", recursive=True))[-1] == "remove_tree"
    assert called(lambda: fs.info("/e")) == ["stat"]
    assert len(fs.find("/")) == 100


def test_copies_share_blocks(fs: Any) -> None:
    data = os.urandom(1 << 20)
    fs.pipe("/f", data)
    free = fs.volume.statvfs().f_bfree
    fs.cp("/f", "/d/g")
    assert fs.cat("/d/g") == data and free - fs.volume.statvfs().f_bfree < 10


def test_links_to_directories(fs: Any, tmp_path: Path) -> None:
    fs.pipe({"/d/a/f": b"f", "/d/g": b"g"})
    fs.symlink("d", "/l")
    assert fs.find("/l") == ["/l/a/f", "/l/g"]
    assert fs.ls("/l", detail=False) == ["/l/a", "/l/g"]
    assert fs.glob("/l/*") == ["/l/a", "/l/g"]
    assert fs.du("/l") == 2
    fs.get("/l", str(tmp_path / "got"), recursive=True)
    assert (tmp_path / "got" / "a" / "f").read_bytes() == b"f"
    assert fs.find("/d") == ["/d/a/f", "/d/g"]


def test_what_exists_is_kept(fs: Any) -> None:
    fs.pipe("/x", b"old")
    with pytest.raises(FileExistsError):
        fs.pipe({"/x": b"new"}, mode="create")
    with pytest.raises(FileExistsError):
        fs.makedirs("/x", exist_ok=True)
    assert fs.cat("/x") == b"old"
    fs.volume.utime("/x", (1, 1))
    fs.touch("/x", truncate=False)
    assert fs.cat("/x") == b"old"
    assert fs.info("/x")["mtime"] > 1


def test_files_as_of_fsspec(fs: Any) -> None:
    fs.pipe("/x", b"0123456789")
    with fs.open("/x", block_size=0) as file:
        assert file.size == 10
        assert file.read() == b"0123456789"
    assert fs.read_block("/x", 2, 3) == b"234"
    with fs.open("/x", "a") as file:
        assert file.tell() == 10


def test_buffers_are_written_at_exit(image: Path) -> None:
    program = (
        "import warren.fsspec\n"
        f"fs = warren.fsspec.WarrenFileSystem({str(image)!r})\n"
        "file = fs.open('/f', 'wb')\n"
        "file.write(b'data')\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    with warren.Volume(image) as volume:
        assert volume.read_bytes("/f") == b"data"


def test_pandas(fs: Any, image: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": range(1000), "b": [str(i) for i in range(1000)]})
    url = f"warren://{image}!/t/frame"
    frame.to_csv(url + ".csv", index=False)
    assert (pandas.read_csv(url + ".csv", dtype={"b": str}) == frame).all().all()
    frame.to_parquet(url + ".parquet")
    assert pandas.read_parquet(url + ".parquet").equals(frame)


def test_pyarrow(fs: Any) -> None:
    dataset = pytest.importorskip("pyarrow.dataset")
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"part": [i % 4 for i in range(1000)], "value": list(range(1000))})
    dataset.write_dataset(
        table, "/set", format="parquet", filesystem=fs, partitioning=["part"]
    )
    read = dataset.dataset("/set", filesystem=fs, partitioning=["part"])
    assert len(read.files) == 4
    part = read.to_table(filter=dataset.field("part") == 2)
    assert sorted(part["value"].to_pylist()) == list(range(2, 1000, 4))


def test_zarr(fs: Any) -> None:
    zarr = pytest.importorskip("zarr")
    numpy = pytest.importorskip("numpy")
    store = zarr.storage.FsspecStore.from_mapper(fs.get_mapper("/z"))
    made = zarr.create_array(store, shape=(100, 100), chunks=(10, 10), dtype="i4")
    made[:] = numpy.arange(10_000).reshape(100, 100)
    again = zarr.open_array(store, mode="r")
    assert (again[15:35, 40:60] == numpy.arange(10_000).reshape(100, 100)[15:35, 40:60]).all()
    assert len(fs.find("/z")) > 100
