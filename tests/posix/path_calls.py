# SPDX-License-Identifier: Apache-2.0
"""Every system call that takes a path, in one form: call(stage, path). Those of EXISTING need an
object there, those of NEW make one. `prepare` makes what their other operand names."""

import os
import stat

import calls

ACCESSED = (1_000_000_000, 5)


def prepare(stage, owner=None):
    """The other operands: files to link or rename, in a folder that everybody may write."""
    os.mkdir(stage.path("other"))
    os.chmod(stage.path("other"), 0o777)
    for name in ("to_link", "to_rename", "to_move"):
        stage.make("regular", f"other/{name}", 0o666, owner)


def other(stage, name):
    return stage.path("other", name)


EXISTING = {
    "stat": lambda stage, path: os.stat(path),
    "lstat": lambda stage, path: os.lstat(path),
    "open for reading": lambda stage, path: calls.open_and_close(path, os.O_RDONLY | os.O_NONBLOCK),
    "open for writing": lambda stage, path: calls.open_and_close(path, os.O_WRONLY | os.O_NONBLOCK),
    "open with O_TRUNC": lambda stage, path: calls.open_and_close(path, os.O_WRONLY | os.O_TRUNC),
    "chmod": lambda stage, path: os.chmod(path, 0o640),
    "chown": lambda stage, path: os.chown(path, 7, 8),
    "lchown": lambda stage, path: os.lchown(path, 7, 8),
    "truncate": lambda stage, path: calls.truncate(path, 10),
    "utimensat": lambda stage, path: calls.utimensat(path, ACCESSED, ACCESSED),
    "utimensat of the link": lambda stage, path: calls.utimensat(path, ACCESSED, ACCESSED,
                                                                 calls.AT_SYMLINK_NOFOLLOW),
    "readlink": lambda stage, path: os.readlink(path),
    "unlink": lambda stage, path: os.unlink(path),
    "rmdir": lambda stage, path: calls.rmdir(path),
    "link from": lambda stage, path: os.link(path, other(stage, "linked"), follow_symlinks=False),
    "rename from": lambda stage, path: os.rename(path, other(stage, "renamed")),
    "exchange": lambda stage, path: calls.renameat2(path, other(stage, "to_rename"),
                                                    calls.RENAME_EXCHANGE),
    "chdir": lambda stage, path: os.chdir(path),
    "opendir": lambda stage, path: os.listdir(path),
    "statvfs": lambda stage, path: os.statvfs(path),
    "setxattr": lambda stage, path: os.setxattr(path, "user.a", b"1"),
    "listxattr": lambda stage, path: os.listxattr(path),
}

NEW = {
    "creat": lambda stage, path: calls.open_and_close(path, os.O_CREAT | os.O_WRONLY),
    "creat with O_EXCL": lambda stage, path: calls.open_and_close(
        path, os.O_CREAT | os.O_EXCL | os.O_WRONLY),
    "mkdir": lambda stage, path: os.mkdir(path),
    "mkfifo": lambda stage, path: os.mkfifo(path),
    "mknod of a file": lambda stage, path: calls.mknod(path, stat.S_IFREG | 0o644),
    "mknod of a socket": lambda stage, path: calls.mknod(path, stat.S_IFSOCK | 0o644),
    "symlink": lambda stage, path: os.symlink("nowhere", path),
    "link to": lambda stage, path: os.link(other(stage, "to_link"), path),
    "rename to": lambda stage, path: os.rename(other(stage, "to_rename"), path),
    "rename with NOREPLACE to": lambda stage, path: calls.renameat2(
        other(stage, "to_move"), path, calls.RENAME_NOREPLACE),
}

# Which calls look at a symbolic link itself where it is the last component.
OF_THE_LINK = {"lstat", "lchown", "utimensat of the link", "readlink", "unlink", "rmdir",
               "link from", "rename from", "exchange"}
# Which change something when they succeed.
CHANGING = ["open for writing", "open with O_TRUNC", "chmod", "chown", "lchown", "truncate",
            "utimensat", "utimensat of the link", "unlink", "link from", "rename from",
            "exchange", "setxattr"]
ALL = {**EXISTING, **NEW}
