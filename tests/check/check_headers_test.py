#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/check_headers.py finds a header that does not compile alone, wherever in the order of
includes it stands, and compiles no header again that a source shows to be complete."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "check_headers.py"
GOOD = "#pragma once\n#include <vector>\ninline std::vector<int> good() { return {}; }\n"
ABOVE = '#pragma once\n#include "part/good.hpp"\ninline auto above() { return good(); }\n'


class CheckHeaders(unittest.TestCase):
    def check(self, headers, sources=None, flags=""):
        """Runs the tool over a tree of these files of src/part; its status and output."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            part = root / "src" / "part"
            part.mkdir(parents=True)
            (root / "include").mkdir()
            for name, text in {**headers, **(sources or {})}.items():
                (part / name).write_text(text)
            (root / "compile_commands.json").write_text(json.dumps(
                [{"directory": folder, "file": f"src/part/{name}", "command": f"c++ {flags}"}
                 for name in sources or {}]))
            done = subprocess.run([sys.executable, TOOL, "--root", root, "--build", root],
                                  stdout=subprocess.PIPE, text=True)
            return done.returncode, done.stdout

    def expect_found(self, name, headers, **more):
        status, output = self.check(headers, **more)
        self.assertEqual(status, 1, output)
        self.assertIn(f"part/{name}", output)

    def test_headers_that_compile_alone(self):
        status, output = self.check({"good.hpp": GOOD, "above.hpp": ABOVE})
        self.assertEqual(status, 0, output)
        self.assertIn("2 headers: 0 shown by their sources, the others in 1 run", output)

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

    def test_a_source_shows_its_own_header(self):
        headers = {"good.hpp": GOOD}
        status, output = self.check(headers, sources={"good.cpp": '#include "part/good.hpp"\n'})
        self.assertEqual(status, 0, output)
        self.assertIn("1 shown by their sources, the others in 0 runs", output)

    def test_sources_that_show_nothing(self):
        bad = {"bad.hpp": GOOD.replace("#include <vector>\n", "")}
        self.expect_found("bad.hpp", bad,
                          sources={"bad.cpp": '#include <vector>\n#include "part/bad.hpp"\n'})
        self.expect_found("bad.hpp", bad, sources={"other.cpp": '#include "part/bad.hpp"\n'})
        self.expect_found("bad.hpp", bad, sources={"bad.cpp": '#include "part/bad.hpp"\n'},
                          flags="-include cmake_pch.hxx")


if __name__ == "__main__":
    unittest.main()
