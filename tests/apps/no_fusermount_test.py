# SPDX-License-Identifier: Apache-2.0
"""Without fusermount3, mount and doctor report that to a user other than root.

In a private mount namespace, /dev/null hides fusermount3, and /dev/fuse is replaced by one that
every user can open."""

import json
import os
import pathlib
import shutil
import stat
import subprocess
import tempfile
import unittest

from command_line import TIMEOUT_SECONDS
from mounted import WARREN, main

NOBODY = 65534
MISSING = "is not installed (package fuse3); only root can mount without it"


class NoFusermountTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="warren-fusermount-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.folder.chmod(0o755)
        self.device = self.folder / "fuse"
        os.mknod(self.device, 0o666 | stat.S_IFCHR, os.makedev(10, 229))
        self.device.chmod(0o666)

    def run_hidden(self, *words, user=NOBODY):
        """Runs warren without fusermount3."""
        hide = f"mount --bind {self.device} /dev/fuse\n"
        for place in ("/usr/bin/fusermount3", "/bin/fusermount3"):
            if os.access(place, os.X_OK):
                hide += f"[ ! -x {place} ] || mount --bind /dev/null {place}\n"
        return subprocess.run(
            ["unshare", "--mount", "sh", "-ec",
             hide + f'exec setpriv --reuid={user} --regid={user} --clear-groups "$@"', "sh",
             WARREN, *map(str, words)],
            capture_output=True, timeout=TIMEOUT_SECONDS, text=True)

    def test_mount_says_why(self):
        image, point = self.folder / "v.img", self.folder / "point"
        subprocess.run([WARREN, "mkfs", "--size=16M", image], check=True, capture_output=True)
        os.chown(image, NOBODY, NOBODY)
        point.mkdir()
        os.chown(point, NOBODY, NOBODY)
        done = self.run_hidden("mount", image, point)
        self.assertEqual(done.returncode, 32, done)
        self.assertIn(f"the kernel refused the mount; fusermount3 {MISSING}\n", done.stderr)

    def test_doctor_says_why(self):
        for user, state in ((NOBODY, "missing"), (0, "note")):
            done = self.run_hidden("doctor", "-q", "--json", user=user)
            found = {entry["subject"]: entry for entry in json.loads(done.stdout)}["fusermount3"]
            self.assertEqual((found["state"], found["detail"]), (state, MISSING))


if __name__ == "__main__":
    main()
