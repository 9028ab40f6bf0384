#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws measured sweeps as PNG files: how many files make one command worth it (gpu_sweep.csv of
gpu_bench), how long a removal takes by blocks and warps (gpu_shapes.csv of gpu_bench), and which
side a call takes where a GPU stands beside the CPU (replica_sweep.csv of replica_sweep).

Needs matplotlib; nothing else in the project does.
"""

import argparse
import pathlib
import re
import sys

import bench_table

MICROSECONDS = 1e6


def rows_of(path):
    """The notes of a CSV file as a dictionary, and its rows."""
    notes, rows = bench_table.read(path)
    return dict(notes), rows


def medians(rows, pattern):
    """{first group: {subject: {the other groups as numbers: (median, fastest, slowest)}}}"""
    result = {}
    for row in rows:
        match = re.fullmatch(pattern, row["scenario"])
        if not match:
            continue
        first, *numbers = match.groups()
        key = tuple(int(number) for number in numbers)
        times = tuple(float(row[name]) * MICROSECONDS for name in bench_table.COLUMNS)
        result.setdefault(first, {}).setdefault(row["subject"], {})[key] = times
    return result


def caption(figure, notes):
    figure.suptitle(f"{notes.get('note', '')}  {notes['machine']}, {notes['date']}, commit "
                    f"{notes['commit']}", fontsize=8)


def plot_crossover(pyplot, path, folder):
    """Time by number of files: a command for all of them against a call for each."""
    plot_by_files(pyplot, path, folder / "gpu_crossover.png", 1)


def plot_choice(pyplot, path, folder):
    """Time by number of files: each side, and what the volume chooses."""
    plot_by_files(pyplot, path, folder / "replica_sweep.png", 2)


def plot_by_files(pyplot, path, target, lines):
    """Time by number of files, a picture for each operation, in so many lines."""
    notes, rows = rows_of(path)
    operations = medians(rows, r"([\w ]+) (\d+)")
    columns = -(-len(operations) // lines)
    figure, axes = pyplot.subplots(lines, columns, figsize=(5 * columns, 5 * lines), sharey=True,
                                   squeeze=False)
    axes = axes.flatten()
    for axis, (operation, subjects) in zip(axes, operations.items()):
        for subject, points in subjects.items():
            counts = sorted(points)
            middle, low, high = zip(*(points[count] for count in counts))
            style = "--" if "one by one" in subject else "-"
            line, = axis.plot([count[0] for count in counts], middle, style, label=subject)
            axis.fill_between([count[0] for count in counts], low, high, alpha=0.15,
                              color=line.get_color())
        axis.set(title=f"{operation} N files", xlabel="files", xscale="log", yscale="log")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("microseconds until the call returns (median, extremes)")
    axes[-1].legend(fontsize=8)
    save(figure, notes, target)


def plot_shapes(pyplot, path, folder):
    """Time of a removal's kernels by blocks, a line for each number of warps."""
    notes, rows = rows_of(path)
    trees = medians(rows, r"(.+), (\d+) blocks x (\d+) warps")
    figure, axes = pyplot.subplots(1, len(trees), figsize=(4.5 * len(trees), 4.5))
    for axis, (tree, subjects) in zip(axes, trees.items()):
        (points,) = subjects.values()
        for warps in sorted({key[1] for key in points}):
            line = sorted((key[0], times) for key, times in points.items() if key[1] == warps)
            axis.plot([blocks for blocks, _ in line], [times[0] for _, times in line], marker=".",
                      label=f"{warps} warps a block")
        axis.set(title=tree, xlabel="blocks", xscale="log", yscale="log")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("microseconds of the device's clock (median)")
    axes[-1].legend(fontsize=8)
    save(figure, notes, folder / "gpu_shapes.png")


def save(figure, notes, path):
    caption(figure, notes)
    figure.tight_layout()
    # Nothing in the file depends on the machine or the time.
    figure.savefig(path, dpi=90, metadata={"Software": None})
    print(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=pathlib.Path, default="bench/results")
    parser.add_argument("--output", type=pathlib.Path, default="docs")
    arguments = parser.parse_args()
    try:
        import matplotlib
    except ImportError:
        sys.exit("plot_sweeps: matplotlib is missing (python3-matplotlib, or pip in a venv)")
    matplotlib.use("Agg")
    from matplotlib import pyplot
    drawn = False
    for name, plot in (("gpu_sweep.csv", plot_crossover), ("gpu_shapes.csv", plot_shapes),
                       ("replica_sweep.csv", plot_choice)):
        path = arguments.results / name
        if path.is_file():
            plot(pyplot, path, arguments.output)
            drawn = True
    if not drawn:
        sys.exit(f"plot_sweeps: no sweep in {arguments.results}")


if __name__ == "__main__":
    main()
