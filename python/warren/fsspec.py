# SPDX-License-Identifier: Apache-2.0
"""Volumes for the programs that know fsspec: `warren:///abs/v.img!/dir/f`."""

from __future__ import annotations

import errno
import io
import os
import stat
from array import array
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from typing import Any, ClassVar, cast

import fsspec  # type: ignore[import-untyped,import-not-found,unused-ignore]
import fsspec.utils  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ._file import File
from ._shared import close_shared_volume, shared_volume
from ._volume import Volume

Info = dict[str, Any]

_PROTOCOL = "warren://"
_END = (1 << 63) - 1

def _split(url: str) -> tuple[str, str]:
    """The path of the volume and the path inside it."""
    image, _, inside = url.removeprefix(_PROTOCOL).partition("!")
    return image, inside


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "directory"
    return "file" if stat.S_ISREG(mode) else "link" if stat.S_ISLNK(mode) else "other"


class _Reader(io.BufferedReader):
    """A buffered file that knows its size, as fsspec's own files do."""

    def __init__(self, file: File, buffer_size: int) -> None:
        super().__init__(file, buffer_size)
        self.size = file.seek(0, os.SEEK_END)
        file.seek(0)


def _absolute(volume: str | bytes | os.PathLike[Any]) -> str:
    return os.path.abspath(os.fsdecode(volume))


class _Cached(type(fsspec.AbstractFileSystem)):  # type: ignore[misc,unused-ignore]
    """fsspec knows an instance by the arguments of this call, and pickles them. A relative path
    would name another volume in another working directory."""

    def __call__(cls, *arguments: Any, **options: Any) -> Any:
        if arguments:
            arguments = _absolute(arguments[0]), *arguments[1:]
        elif "volume" in options:
            options["volume"] = _absolute(options["volume"])
        return super().__call__(*arguments, **options)


class WarrenFileSystem(
    fsspec.AbstractFileSystem,  # type: ignore[misc,unused-ignore]
    metaclass=_Cached,
):
    """The files of one volume.

    volume: the path of its file or device, a relative one from the working directory of this call.
    It is opened at the first use and shared by all file systems of this process that name it;
    close() or the end of the process closes it. After pickling the volume is opened anew, which
    needs that no other process has it open, unless all have it `read_only`. Threads may share a
    file system. Writing makes the directories that are missing. There are no transactions.
    """

    protocol: ClassVar[str] = "warren"  # pyright: ignore[reportIncompatibleVariableOverride]
    root_marker: ClassVar[str] = "/"

    def __init__(self, volume: str, read_only: bool = False, **options: Any) -> None:
        super().__init__(volume=volume, read_only=read_only, **options)
        self._image = _absolute(volume)
        self._read_only = read_only

    @property
    def volume(self) -> Volume:
        """The open volume."""
        return shared_volume(self._image, self._read_only)

    def close(self) -> None:
        """Makes all changes durable and closes the volume; the next use opens it again."""
        close_shared_volume(self._image, self._read_only)

    @property
    def fsid(self) -> str:
        return f"warren_{self._image}"

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        path = fsspec.utils.stringify_path(path)
        if path.startswith(_PROTOCOL):
            path = _split(path)[1]
        return "/" + path.strip("/")

    def unstrip_protocol(self, name: str) -> str:
        return f"{_PROTOCOL}{self._image}!{self._strip_protocol(name)}"

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, str]:
        return {"volume": _split(path)[0]} if path.startswith(_PROTOCOL) else {}

    # Names.

    def _describe(self, name: str, found: os.stat_result, is_link: bool) -> Info:
        return {
            "name": name,
            "size": found.st_size,
            "type": _kind(found.st_mode),
            "mode": found.st_mode,
            "uid": found.st_uid,
            "gid": found.st_gid,
            "ino": found.st_ino,
            "nlink": found.st_nlink,
            "mtime": found.st_mtime,
            "created": found.st_ctime,
            "islink": is_link,
        }

    def info(self, path: str, **kwargs: Any) -> Info:
        """Size and type are those of what a link leads to, if it leads anywhere."""
        name = self._strip_protocol(path)
        found = self.volume.stat(name, follow_symlinks=False)
        is_link = stat.S_ISLNK(found.st_mode)
        if is_link and self.volume.exists(name):
            found = self.volume.stat(name)
        return self._describe(name, found, is_link)

    def lexists(self, path: str, **kwargs: Any) -> bool:
        try:
            self.volume.stat(self._strip_protocol(path), follow_symlinks=False)
        except OSError:
            return False
        return True

    def _below(self, top: Info, depth: int | None) -> dict[str, Info]:
        """What is below a directory, without itself, by name."""
        path = top["name"]
        if top["islink"] and top["type"] == "directory":
            path += "/"  # goes through the link
        columns = ("path", "size", "mode", "mtime", "ctime", "handle", "links", "user", "group")
        found = self.volume.find(path, depth_max=depth, columns=columns)
        rows = zip(*(found[name] for name in columns), strict=True)
        below = {}
        for name, size, mode, mtime, ctime, handle, links, user, group in cast("Any", rows):
            if stat.S_ISLNK(mode):
                below[name] = self.info(name)
                continue
            below[name] = {
                "name": name,
                "size": size,
                "type": _kind(mode),
                "mode": mode,
                "uid": user,
                "gid": group,
                "ino": handle[0],
                "nlink": links,
                "mtime": mtime / 1e9,
                "created": ctime / 1e9,
                "islink": False,
            }
        below.pop(top["name"], None)
        return below

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> Any:
        own = self.info(path)
        found = [own]
        if own["type"] == "directory":
            below = self._below(own, 1)
            found = [below[name] for name in sorted(below)]
        return found if detail else [each["name"] for each in found]

    def find(
        self,
        path: str,
        maxdepth: int | None = None,
        withdirs: bool = False,
        detail: bool = False,
        **kwargs: Any,
    ) -> Any:
        if maxdepth is not None and maxdepth < 1:
            raise ValueError("maxdepth must be at least 1")
        name = self._strip_protocol(path)
        found: dict[str, Info] = {}
        if self.exists(name):
            own = self.info(name)
            found = self._below(own, maxdepth)
            if own["type"] != "directory" or withdirs:
                found[name] = own
        if not withdirs:
            found = {each: info for each, info in found.items() if info["type"] != "directory"}
        names = sorted(found)
        return {each: found[each] for each in names} if detail else names

    def created(self, path: str) -> datetime:
        return datetime.fromtimestamp(self.info(path)["created"], tz=timezone.utc)

    def modified(self, path: str) -> datetime:
        return datetime.fromtimestamp(self.info(path)["mtime"], tz=timezone.utc)

    def mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        name = self._strip_protocol(path)
        if create_parents:
            self.makedirs(self._parent(name), exist_ok=True)
        self.volume.mkdir(name)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        name = self._strip_protocol(path)
        if not self.lexists(name):
            self._make_directories([name])
        elif not exist_ok or not self.isdir(name):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)

    def _make_directories(self, names: Iterable[str]) -> None:
        """Makes directories and those above them, a depth at a time."""
        given = sorted(set(names))
        is_there = self.volume.exists_many(given)
        missing = [name for name, there in zip(given, is_there, strict=True) if not there]
        wanted: set[str] = set()
        for name in missing:
            while name != "/" and name not in wanted:
                wanted.add(name)
                name = self._parent(name)
        for depth in sorted({name.count("/") for name in wanted}):
            level = [name for name in wanted if name.count("/") == depth]
            for name, code in zip(
                level, self.volume.create_many(level, directories=True).errno, strict=True
            ):
                if code and not self.isdir(name):
                    if code == errno.EEXIST and name not in given:  # a file above a given name
                        code = errno.ENOTDIR
                    raise OSError(code, os.strerror(code), name)

    def rmdir(self, path: str) -> None:
        self.volume.rmdir(self._strip_protocol(path))

    def rm_file(self, path: str) -> None:
        self.volume.unlink(self._strip_protocol(path))

    _rm = rm_file

    def rm(
        self, path: str | list[str], recursive: bool = False, maxdepth: int | None = None
    ) -> None:
        """Removes whole trees at once, files by one bulk call."""
        names = self.expand_path(path, recursive=recursive and maxdepth is not None,
                                 maxdepth=maxdepth)
        folders = []
        for name, code in zip(names, self.volume.remove_many(names), strict=True):
            if code == errno.EISDIR:
                folders.append(name)
            elif code:
                raise OSError(code, os.strerror(code), name)
        if not recursive and folders:
            raise IsADirectoryError(
                errno.EISDIR, "it is a directory: pass recursive=True", folders[0]
            )
        for name in sorted(folders, reverse=True):
            if maxdepth is not None:
                self.volume.rmdir(name)
            elif name == "/":
                for below in self.volume.listdir("/"):
                    self.volume.remove_tree("/" + below)
            elif self.lexists(name):
                self.volume.remove_tree(name)

    def mv(
        self,
        path1: str | list[str],
        path2: str | list[str],
        recursive: bool = False,
        maxdepth: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Renames; a directory moves with all that is in it. An existing directory is moved into,
        as by mv(1)."""
        if isinstance(path1, list) and isinstance(path2, list):
            names = [self._strip_protocol(each) for each in path1]
            targets = [self._strip_protocol(each) for each in path2]
        else:
            names = self.expand_path(path1)
            if isinstance(path2, list):
                raise TypeError("mv: one target is needed, or as many as paths")
            text = fsspec.utils.stringify_path(path2)
            target = self._strip_protocol(text)
            is_into = text.endswith("/") or self.isdir(target) or len(names) > 1
            targets = [
                f"{target.rstrip('/')}/{name.rsplit('/', 1)[1]}" if is_into else target
                for name in names
            ]
        self._make_directories(self._parent(each) for each in targets)
        self.volume.move_many(names, targets, strict=True)

    def symlink(self, src: str, dst: str, **kwargs: Any) -> None:
        self.volume.symlink(src, self._strip_protocol(dst))

    # Contents.

    def _open(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        path: str,
        mode: str = "rb",
        block_size: int | str | None = None,
        autocommit: bool = True,
        cache_options: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> io.BufferedIOBase:
        if not autocommit:
            raise NotImplementedError("there are no transactions")
        name = self._strip_protocol(path)
        if "r" not in mode:
            self._make_directories([self._parent(name)])
        file: File = self.volume.open(name, mode)
        size = io.DEFAULT_BUFFER_SIZE
        if isinstance(block_size, int) and block_size > 0:
            size = block_size
        if "+" in mode:
            return io.BufferedRandom(file, size)
        return _Reader(file, size) if "r" in mode else io.BufferedWriter(file, size)

    def tail(self, path: str, size: int = 1024) -> bytes:
        return self.cat_file(path, -size) if size > 0 else b""

    def touch(self, path: str, truncate: bool = True, **kwargs: Any) -> None:
        self.open(path, "wb" if truncate else "ab").close()
        if not truncate:
            self.volume.utime(self._strip_protocol(path))

    def cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        if self.isdir(path1):
            self.makedirs(path2, exist_ok=True)
            return
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        self._make_directories([self._parent(target)])
        self.volume.copy(source, target)

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any
    ) -> bytes:
        found = self.cat_ranges([path], [start], [end], on_error="raise")
        return cast("bytes", found[0])

    def cat_ranges(
        self,
        paths: list[str],
        starts: int | Sequence[int | None] | None,
        ends: int | Sequence[int | None] | None,
        max_gap: int | None = None,
        on_error: str = "return",
        **kwargs: Any,
    ) -> list[bytes | Exception]:
        """One bulk call reads all ranges."""
        if max_gap is not None:
            raise NotImplementedError("max_gap")
        if not isinstance(paths, list):
            raise TypeError("paths: a list is needed")
        if starts is None or isinstance(starts, int):
            starts = [starts] * len(paths)
        if ends is None or isinstance(ends, int):
            ends = [ends] * len(paths)
        if len(starts) != len(paths) or len(ends) != len(paths):
            raise ValueError("starts, ends: there must be as many as paths")
        names = [self._strip_protocol(path) for path in paths]
        contents = self.volume.read_many(
            names,
            starts=array("q", (0 if each is None else each for each in starts)),
            ends=array("q", (_END if each is None else each for each in ends)),
            strict=on_error == "raise",
        )
        found: list[bytes | Exception] = []
        for i, (name, code) in enumerate(zip(names, contents.errno, strict=True)):
            found.append(OSError(code, os.strerror(code), name) if code else bytes(contents[i]))
        return found

    def cat(
        self,
        path: str | list[str],
        recursive: bool = False,
        on_error: str = "raise",
        **kwargs: Any,
    ) -> Any:
        """One bulk call reads all files. A directory, which `recursive` meets too, is an error for
        `on_error`, as in the other file systems of fsspec."""
        names = self.expand_path(path, recursive=recursive)
        if names == [self._strip_protocol(path)]:
            return self.cat_file(names[0], **kwargs)
        found = self.cat_ranges(
            names, kwargs.get("start"), kwargs.get("end"),
            on_error="raise" if on_error == "raise" else "return",
        )
        return {
            name: data
            for name, data in zip(names, found, strict=True)
            if on_error != "omit" or isinstance(data, bytes)
        }

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        if mode == "create":
            with self._open(path, "xb") as file:
                file.write(value)
            return
        self.pipe({path: value})

    def pipe(
        self, path: str | dict[str, bytes], value: bytes | None = None, **kwargs: Any
    ) -> None:
        """One bulk call writes all files."""
        if not isinstance(path, dict):
            if value is None:
                raise ValueError("pipe: a value is needed")
            path = {path: value}
        if kwargs:
            for name, content in path.items():
                self.pipe_file(name, content, **kwargs)
            return
        names = [self._strip_protocol(name) for name in path]
        self._make_directories(self._parent(name) for name in names)
        self.volume.write_many(names, list(path.values()), strict=True)
