#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keeps the figures of the documents equal to the benchmarks' CSV files; run as the test
check_figures. With --write it puts the figures in, without it reports each difference.

docs/figures.txt holds a template for each place in a document:

    == NAME
    {source}

    | | Warren | tmpfs | times as fast |
    | $ | {$; Warren} | {$; rm -rf as each} | {$; Warren vs rm -rf} |

and the document has, around what the template gives:

    <!-- figures NAME -->
    ...
    <!-- end -->

NAME is a file of bench/results without its ending; a comma and more words tell several places of
one file apart. In braces:

    {scenario; subject}          the median of that row of NAME
    {FILE; scenario; subject}    the same of another file
    {...; A vs B}                how many times as fast A is as B, in bold if it is slower
    {...; A / B}                 the time of A over that of B; either may be a time, as in `100 us`
    {...; A as each}             the time of one item; also `for 1,000,000`, and `TB/s`, `GB/s`,
                                 `G/s`, `M/s`: items by time; `MB`: what is in a column `bytes`
    {...; A ±}                   with the larger distance of the extremes from the median
    {source}, {source FILE}      command, machine, date, commit, and how many bounds were kept
    {note FILE; NAME}            the text behind NAME in a comment of the file

`$` is the first cell of the row. A row whose first cell is `$` stands for one row for each
scenario, or each subject, that its other cells have figures of, a row that begins with `$ A; B` for
one row of A and one of B. The line below the first row of a table is added.
"""

import argparse
import csv
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENTS = ("README.md", "docs/BENCHMARKS.md")
TEMPLATES = "docs/figures.txt"
RESULTS = "bench/results"

COLUMNS = ("median_seconds", "fastest_seconds", "slowest_seconds")
TIME_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
RATE_UNITS = {"TB/s": 1e12, "GB/s": 1e9, "G/s": 1e9, "M/s": 1e6}

LABEL = "$"

BLOCK = re.compile(r"^<!-- figures ([^\n]+) -->\n(.*?)^<!-- end -->$", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"^<!-- (figures .*|end -->)$", re.MULTILINE)
REFERENCE = re.compile(r"\{([^{}]+)\}")
SUBJECT = re.compile(r"(.*?)(?: as (each|for [\d,]+|\S+/s|MB))?( ±)?")
TIME = re.compile(r"([\d.]+) (s|ms|us|ns)")
FIGURE = re.compile(r"\d\s?(s|ms|us|ns|[TGM]B/s|[GM]/s|x|%)(?![\w/])")


class Mistake(Exception):
    """Something in a document or a CSV file that a person must put right."""


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


def three_digits(value):
    """Three significant digits, but no more than two decimals from 0.1 on."""
    value = float(f"{value:.3g}")
    if value < 0.1:
        return f"{value:.2g}"
    return f"{value:,.{2 if value < 10 else 1 if value < 100 else 0}f}"


def time_text(seconds):
    for unit, size in TIME_UNITS.items():
        if float(f"{seconds / size:.3g}") >= 1:
            break
    return f"{three_digits(seconds / size)} {unit}"


class Results:
    """The rows of the CSV files of a folder, by file, scenario and subject."""

    def __init__(self, folder):
        self.folder = folder
        self.files = {}

    def file(self, name):
        if name not in self.files:
            path = self.folder / f"{name}.csv"
            if not path.is_file():
                raise Mistake(f"there is no {RESULTS}/{name}.csv; name a file of that folder")
            notes, rows = read(path)
            table = {}
            for row in rows:
                key = row["scenario"], row["subject"]
                if key in table:
                    raise Mistake(f"{RESULTS}/{name}.csv has two rows of '{key[0]}' and "
                                  f"'{key[1]}'; give each run a file of its own")
                table[key] = row
            self.files[name] = notes, table
        return self.files[name]

    def row(self, name, scenario, subject):
        return self.file(name)[1].get((scenario, subject))

    def source(self, name, document):
        notes, _ = self.file(name)
        facts = dict(notes)
        for fact in ("command", "machine", "date", "commit"):
            if fact not in facts:
                raise Mistake(f"{RESULTS}/{name}.csv has no line '# {fact}: ...'; add it")
        bounds = [text for note, text in notes if note == "must"]
        missed = [text for text in bounds if not text.endswith(": met")]
        link = os.path.relpath(self.folder / f"{name}.csv", document.parent)
        text = (f"`{facts['command']}`, {facts['machine']}, {facts['date']}, "
                f"commit {facts['commit']} ([CSV]({link}))")
        if bounds:
            text += f"; {len(bounds) - len(missed)} of {len(bounds)} bounds kept"
        return text + "".join(f", **{bound}**" for bound in missed)

    def note(self, name, wanted):
        for note, text in self.file(name)[0]:
            if note == wanted:
                return text
        raise Mistake(f"{RESULTS}/{name}.csv has no line '# {wanted}: ...'")


class Reference:
    """What stands in braces, but for {source} and {note}."""

    def __init__(self, text, default_file):
        parts = [part.strip() for part in text.split(";")]
        if len(parts) == 2:
            parts.insert(0, default_file)
        if len(parts) != 3:
            raise Mistake(f"{{{text}}} is not understood; write {{scenario; subject}} or "
                          "{FILE; scenario; subject}")
        self.text = text
        self.file, self.scenario = parts[:2]
        subject, self.form, spread = SUBJECT.fullmatch(parts[2]).groups()
        self.spread = spread is not None
        self.operator = next((sign for sign in (" vs ", " / ") if sign in subject), None)
        self.subjects = subject.split(self.operator) if self.operator else [subject]

    def names(self, results):
        """What `$` may stand for here: all scenarios of the file, or all its subjects."""
        _, table = results.file(self.file)
        if self.scenario == LABEL:
            return [scenario for scenario, _ in table]
        if LABEL in self.subjects:
            return [subject for _, subject in table]
        return []

    def value(self, results, label):
        """The text of the figure; None if the file lacks a row for it."""
        scenario = self.scenario.replace(LABEL, label)
        rows = []
        for subject in self.subjects:
            time = TIME.fullmatch(subject) if self.operator == " / " else None
            row = (dict.fromkeys(COLUMNS, float(time[1]) * TIME_UNITS[time[2]]) if time
                   else results.row(self.file, scenario, subject.replace(LABEL, label)))
            if row is None:
                return None
            rows.append(row)
        if self.operator is None:
            return self.figure(rows[0])
        return self.ratio(*rows)

    def ratio(self, first, second):
        counts = [float(row["items"]) for row in (first, second) if "items" in row]
        each = self.form == "each" or len(counts) == 2 and counts[0] != counts[1]
        one, other = (float(row["median_seconds"]) / (float(row.get("items", 1)) if each else 1)
                      for row in (first, second))
        if self.operator == " / ":
            return three_digits(one / other)
        text = f"{three_digits(other / one)}x"
        return f"**{text}**" if round(other / one, 2) < 1 else text

    def figure(self, row):
        if self.form == "MB":
            return f"{float(row['bytes']) / 1e6:,.0f} MB"
        median, fastest, slowest = (float(row[name]) for name in COLUMNS)
        items = float(row["items"])
        if self.form in RATE_UNITS:
            text = f"{three_digits(items / median / RATE_UNITS[self.form])} {self.form}"
        elif self.form is None:
            text = time_text(median)
        elif self.form == "each":
            text = time_text(median / items)
        elif self.form.startswith("for "):
            text = time_text(median / items * float(self.form[4:].replace(",", "")))
        else:
            raise Mistake(f"{{{self.text}}}: '{self.form}' is no unit; "
                          f"use one of {', '.join(RATE_UNITS)}, 'MB', 'each' or "
                          "'for N'")
        if self.spread:
            text += f" ±{100 * max(slowest - median, median - fastest) / median:.0f}%"
        return text


class Template:
    """What stands in one place of a document."""

    def __init__(self, name, text, document, results):
        self.file = name.split(",")[0]
        self.lines = text.strip("\n").split("\n")
        self.document = document
        self.results = results

    def render(self):
        lines, in_table = [], False
        for line in self.lines:
            is_row = line.startswith("|")
            lines += self.rows(line) if is_row else [self.fill(line, "")]
            if is_row and not in_table:
                lines.append("|" + "---|" * (line.count("|") - 1))
            in_table = is_row
        return "\n".join(lines) + "\n"

    def rows(self, line):
        first = line.split("|")[1]
        mark, _, names = first.strip().partition(" ")
        if mark != LABEL:
            return [self.fill(line, first.strip())]
        labels = names.split("; ") if names else self.labels(line)
        return [self.fill(line.replace(first, f" {label} ", 1), label, optional=not names)
                for label in labels]

    def labels(self, line):
        references = [Reference(text, self.file) for text in REFERENCE.findall(line)]
        names = dict.fromkeys(name for reference in references
                              for name in reference.names(self.results))
        labels = [name for name in names
                  if any(reference.value(self.results, name) for reference in references)]
        if not labels:
            raise Mistake(f"no scenario or subject fits the row '{line}'")
        return labels

    def fill(self, line, label, optional=False):
        def replace(match):
            word, _, rest = match[1].partition(" ")
            if word == "source":
                return self.results.source(rest or self.file, self.document)
            if word == "note":
                file, _, name = rest.partition("; ")
                return self.results.note(file, name)
            value = Reference(match[1], self.file).value(self.results, label)
            if value is None and not optional:
                raise Mistake(f"{{{match[1]}}}: no such row in its CSV file, where $ is '{label}'")
            return value or ""
        return REFERENCE.sub(replace, line)


def line_number(text, position):
    return text.count("\n", 0, position) + 1


def read_templates(path):
    """The templates by name."""
    parts = re.split(r"^== (.+)\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    names = parts[1::2]
    for name in names:
        if names.count(name) > 1:
            raise Mistake(f"{TEMPLATES}: '== {name}' is there twice; give each place its own name")
    return dict(zip(names, parts[2::2]))


def check_marks(text):
    """Each block has its end, and no figure stands in a table outside of a block."""
    blocks = [match.span() for match in BLOCK.finditer(text)]
    for mark in MARK.finditer(text):
        if not any(mark.start() == start or mark.end() == end for start, end in blocks):
            raise Mistake(f"line {line_number(text, mark.start())}: '{mark[0]}' has no partner; "
                          "write '<!-- figures NAME -->' and '<!-- end -->'")
    for row in re.finditer(r"^\|.*$", text, re.MULTILINE):
        if FIGURE.search(row[0]) and not any(start <= row.start() < end for start, end in blocks):
            raise Mistake(f"line {line_number(text, row.start())}: a figure in a table that is not "
                          f"generated; put a template into {TEMPLATES}")


def generate(text, document, templates, results):
    """The document's text with all figures put in; templates that it uses are taken out."""
    def replace(match):
        name = match[1]
        try:
            if name not in templates:
                raise Mistake(f"there is no '== {name}' that is not in use yet in {TEMPLATES}")
            body = Template(name, templates.pop(name), document, results).render()
        except Mistake as mistake:
            raise Mistake(f"line {line_number(text, match.start())}: {mistake}") from None
        return f"<!-- figures {name} -->\n{body}<!-- end -->"
    check_marks(text)
    return BLOCK.sub(replace, text)


def differences(name, old, new):
    if old.count("\n") != new.count("\n"):
        yield f"{name}: has tables with rows too many or too few"
    for number, (one, other) in enumerate(zip(old.splitlines(), new.splitlines()), 1):
        if one != other:
            yield f"{name}:{number}: is\n  {one}\nbut the CSV files give\n  {other}"
            return


def update(root, write):
    """Writes the documents, or compares them; what is wrong, one text each."""
    results = Results(root / RESULTS)
    try:
        templates = read_templates(root / TEMPLATES)
    except Mistake as mistake:
        yield str(mistake)
        return
    unused = dict(templates)
    for name in DOCUMENTS:
        document = root / name
        text = document.read_text(encoding="utf-8")
        for match in BLOCK.finditer(text):
            unused.pop(match[1], None)
        try:
            generated = generate(text, document, templates, results)
        except Mistake as mistake:
            yield f"{name}: {mistake}"
            continue
        if write and generated != text:
            document.write_text(generated, encoding="utf-8")
        elif generated != text:
            yield from differences(name, text, generated)
    for name in unused:
        yield f"{TEMPLATES}: no document has a place for '== {name}'"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--write", action="store_true", help="put the figures in")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="the repository's folder")
    options = parser.parse_args()
    findings = list(update(options.root, options.write))
    for finding in findings:
        print(finding)
    if findings and not options.write:
        print("tools/bench_table.py --write puts the figures of the CSV files in")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
