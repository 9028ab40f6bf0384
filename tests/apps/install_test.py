# SPDX-License-Identifier: Apache-2.0
"""What `cmake --install` writes for the program: itself, its helpers, manual pages and
completions. A build with sanitizers makes no manual and does not run this test."""

import os
import subprocess
import unittest

from manual_test import HELPERS, ManualCase


class InstallTest(ManualCase):
    def test_what_is_installed(self):
        build = os.environ.get("WARREN_BUILD", "")
        if not os.path.exists(os.path.join(build, "cmake_install.cmake")):
            self.skipTest("WARREN_BUILD names no build folder")
        root = self.folder / "root"
        environment = {**os.environ, "DESTDIR": str(root)}
        subprocess.run(["cmake", "--install", build, "--component", "program", "--prefix", "/usr"],
                       check=True, capture_output=True, env=environment, timeout=120)
        usr = root / "usr"
        program = subprocess.run([usr / "bin/warren", "--version"], check=True, timeout=60,
                                 stdout=subprocess.PIPE).stdout
        self.assertEqual(program.decode(), self.output("--version"))
        for helper in HELPERS:
            self.assertEqual((usr / "sbin" / helper).resolve(), (usr / "bin/warren").resolve())
        for page in self.manual.glob("man*/*"):
            there = usr / "share/man" / page.parent.name / page.name
            self.assertEqual(there.read_bytes(), page.read_bytes())
            self.assertEqual(there.is_symlink(), page.is_symlink())
        for made, place in (("bash", "bash-completion/completions"),
                            ("zsh", "zsh/site-functions"),
                            ("fish", "fish/vendor_completions.d")):
            for script in (self.manual / made).iterdir():
                self.assertEqual((usr / "share" / place / script.name).read_bytes(),
                                 script.read_bytes())
        self.assertTrue((usr / "share/doc/warren/FORMAT.md").exists())
        self.assertTrue((usr / "share/doc/warren/examples/mnt-warren.mount").exists())


if __name__ == "__main__":
    unittest.main()
