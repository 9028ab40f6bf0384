#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the figures 4 to 17 of StoreGPU from hash_sweep.csv, its tables 3 and 4 as bars from
similarity_bench.csv, and the figures 3.1 to 3.6 of the report on CloudFS from chunk_bench.csv,
dedup_bench.csv and chunk_gpu_bench.csv, each as a PNG file.

Files, and rows of the last one, that are not in the folder are passed over, with a line that says
so. Needs matplotlib.
"""

import argparse
import pathlib
import re
import sys

import bench_table

STAGES = ("initialise", "copy in", "kernel", "copy out", "finish")
SETTINGS = ("pageable, no shared memory", "pinned, no shared memory", "pageable, shared memory",
            "pinned, shared memory")
SPEED_UPS = {4: "direct", 5: "windows 20/4", 6: "windows 52/4", 7: "windows 20/20",
             8: "windows 56/56"}
STAGE_FIGURES = {9: "initialise", 10: "copy in", 11: "kernel", 12: "copy out", 13: "finish"}


def load(path):
    notes, rows = bench_table.read(path)
    return dict(notes), {(row["scenario"], row["subject"]): float(row["median_seconds"])
                         for row in rows}


def finish(pyplot, figure, notes, path):
    figure.text(0.01, 0.005, f"{notes['machine']}, {notes['date']}, commit {notes['commit']}",
                fontsize=6)
    figure.tight_layout(rect=(0, 0.02, 1, 1))
    figure.savefig(path, dpi=75)
    pyplot.close(figure)
    print(path)


def sizes_of(times, work):
    pattern = re.compile(re.escape(work) + r", (\d+) bytes$")
    return sorted(int(match[1]) for scenario, _ in times if (match := pattern.match(scenario)))


def plot_speed_ups(pyplot, notes, times, folder):
    for number, kind in SPEED_UPS.items():
        algorithms = [name for name in ("md5", "sha1") if sizes_of(times, f"{kind} {name}")]
        if not algorithms:
            continue
        figure, axes = pyplot.subplots(1, len(algorithms), figsize=(5 * len(algorithms), 4),
                                       sharey=True, squeeze=False)
        axes = axes[0]
        for axis, algorithm in zip(axes, algorithms):
            work = f"{kind} {algorithm}"
            for setting in SETTINGS:
                sizes = [size for size in sizes_of(times, work)
                         if (f"{work}, {size} bytes, {setting}", "total") in times]
                gains = [times[f"{work}, {size} bytes", "OpenSSL, one core"] /
                         times[f"{work}, {size} bytes, {setting}", "total"] for size in sizes]
                axis.plot([size / 1024 for size in sizes], gains, "o-", label=setting)
            axis.axhline(1, color="grey", linewidth=0.8)
            axis.set(title=work, xscale="log", yscale="log", xlabel="KiB of data")
            axis.grid(alpha=0.3)
        axes[0].set_ylabel("times OpenSSL on one core")
        axes[0].legend(fontsize=7)
        finish(pyplot, figure, notes, folder / f"storegpu_figure_{number:02}.png")


def plot_stages(pyplot, notes, times, folder):
    sizes = sizes_of(times, "direct md5")
    for number, stage in STAGE_FIGURES.items():
        figure, axis = pyplot.subplots(figsize=(6, 4))
        for setting in SETTINGS:
            axis.plot([size / 1024 for size in sizes],
                      [times[f"direct md5, {size} bytes, {setting}", stage] * 1e3
                       for size in sizes], "o-", label=setting)
        axis.set(title=f"direct md5: {stage}", xscale="log", yscale="log", xlabel="KiB of data",
                 ylabel="milliseconds")
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7)
        finish(pyplot, figure, notes, folder / f"storegpu_figure_{number:02}.png")


def stack(axis, names, shares, labels):
    bottom = [0.0] * len(names)
    for label, values in zip(labels, shares):
        axis.bar(names, values, bottom=bottom, label=label)
        bottom = [low + value for low, value in zip(bottom, values)]


def plot_shares(pyplot, notes, times, folder):
    sizes = sizes_of(times, "direct md5")[::2]
    for number, setting in enumerate(SETTINGS, 14):
        figure, axis = pyplot.subplots(figsize=(7, 4))
        stages = [[times[f"direct md5, {size} bytes, {setting}", stage] for size in sizes]
                  for stage in STAGES]
        totals = [sum(values) for values in zip(*stages)]
        stack(axis, [f"{size >> 10}" for size in sizes],
              [[100 * value / total for value, total in zip(values, totals)] for values in stages],
              STAGES)
        axis.set(title=f"direct md5, {setting}", xlabel="KiB of data", ylabel="% of the stages")
        axis.legend(fontsize=7)
        finish(pyplot, figure, notes, folder / f"storegpu_figure_{number}.png")


def plot_threads(pyplot, notes, times, folder):
    """Figure 3.1: time by threads; 3.2: time by the size of a write."""
    figure, axis = pyplot.subplots(figsize=(6, 4))
    for work in ("rabin (lbfs) + md5", "gear + sha1"):
        points = sorted((int(match[1]), seconds) for (scenario, subject), seconds in times.items()
                        if scenario == work and
                        (match := re.match(r"warren, (\d+) thread", subject)))
        if points:
            axis.plot(*zip(*points), "o-", label=work)
    axis.set(title="256 MiB cut and digested", xlabel="threads", ylabel="seconds", xscale="log",
             yscale="log")
    axis.grid(alpha=0.3)
    axis.legend()
    finish(pyplot, figure, notes, folder / "cloudfs_figure_3_1.png")
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4), sharey=True)
    for axis, kind in zip(axes, ("uniform", "random")):
        for subject in ("serial", "all threads"):
            points = sorted((int(match[1]), seconds * 1e3)
                            for (scenario, who), seconds in times.items() if who == subject and
                            (match := re.match(rf"writes of (\d+) KiB, {kind}", scenario)))
            if points:
                axis.plot(*zip(*points), "o-", label=subject)
        axis.set(title=f"16 MiB in {kind} writes", xlabel="KiB of a write", xscale="log",
                 ylabel="milliseconds")
        axis.grid(alpha=0.3)
        axis.legend()
    finish(pyplot, figure, notes, folder / "cloudfs_figure_3_2.png")


def plot_module(pyplot, notes, times, folder):
    """Figures 3.3 and 3.4: Rabin alone and the whole module; 3.5: what its steps take."""
    workers = ("serial", "cuts by all threads", "all by all threads")
    for number, size in ((3, 256), (4, 512)):
        figure, axes = pyplot.subplots(1, 2, figsize=(10, 4), sharey=True)
        for axis, kind in zip(axes, ("uniform", "random")):
            for place, worker in enumerate(workers):
                values = [times[f"writes of {size} KiB, {kind}, {worker}", step] * 1e3
                          for step in ("rabin", "module")]
                axis.bar([at + place * 0.27 for at in (0, 1)], values, 0.27, label=worker)
            axis.set(title=f"64 MiB in {kind} writes of {size} KiB", ylabel="milliseconds",
                     xticks=[0.27, 1.27], xticklabels=["Rabin", "deduplication module"])
            axis.legend(fontsize=7)
        finish(pyplot, figure, notes, folder / f"cloudfs_figure_3_{number}.png")
    figure, axes = pyplot.subplots(1, 3, figsize=(13, 4), sharey=True)
    pattern = re.compile(r"writes of (\d+) KiB, random, serial")
    sizes = sorted({int(match[1]) for scenario, _ in times if (match := pattern.match(scenario))})
    for axis, worker in zip(axes, workers):
        steps = [[times[f"writes of {size} KiB, random, {worker}", step] * 1e3 for size in sizes]
                 for step in ("read", "rabin", "md5")]
        stack(axis, [str(size) for size in sizes], steps, ("read", "Rabin", "MD5"))
        axis.set(title=f"64 MiB in random writes, {worker}", xlabel="KiB of a write",
                 ylabel="milliseconds")
        axis.legend(fontsize=7)
    finish(pyplot, figure, notes, folder / "cloudfs_figure_3_5.png")


def plot_gpu_stages(pyplot, notes, times, folder):
    """Figure 3.6: what the stages of the GPU's chunker take."""
    stages = [(subject, seconds) for (scenario, subject), seconds in times.items()
              if scenario.startswith("stages of ")]
    if not stages:
        print(f"{notes['path']} has no stages: figure 3.6 is left out; chunk_gpu_bench on a GPU "
              "measures them", file=sys.stderr)
        return
    figure, axis = pyplot.subplots(figsize=(7, 4))
    bars = axis.bar([subject for subject, _ in stages], [seconds * 1e3 for _, seconds in stages])
    # The longest stage takes hundreds of times the shortest.
    axis.bar_label(bars, fmt="%.3g", fontsize=7)
    axis.set(title="512 MiB from the host, Rabin and MD5", ylabel="milliseconds", yscale="log")
    axis.tick_params(axis="x", labelsize=7, rotation=20)
    finish(pyplot, figure, notes, folder / "cloudfs_figure_3_6.png")


def plot_similarity(pyplot, notes, times, folder):
    """Throughput by way and worker, a figure for each series, as in the tables 3 and 4."""
    _, rows = bench_table.read(notes["path"])
    rates = {(row["scenario"], row["subject"]): float(row["items"]) /
             float(row["median_seconds"]) / 1e6 for row in rows}
    for series in sorted({scenario.split(":")[0] for scenario, _ in times}):
        keys = [key for key in rates if key[0].startswith(series + ":")]
        ways = list(dict.fromkeys(scenario for scenario, _ in keys))
        workers = list(dict.fromkeys(subject for _, subject in keys))
        figure, axis = pyplot.subplots(figsize=(9, 0.55 * len(ways) + 1.5))
        name = f"{notes['path'].stem}_{series}.png"
        height = 0.8 / len(workers)
        for number, worker in enumerate(workers):
            axis.barh([place + number * height for place in range(len(ways))],
                      [rates.get((way, worker), 0) for way in ways], height, label=worker)
        axis.set(yticks=[place + 0.4 for place in range(len(ways))], xscale="log",
                 yticklabels=[way.split(": ", 1)[1] for way in ways], xlabel="MB/s", title=series)
        axis.tick_params(axis="y", labelsize=7)
        axis.legend(fontsize=7)
        finish(pyplot, figure, notes, folder / name)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("results", type=pathlib.Path, nargs="?",
                        default=pathlib.Path("bench/results"))
    parser.add_argument("folder", type=pathlib.Path, nargs="?", help="for the PNG files")
    arguments = parser.parse_args()
    try:
        import matplotlib
    except ImportError:
        sys.exit("plot_hashing.py needs matplotlib: apt-get install python3-matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    folder = arguments.folder or arguments.results
    folder.mkdir(parents=True, exist_ok=True)
    figures = {
        "hash_sweep.csv": (plot_speed_ups, plot_stages, plot_shares),
        "chunk_bench.csv": (plot_threads,),
        "dedup_bench.csv": (plot_module,),
        "chunk_gpu_bench.csv": (plot_gpu_stages,),
        "similarity_bench.csv": (plot_similarity,),
        "similarity_gpu.csv": (plot_similarity,),
    }
    for name, plots in figures.items():
        path = arguments.results / name
        if not path.exists():
            print(f"{path} is not there: its figures are left out", file=sys.stderr)
            continue
        notes, times = load(path)
        for plot in plots:
            plot(pyplot, notes | {"path": path}, times, folder)


if __name__ == "__main__":
    main()
