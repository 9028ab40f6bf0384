#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what dedup_mount_bench has measured as PNG files: rates through a mount with deduplication
off and on, by the size of writes and of files, and the steps of a layer above a mount, as figures
C and 3.1 to 3.6 of the report on CloudFS show them.

With --run it runs the benchmark first; what follows goes to it:

    tools/plot_dedup.py --run --runs 3 --largest 256

Needs matplotlib.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

import bench_table

NAME = "dedup_mount_bench"
STEPS = ("read", "chunk", "hash", "index", "rest")
WORK = re.compile(r"(\d+) MiB, writes of (\d+) KiB, (\w+), (.+)")
STEP = re.compile(r"steps, writes of (\d+) KiB, (\w+), ([\w-]+), (.+)")


def load(path):
    """The notes, the rates in MB/s by (MiB, KiB, data, writers, off or on), and the milliseconds
    by ((data, chunks, workers), KiB, step)."""
    notes, rows = bench_table.read(path)
    rates, steps = {}, {}
    for row in rows:
        seconds = float(row["median_seconds"])
        if match := WORK.fullmatch(row["scenario"]):
            file, write, data, writers = match.groups()
            key = (int(file), int(write), data, writers, row["subject"])
            rates[key] = float(row["items"]) / seconds / 1e6
        elif match := STEP.fullmatch(row["scenario"]):
            write, *kind = match.groups()
            steps[tuple(kind), int(write), row["subject"]] = seconds * 1e3
    return notes, rates, steps


def finish(figure, notes, path):
    known = dict(notes)
    text = f"{known['machine']}, {known['date']}, commit {known['commit']}"
    if load := known.get("load average at the start"):
        text += f"; load average {load}"
    figure.text(0.01, 0.005, text, fontsize=6)
    figure.tight_layout(rect=(0, 0.03, 1, 1))
    # Nothing in the file depends on the machine or the moment.
    figure.savefig(path, dpi=75, metadata={"Software": None})
    print(path)


def plot_rates(pyplot, notes, rates, by_write, path):
    """A panel for each kind of data, a line for each number of writers, off dashed and on whole."""
    kinds = sorted({key[2] for key in rates})
    figure, axes = pyplot.subplots(1, len(kinds), figsize=(4 * len(kinds), 4), sharey=True)
    usual = max({key[0] for key in rates}, key=lambda size: sum(key[0] == size for key in rates))
    for axis, kind in zip(axes, kinds):
        lines = {}
        for (file, write, data, writers, how), rate in rates.items():
            if data != kind or (file != usual if by_write else write != 128):
                continue
            lines.setdefault((writers, how), []).append((write if by_write else file, rate))
        for number, ((writers, how), points) in enumerate(sorted(lines.items())):
            if len(points) > 1:
                axis.plot(*zip(*sorted(points)), "-" if how == "dedup" else "--", marker=".",
                          color=f"C{number // 2}", label=f"{writers}, {how}")
        axis.set(title=f"{kind} data", xlabel="write in KiB" if by_write else "file in MiB")
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_formatter("{x:.0f}")
        axis.grid(alpha=0.3)
    axes[0].set(ylabel="MB/s until the files are durable", ylim=(0, None))
    axes[-1].legend(fontsize=7)
    finish(figure, notes, path)


def plot_steps(pyplot, notes, steps, path):
    """A panel for each kind of data and of chunks, a bar for each size of writes and worker."""
    panels = sorted({kind[:2] for kind, _, _ in steps})
    figure, axes = pyplot.subplots(1, len(panels), figsize=(4.5 * len(panels), 4.5), sharey=True)
    for axis, panel in zip(axes, panels):
        bars = sorted({(write, kind) for kind, write, _ in steps if kind[:2] == panel})
        names = [f"{write} KiB, {kind[2]}" for write, kind in bars]
        bottom = [0.0] * len(bars)
        for step in STEPS:
            heights = [steps[kind, write, step] for write, kind in bars]
            axis.bar(names, heights, bottom=bottom, label=step)
            bottom = [low + height for low, height in zip(bottom, heights)]
        axis.set(title=", ".join(panel))
        axis.tick_params(axis="x", rotation=90, labelsize=7)
    axes[0].set_ylabel("ms")
    axes[0].legend(fontsize=7)
    finish(figure, notes, path)


def run(words):
    """Runs the benchmark; that a bound was missed does not keep its rows from being drawn."""
    dev = pathlib.Path(__file__).resolve().parent.parent / "dev"
    done = subprocess.run([dev, "bench", NAME, *words], check=False)
    if done.returncode not in (0, 1):
        sys.exit(f"plot_dedup: {NAME} failed")
    return done.returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=pathlib.Path,
                        default=os.environ.get("WARREN_RESULTS", "bench/results"))
    parser.add_argument("--output", type=pathlib.Path, help="default: dedup_figures in --results")
    parser.add_argument("--run", nargs=argparse.REMAINDER, help="run the benchmark first")
    arguments = parser.parse_args()
    try:
        import matplotlib
    except ImportError:
        sys.exit("plot_dedup: matplotlib is missing (python3-matplotlib, or pip in a venv)")
    matplotlib.use("Agg")
    from matplotlib import pyplot
    code = 0 if arguments.run is None else run(arguments.run)
    path = arguments.results / f"{NAME}.csv"
    if not path.is_file():
        sys.exit(f"plot_dedup: no {path}; run with --run, or ./dev bench {NAME} first")
    folder = arguments.output or arguments.results / "dedup_figures"
    folder.mkdir(parents=True, exist_ok=True)
    notes, rates, steps = load(path)
    plot_rates(pyplot, notes, rates, True, folder / "dedup_by_write.png")
    plot_rates(pyplot, notes, rates, False, folder / "dedup_by_file.png")
    plot_steps(pyplot, notes, steps, folder / "dedup_steps.png")
    sys.exit(code)


if __name__ == "__main__":
    main()
