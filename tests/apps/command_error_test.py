# SPDX-License-Identifier: Apache-2.0
"""Usage errors and bad input: one clear line that names the path, the right exit code, no data
loss."""

import os
import subprocess
import unittest

from command_line import WARREN, CommandCase


class WrongCallTest(CommandCase):
    def test_unknown_command(self):
        line = self.error("fnid", code=2)
        self.assertIn("'fnid'", line)
        self.assertIn("did you mean 'find'?", line)
        self.assertNotIn("did you mean", self.error("completely-different", code=2))
        self.error(code=2)

    def test_missing_operands(self):
        for command, code in (("mkfs", 1), ("fsck", 16), ("info", 1), ("resize", 1), ("cp", 1),
                              ("cat", 1), ("rm", 1), ("mv", 1), ("rebuild", 1), ("mkdir", 1),
                              ("ln", 1), ("touch", 1), ("stat", 1), ("sync", 1), ("device", 1)):
            line = self.error(command, code=code)
            self.assertRegex(line, rf"^warren {command}: missing (file )?operand")
        self.assertIn("missing destination file operand after 'x'", self.error("cp", "x"))
        self.assertIn("missing destination file operand after 'x'", self.error("mv", "x"))
        self.warren("rm", "-f")

    def test_unknown_options(self):
        for command, code in (("ls", 2), ("cp", 1), ("rm", 1), ("fsck", 16), ("mkfs", 1)):
            done = self.warren(command, "--no-such-option", code=code)
            self.assertIn(f"warren {command}: unrecognized option", done.stderr.decode())
            self.assertIn(f"Try 'warren {command} --help'", done.stderr.decode())

    def test_bad_values(self):
        for size in ("zero", "0", "-5M", "10Q", "", "99999999999999999999"):
            self.assertIn("size", self.error("mkfs", self.image, "--size=" + size))
        self.assertFalse(self.image.exists())
        self.assertIn("'9'", self.error("mkdir", "-m", "9", "x"))
        self.assertIn("--size 2G", self.error("mkfs", self.image))
        self.make_volume("16M")
        for words in (("-size", "x"), ("-type", "q"), ("-maxdepth", "no"), ("-nonsense", "1"),
                      ("(", "-true"), ("-name",), ("-o",), ("-user", "no such user")):
            self.error("find", self.inside("/"), *words)


class BadImageTest(CommandCase):
    launcher = ()

    def warren(self, *words, **more):
        return self.run_program(*self.launcher, WARREN, *words, **more)

    def every_command(self, target):
        """Commands that open `target`; each must fail with one line that contains its name."""
        self.write("file", b"x")
        for words, code in ((("ls", f"{target}:/"), 2), (("cat", f"{target}:/a"), 1),
                            (("cp", "file", f"{target}:/a"), 1), (("rm", "-r", f"{target}:/a"), 1),
                            (("mv", f"{target}:/a", f"{target}:/b"), 1),
                            (("find", f"{target}:/"), 1), (("du", f"{target}:/"), 1),
                            (("mkdir", f"{target}:/d"), 1), (("info", target), 1),
                            (("fsck", target), 8), (("resize", target, "1G"), 1),
                            (("rebuild", f"{target}:/"), 1)):
            line = self.error(*words, code=code)
            self.assertTrue(line.startswith(f"warren {words[0]}: "), line)
            self.assertIn(str(target), line)

    def test_foreign_file(self):
        self.write("v.img", os.urandom(1 << 20))
        self.every_command(self.image)

    def test_empty_file(self):
        self.write("v.img")
        self.every_command(self.image)

    def test_truncated_image(self):
        self.make_volume("64M")
        os.truncate(self.image, 5 << 20)
        self.every_command(self.image)
        os.truncate(self.image, 100)
        self.every_command(self.image)

    def test_no_image(self):
        line = self.error("ls", f"{self.folder}/none.img:/a", code=2)
        self.assertIn("none.img:/a", line)
        self.assertIn("there is no image", line)
        self.assertIn("No such file or directory", self.error("info", self.folder / "none.img"))
        self.assertIn("No such file or directory",
                      self.error("fsck", self.folder / "none.img", code=8))
        self.make_volume("16M")
        self.assertIn("paths in an image begin with '/'",
                      self.error("ls", f"{self.image}:a", code=2))

    def test_image_in_use(self):
        self.make_volume()
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        # A copy that waits for its source keeps the image open.
        holder = subprocess.Popen([WARREN, "cp", pipe, self.inside("/a")])
        try:
            with open(pipe, "wb") as end:
                self.every_command(self.image)
                self.assertIn("in use", self.error("ls", self.inside("/"), code=2))
                self.error("mkfs", "--force", self.image, "--size", "64M")
                end.write(b"all there")
        finally:
            self.assertEqual(holder.wait(timeout=60), 0)
        self.assertEqual(self.output("cat", self.inside("/a")), "all there")
        self.assert_clean()

    def test_unreadable_image(self):
        self.make_volume()
        self.image.chmod(0)
        if os.geteuid() == 0:  # root may read any file
            self.launcher = ("setpriv", "--bounding-set=-all")
        self.every_command(self.image)
        self.assertIn("ermission denied", self.error("info", self.image))

    def test_too_small(self):
        self.assertIn(str(self.image), self.error("mkfs", self.image, "--size", "1M"))
        self.assertIn("no/such", self.error("mkfs", self.folder / "no/such/v.img", "--size", "64M"))


class BadPathTest(CommandCase):
    def setUp(self):
        super().setUp()
        self.make_volume()
        self.warren("mkdir", "-p", self.inside("/d/e"))
        self.write("f", b"f")
        self.warren("cp", "f", self.inside("/f"))

    def check(self, words, expected, code=1):
        self.assertEqual(self.error(*words, code=code), f"warren {words[0]}: {expected}")

    def test_messages_are_those_of_coreutils(self):
        at = self.inside
        none = "No such file or directory"
        self.check(("ls", at("/x")), f"cannot access '{at('/x')}': {none}", 2)
        self.check(("cat", at("/x")), f"{at('/x')}: {none}")
        self.check(("cat", at("/d")), f"{at('/d')}: Is a directory")
        self.check(("rm", at("/x")), f"cannot remove '{at('/x')}': {none}")
        self.check(("rm", at("/d")), f"cannot remove '{at('/d')}': Is a directory")
        self.check(("rm", "-d", at("/d")), f"cannot remove '{at('/d')}': Directory not empty")
        self.check(("rm", "-r", at("/d/.")),
                   f"refusing to remove '.' or '..' directory: skipping '{at('/d/.')}'")
        self.assertIn("refusing to remove", self.error("rm", "-r", at("/")))
        self.check(("mv", at("/x"), at("/y")), f"cannot stat '{at('/x')}': {none}")
        self.check(("mv", at("/d"), at("/d/e")),
                   f"cannot move '{at('/d')}' to a subdirectory of itself, '{at('/d/e/d')}'")
        self.check(("mv", "-T", at("/f"), at("/d")),
                   f"cannot overwrite directory '{at('/d')}' with non-directory '{at('/f')}'")
        self.check(("mv", "-T", at("/d"), at("/f")),
                   f"cannot overwrite non-directory '{at('/f')}' with directory '{at('/d')}'")
        self.check(("mv", at("/f"), at("/f")), f"'{at('/f')}' and '{at('/f')}' are the same file")
        # However a name is spelled, it is not removed for being its own other name.
        self.check(("mv", at("/f"), at("/./f")),
                   f"'{at('/f')}' and '{at('/./f')}' are the same file")
        self.check(("mv", at("/f"), at("/d/..")),
                   f"'{at('/f')}' and '{at('/d/../f')}' are the same file")
        self.check(("ln", "-sf", at("/f"), at("/d/..")),
                   f"'{at('/f')}' and '{at('/d/../f')}' are the same file")
        self.check(("mv", at("/f"), at("/d"), at("/x")), f"target '{at('/x')}': {none}")
        self.check(("cp", at("/x"), "y"), f"cannot stat '{at('/x')}': {none}")
        self.check(("cp", at("/d"), "y"), f"-r not specified; omitting directory '{at('/d')}'")
        self.check(("cp", "-r", at("/d"), at("/f")),
                   f"cannot overwrite non-directory '{at('/f')}' with directory '{at('/d')}'")
        self.check(("cp", at("/f"), at("/f")), f"'{at('/f')}' and '{at('/f')}' are the same file")
        self.check(("mkdir", at("/d")), f"cannot create directory '{at('/d')}': File exists")
        self.check(("mkdir", at("/x/y")), f"cannot create directory '{at('/x/y')}': {none}")
        self.check(("ln", at("/d"), at("/y")), f"'{at('/d')}': hard link not allowed for directory")
        self.check(("touch", at("/x/y")), f"cannot touch '{at('/x/y')}': {none}")
        self.check(("rebuild", at("/f")), f"cannot rebuild '{at('/f')}': Not a directory")
        self.assertEqual(self.lines("ls", at("/")), ["d", "f"])

    def test_a_slash_asks_for_a_directory(self):
        at = self.inside
        self.warren("ln", "-s", "d", at("/l"))
        none = "Not a directory"
        for source, target in (("/l/", "/f"), ("/l/", "/new"), ("/f", "/new/")):
            self.check(("mv", at(source), at(target)),
                       f"cannot move '{at(source)}' to '{at(target)}': {none}")
        self.check(("mv", "-T", at("/d"), at("/l/")),
                   f"cannot move '{at('/d')}' to '{at('/l/')}': {none}")
        for words in (("cp", "f", at("/n/")), ("touch", at("/n/")), ("ln", "-s", "x", at("/n/")),
                      ("ln", at("/f"), at("/n/"))):
            self.assertIn(none, self.error(*words))
        self.assertEqual(self.lines("ls", at("/")), ["d", "f", "l"])
        self.warren("mkdir", at("/new/"))
        self.warren("mv", at("/new/"), at("/other/"))
        self.assertEqual(self.lines("ls", at("/")), ["d", "f", "l", "other"])

    def test_the_empty_name(self):
        for words in (("touch", ""), ("ls", ""), ("stat", ""), ("mkdir", "-p", ""),
                      ("ln", "-s", "x", ""), ("cat", "")):
            self.assertIn("No such file or directory", self.error(*words, code=None))

    def test_too_long_names(self):
        name = "/" + "n" * 256
        longest = "/" + "n" * 255
        for words in (("mkdir", self.inside(name)), ("touch", self.inside(name)),
                      ("cp", "f", self.inside(name)), ("ln", "-s", "x", self.inside(name)),
                      ("ln", self.inside("/f"), self.inside(name)),
                      ("mv", self.inside("/f"), self.inside(name))):
            self.assertIn("File name too long", self.error(*words))
        self.warren("touch", self.inside(longest))
        self.assertEqual(self.lines("ls", self.inside("/")), ["d", "f", longest[1:]])

    def test_not_on_warren(self):
        for words, tool in ((("mv", "f", "g"), "mv(1)"), (("sync", "f"), "sync(1)")):
            line = self.error(*words)
            self.assertIn("not on a Warren volume", line)
            self.assertIn(tool, line)
        self.assertTrue((self.folder / "f").exists())
        self.assertIn(f"write '{self.image}:/'", self.error("du", self.image))
        self.assertIn("not on the same volume", self.error("mv", "f", self.inside("/g")))
        self.assertIn("No such file", self.error("rm", "none"))
        self.assertIn("No such file", self.error("find", "none"))

    def test_mount_point_that_is_not_there(self):
        line = self.error("mount", self.image, self.folder / "nowhere", code=32)
        self.assertIn("nowhere", line)
        line = self.error("umount", self.folder / "nowhere", code=32)
        self.assertIn("nowhere", line)

    def test_image_in_a_folder_that_is_not_there(self):
        line = self.error("mkfs", "none/v.img", "--size", "64M")
        self.assertTrue(line.endswith("No such file or directory; check the path"), line)
        line = self.error("fsck", "none/v.img", code=8)
        self.assertIn("or make a volume with 'warren mkfs'", line)

    def test_closed_output(self):
        self.write("g", b"another")
        for words, code in (("ls", self.inside("/")), 2), (("cat", self.inside("/f")), 1), \
                           (("fsck", self.image), 8), (("cmp", "f", "g"), 2), (("--help",), 2):
            with self.subTest(words), open("/dev/full", "wb") as full:
                done = subprocess.run([WARREN, *words], stdout=full, stderr=subprocess.PIPE,
                                      cwd=self.folder, timeout=60)
                self.assertEqual(done.returncode, code)
                self.assertIn(b"No space left on device", done.stderr)


class FullVolumeTest(CommandCase):
    def test_nothing_is_lost_and_deleting_works(self):
        self.make_volume("16M")
        self.write("kept", os.urandom(100000))
        self.write("large", os.urandom(20 << 20))
        self.warren("cp", "kept", self.inside("/kept"))
        line = self.error("cp", "large", self.inside("/large"))
        self.assertIn("No space left on device", line)
        self.assertIn("warren resize", line)
        self.assertEqual(self.warren("cat", self.inside("/kept")).stdout,
                         (self.folder / "kept").read_bytes())
        self.assert_clean()
        self.warren("rm", self.inside("/large"))
        self.assertEqual(self.lines("ls", self.inside("/")), ["kept"])
        self.warren("cp", "kept", self.inside("/again"))
        self.assert_clean()

    def test_full_of_small_files(self):
        self.make_volume("16M")
        (self.folder / "many").mkdir()
        for number in range(400):
            self.write(f"many/{number}", os.urandom(50000))
        done = self.warren("cp", "-r", "many", self.inside("/"), code=1)
        self.assertIn(b"No space left on device", done.stderr)
        for number in range(20):
            name = f"many/{number}"
            content = self.warren("find", self.inside("/" + name), "-size", "50000c").stdout
            if content:
                self.assertEqual(self.warren("cat", self.inside("/" + name)).stdout,
                                 (self.folder / name).read_bytes())
        self.assert_clean()
        self.warren("rm", "-r", self.inside("/many"))
        self.warren("cp", "-r", "many/1", self.inside("/one"))
        self.assert_clean()


if __name__ == "__main__":
    unittest.main()
