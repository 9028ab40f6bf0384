#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/check_skips.py fails for a skipped test without an entry in its list, in a report such as
ctest writes, and for an entry without a reason."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "check_skips.py"
REPORT = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="(empty)" tests="7" failures="0" disabled="1" skipped="1">
  <testcase name="Ran.whole" status="run"><system-out>[ OK ]</system-out></testcase>
  <testcase name="apps/script" status="run"><system-out>Ran 5 tests in 1s

OK (skipped=2)
</system-out></testcase>
  <testcase name="python/some" status="run"><system-out>..s
57 passed, 1 skipped, 2 warnings in 2.10s
</system-out></testcase>
  <testcase name="python/all" status="run"><system-out>3 skipped in 0.10s</system-out></testcase>
  <testcase name="python/none" status="run"><system-out>no skipped one
5 passed in 0.10s</system-out></testcase>
  <testcase name="Left.out/1  # odd" status="notrun"><skipped message="SKIP"/></testcase>
  <testcase name="gpu_fs" status="disabled"><skipped message="Disabled"/></testcase>
</testsuite>
"""
LIST = """# a comment
apps/script: 2 cases  its reason
python/some: 1 case  its reason
python/all: 3 cases  its reason

Left.out/*   its reason
gpu_*  its reason
"""


class CheckSkips(unittest.TestCase):
    def check(self, list_text):
        with tempfile.TemporaryDirectory() as folder:
            report = pathlib.Path(folder, "report.xml")
            report.write_text(REPORT)
            listed = pathlib.Path(folder, "skips.txt")
            listed.write_text(list_text)
            done = subprocess.run([sys.executable, TOOL, "--list", listed, report],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            return done.returncode, done.stdout

    def test_all_are_listed(self):
        self.assertEqual(self.check(LIST), (0, ""))

    def test_each_that_is_not_listed_is_named(self):
        for line, name in (("apps/script: 2 cases  its reason\n", "apps/script: 2 cases"),
                           ("python/some: 1 case  its reason\n", "python/some: 1 case"),
                           ("python/all: 3 cases  its reason\n", "python/all: 3 cases"),
                           ("Left.out/*   its reason\n", "Left.out/1  # odd"),
                           ("gpu_*  its reason\n", "gpu_fs")):
            status, output = self.check(LIST.replace(line, ""))
            self.assertEqual(status, 1)
            self.assertEqual(output.count("skipped and not listed"), 1, output)
            self.assertIn(f"skipped and not listed: {name}", output)

    def test_more_cases_are_skipped_than_are_listed(self):
        status, output = self.check(LIST.replace("2 cases", "1 case"))
        self.assertEqual(status, 1)
        self.assertIn("skipped and not listed: apps/script: 2 cases", output)

    def test_an_entry_without_a_reason(self):
        status, output = self.check(LIST + "Some.test\n")
        self.assertEqual(status, 1)
        self.assertIn("skips.txt:8: 'Some.test' has no reason", output)


if __name__ == "__main__":
    unittest.main()
