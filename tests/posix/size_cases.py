# SPDX-License-Identifier: Apache-2.0
"""truncate, fallocate and write: sizes, zeros, holes, limits; and refusals."""

import errno
import mmap
import os
import resource

import calls
from stage import ALICE, BOB, KINDS, case, each, error_of

SIZES = (0, 1, 100, 183, 184, 4095, 4096, 4097, 65536, 1 << 20, (1 << 20) + 1)


@each("truncate: from {} to {} bytes and back", [(old, new) for old in SIZES for new in SIZES
                                                 if old != new and min(old, new) < 5000])
def resize(stage, old, new):
    path = stage.path("x")
    data = bytes(number % 251 + 1 for number in range(min(old, 70000))) * (old // 70000 + 1)
    data = data[:old]
    calls.write_file(path, data)
    calls.truncate(path, new)
    stage.equal(os.stat(path).st_size, new, "size")
    stage.true(calls.read_file(path) == data[:new].ljust(new, b"\0"), "content differs")
    calls.truncate(path, old)
    kept = data[:min(old, new)]
    stage.true(calls.read_file(path) == kept.ljust(old, b"\0"), "content differs at the end")


@each("truncate: refused on a {}", [
    ("directory", errno.EISDIR), ("fifo", errno.EINVAL), ("socket", errno.EINVAL),
    ("character", errno.EINVAL), ("block", errno.EINVAL)])
def refused(stage, kind, number):
    stage.fails(number, calls.truncate, stage.make(kind), 0)


@case("truncate: a negative size is EINVAL, one too large EFBIG or EINVAL")
def wrong_sizes(stage):
    path = stage.make("regular")
    stage.fails(errno.EINVAL, calls.truncate, path, -1)
    stage.fails((errno.EFBIG, errno.EINVAL), calls.truncate, path, (1 << 63) - 1)
    file = os.open(path, os.O_RDWR)
    stage.fails(errno.EINVAL, os.ftruncate, file, -1)
    stage.fails((errno.EFBIG, errno.EINVAL), os.ftruncate, file, (1 << 63) - 1)
    stage.fails((errno.EFBIG, errno.EINVAL), os.pwrite, file, b"x", (1 << 63) - 1)
    stage.fails(errno.EINVAL, os.pwrite, file, b"x", -1)
    stage.fails(errno.EINVAL, os.pread, file, 1, -1)
    os.close(file)
    stage.equal(os.stat(path).st_size, 0, "size")


@case("truncate: needs permission to write, ftruncate a descriptor for writing")
def truncate_permission(stage):
    path = stage.make("regular", "x", 0o644, ALICE)
    stage.fails(errno.EACCES, calls.truncate, path, 1, user=BOB)
    stage.succeeds(calls.truncate, path, 1, user=ALICE)
    file = os.open(path, os.O_RDWR)
    os.chmod(path, 0)
    stage.succeeds(os.ftruncate, file, 5, user=BOB)
    os.close(file)
    stage.equal(os.stat(path).st_size, 5, "size")


@case("truncate: through a symbolic link, and of an unlinked file")
def truncate_elsewhere(stage):
    path = stage.make("regular")
    os.symlink("x", stage.path("s"))
    calls.truncate(stage.path("s"), 77)
    stage.equal(os.stat(path).st_size, 77, "size")
    file = os.open(path, os.O_RDWR)
    os.unlink(path)
    os.ftruncate(file, 123)
    stage.equal(os.fstat(file).st_size, 123, "size")
    os.close(file)


@case("truncate: what was cut does not come back")
def cut_is_gone(stage):
    path = stage.path("x")
    calls.write_file(path, b"secret" * 5000)
    calls.truncate(path, 3)
    with open(path, "r+b") as file:
        file.seek(29999)
        file.write(b"!")
    stage.true(calls.read_file(path) == b"sec" + bytes(29996) + b"!", "old bytes appear")


@case("truncate: a mapping sees it")
def mapped(stage):
    path = stage.path("x")
    calls.write_file(path, b"m" * 8192)
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 8192) as memory:
        os.ftruncate(file.fileno(), 100)
        os.ftruncate(file.fileno(), 8192)
        stage.true(memory[:8192] == b"m" * 100 + bytes(8092), "mapping shows old bytes")
        memory[5000] = 65
        memory.flush()
        stage.equal(os.pread(file.fileno(), 3, 4999), b"\0A\0", "content")


@each("large: bytes at {}", [(1 << shift) - 3 for shift in (31, 32, 33, 40, 43)])
def large(stage, offset):
    path = stage.path("x")
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    os.pwrite(file, b"marker", offset)
    os.fsync(file)
    facts = os.fstat(file)
    stage.equal(facts.st_size, offset + 6, "size")
    stage.true(facts.st_blocks < 1000, f"{facts.st_blocks} blocks in use")
    stage.equal(os.pread(file, 100, offset - 4), b"\0\0\0\0marker", "content")
    stage.equal(os.pread(file, 4, offset // 2), bytes(4), "hole")
    os.ftruncate(file, offset + 2)
    stage.equal(os.pread(file, 100, offset - 1), b"\0ma", "content")
    os.ftruncate(file, 1)
    os.close(file)
    stage.equal(calls.read_file(path), b"\0", "content")


def under_limit(size, work):
    """Does `work` where files may grow to `size` bytes."""
    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        work()
    return limited


LIMITED = {"write": lambda file: os.pwrite(file, b"x", 8192),
           "ftruncate": lambda file: os.ftruncate(file, 8193),
           "fallocate": lambda file: calls.fallocate(file, 0, 0, 8193)}


@each("EFBIG: {} past the process's limit", LIMITED)
def past_limit(stage, name):
    path = stage.make("regular", "x", 0o666)
    os.chmod(stage.folder, 0o777)
    file = os.open(path, os.O_RDWR)
    stage.fails(errno.EFBIG, under_limit(8192, lambda: LIMITED[name](file)), user=ALICE)
    stage.equal(os.fstat(file).st_size, 0, "size")
    stage.succeeds(under_limit(8193, lambda: LIMITED[name](file)), user=ALICE)
    os.close(file)


@case("EFBIG: a write across the limit stops there")
def across_limit(stage):
    path = stage.make("regular", "x", 0o666)

    def work():
        file = os.open(path, os.O_RDWR)
        if os.pwrite(file, bytes(10000), 0) != 8192:
            raise OSError(errno.EIO, "length")

    stage.succeeds(under_limit(8192, work), user=ALICE)
    stage.equal(os.stat(path).st_size, 8192, "size")


@case("fallocate: gives blocks, zeros and the size; keeps what is there")
def allocates(stage):
    path = stage.path("x")
    calls.write_file(path, b"content")
    file = os.open(path, os.O_RDWR)
    os.posix_fallocate(file, 0, 100000)
    facts = os.fstat(file)
    stage.equal(facts.st_size, 100000, "size")
    stage.true(facts.st_blocks * 512 >= 100000, f"{facts.st_blocks} blocks are too few")
    stage.equal(os.pread(file, 10, 0), b"content\0\0\0", "content")
    os.posix_fallocate(file, 10, 20)
    stage.equal(os.fstat(file).st_size, 100000, "size")
    os.posix_fallocate(file, 1 << 20, 1)
    stage.equal(os.fstat(file).st_size, (1 << 20) + 1, "size")
    calls.fallocate(file, calls.FALLOC_KEEP_SIZE, 2 << 20, 1 << 20)
    stage.equal(os.fstat(file).st_size, (1 << 20) + 1, "size")
    calls.fallocate(file, calls.FALLOC_KEEP_SIZE | calls.FALLOC_PUNCH_HOLE, 0, 4)
    stage.equal(os.pread(file, 10, 0), b"\0\0\0\0ent\0\0\0", "content")
    os.close(file)


@case("fallocate: refusals")
def allocate_refused(stage):
    path = stage.make("regular")
    file = os.open(path, os.O_RDWR)
    for offset, length in ((0, 0), (-1, 10), (0, -10), (5, 0)):
        stage.fails(errno.EINVAL, os.posix_fallocate, file, offset, length)
    stage.fails(errno.EFBIG, calls.fallocate, file, 0, (1 << 63) - 10, 9)
    stage.fails(errno.EOPNOTSUPP, calls.fallocate, file, calls.FALLOC_PUNCH_HOLE, 0, 10)
    stage.equal(os.fstat(file).st_size, 0, "size")
    stage.fails((errno.ENOSPC, errno.EFBIG), calls.fallocate, file, 0, 0, 1 << 40)
    os.ftruncate(file, 0)  # what the failing call took may be kept, and fills the volume
    os.close(file)
    pipe = os.open(stage.make("fifo", "p"), os.O_RDWR)
    stage.fails(errno.ESPIPE, calls.fallocate, pipe, 0, 0, 10)
    os.close(pipe)


@case("fallocate: works on an unlinked file")
def allocate_unlinked(stage):
    path = stage.make("regular")
    file = os.open(path, os.O_RDWR)
    os.unlink(path)
    os.posix_fallocate(file, 0, 567)
    stage.equal(os.fstat(file).st_size, 567, "size")
    os.close(file)


def fill(path):
    """Writes until it fails; the error number."""
    try:
        with open(path, "wb", buffering=0) as file:  # close(2) may tell as well
            for _ in range(400):
                file.write(b"f" * (1 << 20))
            os.fsync(file.fileno())
    except OSError as error:
        return error.errno
    return 0


@case("ENOSPC: a file larger than the volume; what was written stays, space comes back")
def no_space(stage):
    path = stage.path("x")
    before = os.statvfs(stage.folder)
    try:
        stage.equal(fill(path), errno.ENOSPC, "error")
        stage.fails(errno.ENOSPC, lambda: [calls.write_file(stage.path(f"y{number}"), b"g" * 100000)
                                           for number in range(200)])
        with open(path, "rb") as file:
            stage.equal(file.read(1 << 20), b"f" * (1 << 20), "content")
    finally:
        for name in os.listdir(stage.folder):
            os.unlink(stage.path(name))
        error_of(calls.sync_all, stage.folder)  # may say once more that pages found no space
    stage.becomes_true(lambda: os.statvfs(stage.folder).f_bavail >= before.f_bavail - 512,
                       "space was lost")
    stage.succeeds(calls.write_file, stage.path("z"), bytes(1 << 20))


@each("size of a {}", [kind for kind in KINDS if kind not in ("directory", "symlink")])
def size_is_zero(stage, kind):
    facts = os.lstat(stage.make(kind))
    stage.equal((facts.st_size, facts.st_blocks), (0, 0), "size and blocks")
