#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows a tree as a table: the largest kinds of files, and a treemap of the directories as PNG.
See docs/python/tables.md.

tree_as_table.py IMAGE PNG [--path PATH] [--depth N]
"""

import argparse
from collections import defaultdict
from typing import Any, NamedTuple

import matplotlib  # type: ignore[import-not-found,unused-ignore]
import matplotlib.pyplot as plt  # type: ignore[import-not-found,unused-ignore]
import warren
from matplotlib.patches import Rectangle  # type: ignore[import-not-found,unused-ignore]

matplotlib.use("Agg")


class Tile(NamedTuple):
    """The place of a directory in the treemap."""

    row: int  # of the table of usage()
    x: float
    y: float
    width: float
    height: float


def largest_kinds(volume: warren.Volume, path: str) -> Any:
    """Files and bytes by the ending of names: a DataFrame."""
    files = volume.find(path, types="f", columns=["size", "name"]).to_pandas()
    files["kind"] = files["name"].str.extract(r"(\.[^.]+)$", expand=False).fillna("")
    kinds = files.groupby("kind")["size"].agg(["count", "sum"])
    return kinds.sort_values("sum", ascending=False)


def tiles(usage: warren.Table) -> list[Tile]:
    """Divides the square of each directory among those in it, by their bytes; the rest of its
    square is for its own files. Directories of even depth lie side by side, others one above the
    other."""
    above, depth = usage.array("above").tolist(), usage.array("depth").tolist()
    sizes = usage.array("bytes").tolist()
    below = defaultdict(list)
    for row in range(1, usage.rows):
        below[above[row]].append(row)
    made = {0: Tile(0, 0.0, 0.0, 1.0, 1.0)}
    for row in range(usage.rows):  # a directory comes before those in it
        x, y, width, height = made[row][1:]
        for child in sorted(below[row], key=lambda each: -sizes[each]):
            share = sizes[child] / sizes[row] if sizes[row] else 0.0
            if depth[row] % 2 == 0:
                made[child] = Tile(child, x, y, width_of := made[row].width * share, height)
                x += width_of
            else:
                made[child] = Tile(child, x, y, width, height_of := made[row].height * share)
                y += height_of
    return list(made.values())


def draw(usage: warren.Table, png: str) -> None:
    names, depth = usage.text("name"), usage.array("depth").tolist()
    figure, axes = plt.subplots(figsize=(10, 7))
    colors = plt.get_cmap("tab20")
    for row, x, y, width, height in tiles(usage):
        color = colors(row % 20) if row else "white"
        axes.add_patch(Rectangle((x, y), width, height, facecolor=color, edgecolor="black"))
        if width > 0.06 and height > 0.03 and row:
            axes.text(x + 0.005, y + 0.005 + 0.03 * (depth[row] - 1), names[row], fontsize=7)
    axes.axis("off")
    figure.savefig(png, bbox_inches="tight")
    plt.close(figure)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Show a tree as a table and as a treemap.")
    parser.add_argument("image", help="file of the volume")
    parser.add_argument("png", help="the treemap that is written")
    parser.add_argument("--path", default="/")
    parser.add_argument("--depth", type=int, default=3)
    options = parser.parse_args(arguments)
    with warren.Volume(options.image, read_only=True) as volume:
        print(largest_kinds(volume, options.path).head(10))
        draw(volume.usage(options.path, depth_max=options.depth), options.png)


if __name__ == "__main__":
    main()
