# SPDX-License-Identifier: Apache-2.0
"""Checked access to the image of a Warren volume, by docs/FORMAT.md alone.

It shares no code with the file system, so that the two can be held against each other. Every CRC,
identity and rule on the way is checked; nothing is ever written. A transaction that waits in the
journal is applied in memory.
"""
import stat
import struct

from volume_hashes import crc32c, name_hash

BLOCK = 4096
FRAME = 2 * 1024 * 1024
MASK = (1 << 64) - 1
SUPERBLOCK_FIELDS = '<QIIQQQ16s32s10QqIIQQQQQ'  # behind the block header
MAGIC = 0x0A314E4552524157
COPY_PLACE = FRAME - BLOCK
FEATURE_DEDUP = 1  # compatible
FEATURE_SHARED_BLOCKS = 1  # read-only compatible
FRAME_INODES, FRAME_METADATA, FRAME_DATA = 2, 3, 4
(SUPERBLOCK, FRAME_TABLE, INODE_BITMAP, DIRECTORY_LEAF, DIRECTORY_NODE, EXTENT_LEAF, EXTENT_NODE,
 ATTRIBUTES, JOURNAL_DESCRIPTOR, JOURNAL_COMMIT, LINK_TARGET,
 REFERENCE_COUNTS) = range(1, 13)
AREA_BYTES, AREA_EXTENTS, AREA_TREE, AREA_TARGET = 0, 1, 2, 3
EXTENT_UNWRITTEN, EXTENT_SHARED = 1, 2
HEIGHT_MAX = 12
KEY_END = MASK
TYPES = {stat.S_IFREG: 'file', stat.S_IFDIR: 'directory', stat.S_IFLNK: 'link',
         stat.S_IFBLK: 'block', stat.S_IFCHR: 'character', stat.S_IFIFO: 'fifo',
         stat.S_IFSOCK: 'socket'}


class Damage(Exception):
    """Bytes of the volume that break a rule of the format."""


def require(condition, text):
    if not condition:
        raise Damage(text)


class Superblock:
    def __init__(self, data):
        (self.magic, self.major, self.minor, self.compatible, self.read_only_compatible,
         self.incompatible, self.uuid, label, self.size, self.frames, key0, key1,
         self.table, self.table_blocks, self.journal, self.journal_blocks, self.root, self.orphans,
         self.created, self.clean, _, self.metadata_end, self.data_begin, self.blocks_used,
         self.inodes_used, self.generation) = struct.unpack_from(SUPERBLOCK_FIELDS, data, 48)
        (self.transaction,) = struct.unpack_from('<Q', data, 40)
        self.label = label.rstrip(b'\0')
        self.key = (key0, key1)
        (self.volume,) = struct.unpack_from('<Q', self.uuid, 0)


class Inode:
    def __init__(self, number, data):
        self.number = number
        (self.crc, self.generation, self.mode, self.links, self.size, self.parent, self.user,
         self.group, self.entries, _, self.flags, self.area_kind, self.height,
         self.area_count, _, self.device, _, self.blocks, self.attributes, self.transaction,
         self.accessed, self.modified, self.changed, self.born) = struct.unpack_from(
             '<IIIIQQIIQIHBBHHIQQQQqqqq', data, 0)
        self.area = data[128:256]

    @property
    def kind(self):
        return stat.S_IFMT(self.mode)


class Volume:
    """An image, its journal applied, with checked access to everything in it."""

    def __init__(self, file):
        self.file = file
        self.logged = {}  # place -> bytes: what a replay would write
        self.table_blocks = {}
        self.bitmaps = {}
        self.superblock = self.read_superblock()
        self.replay()
        if 0 in self.logged:
            self.superblock = self.read_superblock()

    # Blocks.

    def read(self, place, length):
        self.file.seek(place)
        data = self.file.read(length)
        require(len(data) == length, f'place {place}: the image ends before it')
        return data

    def block(self, place):
        return self.logged.get(place) or self.read(place, BLOCK)

    def sound(self, place, kind, owner=0, generation=0):
        """The block at `place`, which must be of this kind and owner."""
        data = self.block(place)
        crc, found, _, volume, of_place, of, of_generation = struct.unpack_from('<IHHQQQI', data, 0)
        what = f'block at {place}'
        require(crc == crc32c(bytes(4) + data[4:]), f'{what}: wrong CRC')
        require(found == kind, f'{what}: is of kind {found}, not {kind}')
        require(volume == self.superblock.volume, f'{what}: is of another volume')
        require(of_place == place, f'{what}: belongs at {of_place}')
        require((of, of_generation) == (owner, generation),
                f'{what}: belongs to inode {of}.{of_generation}, not {owner}.{generation}')
        return data

    def pointer(self, raw, what, indirect=False):
        require(raw & 0x77 == 5, f'{what}: {raw:#x} is no pointer to a block')
        require(bool(raw & 8) == indirect, f'{what}: {raw:#x} has a wrong indirect bit')
        place = raw >> 7
        require(place % BLOCK == 0 and place < self.superblock.size,
                f'{what}: place {place} is outside the volume')
        return place

    # Superblock and journal.

    def read_superblock(self):
        reasons = []
        for place in (0, COPY_PLACE):
            data = self.block(place)
            found = Superblock(data)
            crc, kind, _, volume, of_place, owner = struct.unpack_from('<IHHQQQ', data, 0)
            if found.magic != MAGIC:
                reasons.append(f'place {place}: no superblock')
            elif (crc != crc32c(bytes(4) + data[4:]) or kind != SUPERBLOCK or owner != 0
                  or volume != found.volume or of_place != place):
                reasons.append(f'place {place}: damaged superblock')
            else:
                self.check_superblock(found)
                return found
        raise Damage('; '.join(reasons))

    def check_superblock(self, found):
        require(found.major == 1, f'format version {found.major} is not known')
        require(found.incompatible == 0, f'features {found.incompatible:#x} are not known')
        require(found.size % FRAME == 0 and found.frames == found.size // FRAME > 0, 'wrong size')
        require(found.clean in (0, 1) and found.transaction != 0, 'wrong state in the superblock')
        require(found.table_blocks * 31 >= found.frames, 'the frame table is too short')
        require(found.journal_blocks % 2 == 0, 'the journal has no two halves')
        require(found.journal_blocks >= 256, 'the journal is too small')
        parts = sorted([(0, 1), (COPY_PLACE, 1), (found.table, found.table_blocks),
                        (found.journal, found.journal_blocks)])
        for (place, blocks), (following, _) in zip(parts, parts[1:] + [(found.size, 0)]):
            require(place % BLOCK == 0 and place + blocks * BLOCK <= following,
                    'the parts of the volume overlap')

    def replay(self):
        half_bytes = self.superblock.journal_blocks // 2 * BLOCK
        halves = [self.read_transaction(self.superblock.journal + i * half_bytes) for i in (0, 1)]
        known = self.superblock.transaction
        for number, blocks in sorted(half for half in halves if half is not None):
            if number > known or (number == known and self.superblock.clean == 0):
                self.logged.update(blocks)

    def journal_block(self, place, kind):
        """The journal block at `place` as it is on disk, or None."""
        try:
            return self.sound(place, kind)
        except Damage:
            return None

    def read_transaction(self, offset):
        """The number and the blocks of a complete transaction at `offset`, or None."""
        room = self.superblock.journal_blocks // 2
        first = self.journal_block(offset, JOURNAL_DESCRIPTOR)
        if first is None:
            return None
        (number,) = struct.unpack_from('<Q', first, 40)
        (total,) = struct.unpack_from('<Q', first, 56)
        descriptors = (total + 502) // 503
        if number == 0 or total == 0 or descriptors + total + 1 > room:
            return None
        places = []
        crc = 0
        for index in range(descriptors):
            data = self.journal_block(offset + index * BLOCK, JOURNAL_DESCRIPTOR)
            if data is None:
                return None
            of, count, _, of_total, of_index = struct.unpack_from('<QIIQQ', data, 40)
            expected = min(503, total - index * 503)
            if (of, count, of_total, of_index) != (number, expected, total, index):
                return None
            places.extend(struct.unpack_from(f'<{count}Q', data, 72))
            crc = crc32c(data, crc)
        start = offset + descriptors * BLOCK
        blocks = [self.read(start + i * BLOCK, BLOCK) for i in range(total)]
        for data in blocks:
            crc = crc32c(data, crc)
        commit = self.journal_block(start + total * BLOCK, JOURNAL_COMMIT)
        if commit is None or struct.unpack_from('<QQI', commit, 40) != (number, total, crc):
            return None
        begin, end = self.superblock.journal, self.superblock.journal
        end += self.superblock.journal_blocks * BLOCK
        if any(p % BLOCK or p >= self.superblock.size or begin <= p < end for p in places):
            return None
        return number, dict(zip(places, blocks))

    # Frames and inodes.

    def frame(self, number):
        """The kind of a frame and the bits of its blocks as one integer."""
        index, entry = divmod(number, 31)
        if index not in self.table_blocks:
            place = self.superblock.table + index * BLOCK
            data = self.block(place)
            self.table_blocks[index] = data if not any(data) else self.sound(place, FRAME_TABLE)
        data = self.table_blocks[index]
        at = 128 + entry * 128
        (kind,) = struct.unpack_from('<Q', data, at)
        return kind, int.from_bytes(data[at + 8:at + 72], 'little')

    def require_used(self, place, blocks, kind, what):
        while blocks > 0:
            number, first = place // FRAME, place % FRAME // BLOCK
            require(number < self.superblock.frames, f'{what}: place {place} is outside')
            count = min(blocks, 512 - first)
            found, bits = self.frame(number)
            require(found == kind, f'{what}: frame {number} is of kind {found}, not {kind}')
            wanted = (1 << count) - 1
            require(bits >> first & wanted == wanted, f'{what}: block at {place} is not in use')
            place += count * BLOCK
            blocks -= count

    def inode_exists(self, number):
        frame, slot = divmod(number, 8192)
        if slot < 16 or frame >= self.superblock.frames or self.frame(frame)[0] != FRAME_INODES:
            return False
        if frame not in self.bitmaps:
            self.bitmaps[frame] = self.sound(frame * FRAME, INODE_BITMAP)
        return bool(self.bitmaps[frame][64 + slot // 8] >> slot % 8 & 1)

    def inode(self, number):
        require(self.inode_exists(number), f'inode {number} does not exist')
        place = number * 256
        data = self.block(place // BLOCK * BLOCK)[place % BLOCK:place % BLOCK + 256]
        inode = Inode(number, data)
        identity = struct.pack('<QQ', self.superblock.volume, number)
        cleared = bytes(4) + data[4:64] + bytes(8) + data[72:]
        require(inode.crc == crc32c(identity + cleared), f'inode {number}: wrong CRC')
        require(inode.generation != 0, f'inode {number}: has no generation')
        require(inode.kind in TYPES, f'inode {number}: mode {inode.mode:o} names no type')
        return inode

    def inodes(self):
        """All inodes that exist, orphans included."""
        for frame in range(self.superblock.frames):
            if self.frame(frame)[0] == FRAME_INODES:
                numbers = range(frame * 8192 + 16, (frame + 1) * 8192)
                yield from map(self.inode, filter(self.inode_exists, numbers))

    # Trees.

    def leaves(self, inode, leaf_kind, node_kind):
        """Each leaf of an inode's tree with the keys that it covers: (data, low, high)."""
        what = f'inode {inode.number}'
        require(inode.area_count <= 8, f'{what}: has {inode.area_count} pairs')
        require(inode.height <= HEIGHT_MAX and (inode.height == 0) == (inode.area_count == 0),
                f'{what}: has height {inode.height} over {inode.area_count} pairs')
        todo = [(inode.area, 0, inode.area_count, inode.height, 0, KEY_END)]
        self.tree_blocks = 0
        while todo:
            data, at, count, height, low, high = todo.pop()
            pairs = [struct.unpack_from('<QQ', data, at + i * 16) for i in range(count)]
            keys = [key for key, _ in pairs] + [high]
            require(count == 0 or keys[0] == low, f'{what}: first key {keys[0]}, not {low}')
            require(all(a < b for a, b in zip(keys, keys[1:])), f'{what}: keys do not rise')
            for (key, raw), end in reversed(list(zip(pairs, keys[1:]))):
                todo_child = (raw, key, end)
                if height == 1:
                    todo.append(self.leaf_task(inode, todo_child, leaf_kind))
                else:
                    todo.append(self.node_task(inode, todo_child, node_kind, height - 1))
            while todo and todo[-1][3] is None:
                leaf, _, _, _, low, high = todo.pop()
                yield leaf, low, high

    def leaf_task(self, inode, child, kind):
        raw, low, high = child
        place = self.pointer(raw, f'inode {inode.number}')
        return self.tree_block(inode, place, kind), 0, 0, None, low, high

    def node_task(self, inode, child, kind, height):
        raw, low, high = child
        place = self.pointer(raw, f'inode {inode.number}', indirect=True)
        data = self.tree_block(inode, place, kind)
        count, of_height = struct.unpack_from('<II', data, 48)
        require(1 <= count <= 252 and of_height == height,
                f'node at {place}: {count} pairs at height {of_height}, not {height}')
        return data, 64, count, height, low, high

    def tree_block(self, inode, place, kind):
        self.tree_blocks += 1
        require(self.tree_blocks <= self.superblock.size // BLOCK,
                f'inode {inode.number}: its tree has no end')
        self.require_used(place, 1, FRAME_METADATA, f'inode {inode.number}')
        return self.sound(place, kind, inode.number, inode.generation)

    # Directories.

    def entries(self, inode):
        """(name, number, type) of each entry, in the order of keys."""
        what = f'inode {inode.number}'
        require(inode.area_kind == AREA_TREE, f'{what}: a directory without a tree')
        group, names = None, set()
        total = 0
        for leaf, low, high in self.leaves(inode, DIRECTORY_LEAF, DIRECTORY_NODE):
            for key, name, number, kind in sorted(self.leaf_entries(leaf, what)):
                require(low <= key < high, f'{what}: {name!r} lies in a wrong leaf')
                require(key >> 8 == name_hash(self.superblock.key, name),
                        f'{what}: {name!r} has a wrong hash')
                low = key + 1  # keys rise strictly
                if key >> 8 != group:
                    group, names = key >> 8, set()
                require(name not in names, f'{what}: {name!r} is there twice')
                names.add(name)
                total += 1
                yield name, number, kind
        require(total == inode.entries & (MASK >> 1),
                f'{what}: {total} names, but it counts {inode.entries & (MASK >> 1)}')
        require(inode.size == self.tree_blocks * BLOCK, f'{what}: size {inode.size} is wrong')

    @staticmethod
    def leaf_entries(leaf, what):
        count, heap_used, heap_live = struct.unpack_from('<III', leaf, 48)
        require(heap_used <= 2112, f'{what}: a leaf with a heap of {heap_used}')
        live = 0
        spans = []
        for slot in range(96):
            target, position = struct.unpack_from('<QQ', leaf, 448 + slot * 16)
            number = target & 0xFFFFFFFFFFFF
            if number == 0:
                continue
            (row,) = struct.unpack_from('<I', leaf, 64 + slot * 4)
            length, offset = target >> 56, position & 0xFFFF
            padded = (length + 7) // 8 * 8
            require(length > 0 and offset % 8 == 0 and offset + padded <= heap_used,
                    f'{what}: a name outside of its heap')
            stored = leaf[1984 + offset:1984 + offset + padded]
            name = stored[:length]
            require(not any(stored[length:]), f'{what}: {name!r} has no zeros behind it')
            require(b'/' not in name and b'\0' not in name and name not in (b'.', b'..'),
                    f'{what}: {name!r} is no name')
            require(position >> 47 == 0, f'{what}: {name!r} has odd bits in its slot')
            spans.append((offset, offset + padded))
            live += 1
            yield row << 31 | (position >> 16 & 0x7FFFFFFF), name, number, target >> 48 & 255
        spans.sort()
        require(all(a[1] <= b[0] for a, b in zip(spans, spans[1:])), f'{what}: names overlap')
        require(live == count, f'{what}: a leaf counts {count} entries and has {live}')
        require(heap_live == sum(end - begin for begin, end in spans),
                f'{what}: a leaf counts {heap_live} bytes of names')

    # Contents.

    def extents(self, inode):
        what = f'inode {inode.number}'
        self.tree_blocks = 0
        end = 0
        for data, at, count, low, high in self.extent_arrays(inode):
            for i in range(count):
                block, raw, length, flags = struct.unpack_from('<QQII', data, at + i * 24)
                place = self.pointer(raw, what)
                require(1 <= length <= 1 << 30 and flags & ~3 == 0, f'{what}: an odd extent')
                require(not flags & EXTENT_SHARED or self.may_share(), f'{what}: a shared extent')
                require(block >= max(end, low) and block + length <= high,
                        f'{what}: an extent at block {block} that is out of order')
                self.require_used(place, length, FRAME_DATA, what)
                require(flags & EXTENT_UNWRITTEN or block * BLOCK < inode.size,
                        f'{what}: written blocks behind its end')
                end = block + length
                yield block, place, length, flags

    def may_share(self):
        return self.superblock.read_only_compatible & FEATURE_SHARED_BLOCKS != 0

    def extent_arrays(self, inode):
        if inode.area_kind == AREA_EXTENTS:
            require(inode.area_count <= 5, f'inode {inode.number}: too many extents')
            yield inode.area, 0, inode.area_count, 0, KEY_END
        elif inode.area_kind == AREA_TREE:
            for leaf, low, high in self.leaves(inode, EXTENT_LEAF, EXTENT_NODE):
                (count,) = struct.unpack_from('<I', leaf, 48)
                require(count <= 168, f'inode {inode.number}: a leaf with {count} extents')
                yield leaf, 64, count, low, high
        else:
            raise Damage(f'inode {inode.number}: area kind {inode.area_kind} in a file')

    def contents(self, inode, wants_bytes=True):
        """The bytes of a file in pieces; its extents are checked in any case."""
        if inode.area_kind == AREA_BYTES:
            require(inode.size <= 128, f'inode {inode.number}: {inode.size} bytes in the inode')
            yield inode.area[:inode.size]
            return
        at = owned = 0
        for block, place, length, flags in self.extents(inode):
            owned += length
            begin, end = block * BLOCK, min((block + length) * BLOCK, inode.size)
            if not wants_bytes or begin >= end:
                continue
            yield from zeros(begin - at)
            if flags & EXTENT_UNWRITTEN:
                yield from zeros(end - begin)
            else:
                for piece in range(begin, end, 1 << 20):
                    yield self.read(place + piece - begin, min(1 << 20, end - piece))
            at = end
        if wants_bytes:
            yield from zeros(inode.size - at)
        self.data_blocks = owned

    def target(self, inode):
        require(1 <= inode.size <= 4095, f'inode {inode.number}: a target of {inode.size} bytes')
        if inode.area_kind == AREA_BYTES and inode.size <= 128:
            target = inode.area[:inode.size]
        else:
            require(inode.area_kind == AREA_TARGET and inode.size > 128,
                    f'inode {inode.number}: area kind {inode.area_kind} in a link')
            (raw,) = struct.unpack_from('<Q', inode.area, 0)
            place = self.pointer(raw, f'inode {inode.number}')
            self.require_used(place, 1, FRAME_METADATA, f'inode {inode.number}')
            data = self.sound(place, LINK_TARGET, inode.number, inode.generation)
            (length,) = struct.unpack_from('<I', data, 48)
            require(length == inode.size - 120, f'inode {inode.number}: a target cut short')
            target = inode.area[8:] + data[64:64 + length]
        require(b'\0' not in target, f'inode {inode.number}: a NUL in its target')
        return target

    def attributes(self, inode):
        if inode.attributes == 0:
            return {}
        what = f'inode {inode.number}'
        place = self.pointer(inode.attributes, what)
        self.require_used(place, 1, FRAME_METADATA, what)
        data = self.sound(place, ATTRIBUTES, inode.number, inode.generation)
        (used,) = struct.unpack_from('<I', data, 48)
        require(used <= 4032, f'{what}: {used} bytes of attributes')
        found = {}
        at = 64
        while at < 64 + used:
            require(at + 4 <= 64 + used, f'{what}: attributes cut short')
            name_length, value_length = struct.unpack_from('<HH', data, at)
            end = at + (4 + name_length + value_length + 3) // 4 * 4
            require(1 <= name_length <= 255 and end <= 64 + used, f'{what}: attributes cut short')
            name = data[at + 4:at + 4 + name_length]
            require(name not in found, f'{what}: attribute {name!r} is there twice')
            found[name] = data[at + 4 + name_length:at + 4 + name_length + value_length]
            at = end
        return found


def zeros(length):
    while length > 0:
        piece = min(length, 1 << 20)
        yield bytes(piece)
        length -= piece
