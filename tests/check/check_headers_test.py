#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/check_headers.py finds a header that does not compile alone, wherever in the order of
includes it stands."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "check_headers.py"
GOOD = "#pragma once\n#include <vector>\ninline std::vector<int> good() { return {}; }\n"
ABOVE = '#pragma once\n#include "part/good.hpp"\ninline auto above() { return good(); }\n'


class CheckHeaders(unittest.TestCase):
    def check(self, headers, *options):
        """Runs the tool over a tree of these files of src/part; its status and output."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            part = root / "src" / "part"
            part.mkdir(parents=True)
            (root / "include").mkdir()
            for name, text in headers.items():
                (part / name).write_text(text)
            done = subprocess.run([sys.executable, TOOL, "--root", root, *options],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            return done.returncode, done.stdout

    def expect_found(self, name, headers):
        status, output = self.check(headers)
        self.assertEqual(status, 1, output)
        self.assertIn(f"part/{name}", output)

    def test_headers_that_compile_alone(self):
        status, output = self.check({"good.hpp": GOOD, "above.hpp": ABOVE})
        self.assertEqual(status, 0, output)
        self.assertIn("2 of 2 headers in 1 runs", output)

    def test_an_include_is_missing(self):
        self.expect_found("bad.hpp", {"bad.hpp": GOOD.replace("#include <vector>\n", "")})

    def test_it_is_missing_beside_a_header_that_has_it(self):
        bad = "#pragma once\ninline std::vector<int> bad() { return {}; }\n"
        self.expect_found("bad.hpp", {"good.hpp": GOOD, "bad.hpp": bad, "above.hpp": ABOVE})

    def test_it_is_missing_below_a_header_that_has_it(self):
        bad = "#pragma once\ninline std::vector<int> bad() { return {}; }\n"
        above = '#pragma once\n#include <vector>\n#include "part/bad.hpp"\n'
        self.expect_found("bad.hpp", {"bad.hpp": bad, "above.hpp": above})

    def test_an_include_under_a_condition_does_not_count(self):
        bad = ("#pragma once\n#if 0\n#include \"part/good.hpp\"\n#endif\n"
               "inline auto bad() { return good(); }\n")
        self.expect_found("bad.hpp", {"good.hpp": GOOD, "bad.hpp": bad})

    def test_a_header_without_a_guard(self):
        self.expect_found("bad.hpp", {"bad.hpp": GOOD.replace("#pragma once\n", "")})

    def test_the_parts_are_all_headers(self):
        bad = "#pragma once\ninline std::vector<int> bad() { return {}; }\n"
        headers = {"good.hpp": GOOD, "other.hpp": GOOD, "bad.hpp": bad}
        found = [self.check(headers, "--part", f"{part}/3") for part in (1, 2, 3)]
        self.assertEqual(sorted(status for status, _ in found), [0, 0, 1], found)
        for _, output in found:
            self.assertIn("1 of 3 headers in 1 runs", output)

    def test_a_part_that_is_none(self):
        for part in ("0/3", "4/3", "1", "1/3/4"):
            status, output = self.check({"good.hpp": GOOD}, "--part", part)
            self.assertEqual(status, 2, output)
            self.assertIn(f"'{part}': write K/N with K from 1 to N", output)


if __name__ == "__main__":
    unittest.main()
