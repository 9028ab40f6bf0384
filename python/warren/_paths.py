# SPDX-License-Identifier: Apache-2.0
"""One path at a time: the calls of os, os.path and glob, for the files of a volume."""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import operator
import os
import re
import stat
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, SupportsIndex

from . import _native
from ._results import Handle, Removal

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Buffer

Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]
Progress = Callable[[int], object] | None

PAST = -(1 << 63)  # nanoseconds: no time is before it
_USER_MAX = (1 << 32) - 2
_WILD = re.compile("[*?[]")


def number(name: str, value: SupportsIndex, least: int = 0, most: int = (1 << 63) - 1) -> int:
    """The value of the argument of that name. ValueError if it is not within the bounds."""
    whole = operator.index(value)
    if not least <= whole <= most:
        raise ValueError(f"{name}: must be from {least} to {most}, not {whole}")
    return whole


def host_path(path: Path) -> bytes:
    """The bytes of a path outside of volumes, which the system would end at a NUL."""
    name = os.fsencode(path)
    if b"\0" in name:
        raise ValueError("embedded null byte")
    return name


class Entry:
    """An entry of a directory, as os.DirEntry: its name, its path, its type.

    Any thread may use it. It is not told of later changes; `stat` asks the volume.
    """

    def __init__(self, paths: Paths, directory: str, name: str, inode: int, kind: int) -> None:
        self._paths = paths
        self._inode = inode
        self._kind = kind << 12
        self.name = name
        self.path = _join(directory, name)

    def inode(self) -> int:
        """The inode's number, of the entry itself."""
        return self._inode

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Asks the volume only where it follows a symbolic link; False if that leads nowhere."""
        return self._is(stat.S_IFDIR, follow_symlinks)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """As is_dir(), for a regular file."""
        return self._is(stat.S_IFREG, follow_symlinks)

    def is_symlink(self) -> bool:
        """Whether the entry itself is a symbolic link."""
        return self._kind == stat.S_IFLNK

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """As Paths.stat(), at the time of the call."""
        return self._paths.stat(self.path, follow_symlinks=follow_symlinks)

    def _is(self, kind: int, follows: bool) -> bool:
        if not (follows and self.is_symlink()):
            return self._kind == kind
        try:
            return stat.S_IFMT(self.stat().st_mode) == kind
        except FileNotFoundError:
            return False

    def __fspath__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return f"<warren.Entry {self.name!r}>"


def _leads_to_directory(entry: Entry) -> bool:
    """Entry.is_dir(), and False for a link that cannot be followed, as in os.walk()."""
    try:
        return entry.is_dir()
    except OSError:
        return False


class Entries(Iterator[Entry]):
    """What scandir() returns: an iterator that may be the subject of a `with`."""

    def __init__(self, entries: Iterator[Entry]) -> None:
        self._entries = entries

    def __next__(self) -> Entry:
        return next(self._entries)

    def close(self) -> None:
        """Ends the iteration."""
        self._entries = iter(())

    def __enter__(self) -> Entries:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Paths:
    """The calls of a Volume that take a path, named as in os and os.path and with their meaning.

    The umask is 022, and no path is relative to anything but the root.
    """

    _native: _native.Volume

    def stat(self, path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        """As os.stat(); st_dev is 0."""
        (mode, inode, links, user, group, size, accessed, modified, changed, blocks, _) = (
            self._native.stat(os.fsencode(path), follow_symlinks)
        )
        times = {"st_atime": accessed, "st_mtime": modified, "st_ctime": changed}
        named = {name: value / 1e9 for name, value in times.items()}
        exact = {name + "_ns": value for name, value in times.items()}
        whole = (value // 10**9 for value in times.values())
        return os.stat_result(
            (mode, inode, 0, links, user, group, size, *whole),
            {**named, **exact, "st_blocks": blocks * 8, "st_blksize": 4096, "st_rdev": 0},
        )

    def lstat(self, path: Path) -> os.stat_result:
        """As stat(), of a symbolic link itself."""
        return self.stat(path, follow_symlinks=False)

    def handle(self, path: Path) -> Handle:
        """The handle of what a path leads to."""
        found = self._native.stat(os.fsencode(path), True)
        return Handle(found[1], found[10])

    def statvfs(self) -> os.statvfs_result:
        """The space of the volume, as os.statvfs()."""
        blocks, free, available, inodes, inodes_free = self._native.statistics()
        return os.statvfs_result(
            (4096, 4096, blocks, free, available, inodes, inodes_free, inodes_free, 0, 255)
        )

    # As in os.path.

    def _mode(self, path: Path, follows: bool = True) -> int:
        """The type and permission of what is there; 0 if nothing is."""
        try:
            return self._native.stat(os.fsencode(path), follows)[0]
        except (OSError, UnicodeEncodeError):
            return 0

    def exists(self, path: Path) -> bool:
        """As os.path.exists(): False also if it may not be looked up."""
        return self._mode(path) != 0

    def lexists(self, path: Path) -> bool:
        """As exists(), for a symbolic link itself."""
        return self._mode(path, False) != 0

    def isdir(self, path: Path) -> bool:
        """As os.path.isdir()."""
        return stat.S_ISDIR(self._mode(path))

    def isfile(self, path: Path) -> bool:
        """As os.path.isfile()."""
        return stat.S_ISREG(self._mode(path))

    def islink(self, path: Path) -> bool:
        """As os.path.islink()."""
        return stat.S_ISLNK(self._mode(path, False))

    def getsize(self, path: Path) -> int:
        """Bytes."""
        return self._native.stat(os.fsencode(path), True)[5]

    # Directories.

    def listdir(self, path: Path = "/") -> list[str]:
        """The names in a directory, in no order."""
        return [os.fsdecode(name) for name, _, _ in self._native.list(os.fsencode(path))]

    def scandir(self, path: Path = "/") -> Entries:
        """The entries of a directory, in no order, as they are now."""
        top = os.fsdecode(path)
        found = self._native.list(os.fsencode(path))
        return Entries(Entry(self, top, os.fsdecode(name), *rest) for name, *rest in found)

    def walk(
        self,
        top: Path = "/",
        topdown: bool = True,
        onerror: Callable[[OSError], object] | None = None,
        followlinks: bool = False,
    ) -> Iterator[tuple[str, list[str], list[str]]]:
        """As os.walk(). find() is faster by far where its filters do."""
        left: list[str | tuple[str, list[str], list[str]]] = [os.fsdecode(top)]
        while left:
            path = left.pop()
            if isinstance(path, tuple):  # what is below has been visited
                yield path
                continue
            try:
                entries = list(self.scandir(path))
            except OSError as error:
                if onerror is not None:
                    onerror(error)
                continue
            folders = [entry.name for entry in entries if _leads_to_directory(entry)]
            known = set(folders)
            files = [entry.name for entry in entries if entry.name not in known]
            if topdown:
                yield path, folders, files
            else:
                left.append((path, folders, files))
            for name in reversed(folders):
                below = _join(path, name)
                if followlinks or not self.islink(below):
                    left.append(below)

    def glob(self, pattern: str | os.PathLike[str]) -> list[str]:
        """The paths that match, sorted: * ? [a-z] [!a-z] within a name, ** for any number of
        directories; with a slash at the end directories alone, which get one, too. Names that begin
        with a dot match like others, and ** follows no links."""
        pattern = os.fspath(pattern)
        to_directory = pattern.endswith("/")
        parts = [part for part in pattern.split("/") if part not in ("", ".")]
        found = {"/"}
        for i, part in enumerate(parts):
            is_last = i + 1 == len(parts) and not to_directory
            found = {each for path in found for each in self._expand(path, part, is_last)}
        if to_directory:
            found = {_join(path, "") for path in found if self.isdir(path)}
        return sorted(found)

    def _expand(self, path: str, part: str, is_last: bool) -> Iterator[str]:
        """What one part of a pattern matches below a path."""
        if part == "**":
            types = "" if is_last else "d"
            yield from self._tree(path, types)
        elif not _WILD.search(part):
            if self.lexists(below := _join(path, part)):
                yield below
        else:
            matches = re.compile(fnmatch.translate(part)).match
            try:
                names = self.listdir(path)
            except OSError:
                return
            yield from (_join(path, name) for name in names if matches(name))

    def _tree(self, path: str, types: str) -> Iterator[str]:
        raise NotImplementedError

    def mkdir(self, path: Path, mode: int = 0o777) -> None:
        """As os.mkdir(), with the umask 022."""
        self._native.make(os.fsencode(path), stat.S_IFDIR | stat.S_IMODE(mode), b"")

    def makedirs(self, path: Path, mode: int = 0o777, exist_ok: bool = False) -> None:
        """As os.makedirs(): directories on the way get the mode 0o777."""
        parts = os.fsdecode(path).strip("/").split("/")
        for i in range(1, len(parts)):
            if not self.exists(above := "/" + "/".join(parts[:i])):
                with contextlib.suppress(FileExistsError):  # another thread may make it
                    self.mkdir(above)
        try:
            self.mkdir(path, mode)
        except FileExistsError:
            if not exist_ok or not self.isdir(path):
                raise

    def rmdir(self, path: Path) -> None:
        """Removes an empty directory."""
        self._native.remove_directory(os.fsencode(path))

    def remove_tree(self, path: Path, *, progress: Progress = None) -> Removal:
        """Removes a file or a directory with all below it, at once. Ctrl-C does not end it."""
        return Removal(*self._native.remove_tree(os.fsencode(path), progress))

    # Names.

    def unlink(self, path: Path) -> None:
        """Removes a name that is not a directory's."""
        self._native.unlink(os.fsencode(path))

    remove = unlink

    def rename(self, path: Path, target: Path) -> None:
        """As os.replace(): an existing target is replaced."""
        self._native.rename(os.fsencode(path), os.fsencode(target))

    replace = rename

    def link(self, path: Path, target: Path) -> None:
        """As os.link(path, target): another name of the file; of a link, not of its target."""
        self._native.link(os.fsencode(path), os.fsencode(target))

    def symlink(self, target: Path, path: Path) -> None:
        """As os.symlink(target, path)."""
        self._native.make(os.fsencode(path), stat.S_IFLNK | 0o777, os.fsencode(target))

    def readlink(self, path: Path) -> str:
        """As os.readlink(): the target of a symbolic link."""
        return os.fsdecode(self._native.read_link(os.fsencode(path)))

    # Attributes.

    def access(self, path: Path, mode: int) -> bool:
        """As os.access(), for the user of this process."""
        if mode & ~(os.R_OK | os.W_OK | os.X_OK):
            raise ValueError(f"mode: {mode} is none of os.R_OK, os.W_OK, os.X_OK together")
        return self._native.has_access(os.fsencode(path), mode)

    def chmod(self, path: Path, mode: int, *, follow_symlinks: bool = True) -> None:
        """As os.chmod()."""
        self._native.change_mode(os.fsencode(path), stat.S_IMODE(mode), follow_symlinks)

    def chown(self, path: Path, uid: int, gid: int, *, follow_symlinks: bool = True) -> None:
        """As os.chown(): -1 leaves the user or group as it is."""
        self._native.change_owner(
            os.fsencode(path),
            None if uid == -1 else number("uid", uid, most=_USER_MAX),
            None if gid == -1 else number("gid", gid, most=_USER_MAX),
            follow_symlinks,
        )

    def utime(
        self,
        path: Path,
        times: tuple[float, float] | None = None,
        *,
        ns: tuple[int, int] | None = None,
        follow_symlinks: bool = True,
    ) -> None:
        """As os.utime(): times of access and change, in seconds or nanoseconds; None: now."""
        if times is not None and ns is not None:
            raise ValueError("utime: you may give times or ns, not both")
        if times is not None:
            ns = round(times[0] * 1e9), round(times[1] * 1e9)
        if ns is not None:
            ns = number("ns", ns[0], PAST), number("ns", ns[1], PAST)
        self._native.change_times(os.fsencode(path), ns, follow_symlinks)

    def truncate(self, path: Path, length: int) -> None:
        """As os.truncate(); bytes."""
        if length < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), os.fsdecode(path))
        self._native.truncate(os.fsencode(path), number("length", length))

    def getxattr(
        self, path: Path, attribute: str | bytes, *, follow_symlinks: bool = True
    ) -> bytes:
        """As os.getxattr(). OSError ENODATA if there is none of that name."""
        return self._native.get_attribute(
            os.fsencode(path), os.fsencode(attribute), follow_symlinks
        )

    def listxattr(self, path: Path = "/", *, follow_symlinks: bool = True) -> list[str]:
        """As os.listxattr()."""
        names = self._native.list_attributes(os.fsencode(path), follow_symlinks)
        return [os.fsdecode(name) for name in names.split(b"\0")[:-1]]

    def setxattr(
        self,
        path: Path,
        attribute: str | bytes,
        value: Buffer,
        flags: int = 0,
        *,
        follow_symlinks: bool = True,
    ) -> None:
        """As os.setxattr(): flags may be os.XATTR_CREATE or os.XATTR_REPLACE."""
        with memoryview(value) as view:
            content = view.tobytes()
        self._native.set_attribute(
            os.fsencode(path), os.fsencode(attribute), content, flags, follow_symlinks
        )

    def removexattr(
        self, path: Path, attribute: str | bytes, *, follow_symlinks: bool = True
    ) -> None:
        """As os.removexattr(). OSError ENODATA if there is none of that name."""
        self._native.remove_attribute(os.fsencode(path), os.fsencode(attribute), follow_symlinks)


def _join(directory: str, name: str) -> str:
    return directory + name if directory.endswith("/") or not directory else f"{directory}/{name}"
