# SPDX-License-Identifier: Apache-2.0
"""Holds the reference counts of a Warren volume against its extents, by docs/FORMAT.md alone."""
import stat
import struct

from volume_image import (AREA_BYTES, BLOCK, EXTENT_SHARED, FRAME, FRAME_METADATA,
                          REFERENCE_COUNTS, require)


def shared_blocks(volume):
    """How many extents name a block, by its place, for each block that several name."""
    edges = []  # place, how many extents more lie behind it, how many without the flag shared
    for inode in volume.inodes():
        if inode.kind == stat.S_IFREG and inode.area_kind != AREA_BYTES:
            for _, place, length, flags in volume.extents(inode):
                unmarked = 0 if flags & EXTENT_SHARED else 1
                edges += [(place, 1, unmarked), (place + length * BLOCK, -1, -unmarked)]
    shared = {}
    begin = extents = unmarked = 0
    for at, more, more_unmarked in sorted(edges):
        if extents > 1 and begin < at:
            require(unmarked == 0, f'block at {begin}: {extents} extents name it, '
                                   f'{unmarked} of them without the flag shared')
            shared.update((place, extents) for place in range(begin, at, BLOCK))
        begin, extents, unmarked = at, extents + more, unmarked + more_unmarked
    return shared


def stored_counts(volume):
    """As shared_blocks(), but read from the reference counts of the frames."""
    stored = {}
    for number in range(volume.superblock.frames):
        index, entry = divmod(number, 31)
        volume.frame(number)
        (raw,) = struct.unpack_from('<Q', volume.table_blocks[index], 128 + entry * 128 + 72)
        if raw == 0:
            continue
        what = f'reference counts of frame {number}'
        require(volume.may_share(), f'{what}: this volume shares no blocks')
        place = volume.pointer(raw, what)
        volume.require_used(place, 1, FRAME_METADATA, what)
        data = volume.sound(place, REFERENCE_COUNTS, number)
        require(not any(data[48:2048]), f'{what}: no zeros before them')
        for block, extra in enumerate(struct.unpack_from('<512I', data, 2048)):
            if extra != 0:
                stored[number * FRAME + block * BLOCK] = extra + 1
    return stored


def check_counts(volume):
    """Holds the stored counts against the extents of all inodes; returns shared_blocks()."""
    shared, stored = shared_blocks(volume), stored_counts(volume)
    for place in sorted(shared.keys() | stored.keys()):
        named, counted = shared.get(place, 1), stored.get(place, 1)
        require(named == counted, f'block at {place}: shared by {named} extents, '
                                  f'but its count says {counted}')
    return shared
