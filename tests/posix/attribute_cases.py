# SPDX-License-Identifier: Apache-2.0
"""Extended attributes: values, flags, limits, and who may use which name space on which type."""

import errno
import os

from stage import ALICE, BOB, KINDS, case, each


@each("xattr: a value of {} bytes", [0, 1, 100, 255, 256, 1000, 3000])
def value_sizes(stage, size):
    path = stage.make("regular")
    value = bytes(number % 256 for number in range(size))
    os.setxattr(path, "user.value", value)
    stage.equal(os.getxattr(path, "user.value"), value, "value")
    stage.equal(os.listxattr(path), ["user.value"], "names")
    os.setxattr(path, "user.value", value[:size // 2])
    stage.equal(os.getxattr(path, "user.value"), value[:size // 2], "shorter value")
    os.removexattr(path, "user.value")
    stage.equal(os.listxattr(path), [], "names")
    stage.fails(errno.ENODATA, os.getxattr, path, "user.value")


@case("xattr: several names, each with its value")
def several(stage):
    path = stage.make("regular")
    expected = {f"user.name{number}": bytes([number]) * number for number in range(30)}
    for name, value in expected.items():
        os.setxattr(path, name, value)
    stage.equal(sorted(os.listxattr(path)), sorted(expected), "names")
    for name in list(expected)[::2]:
        os.removexattr(path, name)
        del expected[name]
    stage.equal({name: os.getxattr(path, name) for name in os.listxattr(path)}, expected, "values")


@case("xattr: XATTR_CREATE and XATTR_REPLACE")
def flags(stage):
    path = stage.make("regular")
    stage.fails(errno.ENODATA, os.setxattr, path, "user.a", b"1", os.XATTR_REPLACE)
    os.setxattr(path, "user.a", b"1", os.XATTR_CREATE)
    stage.fails(errno.EEXIST, os.setxattr, path, "user.a", b"2", os.XATTR_CREATE)
    os.setxattr(path, "user.a", b"3", os.XATTR_REPLACE)
    stage.equal(os.getxattr(path, "user.a"), b"3", "value")
    stage.fails(errno.ENODATA, os.removexattr, path, "user.b")


@case("xattr: names of 255 bytes, not 256; unknown name spaces")
def names(stage):
    path = stage.make("regular")
    os.setxattr(path, "user." + "n" * 250, b"1")
    stage.equal(os.listxattr(path), ["user." + "n" * 250], "names")
    stage.fails(errno.ERANGE, os.setxattr, path, "user." + "n" * 251, b"1")
    stage.fails((errno.EOPNOTSUPP, errno.EINVAL), os.setxattr, path, "nowhere.a", b"1")
    stage.fails((errno.EINVAL, errno.EOPNOTSUPP), os.setxattr, path, "user.", b"1")


@each("xattr: user attributes of a {}", KINDS)
def user_space(stage, kind):
    path = stage.make(kind)
    number = 0 if kind in ("regular", "directory") else errno.EPERM
    stage.fails(number, os.setxattr, path, "user.a", b"1", follow_symlinks=False)


@each("xattr: trusted attributes of a {} are root's alone", KINDS)
def trusted_space(stage, kind):
    path = stage.make(kind, owner=ALICE)
    os.setxattr(path, "trusted.a", b"1", follow_symlinks=False)
    stage.equal(os.getxattr(path, "trusted.a", follow_symlinks=False), b"1", "value")
    stage.fails(errno.EPERM, os.setxattr, path, "trusted.a", b"2", follow_symlinks=False,
                user=ALICE)
    stage.fails(errno.ENODATA, os.getxattr, path, "trusted.a", follow_symlinks=False, user=ALICE)
    os.removexattr(path, "trusted.a", follow_symlinks=False)


@case("xattr: user attributes follow the permission bits")
def permission(stage):
    path = stage.make("regular", "x", 0o644, ALICE)
    stage.succeeds(os.setxattr, path, "user.a", b"1", user=ALICE)
    stage.fails(errno.EACCES, os.setxattr, path, "user.a", b"2", user=BOB)
    stage.fails(errno.EACCES, os.removexattr, path, "user.a", user=BOB)
    stage.succeeds(os.getxattr, path, "user.a", user=BOB)
    os.chmod(path, 0o600)
    stage.fails(errno.EACCES, os.getxattr, path, "user.a", user=BOB)
    stage.equal(os.getxattr(path, "user.a"), b"1", "value")


@case("xattr: in a sticky directory only its owner sets user attributes on it")
def sticky(stage):
    path = stage.make("directory", "d", 0o1777, ALICE)
    stage.succeeds(os.setxattr, path, "user.a", b"1", user=ALICE)
    stage.fails(errno.EPERM, os.setxattr, path, "user.a", b"2", user=BOB)


@case("xattr: through links, descriptors and renames")
def follow(stage):
    path = stage.make("regular")
    os.symlink("x", stage.path("s"))
    os.link(path, stage.path("y"))
    os.setxattr(stage.path("s"), "user.a", b"1")
    os.rename(path, stage.path("z"))
    stage.equal(os.getxattr(stage.path("y"), "user.a"), b"1", "value")
    file = os.open(stage.path("z"), os.O_RDWR)
    os.unlink(stage.path("z"))
    os.unlink(stage.path("y"))
    os.setxattr(file, "user.b", b"2")
    stage.equal(sorted(os.listxattr(file)), ["user.a", "user.b"], "names")
    os.close(file)


@case("xattr: do not go over to a new file of the same name")
def not_inherited(stage):
    path = stage.make("regular")
    os.setxattr(path, "user.a", b"1")
    os.unlink(path)
    stage.make("regular")
    stage.equal(os.listxattr(path), [], "names")
