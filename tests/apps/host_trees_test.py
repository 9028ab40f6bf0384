# SPDX-License-Identifier: Apache-2.0
"""Compares warren cp, sync, cmp, chmod and chown on the host's own files with cp(1), diff(1),
chmod(1) and chown(1), on hostile trees.
"""

import os
import random
import shutil
import signal
import subprocess
import threading
import time
import unittest

from command_line import WARREN, CommandCase
from host_trees import allocated, describe, make_hostile_tree
from ranks import HAS_MPI, in_ranks

SEED = int(os.environ.get("WARREN_SEED", random.randrange(1 << 31)))

# Arguments for cp; both run in a folder with files f, g, h (a hard link to f), d/x, e/d/old, and
# links to d, to g and to a missing file.
CP_CALLS = [
    ["f", "new"], ["f", "g"], ["f", "d"], ["f", "d/"], ["f", "new/"], ["f", "g", "d"],
    ["f", "g", "new"], ["-r", "d", "new"], ["-r", "d", "e"], ["-r", "d/", "e/"], ["-r", "d/.", "e"],
    ["-rT", "d", "e"], ["-T", "f", "e"], ["-T", "f", "g"], ["-t", "e", "f", "d"],
    ["-r", "-t", "e", "f", "d"], ["-rt", "missing", "f"], ["d", "new"], ["-a", "link", "new"],
    ["link", "new"], ["-r", "link", "new"], ["-rH", "link", "new"], ["-rL", "e", "new"],
    ["-r", "link/", "new"], ["-P", "link", "new"], ["lost", "new"], ["-r", "lost", "new"],
    ["f", "link"], ["-r", "d", "link"], ["-r", "e/.", "link"], ["-a", "e/d/..", "link"],
    ["-rT", "d", "link"], ["f", "lost"], ["f", "alias"], ["-d", "f", "h", "e"],
    ["-a", "f", "h", "e"], ["-r", "f", "h", "e"], ["f", "f"], ["f", "alias2"],
    ["-r", "d", "d"], ["-r", "d", "d/sub"], ["-r", ".", "e/inner"], ["f", "d/x"], ["-r", "d", "f"],
    ["-r", "e/d", "."], ["-n", "f", "g"], ["-u", "f", "g"], ["-u", "g", "f"], ["-p", "f", "new"],
    ["-r", "e", "x/y"], ["missing", "new"], ["missing", "f", "d"], ["f", "d/x/y"], ["-f", "f", "g"],
    ["f", "./g"], ["-a", "e", "d", "f", "new"], ["-rn", "d", "e"], ["-r", "pipe", "new"],
    ["-r", "d", "d2", "e"], ["f", "e", "d"], ["e/d/f", "f", "d"], ["-a", "alias", "g", "d"],
    ["f", "/dev/null"], ["/dev/null", "new"], ["f", ""], ["", "new"],
]


class TreesCase(CommandCase):
    def setUp(self):
        super().setUp()
        self.tree = self.folder / "tree"
        self.tree.mkdir()

    def fill(self, entries=150, seed=SEED, root=None):
        print(f"WARREN_SEED={SEED}")
        make_hostile_tree(str(root or self.tree), random.Random(seed), entries)

    def assert_same(self, one, two, **what):
        first, second = describe(one, **what), describe(two, **what)
        self.assertEqual(sorted(first), sorted(second), f"WARREN_SEED={SEED}")
        for path, facts in first.items():
            self.assertEqual(facts, second[path], f"WARREN_SEED={SEED} {path}")

    def assert_tidy(self, folder):
        left = [name for above, folders, files in os.walk(folder) for name in folders + files
                if name.startswith(".warren-")]
        self.assertEqual(left, [])


class CpTest(TreesCase):
    def test_random_trees_as_cp(self):
        self.fill()
        for options in (["-a"], ["-r"], ["-dr"], ["-rP"]):
            self.run_program("cp", *options, "tree", "other")
            self.warren("cp", *options, "-j", "3", "tree", "own")
            self.assert_same("other", "own", times=options == ["-a"])
            self.assertLess(allocated(self.folder / "own"), allocated(self.tree) + 512)
            self.assert_tidy(self.folder)
            shutil.rmtree(self.folder / "own")
            shutil.rmtree(self.folder / "other")

    def assert_same(self, one, two, **what):
        super().assert_same(self.folder / one, self.folder / two, **what)

    def make_words_folder(self, name):
        root = self.folder / name
        for path in ("d", "e/d", "d2"):
            (root / path).mkdir(parents=True)
        for path in ("f", "g", "d/x", "e/d/old", "e/d/x", "d2/z", "e/d/f"):
            (root / path).write_text(path)
            os.utime(root / path, (10**9 + len(path), 10**9 + len(path)))
        os.utime(root / "f", (10**9 + 50, 10**9 + 50))
        os.link(root / "f", root / "h")
        (root / "g").chmod(0o640)
        os.mkfifo(root / "pipe")
        for link, target in (("link", "d"), ("lost", "nowhere"), ("alias", "g"), ("alias2", "f"),
                             ("e/up", "../d")):
            (root / link).symlink_to(target)
        return root

    def test_operands_as_cp(self):
        for words in CP_CALLS:
            roots = [self.make_words_folder(name) for name in ("one", "two")]
            peer = self.run_program("cp", *words, code=None, folder=roots[0])
            own = self.run_program(WARREN, "cp", *words, code=None, folder=roots[1])
            with self.subTest(words=words, peer=peer.stderr, own=own.stderr):
                self.assertEqual(peer.returncode, own.returncode)
                ignored = words in (["-r", "d", "d"], ["-r", "d", "d/sub"], ["-r", "d", "link"],
                                    ["-r", ".", "e/inner"])
                if not ignored:  # it is unspecified what was copied by then
                    self.assert_same("one", "two", times="-p" in words and "files")
                self.assert_tidy(roots[1])
            for root in roots:
                shutil.rmtree(root)

    def test_large_files_in_parts(self):
        content = random.Random(SEED).randbytes(1 << 20)
        with open(self.tree / "large", "wb") as file:
            for number in range(70):
                file.write(content[number:] + content[:number])
            file.seek(40 << 20, os.SEEK_CUR)  # a hole
            file.write(b"end")
        os.link(self.tree / "large", self.tree / "again")
        self.warren("cp", "-a", "--verify", "-j", "3", "tree", "own")
        self.assert_same("tree", "own")
        self.assertLess(allocated(self.folder / "own"), 2 * 72 << 11)
        self.warren("cp", "-j", "3", "tree/large", "alone")
        self.run_program("cmp", "tree/large", "alone")
        self.warren("cmp", "tree", "own")
        with open(self.folder / "own" / "large", "r+b") as file:
            file.seek(66 << 20)
            file.write(b"other")
        self.assertIn("differ", self.output("cmp", "tree", "own", code=1))
        os.truncate(self.tree / "large", 65 << 20)
        self.assert_tidy(self.folder)

    def test_no_space_is_told_and_leaves_nothing(self):
        small = self.folder / "small"
        small.mkdir()
        done = self.run_program("mount", "-t", "tmpfs", "-o", "size=8m", "none", small, code=None)
        if done.returncode != 0:
            self.skipTest("may not mount")
        self.addCleanup(self.run_program, "umount", small)
        (self.tree / "large").write_bytes(b"x" * (70 << 20))
        (self.tree / "medium").write_bytes(b"x" * (9 << 20))
        done = self.warren("cp", "-a", "tree", small, code=1)
        self.assertIn(b"No space left on device", done.stderr)
        self.assert_tidy(small)
        self.assertEqual(list((small / "tree").iterdir()), [])

    def test_deeper_than_any_path(self):
        at = os.open(self.tree, os.O_RDONLY)
        for _ in range(60):
            os.mkdir("x" * 200, dir_fd=at)
            below = os.open("x" * 200, os.O_RDONLY, dir_fd=at)
            os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=at))
            os.close(at)
            at = below
        os.close(at)
        self.warren("cp", "-a", "tree", "own")
        self.warren("cmp", "--attributes", "tree", "own")
        self.warren("sync", "--delete", "tree", "again")
        self.warren("chmod", "-R", "go-rwx", "again")
        self.assertIn("mode", self.output("cmp", "--attributes", "own", "again", code=1))
        self.assertEqual(len(self.lines("find", "own", "-type", "f")), 60)
        digests = [line.split()[0] for line in self.lines("hash", "own")]
        self.assertEqual((len(digests), len(set(digests))), (60, 1))
        self.warren("chown", "-R", f"{os.getuid()}:{os.getgid()}", "again")
        self.warren("find", "again", "-delete")
        self.warren("rm", "-r", "tree", "own")
        self.assertEqual([path.name for path in self.folder.iterdir()], [])

    def test_unreadable_and_unwritable(self):
        (self.tree / "closed").mkdir()
        (self.tree / "file").write_text("1")
        (self.tree / "secret").write_text("2")
        (self.tree / "closed").chmod(0)
        (self.tree / "secret").chmod(0)
        user = []
        if os.geteuid() == 0:
            self.run_program("chown", "-R", "65534:65534", self.folder)
            user = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
        for tool in ("cp", WARREN):
            command = [tool, *(["cp"] if tool == WARREN else [])]
            target = "other" if tool == "cp" else "own"
            done = self.run_program(*user, *command, "-a", "tree", target, code=1)
            self.assertIn(b"tree/closed", done.stderr)
            self.assertIn(b"tree/secret", done.stderr)
            (self.folder / target / "file").chmod(0o444)
            done = self.run_program(*user, *command, "tree/file", f"{target}/file", code=1)
            self.assertIn(b"Permission denied", done.stderr)
            self.run_program(*user, *command, "-f", "tree/file", f"{target}/file")
        (self.tree / "closed").chmod(0o700)
        for name in ("other", "own"):
            (self.folder / name / "closed").chmod(0o700)
        self.assert_same("other", "own", times=False)
        done = self.run_program(*user, WARREN, "sync", "--delete", "tree", "own", code=1)
        self.assertEqual(done.stderr.count(b"\n"), 1)
        (self.tree / "secret").chmod(0o600)
        self.assertIn("invalid argument", self.error("cp", "--reflink=x", "tree", "z"))

    def test_while_files_come_and_go(self):
        stop = threading.Event()

        def disturb():
            choose = random.Random(SEED)
            while not stop.is_set():
                path = self.tree / f"{choose.randrange(8)}"
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.mkdir()
                    for number in range(50):
                        (path / str(number)).write_bytes(b"x" * number * 100)

        other = threading.Thread(target=disturb)
        other.start()
        try:
            for number in range(6):
                done = self.warren("cp", "-a", "tree", f"own{number}", code=None)
                self.assertIn(done.returncode, (0, 1), done.stderr)
                self.warren("sync", "--delete", "tree", "mirror", code=None)
                self.warren("cmp", "tree", "mirror", code=None)
        finally:
            stop.set()
            other.join()
        self.assert_tidy(self.folder)
        self.warren("sync", "--delete", "tree", "mirror")
        self.assert_same("tree", "mirror")

    def test_an_interrupted_copy_leaves_no_parts(self):
        for number in range(4):
            with open(self.tree / f"large{number}", "wb") as file:
                file.write(b"x" * (64 << 20))
        for pause in (0.01, 0.05, 0.1):
            process = subprocess.Popen([WARREN, "cp", "-a", self.tree, self.folder / "own"],
                                       stderr=subprocess.DEVNULL)
            time.sleep(pause)
            process.send_signal(signal.SIGINT)
            self.assertIn(process.wait(), (0, 130, -signal.SIGINT))
            self.assert_tidy(self.folder)
            for path in (self.folder / "own").rglob("large*"):
                self.assertEqual(path.stat().st_size, 64 << 20)

    def test_words(self):
        self.make_volume()
        self.assertIn("files of the host only",
                      self.error("cp", "-r", "--verify", "tree", self.inside("/")))
        self.assertIn("invalid number", self.error("cp", "--max-ops", "0", "tree", "z"))
        (self.tree / "f").touch()
        self.assertEqual(self.output("cp", "-rv", "tree", "own"),
                         "'tree' -> 'own'\n'tree/f' -> 'own/f'\n")


class SyncTest(TreesCase):
    def change(self, root, choose):
        """Changes a few objects of every kind in a tree."""
        paths = list(describe(root))[1:]
        for path in choose.sample(paths, min(15, len(paths))):
            full = os.path.join(os.fsencode(root), path)
            if not os.path.lexists(full):
                continue
            if os.path.isdir(full) and not os.path.islink(full):
                if choose.randrange(3) == 0:
                    shutil.rmtree(full)
                else:
                    open(full + b"/extra", "w").close()
            elif (os.path.isfile(full) and not os.path.islink(full)
                  and choose.randrange(2) == 0):
                with open(full, "r+b") as file:
                    file.write(b"changed")
            else:
                os.unlink(full)
                choose.choice([os.mkdir, os.mkfifo, lambda path: os.symlink("z", path)])(full)

    def test_any_tree_becomes_the_other(self):
        self.fill()
        choose = random.Random(SEED + 1)
        target = self.folder / "target"
        target.mkdir()
        self.fill(100, SEED + 2, target)
        for options in ([], ["-c"], ["-c"]):
            before = describe(target)
            planned = self.lines("sync", "-n", "--delete", *options, "tree", "target")
            self.assertNotEqual(planned, [])
            self.assertEqual(describe(target), before)
            self.warren("sync", "--delete", *options, "tree/", "target")
            self.assert_same(self.tree, target)
            self.warren("cmp", "--attributes", "tree", "target")
            self.assertEqual(self.output("sync", "-n", "--delete", *options, "tree", "target"), "")
            self.assert_tidy(self.folder)
            self.change(target, choose)
        # Without --delete, files that exist only in the target stay.
        (target / "only here").touch()
        self.warren("sync", "-c", "tree", "target", code=None)
        self.assertTrue((target / "only here").exists())

    def test_a_tree_within_the_other(self):
        (self.tree / "b").mkdir()
        (self.tree / "b" / "g").write_text("inner")
        (self.tree / "f").write_text("outer")
        os.symlink("tree/b", self.folder / "way")
        before = describe(self.tree)
        for words in (("tree", "tree/b"), ("tree", "tree/new"), ("--delete", "tree", "tree/b/new"),
                      ("--delete", "tree/b", "tree"), ("--delete", "tree/f", "tree"),
                      ("--delete", "way", "tree"), ("--delete", "tree/b/", "tree/b/..")):
            self.assertIn(" lies in ", self.error("sync", *words))
            self.assertEqual(describe(self.tree), before, words)
        self.warren("sync", "tree/b", "tree")
        self.assertEqual((self.tree / "g").read_text(), "inner")
        self.assertEqual((self.tree / "f").read_text(), "outer")

    def test_a_target_that_is_no_directory(self):
        (self.tree / "f").write_text("new")
        (self.folder / "real").mkdir()
        (self.folder / "link").symlink_to("real")
        self.warren("sync", "tree", "link")
        self.assertTrue((self.folder / "link").is_symlink())
        self.assertEqual((self.folder / "real" / "f").read_text(), "new")
        self.make_volume()
        (self.folder / "file").write_text("kept")
        for target, advice in (("v.img", "is a volume"), ("file", "is not a directory")):
            for words in ([], ["--delete"], ["-n"]):
                self.assertIn(advice, self.error("sync", *words, "tree", target))
        self.assertEqual((self.folder / "file").read_text(), "kept")
        self.warren("fsck", "v.img")

    def test_what_counts_as_equal(self):
        (self.tree / "f").write_text("one")
        self.warren("sync", "tree", "target")
        (self.folder / "target" / "f").write_text("two")
        os.utime(self.folder / "target" / "f", ns=(0, (self.tree / "f").stat().st_mtime_ns))
        self.assertEqual(self.output("sync", "-v", "tree", "target"), "")
        self.assertEqual(self.output("sync", "-v", "-c", "tree", "target"), "f\n")
        self.assertEqual((self.folder / "target" / "f").read_text(), "one")
        (self.folder / "target" / "f").write_text("newer")
        self.assertEqual(self.output("sync", "-vu", "tree", "target"), "")
        self.assertIn("name a SOURCE", self.error("sync", "--delete", "tree"))
        self.make_volume()
        self.assertIn("mount it", self.error("sync", "-v", "tree", self.inside("/")))


class CmpTest(TreesCase):
    def test_trees_as_diff(self):
        choose = random.Random(SEED)
        twin = self.folder / "twin"
        for number in range(120):
            path = self.tree / f"{choose.randrange(6)}" / f"{choose.randrange(6)} {number}"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(choose.randbytes(choose.choice([0, 5, 9000])))
            if choose.randrange(9) == 0:
                path.with_name("link" + path.name).symlink_to(path.name)
        self.run_program("cp", "-a", "tree", "twin")
        for path in choose.sample(sorted(twin.rglob("*")), 25):
            if path.is_dir():
                continue
            path.unlink()
            kind = choose.randrange(4)
            if kind == 0:
                path.symlink_to("elsewhere")
            elif kind == 1:
                path.mkdir()
            elif kind == 2:
                path.write_bytes(b"other")
        for words in (["tree", "twin"], ["twin", "tree"], ["tree", "tree"], ["tree/", "twin/"]):
            peer = self.run_program("diff", "-rq", "--no-dereference", *words, code=None)
            own = self.warren("cmp", *words, code=peer.returncode)
            self.assertEqual(sorted(peer.stdout.splitlines()),
                             sorted(own.stdout.replace(b"//", b"/").splitlines()),
                             f"WARREN_SEED={SEED}")

    def test_a_folder_whose_names_have_no_status(self):
        for name in ("tree/d", "twin/d"):
            (self.folder / name).mkdir(parents=True)
        self.write("twin/d/extra")
        self.folder.chmod(0o755)
        (self.tree / "d").chmod(0o444)
        words = [WARREN, "cmp", "tree", "twin"]
        if os.geteuid() == 0:
            words = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", *words]
        done = self.run_program(*words, code=2)
        self.assertIn(b"cannot access 'tree/d/extra': Permission denied", done.stderr)

    def test_files_as_cmp(self):
        contents = [b"", b"a", b"a\n", b"abc\ndef\n", b"abc\ndef", b"abc\ndeg\n", b"x" * 300000,
                    b"x" * 299999 + b"y", b"x\n" * 150000]
        names = [self.write(f"file{number}", content).name
                 for number, content in enumerate(contents)]
        for one in names:
            for two in names:
                peer = self.run_program("cmp", one, two, code=None)
                own = self.warren("cmp", one, two, code=peer.returncode)
                self.assertEqual(own.stdout, peer.stdout.replace(b" char ", b" byte "))
                self.assertEqual(own.stderr.replace(b"warren cmp", b"cmp"), peer.stderr)
                self.assertEqual(self.warren("cmp", "-s", one, two, code=None).stdout, b"")
        self.assertIn("No such file", self.error("cmp", "missing", "file0", code=2))
        self.assertIn("two files or two trees", self.error("cmp", "file0", code=2))


class ModesTest(TreesCase):
    def random_mode(self, choose):
        def clause():
            who = "".join(choose.sample("ugoa", choose.randrange(3)))
            actions = (choose.choice("+-=") +
                       choose.choice(["".join(choose.sample("rwxXst", choose.randrange(4))),
                                      choose.choice("ugo")])
                       for _ in range(choose.randint(1, 2)))
            return who + "".join(actions)
        if choose.randrange(3) == 0:
            return choose.choice(["755", "0644", "00755", "07777", "1700", "=755", "+111", "u=4755",
                                  "2750", "04711", "8", "u+q", "a=,u=rwX", "10000", "u", "+", ","])
        text = ",".join(clause() for _ in range(choose.randint(1, 2)))
        return text if text[0] != "-" else "a" + text

    def test_chmod(self):
        self.fill(40)
        self.run_program("cp", "-a", "tree", "twin")
        choose = random.Random(SEED)
        for _ in range(40):
            mode = self.random_mode(choose)
            mask = choose.choice(["022", "077", "0"])
            words = ["-R", mode, "tree"]
            peer = self.run_program("sh", "-c", f'umask {mask}; chmod "$@"', "sh", *words,
                                    code=None)
            own = self.run_program("sh", "-c", f'umask {mask}; "$0" chmod "$@"', WARREN, "-R", mode,
                                   "twin", code=None)
            if b"new permissions are" not in peer.stderr:  # a warning of words like options
                self.assertEqual(peer.returncode, own.returncode, (mode, peer.stderr, own.stderr))
            self.assert_same(self.tree, self.folder / "twin", times=False)
        peer = self.run_program("chmod", "-Rv", "u+x", "tree").stdout.decode(errors="replace")
        own = self.output("chmod", "-Rv", "u+x", "twin")
        self.assertEqual(peer.count("changed from"), own.count("changed from"))
        self.assertEqual(peer.count("retained as"), own.count("retained as"))

    def test_links_stay_links(self):
        outside = self.write("outside", mode=0o600)
        (self.tree / "link").symlink_to(outside)
        self.warren("chmod", "-R", "777", "tree")
        self.assertEqual(outside.stat().st_mode & 0o777, 0o600)
        self.warren("chmod", "640", "tree/link")  # given as an operand it stands for the file
        self.assertEqual(outside.stat().st_mode & 0o777, 0o640)
        self.write("model", mode=0o754)
        self.warren("chmod", "--reference", "model", "outside")
        self.assertEqual(outside.stat().st_mode & 0o777, 0o754)
        self.warren("chmod", "-x", "outside")
        self.assertEqual(outside.stat().st_mode & 0o777, 0o644)
        self.assertIn("cannot access", self.error("chmod", "644", "missing"))
        self.assertIn("invalid mode", self.error("chmod", "u+q", "outside"))
        self.assertIn("missing operand", self.error("chmod", "644"))
        self.assertIn("missing operand", self.error("chown"))
        self.assertIn("invalid user", self.error("chown", "no such user", "outside"))
        self.assertIn("invalid group", self.error("chown", ":no such group", "outside"))
        self.assertIn("requires -H", self.error("chown", "-R", "--dereference", "0", "tree"))

    def test_chown(self):
        if os.geteuid() != 0:
            self.skipTest("only root gives files away")
        self.fill(40)
        self.run_program("cp", "-a", "tree", "twin")
        choose = random.Random(SEED)
        for _ in range(20):
            owner = choose.choice(["12:34", "root", "root:", "+7", ":99", "daemon:bin", "12:", ":",
                                   "nobody:"])
            more = choose.choice([[], ["--from=12"], ["--from=:99"], ["-h"], ["--from=root:34"]])
            recursive = choose.choice([["-R"], []])
            peer = self.run_program("chown", *recursive, *more, owner, "tree", code=None)
            own = self.warren("chown", *recursive, *more, owner, "twin", code=None)
            self.assertEqual(peer.returncode, own.returncode, (owner, peer.stderr, own.stderr))
            self.assert_same(self.tree, self.folder / "twin", times=False)
        self.warren("chown", "--reference", "/", "tree")
        self.assertEqual((self.tree.stat().st_uid, self.tree.stat().st_gid), (0, 0))
        self.assertIn("changed ownership of 'tree' from root:root to daemon:bin",
                      self.output("chown", "-c", "daemon:bin", "tree"))


@unittest.skipUnless(HAS_MPI, "there is no MPI here")
class RanksTest(TreesCase):
    """The same tools under mpirun have the same effect as in one process."""

    def ranks(self, *words, code=0):
        return self.run_program(*in_ranks(3, WARREN, *words), code=code)

    def test_together(self):
        self.fill()
        (self.tree / "large").write_bytes(random.Random(SEED).randbytes(1 << 20) * 70)
        self.ranks("cp", "-a", "tree", "own")
        self.assert_same(self.tree, self.folder / "own")
        self.assert_tidy(self.folder)
        self.ranks("cmp", "--attributes", "tree", "own")
        with open(self.folder / "own" / "large", "r+b") as file:
            file.write(b"other")
        (self.folder / "own" / "extra").touch()
        lines = self.ranks("cmp", "tree", "own", code=1).stdout.splitlines()
        self.assertEqual(sorted(set(lines)), [b"Files tree/large and own/large differ",
                                              b"Only in own: extra"])
        self.ranks("sync", "-c", "--delete", "tree", "own")
        self.assert_same(self.tree, self.folder / "own")
        self.ranks("chmod", "-R", "u+rwX,go=rX", "own")
        self.run_program("chmod", "-R", "u+rwX,go=rX", "tree")
        self.assert_same(self.tree, self.folder / "own", times=False)
        done = self.ranks("cp", "-a", "missing", "own", code=1)
        self.assertEqual(done.stderr.count(b"cannot stat 'missing'"), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
