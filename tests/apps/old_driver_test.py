# SPDX-License-Identifier: Apache-2.0
"""With a driver too old for CUDA 13, auto is the CPU engine, and doctor says what is needed.

The driver is a library that tells its version. In a private mount namespace there is a
/dev/nvidiactl. Needs a program with the CUDA engine, but no GPU; root and cc; skipped without."""

import json
import os
import shutil
import subprocess
import sys
import unittest

from command_line import TIMEOUT_SECONDS, WARREN, CommandCase

SKIPPED = 77
DRIVER = """
#include <stdio.h>
#include <stdlib.h>
int cuDriverGetVersion(int* version) {
    fclose(fopen(getenv("ASKED"), "w"));
    *version = 12000;
    return 0;
}
"""
WITH_DEVICE = 'mount -t tmpfs none /dev; : >/dev/nvidiactl; exec "$@"'


class OldDriverTest(CommandCase):
    def setUp(self):
        super().setUp()
        self.asked = self.folder / "asked"
        (self.folder / "driver.c").write_text(DRIVER)
        self.run_program("cc", "-shared", "-fPIC", "-o", "libcuda.so.1", "driver.c")
        self.warren("mkfs", "--size=16M", self.image)

    def warren_with_driver(self, engine, *words, code=0):
        self.asked.unlink(missing_ok=True)
        done = self.run_program(
            "env", f"LD_LIBRARY_PATH={self.folder}", f"ASKED={self.asked}",
            f"WARREN_ENGINE={engine}", "unshare", "--mount", "sh", "-ec", WITH_DEVICE, "sh",
            WARREN, *words, code=code)
        self.assertTrue(self.asked.exists())
        return done

    def test_the_cuda_engine_is_refused(self):
        done = self.warren_with_driver("cuda", "info", self.image, code=1)
        self.assertIn(b"no GPU that CUDA can use", done.stderr)

    def test_doctor_says_what_is_needed(self):
        done = self.warren_with_driver("auto", "doctor", "-q", "--json", code=None)
        found = {entry["subject"]: entry for entry in json.loads(done.stdout)}
        self.assertIn("auto is cpu", found["engine"]["detail"])
        self.assertEqual(found["gpu"]["state"], "note")
        self.assertIn("CUDA 13 needs driver 580 or later", found["gpu"]["detail"])


if __name__ == "__main__":
    doctor = subprocess.run([WARREN, "doctor", "-q", "--json"], capture_output=True, text=True,
                            timeout=TIMEOUT_SECONDS).stdout
    if "built without it" in doctor or os.geteuid() != 0 or shutil.which("cc") is None:
        print("skipped: needs a program with the CUDA engine, root and cc")
        sys.exit(SKIPPED)
    unittest.main()
