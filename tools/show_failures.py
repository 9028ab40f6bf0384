#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the end of the output of each failed test in what `ctest --output-junit FILE` wrote."""

import sys
import xml.etree.ElementTree as ElementTree

LINES = 12  # of each test

for case in ElementTree.parse(sys.argv[1]).getroot().iter("testcase"):
    if case.find("failure") is not None:
        print(f"\n== the end of {case.get('name')}")
        print("\n".join((case.findtext("system-out") or "").rstrip().splitlines()[-LINES:]))
