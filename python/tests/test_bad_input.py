# SPDX-License-Identifier: Apache-2.0
"""What a caller may do wrong: closed volumes, wrong arrays, odd names, processes that come and go.
Each is an error that says so, never a crash."""

import errno
import functools
import gc
import inspect
import os
import pickle
import random
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import warren


def run(script: str, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs a script in another Python process."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        capture_output=True, text=True, timeout=120, **options,
    )  # fmt: skip


# Every method that reaches the volume.
CALLS: dict[str, Callable[[warren.Volume], object]] = {
    "sync": lambda v: v.sync(),
    "open": lambda v: v.open("f"),
    "stat": lambda v: v.stat("f"),
    "exists": lambda v: v.exists("f"),
    "handle": lambda v: v.handle("f"),
    "statvfs": lambda v: v.statvfs(),
    "listdir": lambda v: v.listdir(),
    "scandir": lambda v: v.scandir(),
    "walk": lambda v: list(v.walk()),
    "glob": lambda v: v.glob("*"),
    "mkdir": lambda v: v.mkdir("d"),
    "rmdir": lambda v: v.rmdir("d"),
    "unlink": lambda v: v.unlink("f"),
    "rename": lambda v: v.rename("f", "g"),
    "link": lambda v: v.link("f", "g"),
    "symlink": lambda v: v.symlink("f", "g"),
    "readlink": lambda v: v.readlink("g"),
    "remove_tree": lambda v: v.remove_tree("f"),
    "access": lambda v: v.access("f", 4),
    "chmod": lambda v: v.chmod("f", 0o600),
    "chown": lambda v: v.chown("f", 1, 1),
    "utime": lambda v: v.utime("f"),
    "truncate": lambda v: v.truncate("f", 1),
    "getxattr": lambda v: v.getxattr("f", "user.x"),
    "listxattr": lambda v: v.listxattr("f"),
    "setxattr": lambda v: v.setxattr("f", "user.x", b""),
    "removexattr": lambda v: v.removexattr("f", "user.x"),
    "copy": lambda v: v.copy("f", "g"),
    "lookup_many": lambda v: v.lookup_many(["f"]),
    "exists_many": lambda v: v.exists_many(["f"]),
    "exists_many of many": lambda v: v.exists_many(["f"] * 100),
    "create_many": lambda v: v.create_many(["f"]),
    "remove_many": lambda v: v.remove_many(["f"]),
    "move_many": lambda v: v.move_many(["f"], ["g"]),
    "read_many": lambda v: v.read_many(["f"]),
    "write_many": lambda v: v.write_many(["f"], [b""]),
    "find": lambda v: v.find(),
    "usage": lambda v: v.usage(),
    "map": lambda v: v.map("f"),
    "hash": lambda v: v.hash(["f"]),
    "rebuild": lambda v: v.rebuild("/"),
    "similar": lambda v: v.similar(["f"]),
    "dedup": lambda v: v.dedup(["f"]),
    "stat_tree": lambda v: v.stat_tree(),
    "doctor": lambda v: v.doctor(),
    "makedirs": lambda v: v.makedirs("d/e"),
    **{name: functools.partial(lambda name, v: getattr(v, name)("f"), name)
       for name in ("lstat", "lexists", "isdir", "isfile", "islink", "getsize", "remove",
                    "read_bytes", "read_text", "touch")},
    "write_bytes": lambda v: v.write_bytes("f", b"x"),
    "write_text": lambda v: v.write_text("f", "x"),
    "replace": lambda v: v.replace("f", "g"),
}  # fmt: skip


def test_every_method_is_tried() -> None:
    methods = {name for name, value in inspect.getmembers(warren.Volume)
               if callable(value) and not name.startswith("_")}  # fmt: skip
    assert methods - {"create", "close"} == {name for name in CALLS if " " not in name}


def test_closed_volume(volume: warren.Volume) -> None:
    volume.write_many(["f"], [b"data"], strict=True)
    file, mapped = volume.open("f", "r+"), volume.map("f")
    volume.close()
    assert volume.closed
    for name, call in CALLS.items():
        with pytest.raises(ValueError, match="closed volume"):
            call(volume)
        print(name)
    for use in (file.read, lambda: file.write(b""), lambda: file.truncate(0), file.sync,
                lambda: file.read_into(bytearray(1)), lambda: file.pread(bytearray(1)).result(),
                lambda: file.write_from(b""), lambda: file.seek(0, os.SEEK_END)):  # fmt: skip
        with pytest.raises(ValueError, match="closed volume"):
            use()
    file.close()
    with pytest.raises(ValueError, match="closed file"):
        file.read()
    assert bytes(memoryview(mapped.to_host())) == b"data"


def test_forked_process(volume: warren.Volume) -> None:
    volume.write_many(["f"], [b"data"], strict=True)
    file, mapped = volume.open("f", "r+"), volume.map("f")
    calls: list[tuple[str, Callable[[], object]]] = [
        *((name, functools.partial(call, volume)) for name, call in CALLS.items()),
        ("close", volume.close),
        ("read", file.read),
        ("write", lambda: file.write(b"")),
        ("map", lambda: bytes(mapped)),
        ("numpy", lambda: np.asarray(mapped)),
        ("dlpack", lambda: mapped.__dlpack__(copy=True)),
    ]
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        good = []
        for name, call in calls:
            try:
                call()
            except RuntimeError as error:
                if "fork" in str(error):
                    good.append(name)
            except BaseException:
                pass
        os.write(writer, ",".join(good).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        assert set(pipe.read().split(",")) == {name for name, _ in calls}
    assert os.waitpid(child, 0)[1] == 0
    assert file.read() == b"data" and bytes(memoryview(mapped.to_host())) == b"data"


@pytest.mark.parametrize("engine,device", [("cpu", "cuda:0"), ("auto", "cpu"), ("cuda", "gpu")])
def test_devices_that_are_no_gpu(tmp_path: Path, engine: str, device: str) -> None:
    with pytest.raises(ValueError, match="device: "):
        warren.Volume.create(tmp_path / "v.img", 64 << 20, engine=engine, device=device)


def test_nul_in_paths(volume: warren.Volume, tmp_path: Path) -> None:
    """No path ends silently at a NUL."""
    other = tmp_path / "other.img"
    warren.Volume.create(other, 64 << 20, label="kept").close()
    before = other.read_bytes()
    for path in (f"{other}\0x", os.fsencode(other) + b"\0x", Path(f"{other}\0")):
        with pytest.raises(ValueError, match="null byte"):
            warren.Volume(path)
        with pytest.raises(ValueError, match="null byte"):
            warren.Volume.create(path, 64 << 20, force=True)
    assert other.read_bytes() == before
    for target in ("a\0b", "\0", "x" * 200 + "\0", "x" * 1000 + "\0b"):
        with pytest.raises(OSError) as caught:
            volume.symlink(target, "/link")
        assert caught.value.errno == errno.EINVAL
        assert not volume.lexists("/link")


@pytest.mark.parametrize("way", ["volume", "file", "map", "array", "contents", "table", "found"])
def test_pickling(volume: warren.Volume, way: str) -> None:
    volume.write_many(["f"], [b"data"], strict=True)
    made: dict[str, object] = {
        "volume": volume,
        "file": volume.open("f"),
        "map": volume.map("f"),
        "array": volume.exists_many(["f"]),
        "contents": volume.read_many(["f"]),
        "table": volume.find(),
        "found": volume.lookup_many(["f"]),
    }
    with pytest.raises(TypeError):
        pickle.dumps(made[way])


def test_names_of_any_bytes(volume: warren.Volume) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    wanted = {bytes(rng.choices([c for c in range(1, 256) if c != 47], k=rng.choice([1, 3, 255])))
              for _ in range(200)} - {b".", b".."}  # fmt: skip
    names = sorted(wanted)
    volume.write_many(names, names, strict=True)
    for name in names:
        for form in (name, os.fsdecode(name), Path(os.fsdecode(name))):
            assert volume.open(form).read() == name
    assert {os.fsencode(name) for name in volume.listdir()} == wanted
    assert {os.fsencode(entry.path)[1:] for entry in volume.scandir()} == wanted
    found = volume.find(types="f", columns=["name", "path"])
    assert {os.fsencode(name) for name in found.text("name")} == wanted
    again = volume.read_many(found.text("path"), strict=True)
    assert {bytes(again[i]) for i in range(len(again))} == wanted
    for bad, code in (
        (b"a\0b", errno.EINVAL),
        (b"x" * 256, errno.ENAMETOOLONG),
        (b"none/" * 3, errno.ENOENT),
        (b"/" * 5000 + b"none", errno.ENOENT),
        ("none/é", errno.ENOENT),
    ):
        with pytest.raises(OSError) as caught:
            volume.stat(bad)
        assert caught.value.errno == code and caught.value.filename == os.fsdecode(bad)
        assert volume.lookup_many([bad]).errno.tolist() == [code]
    with pytest.raises(UnicodeEncodeError):
        volume.stat("\ud800")
    with pytest.raises(UnicodeEncodeError):
        volume.lookup_many(["f", "\ud800"])
    for wrong in (5, None, ["f"]):
        with pytest.raises(TypeError):
            volume.stat(wrong)  # type: ignore[arg-type]


def test_wrong_arrays(volume: warren.Volume) -> None:
    volume.write_many(["f"], [bytes(1000)], strict=True)
    strided, frozen = np.zeros(20, np.uint8)[::2], np.zeros(10, np.uint8)
    frozen.flags.writeable = False
    handles = np.array([volume.handle("f")])
    with volume.open("f", "r+") as file:
        for wrong in (strided, frozen, np.zeros((4, 4)).T, b"frozen", "text", 5, None, [1, 2],
                      np.array(["x"], object)):  # fmt: skip
            with pytest.raises(TypeError, match="target: a writable"):
                file.read_into(wrong)  # type: ignore[arg-type]
        for wrong in (strided, "text", 5, None, [1, 2]):
            with pytest.raises(TypeError, match="source: a C-contiguous"):
                file.write_from(wrong)  # type: ignore[arg-type]
        for offset in (-1, 1 << 63, 1 << 70):
            for call in (file.read_into, file.pread, file.write_from):
                with pytest.raises(ValueError, match="offset"):
                    call(bytearray(5), offset)  # type: ignore[operator]
        with pytest.raises(TypeError, match="integer"):
            file.read_into(bytearray(5), "0")  # type: ignore[arg-type]
        for position, error in ((-1, OSError), (1 << 63, ValueError)):
            with pytest.raises(error, match="position"):
                file.seek(position)
            with pytest.raises(error, match="size"):
                file.truncate(position)
        assert file.read_into(bytearray(5), 1 << 62) == 0
        for stream in (0, 1, 2, 12345):
            with pytest.raises(ValueError, match="stream"):
                file.read_into(bytearray(5), stream=stream)
        for wrong in (object(), -1, "1"):
            with pytest.raises(TypeError):
                file.read_into(bytearray(5), stream=wrong)
    for wrong in (handles.astype(np.int32), handles.astype(float), handles[:, :1], handles[0],
                  np.zeros((3, 2, 2), np.int64), 5, "f", b"f"):
        with pytest.raises(TypeError, match="files:"):
            volume.read_many(wrong)  # type: ignore[arg-type]
        if not isinstance(wrong, str | bytes):
            with pytest.raises(TypeError, match="files:"):
                volume.hash(wrong)  # type: ignore[arg-type]
    for out in (strided, frozen, np.zeros(2000, np.int8), b"x" * 2000, 5):
        with pytest.raises(TypeError, match="out:"):
            volume.read_many(["f"], out=out)  # type: ignore[arg-type]
    for wrong in (np.zeros(4), "text", None):
        with pytest.raises(TypeError, match="data: a contiguous uint8"):
            warren.chunk(wrong)  # type: ignore[arg-type]


def test_errors_of_the_caller_stay(volume: warren.Volume) -> None:
    def names() -> Iterator[str]:
        yield "/a"
        raise KeyError("own")

    class Name:
        def __fspath__(self) -> str:
            raise KeyError("own")

    for given in (names(), [Name()]):
        with pytest.raises(KeyError, match="own"):
            volume.exists_many(given)  # type: ignore[arg-type]


def test_wrong_values(tmp_path: Path, volume: warren.Volume) -> None:
    volume.write_many(["f"], [bytes(1000)], strict=True)
    for call, error in (
        (lambda: warren.Volume.create(tmp_path / "n", -1), ValueError),
        (lambda: warren.Volume.create(tmp_path / "n", 4096), OSError),
        (lambda: warren.Volume.create(tmp_path, 1 << 30), OSError),
        (lambda: warren.Volume(tmp_path), OSError),
        (lambda: warren.Volume(volume.path), OSError),
        (lambda: volume.open("f", "rw"), ValueError),
        (lambda: volume.open("f", ""), ValueError),
        (lambda: volume.find(depth_max=-1), ValueError),
        (lambda: volume.find(size_min=-1), ValueError),
        (lambda: volume.find(size_max=-1), ValueError),
        (lambda: volume.find(mtime_min=1 << 70), ValueError),
        (lambda: volume.find(mtime_max=-1 << 70), ValueError),
        (lambda: volume.find(columns=[5]), TypeError),  # type: ignore[list-item]
        (lambda: volume.usage(depth_max=1 << 32), ValueError),
        (lambda: volume.similar(["f"], block_bytes=-1), ValueError),
        (lambda: volume.truncate("f", 1 << 70), ValueError),
        (lambda: volume.write_many(["f", "g"], [b"one"]), ValueError),
        (lambda: volume.map("f", "uint8", (-2,)), ValueError),
        (lambda: volume.map("f", "uint8", (1 << 62, 1 << 62)), ValueError),
        (lambda: volume.map("f", "uint8", ("x",)), TypeError),  # type: ignore[arg-type]
        (lambda: volume.map("f", offset=2000), OSError),
        (lambda: volume.map("f", offset=-1), ValueError),
        (lambda: volume.map("f", offset=(1 << 63) - 1), OSError),
        (lambda: volume.chmod("f", -1), OverflowError),
        (lambda: volume.chown("f", -7, 0), ValueError),
        (lambda: volume.chown("f", 0, 1 << 32), ValueError),
        (lambda: volume.utime("f", ns=(1 << 70, 0)), ValueError),
        (lambda: volume.rebuild("f"), NotADirectoryError),
        (lambda: volume.find("f", progress=5), TypeError),  # type: ignore[arg-type]
    ):
        with pytest.raises(error) as raised:
            call()
        assert "incompatible function arguments" not in str(raised.value)
    (tmp_path / "notes").write_text("kept")
    with pytest.raises(ValueError, match="engine"):
        warren.Volume.create(tmp_path / "notes", 64 << 20, force=True, engine="gpu")
    assert (tmp_path / "notes").read_text() == "kept"
    for unmade in (warren.Map, warren.Array):
        with pytest.raises(BufferError, match="not initialized"):
            memoryview(unmade.__new__(unmade))
    (tmp_path / "noise").write_bytes(os.urandom(1 << 20))
    with pytest.raises(OSError) as caught:
        warren.Volume(tmp_path / "noise")
    assert "noise" in str(caught.value)
    with pytest.raises(OSError, match="in use") as caught:
        warren.Volume(volume.path)
    assert str(caught.value).count(volume.path) == 1 and caught.value.filename == volume.path
    assert volume.open("f").read() == bytes(1000)


def test_arrays_outlive_everything(tmp_path: Path) -> None:
    made = warren.Volume.create(tmp_path / "v.img", 64 << 20)
    made.write_many(["f"], [b"data" * 1000], strict=True)
    mapped = np.from_dlpack(made.map("f", "uint8", writable=True))
    contents = np.asarray(made.read_many(["f"]).values)
    capsule = made.map("f").__dlpack__(max_version=(1, 0))
    stream = made.find().__arrow_c_stream__()
    device = made.find().__arrow_c_device_array__()
    file = made.open("f")
    made.close()
    del made
    gc.collect()
    mapped[:4] = 1
    assert bytes(mapped[4:8]) == b"data" and bytes(contents[-4:]) == b"data"
    del capsule, stream, device, file, mapped, contents
    gc.collect()
    warren.Volume(tmp_path / "v.img").close()


def test_target_freed_early(volume: warren.Volume) -> None:
    volume.write_many(["f"], [bytes(8 << 20)], strict=True)
    with volume.open("f") as file:
        reads = [file.pread(np.empty(8 << 20, np.uint8)) for _ in range(8)]
        gc.collect()
        assert [read.result() for read in reads] == [8 << 20] * 8


def test_threads_and_close(tmp_path: Path) -> None:
    for _ in range(5):
        made = warren.Volume.create(tmp_path / "v.img", 64 << 20, force=True)
        made.write_many([f"f{i}" for i in range(100)], [b"x" * 200] * 100, strict=True)
        errors: list[BaseException] = []

        def work(volume: warren.Volume, errors: list[BaseException]) -> None:
            try:
                while True:
                    volume.read_many([f"f{i}" for i in range(100)], strict=True)
                    volume.stat("f1")
                    volume.exists_many(["f1", "none"])
                    volume.map("f2")
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(made, errors)) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.05)
        made.close()
        for thread in threads:
            thread.join(30)
        assert [str(error) for error in errors] == ["I/O operation on a closed volume"] * 4


def test_interpreter_shutdown(tmp_path: Path) -> None:
    script = """
        import sys, threading, warren, numpy
        volume = warren.Volume.create(sys.argv[1], 64 << 20, force=True)
        volume.write_many(["f"], [b"data" * 100], strict=True)
        file, mapped = volume.open("f", "r+"), volume.map("f", writable=True)
        shown = numpy.asarray(mapped)
        future = file.pread(bytearray(100))
        table, contents = volume.find(), volume.read_many(["f"])
        entries = volume.scandir()
        class Late:
            def __del__(self):
                assert bytes(shown[:4]) == b"late" and volume.exists("f")
        volume.circle = [Late(), volume]
        def busy():
            while True:
                volume.stat("f")
                volume.exists_many(["f"] * 1000)
        if len(sys.argv) > 2:
            threading.Thread(target=busy, daemon=True).start()
        file.write(b"late")
        print("end")
    """
    for arguments in ([], [], ["thread"], ["thread"], ["thread"]):
        done = run(script, tmp_path / "v.img", *arguments)
        assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")
    with warren.Volume(tmp_path / "v.img") as volume:
        assert volume.open("f").read()[:4] in (b"late", b"data")


def test_an_open_volume_is_closed_at_exit(tmp_path: Path) -> None:
    script = """
        import sys, warren
        volume = warren.Volume.create(sys.argv[1], 64 << 20)
        volume.write_many(["f"], [b"data"], strict=True)
        volume.open("g", "w").write(b"more")
    """
    done = run(script, tmp_path / "v.img")
    assert (done.returncode, done.stderr) == (0, "")
    with warren.Volume(tmp_path / "v.img", read_only=True) as volume:
        assert volume.open("f").read() == b"data" and volume.open("g").read() == b"more"


def test_subinterpreter() -> None:
    script = """
        import sys
        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters
        paths = list(sys.path)
        other = interpreters.create()
        code = "import sys\\nsys.path[:] = " + repr(paths) + "\\nimport warren"
        try:
            print(interpreters.run_string(other, code))
        except interpreters.RunFailedError as error:
            assert "subinterpreter" in str(error), error
        import warren
        print(warren.chunk(b"x").tolist())
    """
    done = run(script)
    assert (done.returncode, done.stdout) == (0, "[1]\n"), done.stderr


def test_spawned_process_opens_the_volume_itself(volume: warren.Volume) -> None:
    script = """
        import sys, warren
        try:
            warren.Volume(sys.argv[1])
        except OSError as error:
            print(error.errno, "in use" in str(error))
    """
    done = run(script, volume.path)
    assert done.stdout == f"{errno.EBUSY} True\n", done.stderr
