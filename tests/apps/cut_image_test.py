# SPDX-License-Identifier: Apache-2.0
"""The image of a mount whose daemon was killed, with an open file that has lost its name. Every
read-only command reads it as it is, also on a write-protected device, and changes no byte of it;
after a repair that reports "clean" the volume is clean. Needs root and /dev/fuse; skipped
without."""

import hashlib
import os
import shutil
import subprocess

import mounted
from mounted import Volume, run


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class CutImageTest(mounted.unittest.TestCase):
    def setUp(self):
        self.volume = Volume("64M")
        self.addCleanup(self.volume.remove)
        self.image = os.path.join(self.volume.folder, "cut.img")
        self.names = {f"file-{i}": bytes([97 + i]) * (1000 * i) for i in range(12)}
        self.volume.mount()
        root = self.volume.root
        with open(os.path.join(root, "orphan"), "wb") as orphan:
            orphan.write(b"still open" * 10000)
            os.unlink(os.path.join(root, "orphan"))
            for count, (name, data) in enumerate(self.names.items()):
                with open(os.path.join(root, name), "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                if count % 4 == 0:  # some commits, in both halves of the journal
                    run("sync", root)
            shutil.copyfile(self.volume.image, self.image)
        self.volume.unmount()

    def expect_read(self, image):
        self.assertEqual(set(run("ls", image + ":/").stdout.split()), set(self.names))
        self.assertEqual(set(run("find", image + ":/", "-type", "f").stdout.split()),
                         {f"{image}:/{name}" for name in self.names})
        run("info", image)
        self.assertEqual(run("cat", f"{image}:/file-9").stdout, self.names["file-9"].decode())
        run("fsck", image)

    def expect_mounted(self, device):
        run("mount", "-o", "ro", device, self.volume.root)
        try:
            self.assertEqual(set(os.listdir(self.volume.root)), set(self.names))
            for name, data in self.names.items():
                with open(os.path.join(self.volume.root, name), "rb") as file:
                    self.assertEqual(file.read(), data)
        finally:
            run("umount", self.volume.root)

    def test_is_read_as_it_is(self):
        before = digest(self.image)
        self.expect_read(self.image)
        self.expect_mounted(self.image)
        self.assertEqual(digest(self.image), before)

    def test_is_read_on_a_protected_device(self):
        device = subprocess.run(["losetup", "--find", "--show", "--read-only", self.image],
                                capture_output=True, text=True, check=False)
        if device.returncode != 0:
            self.skipTest("no loop device: " + device.stderr)
        name = device.stdout.strip()
        try:
            self.expect_read(name)
            self.expect_mounted(name)
        finally:
            subprocess.run(["losetup", "--detach", name], check=True)

    def test_is_clean_after_a_repair_that_says_so(self):
        self.assertIn("clean", run("fsck", "--repair", self.image).stdout)
        with open(self.image, "rb") as file:
            file.seek(224)  # the superblock's `clean`
            self.assertEqual(file.read(4), b"\x01\0\0\0")
        self.expect_read(self.image)


if __name__ == "__main__":
    mounted.skip_unless_possible()
    mounted.unittest.main()
