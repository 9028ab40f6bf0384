# SPDX-License-Identifier: Apache-2.0
"""Which users can open and lock an image or a device, and the errors if it is in use."""

import fcntl
import os
import shutil
import stat
import subprocess
import unittest

import mounted
from mounted import Volume, run

USER = 61234
# Locks the file in every way available to a reader, until its stdin ends.
LOCKER = """
import fcntl, os, struct, sys
file = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(file, fcntl.LOCK_EX)
fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi", fcntl.F_RDLCK, 0, 0, 0, 0))
print("locked", flush=True)
sys.stdin.read()
"""


def locker(path):
    """A process of another user that has locked the file, or None if it may not."""
    process = subprocess.Popen(["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups",
                                "python3", "-c", LOCKER, path], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if process.stdout.readline() == "locked\n":
        return process
    end(process)
    return None


def end(process):
    process.communicate(timeout=60)


@unittest.skipUnless(shutil.which("setpriv"), "no setpriv")
class ImageLockTest(unittest.TestCase):
    def setUp(self):
        old_umask = os.umask(0o022)
        self.addCleanup(os.umask, old_umask)
        self.volume = Volume("64M")
        self.addCleanup(self.volume.remove)

    def test_other_users_do_not_keep_the_owner_out(self):
        self.assertEqual(stat.S_IMODE(os.stat(self.volume.image).st_mode), 0o600)
        process = locker(self.volume.image)
        if process:
            self.addCleanup(end, process)
        self.assertEqual(run("fsck", self.volume.image).stderr, "")
        self.volume.mount()
        self.volume.unmount()
        run("mkfs", "--force", "-q", self.volume.image)

    def test_an_image_that_others_may_open(self):
        os.chmod(self.volume.image, 0o644)
        for words in (("fsck", self.volume.image), ("mkfs", "-f", self.volume.image)):
            self.assertIn("any user may read", run(*words).stderr)
        process = locker(self.volume.image)
        for words, code in ((("mount", self.volume.image, self.volume.root), None),
                            (("fsck", self.volume.image), 8),
                            (("ls", f"{self.volume.image}:/"), 2)):
            refused = run(*words, code=code).stderr
            self.assertIn(f"in use by process {process.pid} (python3)", refused)
        end(process)
        os.chmod(self.volume.image, 0o666)
        self.assertIn("any user may write", run("fsck", self.volume.image).stderr)
        os.chmod(self.volume.folder, 0o700)  # unreachable for other users
        self.assertEqual(run("fsck", self.volume.image).stderr, "")

    def test_a_second_mount_names_the_first(self):
        self.volume.mount()
        other = os.path.join(self.volume.folder, "other")
        os.mkdir(other)
        second = os.path.join(self.volume.folder, "second name")
        os.link(self.volume.image, second)
        expected = f"'{second}': in use by process {self.volume.process()} (warren)"
        self.assertIn(expected, run("mount", second, other, code=None).stderr)
        self.assertIn(expected, run("fsck", "--repair", second, code=8).stderr)
        self.assertFalse(os.path.ismount(other))

    def test_an_existing_file_keeps_its_mode(self):
        path = os.path.join(self.volume.folder, "there")
        with open(path, "wb") as file:
            file.truncate(64 << 20)
        os.chmod(path, 0o640)
        self.assertEqual(run("mkfs", path).stderr, "")
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o640)


class DeviceTest(unittest.TestCase):
    """A loop device; skipped if there is none."""

    def setUp(self):
        self.volume = Volume("64M")
        self.addCleanup(self.volume.remove)
        made = subprocess.run(["losetup", "--find", "--show", self.volume.image],
                              capture_output=True, text=True)
        if made.returncode != 0:
            self.skipTest(made.stderr)
        self.device = made.stdout.strip()
        self.addCleanup(subprocess.run, ["losetup", "--detach", self.device], check=True)

    def test_a_claimed_device_is_refused(self):
        run("mount", self.device, self.volume.root)
        self.addCleanup(run, "umount", "-l", self.volume.root, code=None)
        # Another device node of the same device has locks of its own.
        node = os.path.join(self.volume.folder, "node")
        os.mknod(node, stat.S_IFBLK | 0o600, os.stat(self.device).st_rdev)
        for words, code in (("fsck", 8), ("mkfs", 1)):
            refused = run(words, node, code=code).stderr
            self.assertIn("the device is in use", refused)
        refused = run("fsck", self.device, code=8).stderr
        self.assertIn("mounted at", refused)
        run("umount", self.volume.root)
        run("fsck", node)
        if shutil.which("mkfs.ext4"):
            subprocess.run(["mkfs.ext4", "-q", "-F", self.device], check=True)
            mount = subprocess.run(["mount", "-t", "ext4", self.device, self.volume.root])
            if mount.returncode != 0:
                return
            self.addCleanup(subprocess.run, ["umount", self.volume.root])
            for words in (("fsck", self.device), ("mkfs", "--force", node)):
                refused = run(*words, code=None).stderr
                self.assertIn(f"in use (mounted on {self.volume.root})", refused)

    def test_readers_share_a_device(self):
        with open(self.device, "rb") as holder:
            fcntl.flock(holder, fcntl.LOCK_SH)
            run("fsck", self.device)
            run("ls", f"{self.device}:/")


if __name__ == "__main__":
    mounted.main()
