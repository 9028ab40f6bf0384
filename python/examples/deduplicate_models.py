#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds equal files in a folder and lets them share their blocks. See docs/python/duplicates.md.

deduplicate_models.py IMAGE FOLDER [--apply]
"""

import argparse

import numpy as np
import warren


def equal_files(volume: warren.Volume, folder: str) -> list[list[str]]:
    """The paths of files with equal contents, in lists of two or more, but for empty files. The
    first of a list may have several names, the others have one."""
    columns = ["handle", "size", "links", "path"]
    tree = volume.find(folder, types="f", size_min=1, columns=columns)
    sizes, links = np.asarray(tree.array("size")), np.asarray(tree.array("links"))
    # Files of a size that no other has need not be read.
    _, kinds, counts = np.unique(sizes, return_inverse=True, return_counts=True)
    rows = np.flatnonzero(counts[kinds] > 1)
    digests = volume.hash(np.asarray(tree.array("handle"))[rows], "blake3", strict=True).digests
    _, groups = np.unique(np.asarray(digests), axis=0, return_inverse=True)
    by_group: dict[int, list[tuple[bool, str]]] = {}
    for row, group in zip(rows.tolist(), groups.ravel().tolist(), strict=True):
        by_group.setdefault(group, []).append((links[row] == 1, tree.text("path")[row]))
    found = []
    for names in map(sorted, by_group.values()):
        # To replace one name of several would free nothing.
        copies = [path for has_one_name, path in names[1:] if has_one_name]
        if copies:
            found.append([names[0][1], *copies])
    return sorted(found)


def share(volume: warren.Volume, original: str, copy: str) -> None:
    """Replaces `copy` by a file that shares the blocks of `original` until one of them is changed.
    Nobody may write to them meanwhile. The name is there at any time."""
    new = copy + ".shared"
    about = volume.stat(copy)
    volume.copy(original, new)
    volume.chmod(new, about.st_mode)
    volume.chown(new, about.st_uid, about.st_gid)
    volume.utime(new, ns=(about.st_atime_ns, about.st_mtime_ns))
    volume.replace(new, copy)


def main(arguments: list[str] | None = None) -> int:
    """Returns the number of bytes that are there twice."""
    parser = argparse.ArgumentParser(description="Find equal files and let them share blocks.")
    parser.add_argument("image", help="file of the volume")
    parser.add_argument("folder", help="path in the volume")
    parser.add_argument("--apply", action="store_true", help="share the blocks")
    options = parser.parse_args(arguments)
    twice = 0
    with warren.Volume(options.image, read_only=not options.apply) as volume:
        before = volume.statvfs()
        for original, *copies in equal_files(volume, options.folder):
            size = volume.getsize(original)
            twice += size * len(copies)
            for copy in copies:
                print(f"{size:>15,}  {copy}  as  {original}")
                if options.apply:
                    share(volume, original, copy)
        volume.sync()
        after = volume.statvfs()
        print(f"{twice:>15,}  bytes are there twice")
        if options.apply:
            freed = (after.f_bfree - before.f_bfree) * after.f_frsize
            print(f"{freed:>15,}  bytes more are free")
    return twice


if __name__ == "__main__":
    main()
