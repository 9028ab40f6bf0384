#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds tools/read_volume.py, written from docs/FORMAT.md alone, against the program.

What the program puts into a volume must be what the reader finds there: names, attributes,
contents, before and after changes, with a transaction waiting in the journal, and in a damaged
image nothing worse than a complaint.
"""
import hashlib
import json
import os
import random
import stat
import struct
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
TOOL = os.path.join(HERE, '..', '..', '..', 'tools', 'read_volume.py')
sys.path.insert(0, os.path.dirname(TOOL))
import read_volume  # noqa: E402
import volume_image  # noqa: E402
import volume_references  # noqa: E402

WARREN = os.environ.get('WARREN', '')
BLOCK = 4096


def warren(*arguments, codes=(0,)):
    run = subprocess.run([WARREN, *arguments], capture_output=True, check=False)
    if run.returncode not in codes:
        raise AssertionError(f'warren {arguments}: exit {run.returncode}\n{run.stderr.decode()}')
    return run.stdout


def read_image(image, *options):
    """What the reader prints as JSON; an assertion if it complains."""
    run = subprocess.run([sys.executable, TOOL, '--json', *options, image], capture_output=True,
                         check=False)
    if run.returncode != 0:
        raise AssertionError(run.stderr.decode('utf-8', 'replace'))
    return json.loads(run.stdout)


def contents(seed, size):
    return random.Random(seed).randbytes(size)


class Tree:
    """A tree on the host with something of everything."""

    def __init__(self, root):
        self.root = root
        self.file(b'empty', b'')
        for size in (1, 127, 128, 129, 4095, 4096, 4097, 100_000, 3_000_000):
            self.file(b'size-%d' % size, contents(size, size))
        for name in (b'n' * 255, 'nämé-名'.encode(), b'not \xff utf-8', b'line\nfeed',
                     b'back\\slash', b' ', b'#', b'...'):
            self.file(b'names/' + name, name)
        for number in range(1500):
            self.file(b'many/file-%04d' % number, b'%d' % number)
        self.directory(b'deep/' + b'/'.join(b'level-%d' % level for level in range(40)))
        self.holes()
        self.links()
        self.special()
        self.times()

    def path(self, name):
        return os.path.join(self.root, name)

    def directory(self, name):
        os.makedirs(self.path(name), exist_ok=True)

    def file(self, name, data):
        self.directory(os.path.dirname(name))
        with open(self.path(name), 'wb') as file:
            file.write(data)

    def holes(self):
        with open(self.path(b'sparse'), 'wb') as file:
            for number in range(400):
                file.seek(number * 3 * BLOCK)
                file.write(b'%4096d' % number)
            file.truncate(5_000_000)
        with open(self.path(b'one-hole'), 'wb') as file:
            file.truncate(1 << 30)

    def links(self):
        os.symlink(b'size-1', self.path(b'link'))
        os.symlink(b't' * 128, self.path(b'link-128'))
        os.symlink(b't' * 129, self.path(b'link-129'))
        os.symlink(b'/'.join([b'long'] * 800), self.path(b'link-long'))
        for number in range(5):
            os.link(self.path(b'size-4097'), self.path(b'many/hard-%d' % number))

    def special(self):
        os.mkfifo(self.path(b'fifo'), 0o640)
        os.chmod(self.path(b'size-1'), 0o4751)
        os.chmod(self.path(b'deep'), 0o2775)
        os.chmod(self.path(b'many'), 0o1777)
        if os.geteuid() == 0:
            os.chown(self.path(b'size-127'), 12345, 54321)
            try:
                os.mknod(self.path(b'device'), stat.S_IFCHR | 0o600, os.makedev(10, 200))
            except PermissionError:
                pass
        try:
            os.setxattr(self.path(b'size-129'), 'user.note', b'some value')
            os.setxattr(self.path(b'size-129'), 'user.binary', bytes(range(256)))
            os.setxattr(self.path(b'deep'), 'user.empty', b'')
        except OSError:
            pass

    def times(self):
        moment = 1_600_000_000_123_456_789
        os.utime(self.path(b'size-128'), ns=(moment, moment))
        os.utime(self.path(b'size-129'), ns=(-5_000_000_001, -5_000_000_001))


def host_record(path, name):
    """What the reader should say of a file of the host."""
    status = os.lstat(path)
    kind = stat.S_IFMT(status.st_mode)
    found = {'path': name.decode('utf-8', 'surrogateescape'),
             'type': volume_image.TYPES[kind], 'mode': f'{stat.S_IMODE(status.st_mode):04o}',
             'user': status.st_uid, 'group': status.st_gid, 'modified': status.st_mtime_ns}
    if kind == stat.S_IFREG:
        with open(path, 'rb') as file:
            found['sha256'] = hashlib.sha256(file.read()).hexdigest()
    if kind in (stat.S_IFREG, stat.S_IFLNK):
        found['size'] = status.st_size
    if kind != stat.S_IFDIR:
        found['links'] = status.st_nlink
    if kind == stat.S_IFLNK:
        found['target'] = os.readlink(path).decode('utf-8', 'surrogateescape')
    if kind in (stat.S_IFBLK, stat.S_IFCHR):
        found['device'] = [os.major(status.st_rdev), os.minor(status.st_rdev)]
    try:
        names = [n for n in os.listxattr(path, follow_symlinks=False) if n.startswith('user.')]
        if names:
            found['attributes'] = {n: os.getxattr(path, n, follow_symlinks=False).hex()
                                   for n in names}
    except OSError:
        pass
    return found


def host_records(root):
    records = {}
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = os.path.join(folder, name)
            inside = b'/' + os.path.relpath(path, root)
            record = host_record(path, inside)
            records[record['path']] = record
    return records


class ReadVolumeTest(unittest.TestCase):
    maxDiff = 3000

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.image = os.path.join(self.folder.name, 'v.img')
        self.source = os.path.join(self.folder.name, 'source').encode()
        os.mkdir(self.source)
        warren('mkfs', '-q', '--label', 'reader', '--size', '64M', self.image)

    def fill(self):
        Tree(self.source)
        warren('cp', '-a', self.source.decode() + '/.', self.image + ':/')

    def compare_with_host(self):
        found = {record['path']: record for record in read_image(self.image)['entries']}
        expected = host_records(self.source)
        self.assertEqual(sorted(set(found) - {'/'}), sorted(expected))
        for path, record in expected.items():
            self.assertEqual({key: found[path].get(key) for key in record}, record)

    def compare_with_program(self):
        """The program's own listing and the reader's, attribute by attribute."""
        found = {record['path']: record
                 for record in read_image(self.image, '--no-contents')['entries']}
        listed = json.loads(warren('find', '--json', self.image + ':/'))
        prefix = self.image + ':'
        self.assertEqual(len(listed), len(found))
        for entry in listed:
            path = entry['path'].removeprefix(prefix)
            record = found[path]
            for key in ('mode', 'inode', 'links', 'user', 'group', 'size'):
                self.assertEqual(record[key], entry[key], (path, key))
            self.assertEqual(record['blocks'] * BLOCK, entry['allocated'], path)
            seconds, nanoseconds = divmod(record['modified'], 10 ** 9)
            self.assertEqual(f'{seconds}.{nanoseconds:09d}', str(entry['modified']), path)
        return found

    def check(self):
        warren('fsck', self.image)

    def test_empty_volume(self):
        listing = read_image(self.image)
        self.assertEqual([record['path'] for record in listing['entries']], ['/'])
        self.assertEqual(listing['label'], 'reader')
        self.assertEqual(listing['clean'], 1)
        information = json.loads(warren('info', '--json', self.image))
        if isinstance(information, list):
            information = information[0]
        self.assertEqual(listing['uuid'], information['uuid'])
        self.assertEqual(listing['size'], information['size'])

    def test_a_volume_that_deduplicates(self):
        self.assertFalse(read_image(self.image)['dedup'])
        warren('mkfs', '-q', '--force', '--dedup', self.image)
        self.assertTrue(read_image(self.image)['dedup'])
        data = contents(1, 200_000)
        for name in ('a', 'b'):
            with open(os.path.join(self.source.decode(), name), 'wb') as file:
                file.write(data)
        warren('cp', '-a', self.source.decode() + '/.', self.image + ':/')
        warren('fsck', self.image)
        self.compare_with_host()
        warren('resize', self.image, '128M')
        with open(self.image, 'r+b') as file:
            file.write(bytes(BLOCK))  # the second superblock has it as well
        self.assertTrue(read_image(self.image)['dedup'])
        warren('fsck', '--repair', self.image, codes=(1,))
        self.assertTrue(read_image(self.image)['dedup'])
        self.compare_with_host()

    def share_blocks(self):
        """Makes two files of the same blocks and a clone of both."""
        path = os.path.join(self.folder.name, 'file')
        with open(path, 'wb') as file:
            file.write(contents(1, 3_000_000))
        at = self.image + ':/'
        warren('mkdir', at + 'tree')
        warren('cp', path, at + 'tree/first')
        warren('cp', '--reflink=always', at + 'tree/first', at + 'tree/second')
        warren('clone', at + 'tree', at + 'clone')

    def extents_naming(self, path):
        """How many extents name the blocks of a file, block by block."""
        with open(self.image, 'rb') as file:
            volume = volume_image.Volume(file)
            number = self.number_of(volume, path)
            shared = volume_references.check_counts(volume)
            return [shared.get(place + i * BLOCK, 1)
                    for _, place, length, _ in volume.extents(volume.inode(number))
                    for i in range(length)]

    def test_shared_blocks(self):
        self.share_blocks()
        self.assertEqual(self.extents_naming('/clone/first'), [4] * 733)
        found = [record.get('sha256') for record in read_image(self.image)['entries']]
        self.assertEqual(len(set(found) - {None}), 1)
        at = self.image + ':/'
        warren('rm', at + 'tree/second')
        self.assertEqual(self.extents_naming('/clone/first'), [3] * 733)
        # The flags and the counts, all of them 0, stay with the last of the four files.
        warren('rm', '-r', at + 'tree', at + 'clone/second')
        self.assertEqual(self.extents_naming('/clone/first'), [1] * 733)
        read_image(self.image)
        self.check()

    def damage_sharing(self, change):
        """Calls change(inode, table, entry, counts) with the bytes of a file's inode, a block of
        the frame table, the offset there of the frame with the file's end, and its counts."""
        with open(self.image, 'r+b') as file:
            volume = volume_image.Volume(file)
            number = self.number_of(volume, '/tree/first')
            inode = volume.inode(number)
            *_, (_, place, length, _) = volume.extents(inode)
            index, entry = divmod((place + (length - 1) * BLOCK) // volume_image.FRAME, 31)
            entry = 128 + entry * 128
            table_place = volume.superblock.table + index * BLOCK
            table = bytearray(volume.block(table_place))
            counts_place = volume.pointer(struct.unpack_from('<Q', table, entry + 72)[0], '')
            counts = bytearray(volume.block(counts_place))
            inodes_place, at = number * 256 // BLOCK * BLOCK, number * 256 % BLOCK
            inodes = bytearray(volume.block(inodes_place))
            raw = inodes[at:at + 256]
            change(raw, table, entry, counts)
            self.seal_inode(raw, volume, number)
            inodes[at:at + 256] = raw
            for place, data in ((table_place, table), (counts_place, counts)):
                struct.pack_into('<I', data, 0, volume_image.crc32c(bytes(4) + data[4:]))
                file.seek(place)
                file.write(data)
            file.seek(inodes_place)
            file.write(inodes)

    def test_wrong_counts(self):
        """A count, or the flag of an extent, that does not fit what else the volume holds."""
        def set_count(is_used, count):
            def change(_, table, entry, counts):
                used = int.from_bytes(table[entry + 8:entry + 72], 'little')
                block = next(i for i in range(512) if used >> i & 1 == is_used)
                struct.pack_into('<I', counts, 2048 + 4 * block, count)
            return change

        def lose_pointer(_, table, entry, __):
            struct.pack_into('<Q', table, entry + 72, 0)

        def lose_flag(inode, *_):
            struct.pack_into('<I', inode, 128 + 20, 0)

        def change_owner(_, __, ___, counts):
            struct.pack_into('<Q', counts, 24, 1)

        self.share_blocks()
        with open(self.image, 'rb') as file:
            sound = file.read()
        for change, text in ((set_count(1, 4), 'by 4 extents, but its count says 5'),
                             (set_count(1, 2), 'by 4 extents, but its count says 3'),
                             (set_count(0, 1), 'by 1 extents, but its count says 2'),
                             (lose_pointer, 'by 4 extents, but its count says 1'),
                             (lose_flag, '4 extents name it, 1 of them without the flag shared'),
                             (change_owner, 'belongs to inode 1.0')):
            with self.subTest(text):
                with open(self.image, 'wb') as file:
                    file.write(sound)
                self.damage_sharing(change)
                with self.assertRaisesRegex(AssertionError, text):
                    read_image(self.image)
                warren('fsck', self.image, codes=(4,))
                self.repair(self.image)

    def test_tree(self):
        self.fill()
        self.compare_with_host()
        self.compare_with_program()
        self.check()
        data = warren('cat', self.image + ':/size-100000')
        self.assertEqual(data, contents(100_000, 100_000))

    def test_after_changes(self):
        self.fill()
        at = self.image + ':/'
        warren('mv', at + 'many/file-0007', at + 'moved')
        warren('rm', '-r', at + 'deep', at + 'names')
        for number in range(0, 1500, 3):
            os.unlink(os.path.join(self.source, b'many/file-%04d' % number))
        warren('rm', *[f'{at}many/file-{number:04d}' for number in range(0, 1500, 3)])
        self.compare_with_program()
        self.check()
        warren('rebuild', at + 'many')
        found = self.compare_with_program()
        self.check()
        kept = {path for path in found if path.startswith('/many/')}
        names = os.listdir(os.path.join(self.source.decode(), 'many'))
        self.assertEqual(kept, {'/many/' + name for name in names} - {'/many/file-0007'})
        self.assertIn('/moved', found)

    def test_grown_volume(self):
        self.fill()
        warren('resize', self.image, '40G')
        self.compare_with_host()
        self.check()

    @staticmethod
    def number_of(volume, path):
        """The inode number of a file."""
        return next(record['inode'] for record in read_volume.Lister(volume, False).walk()
                    if record['path'] == path)

    @staticmethod
    def seal_inode(inode, volume, number):
        struct.pack_into('<I', inode, 0, 0)
        identity = struct.pack('<QQ', volume.superblock.volume, number)
        struct.pack_into('<I', inode, 0, volume_image.crc32c(identity + inode))

    def log_owner(self, path, owner):
        """Puts a transaction into the journal that gives a file another owner."""
        with open(self.image, 'r+b') as file:
            volume = volume_image.Volume(file)
            number = self.number_of(volume, path)
            transaction = volume.superblock.transaction + 1
            place = number * 256 // BLOCK * BLOCK
            inodes = bytearray(volume.block(place))
            at = number * 256 % BLOCK
            inode = inodes[at:at + 256]
            struct.pack_into('<I', inode, 32, owner)
            self.seal_inode(inode, volume, number)
            inodes[at:at + 256] = inode
            superblock = bytearray(volume.block(0))
            struct.pack_into('<I', superblock, 224, 0)
            self.seal(superblock, volume, 0, volume_image.SUPERBLOCK, transaction)
            self.write_transaction(file, volume, transaction,
                                   {0: bytes(superblock), place: bytes(inodes)})

    @staticmethod
    def seal(block, volume, place, kind, transaction):
        struct.pack_into('<IHHQQQIIQ', block, 0, 0, kind, 0, volume.superblock.volume, place, 0, 0,
                         0, transaction)
        struct.pack_into('<I', block, 0, volume_image.crc32c(block))

    def write_transaction(self, file, volume, transaction, blocks):
        start = volume.superblock.journal
        descriptor = bytearray(BLOCK)
        struct.pack_into('<IIQQ', descriptor, 48, len(blocks), 0, len(blocks), 0)
        struct.pack_into(f'<{len(blocks)}Q', descriptor, 72, *blocks)
        self.seal(descriptor, volume, start, volume_image.JOURNAL_DESCRIPTOR, transaction)
        body = bytes(descriptor) + b''.join(blocks.values())
        commit = bytearray(BLOCK)
        struct.pack_into('<QI', commit, 48, len(blocks), volume_image.crc32c(body))
        self.seal(commit, volume, start + len(body), volume_image.JOURNAL_COMMIT, transaction)
        file.seek(start)
        file.write(body + commit)

    def test_waiting_transaction(self):
        self.fill()
        self.log_owner('/size-1', 4242)
        owners = {record['path']: record['user'] for record in read_image(self.image)['entries']}
        self.assertEqual(owners['/size-1'], 4242)
        self.assertEqual(owners['/size-128'], os.lstat(self.source + b'/size-128').st_uid)
        self.check()
        # Reading does not remove it; a repair replays it and finds nothing to correct.
        self.assertEqual(read_image(self.image)['replayed'], 2)
        warren('fsck', '--repair', self.image)
        self.assertEqual(read_image(self.image)['replayed'], 0)
        listed = json.loads(warren('stat', '--json', self.image + ':/size-1'))
        self.assertEqual((listed[0] if isinstance(listed, list) else listed)['user'], 4242)
        self.check()

    def test_torn_transaction(self):
        self.fill()
        self.log_owner('/size-1', 4242)
        with open(self.image, 'r+b') as file:
            volume = volume_image.Volume(file)
            file.seek(volume.superblock.journal + 2 * BLOCK + 100)
            file.write(b'torn')
        listing = read_image(self.image)
        self.assertEqual(listing['replayed'], 0)
        owners = {record['path']: record['user'] for record in listing['entries']}
        self.assertEqual(owners['/size-1'], os.lstat(self.source + b'/size-1').st_uid)
        self.check()

    def test_damaged_images(self):
        self.fill_small()
        with open(self.image, 'rb') as file:
            pristine = file.read()
        places = [place for place in range(0, len(pristine), BLOCK)
                  if any(pristine[place:place + BLOCK])]
        seed = int(os.environ.get('WARREN_SEED', '1'))
        source = random.Random(seed)
        damaged = os.path.join(self.folder.name, 'damaged.img')
        for number in range(25):
            subprocess.run(['cp', '--sparse=always', self.image, damaged], check=True)
            with open(damaged, 'r+b') as file:
                for _ in range(source.randrange(1, 4)):
                    at = source.choice(places) + source.randrange(BLOCK)
                    file.seek(at)
                    file.write(bytes([pristine[at] ^ 1 << source.randrange(8)]))
            run = subprocess.run([sys.executable, TOOL, damaged], capture_output=True, timeout=60,
                                 check=False)
            what = f'WARREN_SEED={seed}, image {number}: {run.stderr.decode()}'
            self.assertIn(run.returncode, (0, 1), what)
            self.assertNotIn('Traceback', run.stderr.decode(), what)
            self.assertEqual(run.returncode == 1, bool(run.stderr), what)
            warren('fsck', damaged, codes=(0, 4, 8))
            self.repair(damaged)

    def repair(self, image):
        """After a repair all agree that nothing is wrong, unless there is no superblock left."""
        run = subprocess.run([WARREN, 'fsck', '--repair', image], capture_output=True, check=False)
        self.assertIn(run.returncode, (0, 1, 8), run.stdout)
        if run.returncode != 8:
            warren('fsck', image)
            found = read_image(image)['entries']
            listed = json.loads(warren('find', '--json', image + ':/'))
            self.assertEqual(len(found), len(listed))

    def fill_small(self):
        path = os.path.join(self.source, b'data')
        with open(path, 'wb') as file:
            file.write(contents(1, 20_000))
        for count in range(60):
            os.link(path, path + b'%d' % count)
        warren('cp', '-a', self.source.decode() + '/.', self.image + ':/')

    def test_foreign_images(self):
        for data in (b'', b'short', bytes(1 << 20), contents(3, 1 << 20)):
            with open(self.image, 'wb') as file:
                file.write(data)
            run = subprocess.run([sys.executable, TOOL, self.image], capture_output=True,
                                 check=False)
            self.assertEqual(run.returncode, 1)
            self.assertEqual(len(run.stderr.decode().splitlines()), 1)
            self.assertIn(self.image, run.stderr.decode())


if __name__ == '__main__':
    if not WARREN or not os.path.exists(WARREN):
        print('WARREN does not name the program: skipped')
        sys.exit(77)
    unittest.main()
