#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the evaluation of "On Distributed File Tree Walk of Parallel File Systems" again, by one
command: CSV files, and PNG files if there is matplotlib.

    figure 3a  time by ranks, every scheduler          figure 5  bytes from rank to rank
    figure 3b  what the time goes into                 figure 6  how the work is spread
    figure 4   messages and bytes by files             real.csv  real walks beside simulated ones,
                                                                 and find, du, bfs, fd, rm, rmz

The figures are of bench/walk_simulation, which runs the real scheduler over a simulated network and
file system. Its costs are measured first: those of files on a real walk of one rank over a tree
that the simulator makes, those of messages between two ranks by bench/walk_costs. Only the
way between nodes is not, for there is one machine: 20 us. The tree: every directory has 20 files or
more with a long tail (20 / u^0.75 for u in (0, 1], at most a million) and up to 12 subdirectories,
among which the rest is shared by the cubes of random numbers, so that a few branches hold most of
it.

Peers that are not there are left out. rmz is of crates.io: --peers FOLDER names a folder for it, in
which cargo builds it once; it is no part of Warren.
"""

import argparse
import csv
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

SCHEDULERS = "cp,cp-keep-one,cp-directories,drqs,deqs,pa-drqs,h-drqs"
REAL_SCHEDULERS = ("cp", "cp-directories", "drqs", "deqs", "pa-drqs", "h-drqs", "h-drqs-batches")
RMZ = "rmz", "3.2.1"
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
NAME_SHARE = 0.25  # of an entry's time that is its name: measured, see docs/WALK.md
RUNS = 3


class Evaluation:
    def __init__(self, arguments):
        self.arguments = arguments
        self.build = arguments.build
        self.results = arguments.results
        self.costs = []

    def program(self, name):
        path = self.build / name
        if not path.exists():
            sys.exit(f"{path} is not there: run './dev build cpu' first")
        return str(path)

    def simulate(self, name, *words):
        path = self.results / f"{name}.csv"
        subprocess.run([self.program("bench/walk_simulation"), *words, *self.costs, "--csv",
                        str(path)], check=True, stdout=subprocess.DEVNULL)
        print(path)
        return path

    @staticmethod
    def once(words):
        begin = time.monotonic()
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        return time.monotonic() - begin

    def seconds_of(self, words):
        """The median of some runs."""
        return sorted(self.once(words) for _ in range(RUNS))[RUNS // 2]

    def walk_words(self, ranks, scheduler, tree):
        words = [self.program("bin/warren"), "walk", "--count", "--stat", "--threads", "1"]
        if ranks == 1:
            return [*words, tree]
        return [*MPIRUN, "-np", str(ranks), *words, "--scheduler", scheduler, tree]

    def real(self):
        """Walks a real tree, sets the simulator's costs by that, and simulates the same walks."""
        files = self.arguments.real_files
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        with tempfile.TemporaryDirectory(prefix="warren-walk-", dir=memory) as place:
            tree, empty = f"{place}/tree", f"{place}/empty"
            os.mkdir(empty)
            subprocess.run([self.program("bench/walk_simulation"), "--make", tree, "--files",
                            str(files)], check=True)
            rows = self.peers(tree)
            rows += self.removals(place)
            alone = (self.seconds_of(self.walk_words(1, "", tree)) -
                     self.seconds_of(self.walk_words(1, "", empty)))
            self.set_costs(alone, tree, files)
            for ranks in self.arguments.real_ranks if shutil.which("mpirun") else ():
                start = self.seconds_of(self.walk_words(ranks, "deqs", empty))
                for scheduler in REAL_SCHEDULERS:
                    # Each file takes a message in each direction: one run is long enough.
                    measure = self.once if scheduler == "cp" else self.seconds_of
                    seconds = measure(self.walk_words(ranks, scheduler, tree)) - start
                    rows.append((scheduler, ranks, seconds, self.simulated(scheduler, ranks)))
        rows.append(("warren, one thread", 1, alone, self.simulated("deqs", 1)))
        path = self.results / "real.csv"
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["subject", "ranks", "seconds", "simulated_seconds"])
            writer.writerows(rows)
        print(path)
        print("| subject | ranks | real, s | simulated, s | simulated over real |")
        print("|---|---|---|---|---|")
        for subject, ranks, seconds, simulated in rows:
            ratio = f"{simulated / seconds:.2f}" if simulated else ""
            said = f"{simulated:.3f}" if simulated else ""
            print(f"| {subject} | {ranks} | {seconds:.3f} | {said} | {ratio} |")

    def peers(self, tree):
        """Rows of programs that go through a tree in one process."""
        warren = self.program("bin/warren")
        lines = ["-type", "f", "-printf", "%p %s\n"]
        programs = (("find", ["find", tree, *lines]), ("bfs", ["bfs", tree, *lines]),
                    ("warren find", [warren, "find", tree, *lines]),
                    ("find, names", ["find", tree, "-type", "f"]),
                    ("bfs, names", ["bfs", tree, "-type", "f"]),
                    ("fd, names", ["fdfind", "-uu", "-tf", ".", tree]),
                    ("warren find, names", [warren, "find", tree, "-type", "f"]),
                    ("du", ["du", "-s", tree]), ("warren du", [warren, "du", "-s", tree]))
        return [(name, 1, self.seconds_of(words), "") for name, words in programs
                if shutil.which(words[0])]

    def removals(self, place):
        """Rows of programs that remove a tree: a tenth of the files, made anew for each run."""
        programs = {"rm -rf": ["rm", "-rf"], "rmz": [self.rmz()],
                    "warren rm -r": [self.program("bin/warren"), "rm", "-rf"]}
        rows = []
        for name, words in programs.items():
            if words[0] is None:
                continue
            times = []
            for run in range(RUNS):
                tree = f"{place}/removed{run}"
                subprocess.run([self.program("bench/walk_simulation"), "--make", tree, "--files",
                                str(self.arguments.real_files // 10)], check=True)
                times.append(self.once([*words, tree]))
            rows.append((name + ", a tenth", 1, sorted(times)[RUNS // 2], ""))
        return rows

    def rmz(self):
        """The program, built if there is a folder for it; None if it is not to be had."""
        if self.arguments.peers is None:
            return shutil.which("rmz")
        path = self.arguments.peers / "bin" / "rmz"
        if not path.exists() and shutil.which("cargo"):
            name, version = RMZ
            subprocess.run(["cargo", "install", "--locked", "--root", str(self.arguments.peers),
                            f"{name}@{version}"], check=False)
        return str(path) if path.exists() else None

    def set_costs(self, alone, tree, files):
        depths = [place.count("/") - tree.count("/") for place, _, _ in os.walk(tree)]
        directories = len(depths)
        # Opening and closing a directory takes about as long as seven entries.
        entry = alone / (files + 7 * directories)
        self.costs = ["--name", f"{entry * NAME_SHARE:.3e}", "--status",
                      f"{entry * (1 - NAME_SHARE):.3e}", "--directory", f"{7 * entry:.3e}"]
        print(f"an entry takes {entry * 1e6:.2f} us, a directory {7 * entry * 1e6:.1f} us")
        if shutil.which("mpirun"):
            self.costs += self.message_costs()
            self.costs += ["--levels", f"{1 + sum(depths) / directories:.1f}"]
        print(" ".join(self.costs))

    def message_costs(self):
        """Words for walk_simulation: the median of some runs, each cost by itself."""
        words = [*MPIRUN, "-np", "2", self.program("bench/walk_costs")]
        runs = [subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()
                for _ in range(RUNS)]
        return [sorted(values, key=float)[RUNS // 2] if at % 2 else values[0]
                for at, values in enumerate(zip(*runs))]

    def simulated(self, scheduler, ranks):
        """Seconds of the same walk in the simulator, all ranks on one node."""
        done = subprocess.run([self.program("bench/walk_simulation"), "--cores", str(ranks),
                               "--per-node", "1" if scheduler == "h-drqs" else str(ranks),
                               "--files", str(self.arguments.real_files), "--schedulers",
                               scheduler, "--far", "1e-6", *self.costs], check=True,
                              capture_output=True, text=True)
        return float(done.stdout.splitlines()[1].split(",")[3])

    def run(self):
        self.results.mkdir(parents=True, exist_ok=True)
        if self.arguments.real_files:
            self.real()
        files = str(self.arguments.files)
        self.simulate("by_ranks", "--schedulers", SCHEDULERS, "--files", files, "--cores",
                      "2,4,8,16,24,32,40,64,128", "--per-node", "2")
        # The profile is of H-DRQS with nodes of eight cores.
        self.simulate("profile", "--schedulers", "h-drqs", "--files", files, "--cores",
                      "8,16,32,64,128", "--per-node", "8")
        self.simulate("by_files", "--schedulers", "cp,pa-drqs,h-drqs", "--cores", "40",
                      "--per-node", "4", "--files", ",".join(
                          str(int(self.arguments.files * part)) for part in (0.01, 0.1, 1, 10)))
        for name, cores, per_node in (("heat", "32", "4"), ("spread", "20", "2")):
            self.simulate(f"{name}_runs", "--schedulers", "cp,drqs,deqs,pa-drqs,h-drqs", "--files",
                          files, "--cores", cores, "--per-node", per_node, "--pairs",
                          str(self.results / f"{name}.csv"))
        try:
            import matplotlib
        except ImportError:
            print("no PNG files: apt-get install python3-matplotlib", file=sys.stderr)
            return
        matplotlib.use("Agg")
        from matplotlib import pyplot
        for draw in (draw_ranks, draw_profile, draw_messages, draw_heat, draw_spread):
            draw(pyplot, self.results)


def rows_of(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def save(pyplot, figure, path):
    figure.tight_layout()
    figure.savefig(path, dpi=75)
    pyplot.close(figure)
    print(path)


def lines(axis, rows, across, up):
    for scheduler in dict.fromkeys(row["scheduler"] for row in rows):
        points = [(float(row[across]), float(row[up])) for row in rows
                  if row["scheduler"] == scheduler]
        axis.plot(*zip(*points), "o-", label=scheduler)
    axis.set(xscale="log", yscale="log", xlabel=across, ylabel=up)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=7)


def draw_ranks(pyplot, folder):
    figure, axis = pyplot.subplots(figsize=(6, 4))
    lines(axis, rows_of(folder / "by_ranks.csv"), "cores", "seconds")
    save(pyplot, figure, folder / "figure_3a.png")


def draw_profile(pyplot, folder):
    rows = rows_of(folder / "profile.csv")
    names = [row["cores"] for row in rows]
    figure, axis = pyplot.subplots(figsize=(6, 4))
    bottom = [0.0] * len(rows)
    for part in ("status_seconds", "names_seconds", "directory_seconds", "network_seconds"):
        values = [float(row[part]) for row in rows]
        axis.bar(names, values, bottom=bottom, label=part.split("_")[0])
        bottom = [low + value for low, value in zip(bottom, values)]
    idle = [max(0.0, float(row["seconds"]) * float(row["cores"]) - low)
            for row, low in zip(rows, bottom)]
    axis.bar(names, idle, bottom=bottom, label="idle", color="lightgrey")
    axis.set(xlabel="cores", ylabel="seconds of all cores", title="h-drqs")
    axis.legend(fontsize=7)
    save(pyplot, figure, folder / "figure_3b.png")


def draw_messages(pyplot, folder):
    rows = rows_of(folder / "by_files.csv")
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4))
    for axis, what in zip(axes, ("messages", "bytes")):
        lines(axis, rows, "files", what)
    save(pyplot, figure, folder / "figure_4.png")


def pairs_of(rows, scheduler, column):
    ranks = 1 + max(int(row["from"]) for row in rows if row["scheduler"] == scheduler)
    table = [[0.0] * ranks for _ in range(ranks)]
    for row in rows:
        if row["scheduler"] == scheduler and row["to"] != "files":
            table[int(row["from"])][int(row["to"])] = float(row[column])
    return table


def draw_heat(pyplot, folder):
    rows = rows_of(folder / "heat.csv")
    names = list(dict.fromkeys(row["scheduler"] for row in rows))
    figure, axes = pyplot.subplots(1, len(names), figsize=(4 * len(names), 4))
    for axis, name in zip(axes, names):
        table = pairs_of(rows, name, "bytes")
        image = axis.imshow([[value if value else float("nan") for value in line]
                             for line in table], cmap="YlOrRd", norm="log")
        axis.set(title=f"{name}: {sum(map(sum, table)) / 1e6:.2f} MB", xlabel="to rank",
                 ylabel="from rank")
        figure.colorbar(image, ax=axis, shrink=0.7, label="bytes")
    save(pyplot, figure, folder / "figure_5.png")


def draw_spread(pyplot, folder):
    rows = [row for row in rows_of(folder / "spread.csv") if row["to"] == "files"]
    names = list(dict.fromkeys(row["scheduler"] for row in rows))
    figure, axes = pyplot.subplots(1, len(names), figsize=(3.5 * len(names), 3.5))
    for axis, name in zip(axes, names):
        work = [float(row["bytes"]) for row in rows if row["scheduler"] == name]
        if name.startswith("cp"):
            work = work[1:]  # rank 0 walks nothing
        shares = [100 * value / sum(work) for value in work]
        axis.hist(shares, bins=10)
        axis.set(title=name, xlabel="% of the work", ylabel="ranks")
    save(pyplot, figure, folder / "figure_6.png")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    root = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("results", type=pathlib.Path, nargs="?",
                        default=root / "bench" / "results" / "walk_evaluation")
    parser.add_argument("--build", type=pathlib.Path, default=root / "build")
    parser.add_argument("--files", type=int, default=6_500_000, help="of the simulated tree")
    parser.add_argument("--real-files", type=int, default=1_000_000,
                        help="of the real tree; 0: no real walks")
    parser.add_argument("--real-ranks", type=int, nargs="*", default=[2, 4])
    parser.add_argument("--peers", type=pathlib.Path, help="where rmz is, or is built")
    Evaluation(parser.parse_args()).run()


if __name__ == "__main__":
    main()
