# SPDX-License-Identifier: Apache-2.0
"""Owner, group and mode of a file replaced by warren cp, compared with cp(1), as root and as
another user."""

import os
import shutil
import stat
import unittest

from command_line import WARREN, CommandCase

USER, MEMBER, STRANGER, FOREIGN = 61234, 61235, 61236, 61237
AS_USER = ("setpriv", f"--reuid={USER}", f"--regid={USER}", f"--groups={MEMBER}")
OWNERS = ((USER, USER), (USER, MEMBER), (USER, FOREIGN), (STRANGER, USER), (STRANGER, FOREIGN))
MODES = (0o644, 0o2755, 0o2766, 0o6777)


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "changes users")
class CopyOwnerTest(CommandCase):
    def setUp(self):
        super().setUp()
        self.folder.chmod(0o755)
        self.count = 0

    def copied(self, program, user, options, source, there):
        """The state of the target afterwards, and the exit code."""
        self.count += 1
        folder = self.folder / str(self.count)
        folder.mkdir()
        folder.chmod(0o777)
        for name, content, (mode, owner, group) in (("s", b"new", source), ("d", b"older", there)):
            (folder / name).write_bytes(content)
            os.chown(folder / name, owner, group)
            (folder / name).chmod(mode)
        done = self.run_program(*user, *program, *options, "s", "d", code=None, folder=folder)
        found = (folder / "d").stat()
        self.assertEqual(sorted(os.listdir(folder)), ["d", "s"])
        return (found.st_uid, found.st_gid, oct(stat.S_IMODE(found.st_mode)),
                (folder / "d").read_bytes(), done.returncode)

    def compare(self, user, options, source, owners=OWNERS, mask=0o7777):
        for owner in owners:
            for mode in MODES:
                there = (mode, *owner)
                with self.subTest(user=user, options=options, source=source, there=there,
                                  mode=oct(mode)):
                    peer, own = (self.copied(program, user, options, source, there)
                                 for program in (("cp",), (WARREN, "cp")))
                    masked = [(*one[:2], int(one[2], 8) & mask, *one[3:]) for one in (peer, own)]
                    self.assertEqual(*masked)

    def test_what_is_replaced_keeps_owner_group_and_mode(self):
        for user in ((), AS_USER):
            self.compare(user, [], (0o644, STRANGER, FOREIGN))
        self.compare(AS_USER, ["-f"], (0o6755, USER, USER))

    def test_what_is_asked_for_and_cannot_be_had(self):
        # Depending on how it was built, cp -p keeps set-id bits that the source does not have.
        for user, options, owners in (((), ["-p"], OWNERS), (AS_USER, ["-p"], OWNERS[:3])):
            for source in ((0o644, USER, MEMBER), (0o644, STRANGER, FOREIGN)):
                self.compare(user, options, source, owners, 0o777)
        self.compare(AS_USER, ["--preserve=mode"], (0o6755, USER, USER), OWNERS[:3])

    def test_set_id_bits_of_another_do_not_become_ones_own(self):
        for mode in MODES:
            found = self.copied((WARREN, "cp"), AS_USER, ["-p"], (0o6755, STRANGER, FOREIGN),
                                (mode, USER, USER))
            self.assertEqual((found[0], int(found[2], 8) & 0o6000), (USER, 0))

    def test_what_is_written_into_and_remains_incomplete(self):
        small = self.folder / "small"
        small.mkdir()
        if self.run_program("mount", "-t", "tmpfs", "-o", "size=12m,mode=777", "none", small,
                            code=None).returncode != 0:
            self.skipTest("may not mount")
        self.addCleanup(self.run_program, "umount", small)
        source = self.write("s", b"x" * (8 << 20))
        os.utime(source, (10**9, 10**9))
        target = small / "d"
        full = "warren cp: cannot write 'small/d': No space left on device\n"
        denied = ("warren cp: cannot reset the time of incomplete 'small/d': "
                  "Operation not permitted\n")
        for owner, told in (((USER, FOREIGN), full), ((STRANGER, FOREIGN), denied + full)):
            for options in ([], ["-p"], ["-a"]):
                with self.subTest(owner=owner, options=options):
                    target.write_bytes(b"older")
                    os.utime(target, (10, 10))
                    os.chown(target, *owner)
                    target.chmod(0o666)
                    done = self.run_program(*AS_USER, WARREN, "cp", *options, "s", "small/d",
                                            code=1)
                    self.assertEqual(done.stderr.decode(), told)
                    self.assertEqual(os.listdir(small), ["d"])
                    self.assertNotEqual(target.stat().st_mtime, 10**9)
        os.chown(target, USER, FOREIGN)
        self.run_program(*AS_USER, WARREN, "cp", "s", "small/d", code=1)
        self.run_program("mount", "-o", "remount,size=40m", small)
        self.run_program(*AS_USER, WARREN, "cp", "-u", "s", "small/d")
        self.run_program("cmp", "s", "small/d")


if __name__ == "__main__":
    unittest.main()
