#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/bench_table.py puts the figures of CSV files into documents, and fails where a document
differs from them, whichever of the two was changed; each mistake of a person is named."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "bench_table.py"

HEAD = "scenario,subject,items,runs,median_seconds,fastest_seconds,slowest_seconds,ratio\n"
CSV = ("# machine: two cores\n# date: 2026-01-01\n# commit: abc\n# command: ./dev bench b\n"
       "# bytes: 5 MB written\n"
       "# must: rate, at least 1: met\n" + HEAD +
       '"Mix","Warren",100,5,0.002,0.001,0.0021,\n'
       '"Mix","rm -rf",100,5,0.1,0.1,0.1,\n'
       '"Even","Warren",1,5,1.001,1.001,1.001,\n'
       '"Even","rm -rf",1,5,1,1,1,\n'
       '"Deep","Warren",10,5,0.004,0.004,0.004,\n'
       '"Deep","rm -rf",20,5,0.004,0.004,0.004,\n'
       '"Wide","Warren",4e9,5,0.002,0.002,0.002,\n')
TEMPLATE = ("== b\n{source}; {note b; bytes}.\n\n"
            "| | Warren | each | times |\n"
            "| $ | {$; Warren ±} | {$; Warren as each} | {$; Warren vs rm -rf} |\n"
            "| $ Mix; Deep | {$; Warren / 1 ms} | {b; $; rm -rf as for 1,000} | |\n"
            "| Wide | {$; Warren as TB/s} | | |\n")
DOCUMENT = "# Figures\n\n<!-- figures b -->\n<!-- end -->\n\n| option | meaning |\n|---|---|\n"
EXPECTED = """# Figures

<!-- figures b -->
`./dev bench b`, two cores, 2026-01-01, commit abc ([CSV](../bench/results/b.csv)); \
1 of 1 bounds kept; 5 MB written.

| | Warren | each | times |
|---|---|---|---|
| Mix | 2.00 ms ±50% | 20.0 us | 50.0x |
| Even | 1.00 s ±0% | 1.00 s | 1.00x |
| Deep | 4.00 ms ±0% | 400 us | **0.50x** |
| Wide | 2.00 ms ±0% | 0.0005 ns |  |
| Mix | 2.00 | 1.00 s | |
| Deep | 4.00 | 200 ms | |
| Wide | 2.00 TB/s | | |
<!-- end -->

| option | meaning |
|---|---|
"""


class Repository:
    """A folder with one CSV file, its template, and documents."""

    def __init__(self, folder, csv=CSV, template=TEMPLATE, document=DOCUMENT):
        self.root = pathlib.Path(folder)
        self.document = self.root / "docs" / "BENCHMARKS.md"
        self.csv = self.root / "bench" / "results" / "b.csv"
        for path, text in ((self.document, document), (self.root / "README.md", "# Readme\n"),
                           (self.root / "docs" / "figures.txt", template), (self.csv, csv)):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def run(self, *options):
        return subprocess.run([sys.executable, TOOL, "--root", self.root, *options],
                              capture_output=True, text=True, check=False)


class BenchTable(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_writes_figures_and_is_content_with_them(self):
        repository = Repository(self.folder)
        self.assertEqual(repository.run("--write").returncode, 0)
        self.assertEqual(repository.document.read_text(encoding="utf-8"), EXPECTED)
        again = repository.run()
        self.assertEqual((again.returncode, again.stdout), (0, ""))

    def differs(self, change):
        repository = Repository(self.folder)
        repository.run("--write")
        change(repository)
        written = repository.document.read_text(encoding="utf-8")
        answer = repository.run()
        self.assertEqual(answer.returncode, 1, answer.stdout)
        self.assertEqual(repository.document.read_text(encoding="utf-8"), written)
        return answer.stdout

    def test_a_figure_changed_in_the_document(self):
        said = self.differs(lambda repository: repository.document.write_text(
            EXPECTED.replace("50.0x", "60.0x"), encoding="utf-8"))
        self.assertIn("docs/BENCHMARKS.md:8: is\n  | Mix | 2.00 ms ±50% | 20.0 us | 60.0x |", said)
        self.assertIn("50.0x", said)

    def test_a_figure_changed_in_the_csv_file(self):
        said = self.differs(lambda repository: repository.csv.write_text(
            CSV.replace("0.1,0.1,0.1", "0.2,0.2,0.2"), encoding="utf-8"))
        self.assertIn("100x", said)

    def test_a_row_taken_out_of_the_document(self):
        said = self.differs(lambda repository: repository.document.write_text(
            EXPECTED.replace("| Wide | 2.00 TB/s | | |\n", ""), encoding="utf-8"))
        self.assertIn("rows too many or too few", said)

    def test_a_bound_that_was_missed_is_told(self):
        repository = Repository(self.folder, CSV.replace(": met", ": MISSED"))
        repository.run("--write")
        self.assertIn("0 of 1 bounds kept, **rate, at least 1: MISSED**",
                      repository.document.read_text(encoding="utf-8"))

    def assert_mistake(self, wanted, **texts):
        repository = Repository(self.folder, **texts)
        before = repository.document.read_text(encoding="utf-8")
        for options in ((), ("--write",)):
            answer = repository.run(*options)
            self.assertEqual(answer.returncode, 1, answer.stdout)
            self.assertIn(wanted, answer.stdout)
            self.assertEqual(answer.stderr, "")
            self.assertEqual(repository.document.read_text(encoding="utf-8"), before)

    def test_mistakes_in_templates(self):
        for row, wanted in (
                ("| a | {Mix; warren} |", "{Mix; warren}: no such row"),
                ("| Mux | {$; Warren} |", "where $ is 'Mux'"),
                ("| $ Mix; Wide | {$; rm -rf} |", "where $ is 'Wide'"),
                ("| $ | {$; nobody} |", "no scenario or subject fits"),
                ("| a | {c; Mix; Warren} |", "there is no bench/results/c.csv"),
                ("| a | {Warren} |", "is not understood"),
                ("| a | {Mix; Warren as MB/s} |", "'MB/s' is no unit"),
                ("{note b; nothing}", "has no line '# nothing: ...'")):
            with self.subTest(row=row):
                self.assert_mistake(wanted, template=f"== b\n{row}\n")

    def test_mistakes_in_documents(self):
        for document, wanted in (
                ("<!-- figures b -->\n", "line 1: '<!-- figures b -->' has no partner"),
                (DOCUMENT + "<!-- end -->\n", "line 8: '<!-- end -->' has no partner"),
                (DOCUMENT.replace("figures b", "figures c"), "there is no '== c'"),
                (DOCUMENT + DOCUMENT, "there is no '== b' that is not in use yet"),
                (DOCUMENT + "| a | 4.6 TB/s |\n", "line 8: a figure in a table"),
                (DOCUMENT + "| a | 3 us |\n", "line 8: a figure in a table")):
            with self.subTest(document=document):
                self.assert_mistake(wanted, document=document)

    def test_mistakes_in_csv_files_and_names(self):
        self.assert_mistake("two rows of 'Mix' and 'Warren'",
                            csv=CSV + '"Mix","Warren",1,1,1,1,1,\n')
        self.assert_mistake("has no line '# machine: ...'", csv=CSV.replace("machine", "computer"))
        self.assert_mistake("'== b' is there twice", template=TEMPLATE + TEMPLATE)
        self.assert_mistake("no document has a place for '== c'", template=TEMPLATE + "== c\nx\n",
                            document=EXPECTED)


if __name__ == "__main__":
    unittest.main()
