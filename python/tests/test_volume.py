# SPDX-License-Identifier: Apache-2.0
import errno
import gzip
import io
import json
import os
import pickle
import stat
import sys
import threading
import zipfile
from pathlib import Path

import pytest
import warren


def test_contents_survive_closing(tmp_path: Path) -> None:
    data = os.urandom(100_000)
    with warren.Volume.create(tmp_path / "v.img", 64 << 20) as made:
        made.mkdir("/a")
        with made.open("/a/f", "w") as file:
            assert file.write(data) == len(data)
    with warren.Volume.open(tmp_path / "v.img", read_only=True) as opened:
        assert opened.open("a/f").read() == data
        assert opened.stat("/a/f").st_size == len(data)
        with pytest.raises(OSError) as caught:
            opened.mkdir("/b")
        assert caught.value.errno == errno.EROFS
    with pytest.raises(FileExistsError, match="holds a Warren volume; only force overwrites it"):
        warren.Volume.create(tmp_path / "v.img", 64 << 20)
    with pytest.raises(FileNotFoundError, match="give a size"):
        warren.Volume.create(tmp_path / "new.img")
    warren.Volume.create(tmp_path / "v.img", force=True).close()


def test_files_are_raw_io(volume: warren.Volume) -> None:
    with volume.open("/f", "w+") as file:
        file.write(b"one\ntwo\nthree")
        file.seek(0)
        assert io.BufferedReader(file).readlines() == [b"one\n", b"two\n", b"three"]
    with volume.open("/f", "a") as file:
        file.write(b"!")
        with pytest.raises(io.UnsupportedOperation):
            file.read(1)
    with volume.open("/f", "r+") as file:
        assert file.seek(-1, os.SEEK_END) == 13
        assert file.read() == b"!"
        assert file.truncate(3) == 3
    assert volume.open("/f").read() == b"one"
    with pytest.raises(ValueError):
        file.read()
    with pytest.raises(ValueError):
        volume.open("/f", "q")


def test_files_in_other_libraries(volume: warren.Volume) -> None:
    numpy = pytest.importorskip("numpy")
    pandas = pytest.importorskip("pandas")
    pillow = pytest.importorskip("PIL.Image")
    with volume.open("/a.json", "w") as file:
        file.write(json.dumps({"é": [1, 2]}).encode())
    assert json.load(volume.open("/a.json")) == {"é": [1, 2]}
    frame = pandas.DataFrame({"a": range(10_000), "b": 0.5})
    with volume.open("/a.csv", "w") as file:
        frame.to_csv(file, index=False)
    assert pandas.read_csv(volume.open("/a.csv")).equals(frame)
    with volume.open("/a.parquet", "w+") as file:
        frame.to_parquet(file)
    assert pandas.read_parquet(volume.open("/a.parquet")).equals(frame)
    pixels = numpy.arange(300 * 200 * 3, dtype=numpy.uint8).reshape(300, 200, 3)
    with volume.open("/a.png", "w+") as file:
        pillow.fromarray(pixels).save(file, "png")
    assert (numpy.asarray(pillow.open(volume.open("/a.png"))) == pixels).all()
    with volume.open("/a.npy", "w") as file:
        numpy.save(file, pixels)
    assert (numpy.load(io.BufferedReader(volume.open("/a.npy"))) == pixels).all()


def test_append_begins_at_the_end(volume: warren.Volume) -> None:
    volume.write_bytes("/log", b"kept")
    with volume.open("/log", "a") as file:
        assert file.tell() == 4
        assert file.truncate() == 4
        file.write(b" too")
        assert file.tell() == 8
    with volume.open("/log", "a+") as file:
        assert file.read() == b""
    assert volume.read_bytes("/log") == b"kept too"


def test_negative_positions(volume: warren.Volume) -> None:
    volume.write_bytes("/f", b"abc")
    with volume.open("/f", "r+") as file:
        for call in (lambda: file.seek(-22, 2), lambda: file.seek(-1), lambda: file.truncate(-1)):
            with pytest.raises(OSError) as raised:
                call()
            assert raised.value.errno == errno.EINVAL
    assert not zipfile.is_zipfile(io.BufferedReader(volume.open("/f")))


def test_mode_of_files(volume: warren.Volume, tmp_path: Path) -> None:
    """It is that of io.FileIO, by which libraries choose what they do."""
    for mode in ("r", "r+", "w", "w+", "a", "a+", "x", "x+"):
        if "x" not in mode:
            volume.touch(f"{mode}.f")
            (tmp_path / f"{mode}.f").touch()
        with open(tmp_path / f"{mode}.f", mode + "b", buffering=0) as theirs:
            assert volume.open(f"{mode}.f", mode).mode == theirs.mode
    with volume.open("/a.gz", "w") as raw, gzip.open(raw, "w") as packed:
        packed.write(b"text" * 1000)
    assert gzip.open(volume.open("/a.gz")).read() == b"text" * 1000
    with volume.open("/a.zip", "w+") as raw, zipfile.ZipFile(raw, "w") as archive:
        archive.writestr("f", "text")
    assert zipfile.ZipFile(volume.open("/a.zip")).read("f") == b"text"


def test_whole_files(volume: warren.Volume) -> None:
    assert volume.write_bytes("f", memoryview(b"0123")[::2]) == 2
    assert volume.read_bytes("f") == b"02"
    assert volume.write_text("f", "é") == 2 and volume.read_text("f") == "é"
    volume.utime("f", ns=(1, 1))
    volume.touch("f")
    assert volume.stat("f").st_mtime_ns > 1 and volume.read_text("f") == "é"
    volume.touch("g", exist_ok=False)
    assert volume.read_bytes("g") == b""
    with pytest.raises(FileExistsError):
        volume.touch("g", exist_ok=False)
    with pytest.raises(FileNotFoundError):
        volume.read_bytes("none")


@pytest.mark.parametrize("data", [5, [1, 2], "text", None])
def test_write_takes_only_buffers(volume: warren.Volume, data: object) -> None:
    with volume.open("/f", "w") as file:
        with pytest.raises(TypeError):
            file.write(data)  # type: ignore[arg-type]
        assert file.write(memoryview(b"0123")[::2]) == 2
    assert volume.open("/f").read() == b"02"


def test_names(volume: warren.Volume) -> None:
    volume.mkdir("/d")
    volume.open("/d/x", "x").close()
    volume.rename("/d/x", "/d/y")
    assert volume.listdir("/d") == ["y"] and not volume.exists("/d/x")
    assert volume.remove_tree("/d")[:2] == (1, 1)
    assert volume.listdir() == []
    name = os.fsdecode(b"/\xff")
    volume.open(name, "w").close()
    assert volume.listdir() == [name[1:]]
    volume.unlink(name)


def test_links_are_followed(volume: warren.Volume) -> None:
    volume.mkdir("/d")
    volume.symlink("d", "/link")
    with volume.open("/link/f", "w") as file:
        file.write(b"x")
    volume.symlink("../link/f", "/d/g")
    assert volume.readlink("/d/g") == "../link/f"
    assert volume.stat("/d/g").st_size == 1 and volume.handle("/d/g") == volume.handle("/d/f")
    assert stat.S_ISLNK(volume.stat("/d/g", follow_symlinks=False).st_mode)
    assert volume.open("/link/../d/./g").read() == b"x"
    volume.symlink("loop", "/loop")
    with pytest.raises(OSError) as caught:
        volume.stat("/loop")
    assert caught.value.errno == errno.ELOOP


def test_append_in_threads(volume: warren.Volume) -> None:
    """Each write gets its own place at the end, whatever others write meanwhile."""
    threads, count, size = 4, 500, 10
    large = bytes([threads]) * 6000

    def append(number: int) -> None:
        with volume.open("/f", "a") as file:
            for _ in range(count):
                assert file.write(bytes([number]) * size) == size
                assert file.tell() % size == 0 and file.tell() >= size
                file.write(b"")

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        running = [threading.Thread(target=append, args=(number,)) for number in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    data = volume.open("/f").readall()
    parts = [data[i : i + size] for i in range(0, len(data), size)]
    assert sorted(parts) == [bytes([i // count]) * size for i in range(threads * count)]
    with volume.open("/f", "a+") as file:
        file.seek(3)
        assert file.write(large) == len(large) and file.tell() == len(data) + len(large)
        assert file.readall() == b"" and file.seek(len(data)) == len(data)
        assert file.readall() == large


def test_errors_name_the_file(volume: warren.Volume) -> None:
    volume.mkdir("/d")
    volume.open("/d/f", "w").close()
    for call, error in (
        (lambda: volume.open("/none"), FileNotFoundError),
        (lambda: volume.open("/d", "w"), IsADirectoryError),
        (lambda: volume.open("/d/f", "x"), FileExistsError),
        (lambda: volume.listdir("/d/f"), NotADirectoryError),
        (lambda: volume.rmdir("/d"), OSError),
        (lambda: volume.stat("/d/../none"), FileNotFoundError),
    ):
        with pytest.raises(error) as caught:
            call()
        assert isinstance(caught.value, OSError)
        assert caught.value.errno and caught.value.filename
    with pytest.raises(OSError):
        warren.Volume("/nowhere/v.img")


def test_closed_forked_pickled(volume: warren.Volume) -> None:
    file = volume.open("/f", "w")
    for each in (volume, file):
        with pytest.raises(TypeError):
            pickle.dumps(each)
    child = os.fork()
    if child == 0:
        try:
            volume.listdir()
        except RuntimeError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    volume.close()
    volume.close()
    with pytest.raises(ValueError):
        volume.listdir()
    with pytest.raises(ValueError):
        file.write(b"x")


def test_host_memory(tmp_path: Path) -> None:
    path = tmp_path / "v.img"
    for size in (-1, 1000):
        with pytest.raises(ValueError, match="host_memory"):
            warren.Volume.create(path, 64 << 20, host_memory=size)
        with pytest.raises(ValueError, match="host_memory"):
            warren.Volume(path, host_memory=size)
    data = os.urandom(3_000_001)
    path.unlink(missing_ok=True)
    with warren.Volume.create(path, 64 << 20, host_memory=1 << 20) as volume:
        names = [f"/{i}" for i in range(300)]
        parts = [data[i * 10_000 :][: i * 31] for i in range(300)]
        volume.write_many([*names, "/long"], [*parts, data], strict=True)
        for _ in range(2):
            found = volume.read_many(names, strict=True)
            assert [bytes(found[i]) for i in range(300)] == parts
            assert volume.open("/long").readall() == data
    with warren.Volume(path, read_only=True, host_memory=256 << 10) as volume:
        assert volume.open("/long").readall() == data
