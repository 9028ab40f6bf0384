# SPDX-License-Identifier: Apache-2.0
"""System calls that Python does not wrap, or wraps with more than the call itself. Each raises
OSError with the kernel's error number, as the functions of `os` do."""

import ctypes
import os
import struct

libc = ctypes.CDLL(None, use_errno=True)

AT_FDCWD = -100
AT_SYMLINK_NOFOLLOW = 0x100
AT_SYMLINK_FOLLOW = 0x400
RENAME_NOREPLACE = 1
RENAME_EXCHANGE = 2
UTIME_NOW = (1 << 30) - 1
UTIME_OMIT = (1 << 30) - 2
FALLOC_KEEP_SIZE = 1
FALLOC_PUNCH_HOLE = 2

ACCESS_LIST = "system.posix_acl_access"
DEFAULT_LIST = "system.posix_acl_default"
ACL_TAGS = {"user::": 1, "user": 2, "group::": 4, "group": 8, "mask": 16, "other": 32}
NO_ID = 0xffffffff


class Timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


def checked(answer):
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer


def renameat2(source, target, flags):
    checked(libc.renameat2(AT_FDCWD, os.fsencode(source), AT_FDCWD, os.fsencode(target), flags))


def linkat(source, target, flags):
    checked(libc.linkat(AT_FDCWD, os.fsencode(source), AT_FDCWD, os.fsencode(target), flags))


def utimensat(path, accessed, modified, flags=0):
    """Times are pairs (seconds, nanoseconds), or UTIME_NOW or UTIME_OMIT; both None: now."""
    times = None
    if accessed is not None:
        pairs = [time if isinstance(time, tuple) else (0, time) for time in (accessed, modified)]
        times = (Timespec * 2)(*(Timespec(*pair) for pair in pairs))
    checked(libc.utimensat(AT_FDCWD, os.fsencode(path), times, flags))


def fallocate(file, mode, offset, length):
    checked(libc.fallocate(file, mode, ctypes.c_long(offset), ctypes.c_long(length)))


def truncate(path, size):
    checked(libc.truncate(os.fsencode(path), ctypes.c_long(size)))


def mknod(path, mode, device=0):
    checked(libc.mknod(os.fsencode(path), mode, ctypes.c_ulong(device)))


def rmdir(path):
    checked(libc.rmdir(os.fsencode(path)))


def sync_all(folder):
    """Has the file system of that folder write all it holds back; no other one."""
    file = os.open(folder, os.O_RDONLY | os.O_NOATIME)
    try:
        checked(libc.syncfs(file))
    finally:
        os.close(file)


def open_and_close(path, flags, mode=0o644):
    os.close(os.open(path, flags, mode))


def write_file(path, data=b"", mode=0o644):
    file = os.open(path, os.O_WRONLY | os.O_CREAT, mode)
    try:
        os.write(file, data)
    finally:
        os.close(file)


def read_file(path):
    with open(path, "rb") as file:
        return file.read()


def access_list(*entries):
    """The bytes of a POSIX access control list: ("user::", 6), ("user", 1000, 6), ..."""
    data = struct.pack("<I", 2)
    for entry in entries:
        identity = entry[1] if len(entry) == 3 else NO_ID
        data += struct.pack("<HHI", ACL_TAGS[entry[0]], entry[-1], identity)
    return data
