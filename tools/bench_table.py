#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints a benchmark's CSV as a Markdown table for docs/BENCHMARKS.md.

A cell is the median with the larger distance of the extremes from it. Scenarios are columns and
subjects rows, or the other way round if that is narrower; a list if most cells were empty. What was
measured where, when and by which command stands above, the bounds that must be kept below.
"""

import argparse
import csv
import pathlib


COLUMNS = ("median_seconds", "fastest_seconds", "slowest_seconds")


def read(path):
    """The comment lines as (name, text), and the rows as dictionaries."""
    notes, lines = [], []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            name, _, text = line[2:].partition(": ")
            notes.append((name, text))
        elif line:
            lines.append(line)
    return notes, list(csv.DictReader(lines))


def time_text(seconds):
    for unit, size in (("s", 1), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def cell(row):
    median, fastest, slowest = (float(row[name]) for name in COLUMNS)
    spread = max(slowest - median, median - fastest) / median if median else 0
    return f"{time_text(median)} ±{100 * spread:.0f}%"


def table(rows):
    scenarios = list(dict.fromkeys(row["scenario"] for row in rows))
    subjects = list(dict.fromkeys(row["subject"] for row in rows))
    cells = {(row["scenario"], row["subject"]): cell(row) for row in rows}
    if 2 * len(cells) < len(scenarios) * len(subjects):
        yield "| | | |\n|---|---|---|"
        yield from (f"| {scenario} | {subject} | {text} |"
                    for (scenario, subject), text in cells.items())
        return
    cells |= {(subject, scenario): text for (scenario, subject), text in cells.items()}
    columns, lines = sorted((scenarios, subjects), key=len)
    yield "| | " + " | ".join(columns) + " |"
    yield "|---" * (len(columns) + 1) + "|"
    for line in lines:
        yield f"| {line} | " + " | ".join(cells.get((line, name), "") for name in columns) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("csv", type=pathlib.Path, nargs="+")
    for path in parser.parse_args().csv:
        notes, rows = read(path)
        facts = dict(notes)
        print(f"`{facts['command']}`, {facts['machine']}, {facts['date']}, "
              f"commit {facts['commit']}:\n")
        print("\n".join(table(rows)) + "\n")
        for name, text in notes:
            if name in ("must", "note"):
                print(f"- {name}: {text}" if name == "must" else f"- {text}")
        print()


if __name__ == "__main__":
    main()
