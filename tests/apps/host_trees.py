# SPDX-License-Identifier: Apache-2.0
"""Creates hostile trees and describes trees, for the tests that compare cp, sync, cmp, chmod and
chown with the system's tools.
"""

import hashlib
import os
import stat
import struct


def make_hostile_tree(root, choose, entries):
    """About `entries` files of all types, with holes, attributes, strange names and hard links."""
    directories = [root]
    files = []
    for number in range(entries):
        above = choose.choice(directories)
        name = b"".join(choose.choice([b"a", b"b", b"A1", b" ", b"\n", b"\\", b"'", b"*", b"-",
                                       b"\xc3\xa9", b"\xff"]) for _ in range(choose.randint(1, 5)))
        path = os.path.join(above, os.fsdecode(name + str(number).encode()))
        kind = choose.randrange(14)
        if kind < 3:
            os.mkdir(path)
            directories.append(path)
        elif kind == 3:
            os.symlink(choose.choice([".", "..", "nowhere", "/etc/hostname", "x" * 300] +
                                     files[-3:]), path)
        elif kind == 4 and files:
            os.link(choose.choice(files), path, follow_symlinks=False)
        elif kind == 5:
            os.mkfifo(path, 0o640)
        elif kind == 6:
            make_special(path, choose)
        elif kind == 7:
            make_sparse(path, choose)
            files.append(path)
        else:
            with open(path, "wb") as file:
                file.write(choose.randbytes(choose.choice([0, 1, 100, 4095, 4096, 4097, 50000])))
            files.append(path)
        decorate(path, choose)
    for path in directories:
        os.chmod(path, choose.choice([0o755, 0o700, 0o2775, 0o1777, 0o711]))
        os.utime(path, ns=(choose.randrange(10**18), choose.randrange(10**18)))


def make_special(path, choose):
    try:
        os.mknod(path, choose.choice([stat.S_IFCHR, stat.S_IFBLK, stat.S_IFSOCK]) | 0o600,
                 os.makedev(1, choose.randrange(1, 9)))
    except OSError:
        os.mkfifo(path)


def make_sparse(path, choose):
    with open(path, "wb") as file:
        for _ in range(choose.randrange(4)):
            file.seek(choose.randrange(1 << 22))
            file.write(choose.randbytes(choose.choice([1, 5000])))
        file.truncate(choose.randrange(1 << 22, 1 << 23))


def give_access_list(path, kind="system.posix_acl_access"):
    """Like `setfacl -m u:1234:rw,g:77:r`, in the bytes that the kernel reads."""
    entries = [(1, 6, -1), (2, 6, 1234), (4, 4, -1), (8, 4, 77), (16, 6, -1), (32, 4, -1)]
    value = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
    try:
        os.setxattr(path, kind, value)
    except OSError:
        pass  # not supported by this file system


def decorate(path, choose):
    kind = stat.S_IFMT(os.lstat(path).st_mode)
    if os.geteuid() == 0 and choose.randrange(3) == 0:
        os.lchown(path, choose.randrange(3000), choose.randrange(3000))
    if kind in (stat.S_IFREG, stat.S_IFIFO):
        os.chmod(path, choose.choice([0o644, 0o600, 0o755, 0o444, 0o4755, 0o2711]))
    if kind == stat.S_IFREG and choose.randrange(3) == 0:
        try:
            os.setxattr(path, "user.color", choose.randbytes(choose.choice([0, 3, 500])))
        except OSError:
            pass
    if kind == stat.S_IFREG and choose.randrange(4) == 0:
        give_access_list(path)
    os.utime(path, ns=(choose.randrange(10**18), choose.randrange(10**18)), follow_symlinks=False)


def describe(root, times=True, owner=True):
    """Everything that a copy of the tree at `root` keeps, by path, for comparison.

    `times` may be "files": only those of regular files.
    """
    facts = {}
    groups = {}
    paths = [b""]
    for above, folders, files in os.walk(os.fsencode(root)):
        for name in folders + files:
            paths.append(os.path.relpath(os.path.join(above, name), os.fsencode(root)))
    for path in sorted(paths):
        full = os.path.join(os.fsencode(root), path) if path else os.fsencode(root)
        status = os.lstat(full)
        kind = stat.S_IFMT(status.st_mode)
        fact = {"mode": oct(status.st_mode)}
        if owner:
            fact["owner"] = (status.st_uid, status.st_gid)
        if times is True or (times and kind == stat.S_IFREG):
            fact["time"] = status.st_mtime_ns
        if kind == stat.S_IFREG:
            fact["size"] = status.st_size
            with open(full, "rb") as file:
                fact["bytes"] = hashlib.sha256(file.read()).hexdigest()
        if kind == stat.S_IFLNK:
            fact["target"] = os.readlink(full)
        if kind in (stat.S_IFCHR, stat.S_IFBLK):
            fact["device"] = status.st_rdev
        if kind != stat.S_IFDIR and status.st_nlink > 1:
            # The first path of the same file in this tree.
            fact["group"] = groups.setdefault((status.st_dev, status.st_ino), path)
        fact["attributes"] = {name: os.getxattr(full, name, follow_symlinks=False)
                              for name in os.listxattr(full, follow_symlinks=False)}
        facts[path] = fact
    return facts


def allocated(root):
    """The number of 512-byte sectors of all regular files."""
    total = 0
    for above, _, files in os.walk(os.fsencode(root)):
        for name in files:
            status = os.lstat(os.path.join(above, name))
            if stat.S_ISREG(status.st_mode):
                total += status.st_blocks
    return total
