#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails if a test was skipped that tests/skips.txt does not list.

Reads what `ctest --output-junit FILE` writes. A script of which only some cases were skipped counts
as skipped, too: Python's unittest and pytest tell their number at the end of their output.
"""

import argparse
import fnmatch
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

LIST = pathlib.Path(__file__).resolve().parent.parent / "tests" / "skips.txt"
SOME_CASES = re.compile(r"^(?:(?:OK|FAILED) \(.*skipped=(\d+)|(?:\d+ \w+, )*(\d+) skipped\b.* in )",
                        re.MULTILINE)


def skipped_in(report):
    """The skipped tests of a report, in the words of the list."""
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        some = SOME_CASES.search(case.findtext("system-out") or "")
        if case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
            yield case.get("name")
        elif some:
            count = some[1] or some[2]
            yield f"{case.get('name')}: {count} {'case' if count == '1' else 'cases'}"


def read_list(path):
    """Patterns of the list. Each line is PATTERN, two spaces or more, and the reason."""
    patterns = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.startswith("#") or not line.strip():
            continue
        pattern, _, reason = line.partition("  ")
        if not reason.strip():
            sys.exit(f"{path}:{number}: '{pattern}' has no reason: add it after two spaces")
        patterns.append(pattern)
    return patterns


def main():
    parser = argparse.ArgumentParser(description="compare skipped tests with a list")
    parser.add_argument("--list", type=pathlib.Path, default=LIST)
    parser.add_argument("report", type=pathlib.Path, nargs="+")
    options = parser.parse_args()
    patterns = read_list(options.list)
    unlisted = 0
    for report in options.report:
        for name in skipped_in(report):
            if not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns):
                unlisted += 1
                print(f"skipped and not listed: {name}. Let it run, or list it with a reason in "
                      f"{options.list}")
    return 1 if unlisted else 0


if __name__ == "__main__":
    sys.exit(main())
