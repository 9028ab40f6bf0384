# SPDX-License-Identifier: Apache-2.0
"""warren cp --preserve, --no-preserve, --sparse and --reflink beside cp(1)."""

import os
import shutil
import unittest

from command_line import WARREN
from host_trees import give_access_list
from host_trees_test import TreesCase

# What to keep, and whether times are kept.
KEPT = [(["-p", "--preserve=xattr"], True), (["--preserve=mode"], False),
        (["--preserve=timestamps"], True), (["--preserve=ownership"], False),
        (["--preserve=links"], False), (["--preserve=mode,ownership"], False),
        (["--preserve=xattr"], False), (["--preserve=all"], True),
        (["-a", "--no-preserve=mode"], True), (["-a", "--no-preserve=ownership"], True),
        (["-a", "--no-preserve=links,timestamps"], False), (["-a", "--no-preserve=xattr"], True)]


class CopyOptionsTest(TreesCase):
    def test_what_is_kept_as_cp_keeps_it(self):
        root = self.folder / "s"
        (root / "d").mkdir(parents=True)
        for number, mode in enumerate((0o644, 0o4755, 0o600, 0o2750)):
            path = root / "d" / str(number)
            path.write_bytes(b"x" * number)
            os.chown(path, number, 2 * number) if os.geteuid() == 0 else None
            path.chmod(mode)
            os.setxattr(path, "user.color", b"red")
            os.utime(path, (10**9, 10**9))
        give_access_list(root / "d" / "0")
        os.link(root / "d" / "1", root / "d" / "linked")
        os.symlink("1", root / "d" / "symbolic")
        (root / "d").chmod(0o2750)
        os.utime(root / "d", (10**9, 10**9))
        for words, keeps_times in KEPT:
            for there in (False, True):
                for name in ("one", "two"):
                    (self.folder / name / "d").mkdir(parents=True)
                    if there:  # a replaced file keeps attributes that are not copied
                        (self.folder / name / "d" / "1").write_bytes(b"old")
                        (self.folder / name / "d" / "1").chmod(0o640)
                peer = self.run_program("cp", "-R", *words, "s/.", "one", code=None)
                own = self.warren("cp", "-R", *words, "s/.", "two", code=None)
                with self.subTest(words=words, there=there, peer=peer.stderr, own=own.stderr):
                    self.assertEqual(peer.returncode, own.returncode)
                    self.assert_same(self.folder / "one", self.folder / "two", times=keeps_times)
                for name in ("one", "two"):
                    shutil.rmtree(self.folder / name)
        self.assertIn("invalid argument 'moed'", self.error("cp", "--preserve=mode,moed", "s", "t"))

    def replaced(self, program, options, has_list, is_in_listed):
        """Mode and attributes of a file that was copied over, in a directory that may have a
        default access control list."""
        folder = self.folder / "r"
        folder.mkdir()
        if is_in_listed:
            give_access_list(folder, "system.posix_acl_default")
        for name in ("s", "d"):
            (folder / name).write_bytes(name.encode())
            os.setxattr(folder / name, f"user.{name}", name.encode())
            for attribute in os.listxattr(folder / name):
                if attribute.startswith("system."):
                    os.removexattr(folder / name, attribute)
            (folder / name).chmod(0o640)
        if has_list:
            give_access_list(folder / "d")
        self.run_program(*program, *options, "s", "d", folder=folder)
        self.assertEqual((folder / "d").read_bytes(), b"s")
        found = {name: os.getxattr(folder / "d", name) for name in os.listxattr(folder / "d")}
        mode = (folder / "d").stat().st_mode
        shutil.rmtree(folder)
        return mode, found

    def test_what_is_replaced_keeps_lists_and_attributes(self):
        for options in ([], ["--preserve=mode"], ["--preserve=timestamps,ownership"]):
            for has_list in (False, True):
                for is_in_listed in (False, True):
                    with self.subTest(options=options, has_list=has_list,
                                      is_in_listed=is_in_listed):
                        peer, own = (self.replaced(program, options, has_list, is_in_listed)
                                     for program in (("cp",), (WARREN, "cp")))
                        self.assertEqual(peer, own)

    def test_holes_as_cp_makes_them(self):
        block = b"\0" * 4096
        for name, content in (("zeros", block * 300), ("mixed", (block * 20 + b"x" * 4096) * 15),
                              ("odd", b"x" + block * 40 + b"y"), ("end", b"x" * 9000 + block * 50),
                              ("data", b"x" * 200_000), ("empty", b"")):
            (self.tree / name).write_bytes(content)
        with open(self.tree / "sparse", "wb") as file:
            file.seek(1 << 20)
            file.write(b"x" * 4096)
            file.truncate(1 << 21)
        for when in ("auto", "always", "never"):
            self.run_program("cp", "-r", f"--sparse={when}", "tree", "other")
            self.warren("cp", "-r", f"--sparse={when}", "tree", "own")
            self.assert_same(self.folder / "other", self.folder / "own", times=False)
            for path in sorted(self.tree.iterdir()):
                taken = [(self.folder / tree / path.name).stat().st_blocks
                         for tree in ("other", "own")]
                # Some versions of GNU cp leave out only whole buffers of zeros; none leaves out
                # more than ours.
                self.assertGreaterEqual(taken[0] + 8, taken[1], (when, path.name))
                if when == "never":
                    self.assertEqual(*taken, path.name)
            shutil.rmtree(self.folder / "own")
            shutil.rmtree(self.folder / "other")
        self.assertIn("invalid argument", self.error("cp", "--sparse=some", "tree", "own"))
        self.assertIn("only with --sparse=auto",
                      self.error("cp", "-r", "--reflink", "--sparse=always", "tree", "own"))

    def message_if(self, call, error, *words):
        """The message of a command for which a system call fails."""
        # The address sanitizer's search for leaks would be a second tracer.
        strace = ["env", "LSAN_OPTIONS=detect_leaks=0", "strace", "-f", "-qq", "-o", "/dev/null",
                  "-e", f"trace={call}", "-e", f"inject={call}:error={error}"]
        if not shutil.which("strace") or self.run_program(*strace, "true", code=None).returncode:
            self.skipTest("there is no strace that can let this system call fail")
        return self.run_program(*strace, WARREN, *words, code=1).stderr.decode()

    def test_an_attribute_that_cannot_be_removed(self):
        for name in ("tree/f", "own/f"):
            os.utime(self.write(name, b"x"), (10**9, 10**9))
        os.setxattr(self.folder / "own/f", "user.color", b"red")
        self.assertEqual(self.message_if("lremovexattr", "EIO", "sync", "tree", "own"),
                         "warren sync: cannot remove an attribute of 'own/f': Input/output error\n")
        self.warren("sync", "tree", "own")
        self.assertEqual(os.listxattr(self.folder / "own/f"), [])

    def test_hard_links_that_cannot_be_kept(self):
        self.write("tree/f", b"x")
        os.link(self.tree / "f", self.tree / "g")
        for call, told in (("mkdir", "cannot use the folder for hard links "),
                           ("linkat", "cannot create hard link 'own/"),
                           ("rmdir", "cannot remove ")):
            self.assertIn(told, self.message_if(call, "ENOSPC", "cp", "-aT", "tree", "own"))
            for name in ("f", "g"):
                self.assertEqual((self.folder / "own" / name).read_bytes(), b"x")
            self.warren("rm", "-rf", "own")


if __name__ == "__main__":
    unittest.main(verbosity=2)
