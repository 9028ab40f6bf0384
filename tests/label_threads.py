#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which tests carry the label `threads`, for the thread sanitizer: those of a source that, by
itself or by a header of tests/ that it includes, names something that starts threads.

Prints a CMake command for each part: set(threads_<part> "<suite>|<suite>|...").
--sources prints the paths of these sources instead, separated by semicolons.
"""

import pathlib
import re
import sys

TESTS = pathlib.Path(__file__).resolve().parent
STARTS = re.compile(r"std::(jthread|thread|async)\b|\b(ThreadPool|Workers|run_once|Volume)\b"
                    r"|\bLockstep\b|\bwalk\(\{|warren/(hash|chunk|walk)\.h")
# Cases of a suite in a header carry the name of its instance.
SUITE = re.compile(r"^\s*(?:(?:TYPED_)?TEST(?:_F|_P)?|INSTANTIATE_TYPED_TEST_SUITE_P)\(\s*(\w+)",
                   re.MULTILINE)
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


def starts_threads(path, known):
    """Whether this file, or one that it includes, matches; `known` keeps what was found."""
    if path not in known:
        text = path.read_text()
        known[path] = bool(STARTS.search(text))
        for name in INCLUDE.findall(text):
            header = TESTS.parent / name if name.startswith("tests/") else TESTS / name
            if header.exists():
                known[path] |= starts_threads(header, known)
    return known[path]


def main():
    known = {}
    sources = [source for source in sorted(TESTS.rglob("*_test.cpp"))
               if starts_threads(source, known)]
    if sys.argv[1:] == ["--sources"]:
        print(";".join(map(str, sources)), end="")
        return
    for part in sorted(path for path in TESTS.iterdir() if path.is_dir()):
        suites = {suite for source in sources if part in source.parents
                  for suite in SUITE.findall(source.read_text())}
        print(f'set(threads_{part.name} "{"|".join(sorted(suites))}")')


if __name__ == "__main__":
    main()
