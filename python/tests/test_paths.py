# SPDX-License-Identifier: Apache-2.0
"""Operations on one path, against os, os.path and pathlib on a tree of the host."""

import errno
import glob
import os
import random
import stat
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import warren


def outcome(call: Callable[..., object], *arguments: object, **options: object) -> object:
    """What a call returns, or the errno that it raises; of a status the mode, of names a set."""
    try:
        found = call(*arguments, **options)
    except OSError as error:
        return f"errno {error.errno}"
    if isinstance(found, os.stat_result):
        return found.st_mode
    return set(found) if isinstance(found, list) else found


@pytest.fixture
def twins(volume: warren.Volume, tmp_path: Path) -> tuple[warren.Volume, Path]:
    """The same tree in a volume and on the host."""
    host = tmp_path / "host"
    host.mkdir(mode=0o755)
    for folder in ("a", "a/b", "a/b/c", "d", ".dot"):
        volume.mkdir(folder)
        (host / folder).mkdir()
    for i, name in enumerate(("f.txt", "a/g.txt", "a/b/h.bin", "a/b/c/i.txt", ".dot/.j.txt")):
        volume.open(name, "w").write(b"x" * i)
        (host / name).write_bytes(b"x" * i)
    for target, name in (("a/b", "link"), ("none", "dangling"), ("f.txt", "d/file")):
        volume.symlink(target, name)
        (host / name).symlink_to(target)
    return volume, host


PATHS = (
    "f.txt", "a", "a/b", "link", "link/h.bin", "dangling", "none", "none/x", "f.txt/x", "d/file",
    "/",
)  # fmt: skip


def test_questions(twins: tuple[warren.Volume, Path]) -> None:
    volume, host = twins
    for path in PATHS:
        real = f"{host}/{path}"
        for name in ("exists", "lexists", "isdir", "isfile", "islink"):
            assert getattr(volume, name)(path) == getattr(os.path, name)(real), (name, path)
        if os.path.isfile(real):
            assert volume.getsize(path) == os.path.getsize(real)
        for follows in (True, False):
            ours = outcome(volume.stat, path, follow_symlinks=follows)
            assert ours == outcome(os.stat, real, follow_symlinks=follows), path
        assert outcome(volume.listdir, path) == outcome(os.listdir, real)
        assert outcome(volume.readlink, path) == outcome(os.readlink, real)
    assert volume.lstat("link").st_size == 3
    for path in ("a\0b", "x" * 300, "\ud800"):
        assert not volume.exists(path)


def test_scandir_and_walk(twins: tuple[warren.Volume, Path]) -> None:
    volume, host = twins
    with volume.scandir("/") as ours, os.scandir(host) as theirs:
        by_name = {entry.name: entry for entry in ours}
        for real in theirs:
            entry = by_name.pop(real.name)
            assert entry.path == f"/{real.name}" == os.fspath(entry)
            assert entry.inode() == volume.lstat(entry.path).st_ino
            assert entry.is_symlink() == real.is_symlink()
            for follows in (True, False):
                assert entry.is_dir(follow_symlinks=follows) == real.is_dir(follow_symlinks=follows)
                assert entry.is_file(follow_symlinks=follows) == real.is_file(
                    follow_symlinks=follows
                )
            if entry.is_file():
                assert entry.stat().st_size == real.stat().st_size
        assert not by_name and list(ours) == []
    for topdown, follows in ((True, False), (False, False), (True, True)):
        in_volume = [
            (folder, sorted(folders), sorted(files))
            for folder, folders, files in volume.walk("/", topdown, None, follows)
        ]
        on_host = [
            (folder[len(str(host)) :] or "/", sorted(folders), sorted(files))
            for folder, folders, files in os.walk(host, topdown, None, follows)
        ]
        assert sorted(in_volume) == sorted(on_host)
    order = [folder for folder, _, _ in volume.walk("/a", topdown=False)]
    assert order == ["/a/b/c", "/a/b", "/a"]
    pruned = []
    for folder, folders, _ in volume.walk("/"):
        folders[:] = [name for name in folders if name == "d"]
        pruned.append(folder)
    assert pruned == ["/", "/d"]
    errors: list[OSError] = []
    assert list(volume.walk("/none")) == [] == list(volume.walk("/f.txt", onerror=errors.append))
    assert [error.errno for error in errors] == [errno.ENOTDIR]


@pytest.mark.parametrize(
    "pattern",
    ["*", "*.txt", "a/*", "*/*.txt", "**/*.txt", "a/**/*.bin", "[ad]", "link/*", "none/*",
     "f.txt/*", "a/b", "nothing", ".*/.*", "**/c/*", "a/?.txt", "**/[!f-h].txt"],
)  # fmt: skip
def test_glob(twins: tuple[warren.Volume, Path], pattern: str) -> None:
    volume, host = twins
    theirs = sorted(f"/{path.relative_to(host)}" for path in host.glob(pattern))
    assert volume.glob(f"/{pattern}") == theirs == volume.glob(pattern)


@pytest.mark.parametrize(
    "pattern", ["*/", "a/*/", "a/", "f.txt/", "*.txt/", "link/", "dangling/", "none/", "a/**/"]
)
def test_glob_of_directories(twins: tuple[warren.Volume, Path], pattern: str) -> None:
    volume, host = twins
    theirs = glob.glob(pattern, root_dir=host, recursive=True, include_hidden=True)
    assert volume.glob(pattern) == sorted(f"/{path}" for path in theirs)
    assert volume.glob("/") == glob.glob("/")


def test_walk_of_a_deep_tree(volume: warren.Volume) -> None:
    """It is deeper than Python's functions may call each other."""
    depth = sys.getrecursionlimit() + 50
    volume.makedirs("/a" * depth)
    wanted = ["/"] + ["/a" * i for i in range(1, depth + 1)]
    assert [folder for folder, _, _ in volume.walk()] == wanted
    assert [folder for folder, _, _ in volume.walk(topdown=False)] == wanted[::-1]


def test_links_that_lead_nowhere(twins: tuple[warren.Volume, Path]) -> None:
    volume, folder = twins
    volume.mkdir("/w")
    (folder / "w").mkdir()
    volume.write_bytes("/w/f", b"")
    (folder / "w" / "f").write_bytes(b"")
    for name, target in (("loop", "loop"), ("behind", "f/x")):
        volume.symlink(target, f"/w/{name}")
        (folder / "w" / name).symlink_to(target)
    [(_, folders, files)] = volume.walk("/w")
    [(_, wanted_folders, wanted_files)] = os.walk(folder / "w")
    assert (folders, sorted(files)) == (wanted_folders, sorted(wanted_files))
    assert volume.glob("/w/*/*") == glob.glob(str(folder / "w" / "*" / "*")) == []


def test_slashes_behind_names(twins: tuple[warren.Volume, Path]) -> None:
    """As the kernel does it, but that a new name that must not have a slash is ENOTDIR."""
    volume, host = twins
    same = {f"errno {errno.ENOENT}": f"errno {errno.ENOTDIR}"}
    for path in ("f.txt/", "a/", "link/", "dangling/", "new/", "a/b//"):
        real = f"{host}/{path}"
        for mode in ("rb", "wb", "xb", "r+b"):
            if mode != "rb" or path.startswith("f"):
                ours = outcome(volume.open, path, mode)
                assert ours == outcome(open, real, mode), (path, mode)
        for name in ("unlink", "rmdir", "readlink", "mkdir", "lstat"):
            if path != "new/" or name != "mkdir":
                ours = outcome(getattr(volume, name), path)
                assert ours == outcome(getattr(os, name), real), (path, name)
        for name in ("link", "symlink"):
            ours = outcome(getattr(volume, name), "f.txt", path)
            theirs = outcome(getattr(os, name), f"{host}/f.txt", real)
            assert ours == same.get(theirs, theirs), (path, name)
    for source, target in (
        ("f.txt/", "x"), ("f.txt", "x/"), ("f.txt", "link/"), ("link/", "x"), ("link", "x/"),
        ("none/", "x"), ("none", "x/"), ("f.txt", "d/file/"), ("d", "f.txt/"), ("d/", "e/"),
        ("e", "d//"),
    ):  # fmt: skip
        theirs = outcome(os.rename, f"{host}/{source}", f"{host}/{target}")
        ours = volume.move_many([source], [target], strict=False)[0]
        assert (f"errno {ours}" if ours else None) == theirs, (source, target)
        if ours == 0:
            volume.rename(target, source)
        assert outcome(volume.rename, source, target) == theirs, (source, target)
    assert list(volume.create_many(["n/", "f.txt/"], strict=False).errno) == [
        errno.ENOTDIR,
        errno.EEXIST,
    ]
    assert list(volume.remove_many(["f.txt/", "link/"], strict=False)) == [errno.ENOTDIR] * 2
    assert sorted(volume.listdir("/")) == sorted(os.listdir(host))


def test_writing_through_a_link_to_a_new_name(twins: tuple[warren.Volume, Path]) -> None:
    volume, host = twins
    for folder in ("to", "none/x", "a/new", "loop", "slash"):
        for way in ("w", "x", "a", "touch", "write_many"):
            name = f"{way} to {folder.replace('/', ' ')}"
            target = name if folder == "loop" else f"{folder} {way}"
            if folder == "slash":
                target += "/"
            volume.symlink(target, name)
            (host / name).symlink_to(target)
            if way == "touch":
                ours, theirs = outcome(volume.touch, name), outcome((host / name).touch)
            elif way == "write_many":
                [code] = volume.write_many([name], [b""]).errno
                ours = f"errno {code}" if code else None
                theirs = outcome(lambda path: open(path, "w").close(), host / name)
            else:
                ours = outcome(lambda: volume.open(name, way).close())
                theirs = outcome(lambda: open(host / name, way).close())
            if folder != "slash" or way == "x":
                assert ours == theirs, name
            else:
                assert ours == f"errno {errno.ENOENT}", name  # EISDIR of the kernel
            assert volume.exists(target) == os.path.exists(host / target), name
    assert sorted(volume.listdir("/")) == sorted(os.listdir(host))


def test_makedirs_in_threads(volume: warren.Volume) -> None:
    def make(number: int) -> None:
        barrier.wait()
        volume.makedirs(f"/{number}/a/b/c/d", exist_ok=True)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            barrier = threading.Barrier(4)
            for number in range(100):
                list(pool.map(make, [number] * 4))
    finally:
        sys.setswitchinterval(interval)


def test_changes(twins: tuple[warren.Volume, Path]) -> None:
    volume, host = twins
    for path in PATHS[:-1]:
        real = f"{host}/{path}"
        calls: list[tuple[str, tuple[object, ...], dict[str, object]]] = [
            ("truncate", (3,), {}),
            ("truncate", (-1,), {}),
            ("chmod", (0o640,), {}),
            ("chmod", (0o7755,), {}),
            ("chown", (-1, 0), {}),
            ("utime", (), {"ns": (1_000_000_007, 2_000_000_011)}),
            ("utime", ((1.5, 2.25),), {}),
            ("utime", (), {"ns": (3, -4), "follow_symlinks": False}),
        ]
        for name, arguments, options in calls:
            ours = outcome(getattr(volume, name), path, *arguments, **options)
            theirs = outcome(getattr(os, name), real, *arguments, **options)
            assert ours == theirs, (name, path, arguments)
        if os.path.lexists(real):
            found, wanted = volume.lstat(path), os.lstat(real)
            assert found.st_mode == wanted.st_mode
            if not stat.S_ISLNK(found.st_mode):
                assert found.st_mtime_ns == wanted.st_mtime_ns
                assert found.st_atime_ns == wanted.st_atime_ns
            assert found.st_size == wanted.st_size or stat.S_ISDIR(found.st_mode)
    before = volume.stat("f.txt").st_mtime
    volume.utime("f.txt")
    assert volume.stat("f.txt").st_mtime > before + 1e6
    with pytest.raises(ValueError, match="both"):
        volume.utime("f.txt", (1, 1), ns=(1, 1))
    assert volume.access("f.txt", os.R_OK) and volume.access("f.txt", os.F_OK)
    assert not volume.access("none", os.F_OK)
    with pytest.raises(ValueError, match="mode"):
        volume.access("f.txt", 64)


def test_links(twins: tuple[warren.Volume, Path]) -> None:
    volume, host = twins
    for source, target in (
        ("f.txt", "a/second"), ("f.txt", "a"), ("none", "x"), ("a", "x"), ("f.txt", "none/x"),
        ("dangling", "d/other"), ("f.txt", "a/second"),
    ):  # fmt: skip
        ours = outcome(volume.link, source, target)
        theirs = outcome(os.link, host / source, host / target, follow_symlinks=False)
        assert ours == theirs, (source, target)
    assert volume.stat("f.txt").st_nlink == 2
    assert volume.handle("f.txt") == volume.handle("a/second")
    assert volume.readlink("d/other") == "none"
    for path, exist_ok in (("p/q/r", False), ("p/q/r", False), ("p/q/r", True), ("f.txt", True),
                           ("f.txt/x", True), ("p/q/s/", False)):  # fmt: skip
        ours = outcome(volume.makedirs, path, exist_ok=exist_ok)
        theirs = outcome(os.makedirs, host / path, exist_ok=exist_ok)
        assert ours == theirs, path
    volume.replace("f.txt", "p/q/s/f")
    volume.remove("p/q/s/f")
    assert not volume.exists("f.txt") and volume.stat("a/second").st_nlink == 1


def test_errors_of_two_paths(
    twins: tuple[warren.Volume, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    volume, host = twins
    monkeypatch.chdir(host)

    def both(call: Callable[..., object], *arguments: object, **options: object) -> object:
        with pytest.raises(OSError) as caught:
            call(*arguments, **options)
        return caught.value.errno, caught.value.filename, caught.value.filename2

    for path, target in (
        ("none", "x"), ("f.txt", "none/x"), ("f.txt", "a"), ("a", "f.txt"), ("d", "a"),
        ("a", "a/b/x"), ("f.txt/x", "y"), ("f.txt", "a/g.txt/x"), (b"f.txt", b"n\xffne/x"),
        (Path("none"), Path("x")),
    ):  # fmt: skip
        ours = both(volume.rename, path, target)
        texts = [os.fsdecode(one) for one in (path, target)]
        assert ours == both(os.rename, *texts), (path, target)
        assert both(volume.replace, path, target) == both(os.replace, *texts) == ours
        assert ours == both(volume.move_many, ["d/file", path], ["d/file", target], strict=True)
    for path, target in (("none", "x"), ("f.txt", "none/x"), ("f.txt", "a"), ("a/g.txt", "f.txt")):
        assert both(volume.link, path, target) == both(os.link, path, target), (path, target)
    assert both(volume.rename, "f.txt", "") == (errno.EBUSY, "f.txt", "")  # the root


def test_extended_attributes(twins: tuple[warren.Volume, Path]) -> None:
    volume, _ = twins
    assert volume.listxattr("f.txt") == []
    volume.setxattr("f.txt", "user.a", b"one")
    volume.setxattr("f.txt", b"user.b", bytearray(range(256)) * 4)
    assert sorted(volume.listxattr("f.txt")) == ["user.a", "user.b"]
    assert volume.getxattr("f.txt", "user.a") == b"one"
    assert volume.getxattr("f.txt", "user.b") == bytes(range(256)) * 4
    volume.setxattr("f.txt", "user.a", b"", os.XATTR_REPLACE)
    assert volume.getxattr("f.txt", "user.a") == b""
    for call, code in (
        (lambda: volume.setxattr("f.txt", "user.a", b"x", os.XATTR_CREATE), errno.EEXIST),
        (lambda: volume.setxattr("f.txt", "user.c", b"x", os.XATTR_REPLACE), errno.ENODATA),
        (lambda: volume.getxattr("f.txt", "user.c"), errno.ENODATA),
        (lambda: volume.removexattr("f.txt", "user.c"), errno.ENODATA),
        (lambda: volume.getxattr("none", "user.a"), errno.ENOENT),
        (lambda: volume.setxattr("f.txt", "colour", b"x"), errno.EOPNOTSUPP),
    ):
        assert outcome(call) == f"errno {code}"
    with pytest.raises(ValueError, match="flags"):
        volume.setxattr("f.txt", "user.a", b"", 7)
    volume.removexattr("f.txt", "user.a")
    assert volume.listxattr("f.txt") == ["user.b"]
    assert volume.listxattr("dangling", follow_symlinks=False) == []


def test_statvfs(volume: warren.Volume) -> None:
    before = volume.statvfs()
    assert before.f_blocks * before.f_frsize == 64 << 20
    volume.write_many(["f"], [os.urandom(1 << 20)], strict=True)
    after = volume.statvfs()
    assert before.f_bfree - after.f_bfree >= 256 and after.f_ffree < before.f_ffree
    assert volume.stat("f").st_blocks == 2048


def test_copy(volume: warren.Volume) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    for size in (0, 1, 128, 129, 4096, 5000, 300_000):
        data = rng.randbytes(size)
        volume.write_many(["f", "g"], [data, b"old" * 3000], strict=True)
        volume.copy("f", "g")
        assert volume.open("g").read() == data
        with volume.open("g", "r+") as file:
            file.write(b"new")
        assert volume.open("f").read() == data
    free = volume.statvfs().f_bfree
    volume.copy("f", "h")
    assert free - volume.statvfs().f_bfree < 10
    with pytest.raises(OSError, match="same file"):
        volume.copy("f", "/./f")
    assert volume.open("f").read() == data
    with pytest.raises(FileNotFoundError):
        volume.copy("none", "h")
    assert volume.open("h").read() == data
    with volume.open("f", "r+") as file, pytest.raises(OSError):
        file.copy_from(file)
