#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the seed's figures on buffer caches: loading time against blocks read (5.1) from
load_bench.csv, requests to the file system over time (5.2) from trace_requests.csv, and the traces
of table 5.2 as bars from trace_bench.csv, each as a PNG file.

Files that are not in the folder are passed over. Needs matplotlib.
"""

import argparse
import csv
import pathlib
import re
import sys

import bench_table

TRACES = ("find", "sqlite", "sort", "tar", "untar", "sha", "leveldb")
# Where the memory is limited as a whole, and the state in which a trace begins.
PANELS = (("", "cold"), ("", "warm, not in the kernel"), ("", "warm"), (" in 64 MiB", "cold"),
          (" in 64 MiB", "warm"))


def load(path):
    notes, rows = bench_table.read(path)
    return dict(notes), {(row["scenario"], row["subject"]): row for row in rows}


def median(row):
    return float(row["median_seconds"])


def finish(pyplot, figure, text, path):
    figure.text(0.01, 0.005, text, fontsize=6)
    figure.tight_layout(rect=(0, 0.02, 1, 1))
    figure.savefig(path, dpi=75)
    pyplot.close(figure)
    print(path)


def origin(notes):
    return f"{notes['machine']}, {notes['date']}, commit {notes['commit']}"


def plot_loading(pyplot, source, folder):
    notes, rows = load(source)
    points = {}
    for (scenario, way), row in rows.items():
        if match := re.match(r"read (\d+) blocks$", scenario):
            points.setdefault(way, []).append((int(match[1]), median(row) * 1e3))
    figure, axis = pyplot.subplots(figsize=(8, 5.5))
    for way, line in points.items():
        fixed = re.match(r"\d+ blocks$", way)
        axis.plot(*zip(*sorted(line)), "--" if fixed else "o-", linewidth=1 if fixed else 2,
                  label=f"always {way}" if fixed else way)
    axis.set(title="Reading the first blocks of an extent that is not in memory", xscale="log",
             yscale="log", xlabel="blocks read", ylabel="milliseconds")
    axis.grid(alpha=0.3)
    axis.legend(fontsize=7, title="a load has")
    finish(pyplot, figure, origin(notes), folder / "buffer_loading.png")


def plot_requests(pyplot, source, folder):
    lines = {}
    with source.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            line = lines.setdefault(row["trace"], {}).setdefault(row["way"], [])
            line.append((float(row["seconds"]) * 1e3, int(row["requests"])))
    figure, grid = pyplot.subplots(2, 4, figsize=(13, 6))
    for axis, (trace, ways) in zip(grid.flat, lines.items()):
        for way, line in ways.items():
            axis.step(*zip(*line), where="post", label=way)
        axis.set(title=trace, xlabel="milliseconds")
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7, title="the kernel reads ahead")
    for axis in grid[:, 0]:
        axis.set_ylabel("requests so far")
    for axis in list(grid.flat)[len(lines):]:
        axis.set_visible(False)
    finish(pyplot, figure, "requests to the daemon; its buffers warm, the kernel's caches empty",
           folder / "buffer_requests.png")


def plot_bars(axis, rows, panel):
    where, state = panel
    scenarios = {scenario for scenario, _ in rows}
    traces = [trace for trace in TRACES if f"{trace}{where}, {state}" in scenarios]
    # The reference stands first in each panel.
    subjects = sorted({subject for scenario, subject in rows
                       if scenario == f"{traces[0]}{where}, {state}"}, reverse=True)
    width = 0.8 / len(subjects)
    for number, subject in enumerate(subjects):
        own = [rows[f"{trace}{where}, {state}", subject] for trace in traces]
        heights = [median(row) * 1e3 for row in own]
        spread = [[height - float(row["fastest_seconds"]) * 1e3
                   for height, row in zip(heights, own)],
                  [float(row["slowest_seconds"]) * 1e3 - height
                   for height, row in zip(heights, own)]]
        axis.bar([at + width * (number + 0.5) - 0.4 for at in range(len(traces))], heights, width,
                 yerr=spread, capsize=2, label=subject)
    axis.set(title=f"{state}{',' if where else ''}{where}", yscale="log")
    axis.set_xticks(range(len(traces)), traces, fontsize=8)
    axis.grid(alpha=0.3, axis="y")
    axis.legend(fontsize=7)


def plot_traces(pyplot, source, folder):
    notes, rows = load(source)
    panels = [(where, state) for where, state in PANELS
              if any(scenario == f"find{where}, {state}" for scenario, _ in rows)]
    if not panels:
        return
    figure, axes = pyplot.subplots(1, len(panels), figsize=(4.5 * len(panels), 4.5), sharey=True,
                                   squeeze=False)
    for axis, panel in zip(axes[0], panels):
        plot_bars(axis, rows, panel)
    axes[0][0].set_ylabel("milliseconds")
    finish(pyplot, figure, origin(notes), folder / "buffer_traces.png")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=pathlib.Path, nargs="?",
                        default=pathlib.Path("bench/results"))
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("docs"))
    arguments = parser.parse_args()
    try:
        import matplotlib
    except ImportError:
        sys.exit("plot_buffers: matplotlib is missing: pip install matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    for name, plot in (("load_bench.csv", plot_loading), ("trace_requests.csv", plot_requests),
                       ("trace_bench.csv", plot_traces)):
        if (arguments.results / name).exists():
            plot(pyplot, arguments.results / name, arguments.output)


if __name__ == "__main__":
    main()
