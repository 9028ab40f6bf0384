# SPDX-License-Identifier: Apache-2.0
"""`warren device release`: the memory of the GPU beside a mount's engine is free, as `warren info`
says, and the mount goes on; where there is none the error says so. The program assisted_mount
serves the mount, with host memory in the place of a GPU's. Needs root and /dev/fuse; skipped
without."""

import json
import os
import re
import subprocess
import time
import unittest

import mounted
from mounted import WARREN, Volume, run

PATIENCE_SECONDS = 20
program = os.path.join(os.environ.get("WARREN_BUILD", ""), "tests", "assisted_mount")


class DeviceReleaseTest(unittest.TestCase):
    def setUp(self):
        self.volume = Volume()
        self.addCleanup(self.volume.remove)

    def mount_with_replica(self):
        daemon = subprocess.Popen([program, self.volume.image, self.volume.root])

        def end():
            if self.volume.is_mounted():
                run("umount", "-l", self.volume.root, code=None)
            daemon.wait(timeout=PATIENCE_SECONDS)
        self.addCleanup(end)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self.volume.is_mounted() or run("info", self.volume.root, code=None).returncode:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def engine(self):
        shown = run("info", self.volume.root).stdout
        return next(line for line in shown.splitlines() if line.startswith("Engine:"))

    def found(self):
        return run("find", self.volume.root).stdout.count("\n")

    def test_gives_the_memory_back(self):
        self.mount_with_replica()
        os.mkdir(os.path.join(self.volume.root, "d"))
        names = 2
        self.assertEqual(self.found(), names)
        self.assertIn(" does find, du, lookups and", self.engine())
        for operand in (self.volume.root, os.path.join(self.volume.root, "d"), self.volume.image):
            done = run("device", "release", operand)
            self.assertEqual((done.stdout, done.stderr), ("", ""))
            self.assertIn(" has given its memory back, and takes it again", self.engine())
            # Once more is not an error, and changes go on.
            run("device", "release", operand, operand)
            for number in range(50):
                os.mkdir(os.path.join(self.volume.root, "d", f"{names}-{number}"))
            names += 50
            self.assertIn(" has given its memory back, and takes it again", self.engine())
            self.assertEqual(self.found(), names)
            self.assertIn(" does find, du, lookups and", self.engine())
        run("device", "release", self.volume.root)
        self.volume.unmount()
        self.volume.check()

    def test_what_has_run_where_and_what_is_predicted(self):
        self.mount_with_replica()
        for _ in range(3):
            self.found()
        self.assertRegex(self.engine(), r": 3 queries by it, 0 by the CPU; predicted times were "
                                        r"off by \d+% on average")
        told = json.loads(run("info", "--json", self.volume.root).stdout)[0]["engine_note"]
        self.assertIn(f"({told})", self.engine())
        shown = run("doctor", "-q", self.volume.root, code=None).stdout
        lines = re.findall(r": predicted for (.*): on the CPU \S+ [nu]s and \S+ [nu]s a name; on "
                           r"the host's memory \S+ [nu]s and \S+ [nu]s a name, and if blocks have "
                           r"changed since, \S+ [nu]s and \S+ [nu]s for each of them$", shown,
                           re.MULTILINE)
        self.assertEqual(lines, ["the check before a removal", "du", "find with conditions",
                                 "find of everything", "a table of columns", "lookups",
                                 "removal of a tree", "creations of many files",
                                 "moves of many files", "removals of many files",
                                 "packing of a directory"], shown)

    def test_only_the_owner_may_do_it(self):
        self.mount_with_replica()
        os.chmod(self.volume.folder, 0o755)
        done = subprocess.run([WARREN, "device", "release", self.volume.root], user=12345,
                              group=12345, extra_groups=[], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(": Operation not permitted", done.stderr)
        self.assertIn(" does find, du, lookups and", self.engine())

    def test_says_that_there_is_none(self):
        attempt = f"warren device: cannot release the GPU of '{self.volume.root}': "

        def told(operand=self.volume.root):
            return run("device", "release", operand, code=1).stderr
        self.assertIn(attempt + "not on a Warren volume\n", told())
        self.assertIn(": it is not mounted\n", told(self.volume.image))
        self.assertIn(": No such file or directory", told(self.volume.root + "/none"))
        self.volume.mount("-o", "engine=cpu")
        self.assertIn(attempt + "no GPU works beside its engine", told())
        self.assertIn("no GPU works beside its engine", told(self.volume.image))
        self.volume.unmount()
        # Without CUDA there is none either.
        if subprocess.run([WARREN, "doctor", "-q"], capture_output=True, text=True,
                          check=False).stdout.find("takes the GPU") < 0:
            self.volume.mount("-o", "device_memory=512M")
            self.assertIn(attempt + "no GPU works beside its engine", told())
            self.volume.unmount()

    def test_wrong_words(self):
        for words, told in ((("device",), "missing operand: what is to be done?"),
                            (("device", "free", "x"), "unknown action 'free' (there is 'release')"),
                            (("device", "release"), "missing operand after 'release'")):
            self.assertIn(told, run(*words, code=1).stderr)


if __name__ == "__main__":
    mounted.main()
