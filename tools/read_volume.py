#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lists a Warren volume, reading it by docs/FORMAT.md alone (see volume_image.py), as text or JSON.

Whatever breaks a rule of the format is named on standard error; then the exit code is 1. What can
be read is listed all the same.
"""
import argparse
import hashlib
import json
import signal
import stat
import sys

from volume_image import AREA_TARGET, FEATURE_DEDUP, TYPES, Damage, Volume, require
from volume_references import check_counts


def text(data):
    return data.decode('utf-8', 'surrogateescape')


class Lister:
    """Walks a volume from its root and notes what it finds, damage included."""

    def __init__(self, volume, wants_contents):
        self.volume = volume
        self.wants_contents = wants_contents
        self.damage = []
        self.names = {}  # inode number -> names seen
        self.links = {}  # inode number -> (path, links)

    def record(self, path, inode):
        found = {'path': text(path), 'type': TYPES[inode.kind],
                 'mode': f'{stat.S_IMODE(inode.mode):04o}', 'user': inode.user,
                 'group': inode.group, 'size': inode.size, 'modified': inode.modified,
                 'inode': inode.number, 'links': inode.links, 'blocks': inode.blocks}
        if inode.kind in (stat.S_IFBLK, stat.S_IFCHR):
            found['device'] = [inode.device >> 20, inode.device & 0xFFFFF]
        own = 0
        try:
            attributes = self.volume.attributes(inode)
            own = 1 if inode.attributes else 0
            if attributes:
                found['attributes'] = {text(name): value.hex()
                                       for name, value in sorted(attributes.items())}
            if inode.kind == stat.S_IFLNK:
                found['target'] = text(self.volume.target(inode))
                own += inode.area_kind == AREA_TARGET
            elif inode.kind == stat.S_IFREG:
                own += self.read_contents(inode, found)
            if inode.kind != stat.S_IFDIR:
                require(inode.blocks == own,
                        f'inode {inode.number}: owns {own} blocks but counts {inode.blocks}')
        except Damage as damage:
            self.damage.append(f'{text(path)}: {damage}')
        return found

    def read_contents(self, inode, found):
        digest = hashlib.sha256()
        self.volume.data_blocks = self.volume.tree_blocks = 0
        for piece in self.volume.contents(inode, self.wants_contents):
            digest.update(piece)
        if self.wants_contents:
            found['sha256'] = digest.hexdigest()
        return self.volume.data_blocks + self.volume.tree_blocks

    def walk(self):
        """Yields a record for each name, directories before what is in them."""
        root = self.volume.inode(self.volume.superblock.root)
        require(root.kind == stat.S_IFDIR and root.parent == root.number, 'the root is no root')
        todo = [(b'/', root)]
        seen = set()
        while todo:
            path, inode = todo.pop()
            if inode.kind == stat.S_IFDIR:
                if inode.number in seen:
                    self.damage.append(f'{text(path)}: a directory with two names')
                    continue
                seen.add(inode.number)
            yield self.record(path, inode)
            if inode.kind == stat.S_IFDIR:
                todo.extend(reversed(self.children(path, inode)))
        for number, (path, links) in sorted(self.links.items()):
            if links != self.names.get(number, 0):
                self.damage.append(f'{text(path)}: {self.names.get(number, 0)} names, '
                                   f'but it counts {links}')
        if not self.damage:  # else some extents may be unknown
            try:
                check_counts(self.volume)
            except Damage as damage:
                self.damage.append(str(damage))

    def children(self, path, inode):
        children = []
        directories = 0
        prefix = path if path.endswith(b'/') else path + b'/'
        try:
            for name, number, kind in self.volume.entries(inode):
                child_path = prefix + name
                try:
                    child = self.volume.inode(number)
                    require(kind == child.kind >> 12, f'inode {number}: entry of type {kind}')
                    if child.kind == stat.S_IFDIR:
                        require(child.parent == inode.number,
                                f'inode {number}: its parent is {child.parent}')
                        directories += 1
                    else:
                        self.names[number] = self.names.get(number, 0) + 1
                        self.links.setdefault(number, (child_path, child.links))
                except Damage as damage:
                    self.damage.append(f'{text(child_path)}: {damage}')
                    continue
                children.append((child_path, child))
            own = self.volume.tree_blocks + (1 if inode.attributes else 0)
            require(inode.blocks == own,
                    f'inode {inode.number}: owns {own} blocks but counts {inode.blocks}')
            require(inode.links == 2 + directories,
                    f'inode {inode.number}: {directories} subdirectories and {inode.links} links')
        except Damage as damage:
            self.damage.append(f'{text(path)}: {damage}')
        return children


def uuid_text(raw):
    digits = raw.hex()
    return '-'.join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def printable(name):
    """A name for one line: control characters and backslashes as three octal digits."""
    return ''.join(c if ' ' <= c != '\\' and c != '\x7f' else f'\\{ord(c):03o}' for c in name)


def line(record):
    """One record as a line of text."""
    seconds, nanoseconds = divmod(record['modified'], 10 ** 9)
    parts = [record['type'], record['mode'], f"{record['user']}:{record['group']}",
             str(record['size']), f'{seconds}.{nanoseconds:09d}', record.get('sha256', '-'),
             printable(record['path'])]
    if 'device' in record:
        parts[3] = '{},{}'.format(*record['device'])
    if 'target' in record:
        parts += ['->', printable(record['target'])]
    for name, value in record.get('attributes', {}).items():
        parts.append(f'{printable(name)}={value}')
    return ' '.join(parts)


def main():
    parser = argparse.ArgumentParser(description='List a Warren volume and check what is read.')
    parser.add_argument('image')
    parser.add_argument('--json', action='store_true', help='one JSON object')
    parser.add_argument('--no-contents', action='store_true', help='do not read file contents')
    options = parser.parse_args()
    sys.stdout.reconfigure(errors='surrogateescape')
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end as quietly as any filter
    damage = []
    try:
        with open(options.image, 'rb') as file:
            volume = Volume(file)
            lister = Lister(volume, not options.no_contents)
            damage = lister.damage
            if options.json:
                entries = list(lister.walk())
                print(json.dumps({'label': text(volume.superblock.label),
                                  'uuid': uuid_text(volume.superblock.uuid),
                                  'size': volume.superblock.size,
                                  'clean': volume.superblock.clean,
                                  'dedup': bool(volume.superblock.compatible & FEATURE_DEDUP),
                                  'replayed': len(volume.logged), 'entries': entries,
                                  'damage': damage}))
            else:
                for record in lister.walk():
                    print(line(record))
    except (Damage, OSError) as reason:
        damage = damage + [str(reason)]
    for reason in damage:
        print(f'{options.image}: {reason}'.encode('utf-8', 'surrogateescape').decode(
            'utf-8', 'replace'), file=sys.stderr)
    return 1 if damage else 0


if __name__ == '__main__':
    sys.exit(main())
