# SPDX-License-Identifier: Apache-2.0
"""The commands of `warren` in normal use on IMAGE:/path, compared with coreutils where it has the
same command."""

import json
import os
import random
import stat
import subprocess
import unittest

from command_line import WARREN, CommandCase, can_make_special_files, describe_tree

SEED = int(os.environ.get("WARREN_SEED", "1"))


class VolumeTest(CommandCase):
    def test_help_of_every_command(self):
        page = self.output("--help")
        commands = ("mkfs mount umount fsck info resize sync device doctor rm mv find du rebuild "
                    "chunk similar dedup ls cp cat mkdir ln touch stat walk")
        for command in commands.split():
            self.assertRegex(page, rf"(?m)^  {command} ")
            help_page = self.output(command, "--help")
            self.assertTrue(help_page.startswith(f"Usage: warren {command} "), help_page)
            self.assertIn("Examples:", help_page)
            self.assertEqual(help_page, self.output("help", command))
        self.assertRegex(self.output("--version"), r"^warren \d+\.\d+\.\d+\n$")

    def test_mkfs_info_fsck(self):
        made = self.output("mkfs", self.image, "--size", "64M", "--label", "here")
        self.assertIn("64.0 MiB", made)
        self.assertEqual(self.image.stat().st_size, 64 << 20)
        info = json.loads(self.output("info", "--json", self.image))[0]
        self.assertEqual(info["label"], "here")
        self.assertEqual(info["size"], 64 << 20)
        self.assertIn(info["uuid"], made)
        self.assertIn("Label:      here\n", self.output("info", self.image))
        self.assertIn("clean", self.output("fsck", self.image))
        report = json.loads(self.output("fsck", "--json", "-n", self.image))
        self.assertEqual(report["problems"], [])
        for option in ("-a", "-p", "-y", "-f", "--repair"):
            self.warren("fsck", option, self.image)

    def test_helper_names(self):
        for name in ("mkfs.warren", "fsck.warren"):
            os.symlink(os.path.abspath(WARREN), self.folder / name)
        self.run_program("./mkfs.warren", "-L", "x", "-F", "v.img", "32M")
        self.run_program("./fsck.warren", "-a", "-f", "v.img")
        done = self.run_program("./fsck.warren", code=16)
        self.assertTrue(done.stderr.startswith(b"fsck.warren: "), done.stderr)

    def test_mkfs_of_an_existing_file(self):
        with open(self.image, "wb") as file:
            file.truncate(48 << 20)
        self.warren("mkfs", "-n", self.image)
        self.error("info", self.image)
        self.warren("mkfs", self.image)
        info = json.loads(self.output("info", "--json", self.image))[0]
        self.assertEqual(info["size"], 48 << 20)
        self.warren("mkfs", self.image, code=1)
        self.warren("mkfs", "--force", self.image)

    def test_resize(self):
        self.make_volume("32M")
        self.write("a", b"kept")
        self.warren("cp", "a", self.inside("/a"))
        self.warren("resize", self.image, "64M")
        self.assertEqual(self.output("cat", self.inside("/a")), "kept")
        self.warren("resize", self.image, "+64M")
        info = json.loads(self.output("info", "--json", self.image))[0]
        self.assertEqual(info["size"], 128 << 20)
        self.assert_clean()

    def test_doctor(self):
        # doctor also examines the mounts of other tests, some of which may vanish.
        done = self.warren("doctor", "-q", "--json", "-d", self.folder, code=None)
        report = json.loads(done.stdout)
        self.assertEqual(done.returncode, int(any(entry["state"] == "missing" for entry in report)))
        subjects = {entry["subject"]: entry for entry in report}
        self.assertEqual(subjects["engine"]["state"], "ok")
        self.assertRegex(subjects["program"]["detail"], r"^warren \d+\.\d+\.\d+, engine cpu, ")
        fuse = os.access("/dev/fuse", os.R_OK | os.W_OK)
        self.assertEqual(subjects["/dev/fuse"]["state"], "ok" if fuse else "missing")
        self.assertFalse(any("measured" in entry["detail"] for entry in report))

    def test_sync(self):
        self.make_volume()
        self.warren("sync", self.image)
        self.warren("sync", self.inside("/"))


class FileTest(CommandCase):
    def setUp(self):
        super().setUp()
        self.make_volume()

    def test_mkdir_touch_ls(self):
        self.warren("mkdir", "-p", self.inside("/a/b/c"), self.inside("/a/b/c"))
        self.warren("mkdir", "-m", "700", self.inside("/private"))
        self.warren("touch", self.inside("/a/z"), self.inside("/a/.hidden"))
        self.assertEqual(self.lines("ls", self.inside("/a")), ["b", "z"])
        hidden = [".hidden", "b", "z"]
        self.assertEqual(self.lines("ls", "-A", self.inside("/a")), hidden)
        self.assertEqual(self.lines("ls", "-a", self.inside("/a")), [".", "..", *hidden])
        self.assertEqual(self.lines("ls", "-r", self.inside("/a")), ["z", "b"])
        self.assertEqual(self.lines("ls", "-F", self.inside("/a")), ["b/", "z"])
        self.assertRegex(self.output("ls", "-ld", self.inside("/private")), "^drwx------ ")
        tree = self.lines("ls", "-R", self.inside("/a"))
        self.assertEqual(tree[0], self.inside("/a") + ":")
        self.assertIn(self.inside("/a/b/c") + ":", tree)

    def test_ls_long_is_that_of_coreutils(self):
        self.write("t/one", b"1" * 1000, 0o640)
        self.write("t/two", b"", 0o4755)
        os.symlink("one", self.folder / "t/link")
        os.mkdir(self.folder / "t/sub", 0o1777)
        self.warren("cp", "-a", "t", self.inside("/"))
        ours = self.lines("ls", "-l", self.inside("/t"))
        theirs = self.run_program("ls", "-l", "t").stdout.decode().splitlines()[1:]
        # The sizes of directories depend on the file system.
        without = [line.split() for line in ours if not line.startswith("d")]
        self.assertEqual(without, [line.split() for line in theirs if not line.startswith("d")])
        mode = stat.filemode(os.lstat(self.folder / "t/sub").st_mode)
        self.assertEqual((ours[2].split()[0], ours[2].split()[-1]), (mode, "sub"))

    def test_ls_json(self):
        self.warren("touch", self.inside("/x"))
        name = b"\xff\"\n\xc3\xa9"
        (self.folder / "odd").mkdir()
        with open(os.path.join(os.fsencode(self.folder), b"odd", name), "wb"):
            pass
        self.warren("cp", "-r", "odd", self.inside("/"))
        found = json.loads(self.output("ls", "--json", self.inside("/odd")))
        self.assertEqual([os.fsencode(entry["name"]) for entry in found], [name])
        found = json.loads(self.output("ls", "--json", self.inside("/")))
        self.assertEqual([entry["name"] for entry in found], ["odd", "x"])
        self.assertEqual(found[1]["type"], "regular file")

    def test_cat(self):
        self.write("a", b"first\n")
        self.write("b", bytes(range(256)) * 9000)
        self.warren("cp", "a", "b", self.inside("/"))
        self.assertEqual(self.warren("cat", self.inside("/a"), self.inside("/b")).stdout,
                         b"first\n" + bytes(range(256)) * 9000)
        self.warren("ln", "-s", "a", self.inside("/link"))
        self.assertEqual(self.output("cat", self.inside("/link")), "first\n")

    def test_paths_are_followed_as_in_a_mount(self):
        self.warren("mkdir", "-p", self.inside("/d/e"))
        self.warren("ln", "-s", "/d", self.inside("/absolute"))
        self.warren("ln", "-s", "../d/e", self.inside("/d/relative"))
        self.warren("touch", self.inside("/absolute/relative/../made"))
        self.assertEqual(self.lines("ls", self.inside("/d")), ["e", "made", "relative"])
        self.assertEqual(self.lines("ls", self.inside("/../../d//./")), ["e", "made", "relative"])
        self.warren("ln", "-s", "loop", self.inside("/loop"))
        self.assertIn("Too many levels", self.error("cat", self.inside("/loop")))
        self.assertIn("Not a directory", self.error("cat", self.inside("/d/made/x")))

    def test_links(self):
        self.write("a", b"content")
        self.warren("cp", "a", self.inside("/a"))
        self.warren("ln", self.inside("/a"), self.inside("/b"))
        facts = json.loads(self.output("stat", "--json", self.inside("/a"), self.inside("/b")))
        self.assertEqual(facts[0]["inode"], facts[1]["inode"])
        self.assertEqual(facts[0]["links"], 2)
        self.warren("rm", self.inside("/a"))
        self.assertEqual(self.output("cat", self.inside("/b")), "content")
        self.warren("ln", "-s", "b", self.inside("/s"))
        self.assertIn("File exists", self.error("ln", "-s", "b", self.inside("/s")))
        self.warren("ln", "-sf", "elsewhere", self.inside("/s"))
        facts = json.loads(self.output("stat", "--json", self.inside("/s")))
        self.assertEqual(facts[0]["target"], "elsewhere")

    def test_touch_sets_times(self):
        self.write("old")
        os.utime(self.folder / "old", (1000, 1000))
        self.warren("cp", "-p", "old", self.inside("/old"))
        before = json.loads(self.output("stat", "--json", self.inside("/old")))[0]
        self.assertEqual(before["modified"], "1000.000000000")
        self.warren("touch", "-a", self.inside("/old"))
        after = json.loads(self.output("stat", "--json", self.inside("/old")))[0]
        self.assertEqual(after["modified"], "1000.000000000")
        self.assertGreater(float(after["accessed"]), 1e9)
        self.warren("touch", "-c", self.inside("/none"))
        self.assertEqual(self.lines("ls", self.inside("/")), ["old"])

    def test_touch_follows_links(self):
        for at in (self.inside, lambda name: str(self.folder) + name):
            self.write("old")
            os.utime(self.folder / "old", (1000, 1000))
            self.warren("cp", "-p", "old", at("/file"))
            self.warren("ln", "-s", "file", at("/link"))
            before = json.loads(self.output("stat", "--json", at("/link")))[0]
            self.warren("touch", at("/link"))
            after = json.loads(self.output("stat", "--json", at("/link"), at("/file")))
            self.assertEqual(after[0]["modified"], before["modified"])
            self.assertGreater(float(after[1]["modified"]), 1e9)

    def test_touch_makes_what_a_link_leads_to(self):
        for at in (self.inside, lambda name: str(self.folder) + name):
            self.warren("mkdir", at("/d"))
            for link, target in (("/first", "d/second"), ("/d/second", "third")):
                self.warren("ln", "-s", target, at(link))
            self.warren("touch", "-c", at("/first"))
            self.assertEqual(self.lines("ls", at("/d")), ["second"])
            self.warren("touch", at("/first"))
            self.assertEqual(self.lines("ls", at("/d")), ["second", "third"])
            self.warren("ln", "-s", at("/d").removeprefix(f"{self.image}:") + "/fourth", at("/end"))
            self.warren("touch", at("/end"))
            self.warren("stat", at("/d/fourth"))
            self.warren("ln", "-s", "none/file", at("/lost"))
            self.assertIn("/lost': No such file or directory", self.error("touch", at("/lost")))

    def test_rm(self):
        self.warren("mkdir", "-p", self.inside("/d/e"), self.inside("/empty"))
        self.warren("touch", self.inside("/f"), self.inside("/d/g"))
        self.assertIn("removed", self.output("rm", "-v", self.inside("/f")))
        self.warren("rm", "-d", self.inside("/empty"))
        summary = self.output("rm", "-rv", self.inside("/d"))
        self.assertIn("1 file, 2 directories", summary)
        self.warren("rm", "-f", self.inside("/nothing"))
        self.assertEqual(self.lines("ls", self.inside("/")), [])
        self.warren("touch", self.inside("/asked"))
        self.warren("rm", "-i", self.inside("/asked"), stdin=b"n\n")
        self.assertEqual(self.lines("ls", self.inside("/")), ["asked"])
        self.warren("rm", "-i", self.inside("/asked"), stdin=b"y\n")
        self.assertEqual(self.lines("ls", self.inside("/")), [])
        self.assert_clean()

    def test_mv(self):
        self.write("a", b"A")
        self.write("b", b"B")
        self.warren("cp", "a", "b", self.inside("/"))
        self.warren("mv", self.inside("/a"), self.inside("/c"))
        self.warren("mkdir", self.inside("/d"))
        self.warren("mv", "-v", self.inside("/b"), self.inside("/c"), self.inside("/d"))
        self.assertEqual(self.lines("ls", self.inside("/d")), ["b", "c"])
        self.warren("mv", "-n", self.inside("/d/b"), self.inside("/d/c"))
        self.assertEqual(self.output("cat", self.inside("/d/c")), "A")
        self.warren("mv", self.inside("/d/b"), self.inside("/d/c"))
        self.assertEqual(self.output("cat", self.inside("/d/c")), "B")
        self.warren("mv", "-T", self.inside("/d"), self.inside("/e"))
        self.assertEqual(self.lines("ls", self.inside("/")), ["e"])
        self.warren("ln", self.inside("/e/c"), self.inside("/e/same"))
        self.warren("mv", self.inside("/e/c"), self.inside("/e/same"))
        self.assertEqual(self.lines("ls", self.inside("/e")), ["same"])
        self.assert_clean()

    def test_mv_of_many(self):
        names = [f"f{number}" for number in range(300)]
        self.warren("mkdir", self.inside("/to"))
        self.warren("touch", *[self.inside("/" + name) for name in names])
        self.warren("mv", "-t", self.inside("/to"), *[self.inside("/" + name) for name in names])
        self.assertEqual(self.lines("ls", self.inside("/to")), sorted(names))
        self.assertEqual(self.lines("ls", self.inside("/")), ["to"])

    def test_rebuild(self):
        names = [self.inside(f"/d/f{number}") for number in range(600)]
        self.warren("mkdir", "-p", self.inside("/d/sub"))
        self.warren("touch", *names)
        self.warren("rm", *names[:590])
        done = json.loads(self.output("rebuild", "-r", "--json", self.inside("/d")))
        self.assertEqual([entry["path"] for entry in done],
                         [self.inside("/d"), self.inside("/d/sub")])
        self.assertEqual(done[0]["entries"], 11)
        self.assertLessEqual(done[0]["blocks_after"], done[0]["blocks_before"])
        self.assertEqual(len(self.lines("ls", self.inside("/d"))), 11)
        self.assert_clean()


class CopyTest(CommandCase):
    def setUp(self):
        super().setUp()
        self.make_volume("128M")

    def make_tree(self):
        """A tree with an object of every kind that cp -a keeps."""
        self.write("t/plain", b"x" * 10000, 0o640)
        self.write("t/a/b/deep", b"deep", 0o4711)
        self.write("t/empty")
        os.link(self.folder / "t/plain", self.folder / "t/a/second name")
        os.link(self.folder / "t/plain", self.folder / "t/a/b/third")
        os.symlink("nowhere", self.folder / "t/dangling")
        os.symlink("../plain", self.folder / "t/a/link")
        os.mkfifo(self.folder / "t/pipe", 0o600)
        with open(self.folder / "t/sparse", "wb") as file:
            file.seek(8 << 20)
            file.write(b"end")
            file.truncate(32 << 20)
        with open(os.fsencode(self.folder) + b"/t/\xfe\x01 '\n", "wb") as file:
            file.write(b"odd")
        if can_make_special_files(self.folder):
            os.mknod(self.folder / "t/null", stat.S_IFCHR | 0o622, os.makedev(1, 3))
            os.chown(self.folder / "t/empty", 12345, 54321)
        try:
            os.setxattr(self.folder / "t/plain", "user.colour", b"blue\0")
            os.setxattr(self.folder / "t/a", "user.empty", b"")
        except OSError:
            pass
        os.chmod(self.folder / "t/a/b", 0o555)
        for number, name in enumerate(("t/plain", "t/a/b", "t/a", "t")):
            os.utime(self.folder / name, ns=(10 ** 18 + number, 10 ** 18 + 7 * number))

    def test_archive_there_and_back(self):
        self.make_tree()
        self.warren("cp", "-a", "t", self.inside("/t"))
        self.warren("cp", "-a", self.inside("/t"), "back")
        expected = describe_tree(self.folder / "t")
        self.assertEqual(describe_tree(self.folder / "back"), expected)
        self.assertLess((self.folder / "back/sparse").stat().st_blocks, 1000)
        self.assert_clean()
        # Within the volume, and the contents of a directory rather than the directory.
        self.warren("cp", "-a", self.inside("/t"), self.inside("/twin"))
        os.mkdir(self.folder / "again")
        self.warren("cp", "-a", self.inside("/twin/."), "again")
        again = describe_tree(self.folder / "again")
        self.assertEqual(again, expected)

    def test_random_trees(self):
        print(f"seed {SEED}")
        source = random.Random(SEED)
        folders = [self.folder / "t"]
        folders[0].mkdir()
        files = []
        for number in range(400):
            folder = source.choice(folders)
            path = folder / f"{number}{'x' * source.randrange(200)}"
            kind = source.random()
            if kind < 0.2:
                path.mkdir()
                folders.append(path)
            elif kind < 0.3 and files:
                os.link(source.choice(files), path)
            elif kind < 0.4:
                os.symlink("y" * source.randrange(1, 300), path)
            else:
                path.write_bytes(source.randbytes(source.choice((0, 1, 50, 4096, 5000, 70000))))
                files.append(path)
        self.warren("cp", "-a", "-j", "8", "t", self.inside("/"))
        self.warren("cp", "-a", "-j", "8", self.inside("/t"), "back")
        self.assertEqual(describe_tree(self.folder / "back"), describe_tree(self.folder / "t"))
        self.assert_clean()

    def test_into_and_onto(self):
        self.write("a", b"A")
        self.write("b", b"B")
        self.warren("mkdir", self.inside("/d"))
        self.warren("cp", "a", self.inside("/d"))
        self.warren("cp", "b", self.inside("/d/a"))
        self.assertEqual(self.output("cat", self.inside("/d/a")), "B")
        self.warren("cp", "-n", "a", self.inside("/d"))
        self.assertEqual(self.output("cat", self.inside("/d/a")), "B")
        self.warren("cp", "-t", self.inside("/d"), "a", "b")
        self.assertEqual(self.lines("ls", self.inside("/d")), ["a", "b"])
        self.assertEqual(self.output("cat", self.inside("/d/a")), "A")
        self.warren("cp", "-v", self.inside("/d/a"), self.folder)
        self.assertEqual((self.folder / "a").read_bytes(), b"A")

    def test_umask_and_links(self):
        self.write("a", b"A", 0o777)
        os.symlink("a", self.folder / "link")
        self.run_program("sh", "-c", 'umask 027; "$0" cp link "$1"', WARREN, self.inside("/"))
        facts = json.loads(self.output("stat", "--json", self.inside("/link")))[0]
        self.assertEqual((facts["type"], facts["mode"]), ("regular file", "0750"))
        self.warren("cp", "-P", "link", self.inside("/link"))
        facts = json.loads(self.output("stat", "--json", self.inside("/link")))[0]
        self.assertEqual(facts["type"], "symbolic link")

    def test_between_volumes_and_from_a_pipe(self):
        other = self.folder / "other.img"
        self.make_volume("32M", other)
        self.warren("cp", "/dev/stdin", self.inside("/piped"), stdin=b"through a pipe" * 100000)
        self.warren("cp", self.inside("/piped"), f"{other}:/copy")
        self.assertEqual(self.warren("cat", f"{other}:/copy").stdout, b"through a pipe" * 100000)

    def test_not_into_itself(self):
        self.warren("mkdir", "-p", self.inside("/d/e"))
        self.assertIn("into itself", self.error("cp", "-r", self.inside("/d"), self.inside("/d")))
        self.assertIn("are the same file",
                      self.error("cp", "-r", self.inside("/d"), self.inside("/d/../.")))
        self.assertEqual(self.lines("ls", self.inside("/d/d")), ["e"])

    def test_deep_tree(self):
        here = os.open(self.folder, os.O_RDONLY)
        for _ in range(1500):
            os.mkdir("d" * 10, dir_fd=here)
            below = os.open("d" * 10, os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
        with open(os.open("end", os.O_CREAT | os.O_WRONLY, dir_fd=here), "wb") as file:
            file.write(b"at the end")
        os.close(here)
        self.warren("cp", "-a", "d" * 10, self.inside("/"))
        self.assertEqual(len(self.lines("find", self.inside("/"), "-type", "d")), 1501)
        self.assertEqual(self.output("cat", self.inside("/" + "dddddddddd/" * 1500 + "end")),
                         "at the end")
        self.warren("cp", "-a", self.inside("/" + "d" * 10), "back")
        self.warren("rm", "-r", self.inside("/" + "d" * 10))
        self.assertEqual(self.lines("ls", self.inside("/")), [])
        for name in ("back", "d" * 10):
            subprocess.run(["rm", "-rf", self.folder / name], check=True)
        self.assert_clean()


class SearchTest(CommandCase):
    """Compares find and du with the system's, on the same tree."""

    def setUp(self):
        super().setUp()
        self.make_volume()
        for number in range(40):
            self.write(f"t/{number % 5}/file{number}.{'ch'[number % 2]}", b"x" * (number * 700),
                       0o600 + number)
            os.utime(self.folder / f"t/{number % 5}/file{number}.{'ch'[number % 2]}",
                     (10 ** 9, 1.6e9 + number * 86400))
        self.write("t/0/empty")
        (self.folder / "t/0/nothing/in here").mkdir(parents=True)
        os.symlink("file0.c", self.folder / "t/0/link")
        os.link(self.folder / "t/1/file1.h", self.folder / "t/2/also1.h")
        self.warren("cp", "-a", "t", self.inside("/t"))

    def test_find(self):
        newer = "t/3/file23.h"
        for words in ("", "-name *.c", "-iname FILE1*", "-type d", "-type f,l -size +10k",
                      "-type f -size -3", "-type f -size 700c", "-empty", "-links 2 -type f",
                      "-maxdepth 1", "-mindepth 2", "-maxdepth 2 -mindepth 2", "-perm 601",
                      "-type f -perm -020", "-type f -perm /011", "-type f ! -name *.h",
                      "-name *1*.c -o -type d", "( -name *.c -o -name *.h ) -size +20k",
                      "-name 2 -prune -o -type f -print", "-path *t/1/* -name *.h", "-mtime +100",
                      "-type f -not -newer NEWER", "-newer NEWER -type f", "-type l"):
            words = words.split()
            ours = [self.inside("/" + newer) if word == "NEWER" else word for word in words]
            theirs = [newer if word == "NEWER" else word for word in words]
            expected = self.run_program("find", "t", *theirs).stdout.decode().splitlines()
            found = self.lines("find", self.inside("/t"), *ours)
            prefix = len(self.inside("/"))
            self.assertEqual(sorted(line[prefix:] for line in found), sorted(expected), words)

    def test_find_output(self):
        form = "%l %p %P %f %h %d %y %m %M %n %U %G\\t%% %T@ %Ts\\n"
        expected = self.run_program("find", "t", "-not", "-type", "d", "-printf",
                                    "%s " + form).stdout.decode().splitlines()
        found = self.output("find", "-s", self.inside("/t"), "-not", "-type", "d", "-printf",
                            "%s " + form).replace(self.inside("/"), "").splitlines()
        self.assertEqual(sorted(found), sorted(expected))
        listed = self.lines("find", self.inside("/t"), "-type", "l", "-ls")
        self.assertEqual([line.split()[-3:] for line in listed],
                         [[self.inside("/t/0/link"), "->", "file0.c"]])
        zeros = self.warren("find", "-s", self.inside("/t/0"), "-print0").stdout.split(b"\0")
        self.assertEqual(zeros[0].decode(), self.inside("/t/0"))
        self.assertEqual(zeros[-1], b"")
        objects = json.loads(self.output("find", "--json", self.inside("/t"), "-name", "link"))
        self.assertEqual([entry["path"] for entry in objects], [self.inside("/t/0/link")])
        self.assertEqual(self.lines("find", self.inside("/t/0/empty")), [self.inside("/t/0/empty")])

    def test_du(self):
        objects = json.loads(self.output("du", "--json", "-b", self.inside("/t")))
        sizes = {entry["path"]: entry["bytes"] for entry in objects}
        self.assertEqual(list(sizes)[-1], self.inside("/t"))
        self.assertEqual(len(sizes), 8)
        # Sizes of directories differ between file systems; those of files do not.
        every = json.loads(self.output("du", "--json", "-b", "-a", self.inside("/t/1")))
        files = {entry["path"].rsplit("/", 1)[1]: entry["bytes"] for entry in every[:-1]}
        theirs = {path.name: path.stat().st_size for path in (self.folder / "t/1").iterdir()}
        self.assertEqual(files, theirs)
        facts = json.loads(self.output("find", "--json", self.inside("/t")))
        allocated = {entry["inode"]: entry["allocated"] for entry in facts}
        self.assertEqual(self.lines("du", "-s", self.inside("/t")),
                         [f"{sum(allocated.values()) // 1024}\t{self.inside('/t')}"])
        self.assertEqual(len(self.lines("du", "-d", "1", self.inside("/t"))), 6)
        both = self.lines("du", "-sc", self.inside("/t/1"), self.inside("/t/2"))
        self.assertEqual(len(both), 3)
        self.assertTrue(both[2].endswith("\ttotal"))

    def test_du_counts_a_file_once(self):
        self.warren("mkdir", self.inside("/l"))
        self.write("big", b"x" * (1 << 20))
        self.warren("cp", "big", self.inside("/l/a"))
        once = int(self.output("du", "-s", self.inside("/l")).split()[0])
        for name in "bcd":
            self.warren("ln", self.inside("/l/a"), self.inside("/l/" + name))
        self.assertEqual(int(self.output("du", "-s", self.inside("/l")).split()[0]), once)
        self.assertGreaterEqual(int(self.output("du", "-sl", self.inside("/l")).split()[0]),
                                once + 3 * 1024)


if __name__ == "__main__":
    unittest.main()
