#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The label `threads` is found by a header, too, and a test without it can start no thread."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

LABELS = pathlib.Path(__file__).resolve().parents[1] / "label_threads.py"
LIBRARY = pathlib.Path(os.environ.get("WARREN_BUILD", ""), "tests", "libno_threads.so")


class LabelThreads(unittest.TestCase):
    def test_suites_are_found_by_their_sources(self):
        with tempfile.TemporaryDirectory() as folder:
            tests = pathlib.Path(folder, "tests")
            (tests / "part").mkdir(parents=True)
            (tests / "support").mkdir()
            shutil.copy(LABELS, tests)
            (tests / "support" / "deep.hpp").write_text("#include <thread>\nstd::thread t;\n")
            (tests / "support" / "crowd.hpp").write_text('#include "support/deep.hpp"\n')
            (tests / "part" / "one_test.cpp").write_text("TEST(One, starts) { std::jthread t; }\n")
            (tests / "part" / "two_test.cpp").write_text(
                '#include "tests/support/crowd.hpp"\nTEST_P(Two, starts) {}\n')
            (tests / "part" / "none_test.cpp").write_text("TEST_F(None, thread) { threads(); }\n")
            done = subprocess.run([sys.executable, tests / "label_threads.py"], check=True,
                                  stdout=subprocess.PIPE, text=True)
            self.assertIn('set(threads_part "One|Two")\n', done.stdout)

    @unittest.skipUnless(shutil.which("cc"), "there is no C compiler")
    def test_a_thread_without_the_label_ends_the_test(self):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder, "starts.c")
            source.write_text("#include <pthread.h>\n"
                              "static void* run(void* x) { return x; }\n"
                              "int main(void) { pthread_t t;\n"
                              "    return pthread_create(&t, 0, run, 0) || pthread_join(t, 0); }\n")
            program = source.with_suffix("")
            subprocess.run(["cc", "-o", program, source, "-pthread"], check=True)
            self.assertEqual(subprocess.run([program]).returncode, 0)
            done = subprocess.run([program], env=dict(os.environ, LD_PRELOAD=str(LIBRARY)),
                                  stderr=subprocess.PIPE, text=True)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("this test starts a thread", done.stderr)


if __name__ == "__main__":
    unittest.main()
