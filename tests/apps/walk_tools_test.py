# SPDX-License-Identifier: Apache-2.0
"""Compares warren walk, find, du and rm on the host's own files with find(1), du(1) and rm(1).

All lines are compared in any order, since the threads of a walk print them as they find entries.
"""

import json
import os
import random
import re
import shutil
import subprocess
import time
import unittest

from command_line import WARREN, CommandCase

SEED = int(os.environ.get("WARREN_SEED", random.randrange(1 << 31)))

FIND_EXPRESSIONS = [
    [],
    ["-type", "f"],
    ["-type", "f,l"],
    ["-name", "*[aeiou]?"],
    ["-iname", "*A*", "-size", "+1k"],
    ["-type", "d", "-empty"],
    ["-regex", r".*/[a-f]+[0-9]*"],
    ["-regextype", "posix-extended", "-iregex", r".*/(a|B)+[^/]*"],
    ["-printf", r"%p %s %y %m %d %f %h %P %b %k %n %i %T@ %u %g\n"],
    ["-xdev", "-print0"],
    ["-perm", "-u+x,g=r"],
    ["-perm", "/222", "-type", "l"],
    ["-perm", "644"],
    ["!", "-user", "root"],
    ["-newer", "/etc/passwd", "-type", "f"],
    ["-newerma", "/etc/passwd"],
    ["-newermt", "2 days ago", "-printf", r"%-20f|%9s|%l|%H|%05s|%5y\n"],
    ["-newerct", "@1000000000.5", "-printf", r"%t|%T+|%20T@|%-32T+|%04m|%-04m|%03d\n"],
    ["-mtime", "+3", "-o", "-type", "d", "-prune"],
    ["-mmin", "-600", "-size", "-10"],
    ["-maxdepth", "2", "-mindepth", "1"],
    ["-name", "f*", ",", "-name", "*1", "-print"],
    ["(", "-name", "a*", "-o", "-name", "b*", ")", "-a", "-not", "-type", "d"],
    ["-name", "a*", "-prune", "-o", "-print"],
    ["-links", "+1", "-type", "f"],
    ["-depth", "-name", "*1*"],
    ["-lname", "*a*"],
    ["-false", "-o", "-readable", "-true"],
    ["-path", "*/*/a*"],
    ["-type", "f", "-exec", "echo", "x{}y{}", ";"],
    ["-maxdepth", "1", "-exec", "echo", "{}", ";", "-name", "a*", "-print"],
]

DU_OPTIONS = [["-s"], ["-sb"], ["-s", "--inodes"], ["-sl"], ["-a"], ["-d", "1"], ["-sx"], ["-S"],
              ["-c"], ["-sL"], ["-ab"], ["-ah"], ["-k", "-s"], ["-m", "-s"], ["-0", "-s"],
              ["-s", "--exclude=*a*"], ["--exclude", "*/b*", "-a"], ["-D", "-s"], ["-B", "1", "-s"],
              ["-BM", "-s"], ["--block-size=4K", "-s"], ["-a", "-t", "5K"],
              ["-a", "--threshold=-4K"], ["-s", "-X", "/etc/hostname"],
              ["-a", "--si"], ["-h", "--si", "-k", "-s"], ["-k", "-h", "-s"]]

LINES_OF_DIRECTORIES = ("-a", "-c", "-d", "-S", "-ab", "-ah", "--exclude")

TIMES = ["2024-01-31", "2024-02-29 23:59", "2024-07-01T12:34:56.7", "2024-07-01 12:34:56 +0200",
         "2024-07-01 12:34 -01:30", "1969-12-31 23:00Z", "@1700000000", "yesterday", "3 days ago",
         "-2 hours", "1 month ago", "2 weeks", "10:20", "90 minutes ago"]


# Makes each statx(2) as slow as on a network, so that a walk issues some ahead.
SLOW_STATX = b"""
#define _GNU_SOURCE
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int statx(int directory, const char* path, int flags, unsigned mask, struct statx* status) {
    const struct timespec pause = {0, 60000};
    nanosleep(&pause, 0);
    return (int)syscall(SYS_statx, directory, path, flags, mask, status);
}
"""


def make_tree(root, choose, entries):
    """About `entries` files of all types with hostile names, hard links and symbolic links."""
    directories = [root]
    files = []
    for number in range(entries):
        above = choose.choice(directories)
        name = "".join(choose.choice("abcdefA1 \n\\'*\u00e9") for _ in range(choose.randint(1, 6)))
        path = above / f"{name}{number}"
        kind = choose.randrange(12)
        if kind < 3:
            path.mkdir()
            directories.append(path)
        elif kind == 3:
            path.symlink_to(choose.choice([".", "..", "nowhere", "/etc/hostname"] +
                                          [str(file) for file in files[-3:]]))
        elif kind == 4 and files:
            os.link(choose.choice(files), path)
        elif kind == 5:
            os.mkfifo(path)
        else:
            path.write_bytes(b"x" * choose.choice([0, 1, 100, 4095, 4096, 4097, 50000]))
            path.chmod(choose.choice([0o644, 0o600, 0o755, 0o444]))
            os.utime(path, (1e9 + number, 1e9 + 86400 * number))
            files.append(path)


class WalkCase(CommandCase):
    def setUp(self):
        super().setUp()
        self.tree = self.folder / "tree"
        self.tree.mkdir()

    def fill(self, entries=400):
        print(f"WARREN_SEED={SEED}")
        make_tree(self.tree, random.Random(SEED), entries)

    def same(self, warren, peer, end=b"\n", code=None):
        """Both print the same lines and have the same exit status."""
        own = self.warren(*warren, code=None)
        other = self.run_program(*peer, code=None)
        self.assertEqual(sorted(own.stdout.split(end)), sorted(other.stdout.split(end)),
                         f"WARREN_SEED={SEED} {warren}")
        self.assertEqual(own.returncode != 0, other.returncode != 0, (warren, own.stderr[-500:]))
        if code is not None:
            self.assertEqual(own.returncode, code)


class FindTest(WalkCase):
    def test_as_find_on_a_random_tree(self):
        self.fill()
        for expression in FIND_EXPRESSIONS:
            end = b"\0" if "-print0" in expression else b"\n"
            self.same(["find", self.tree, *expression], ["find", self.tree, *expression], end)
            self.same(["find", "tree//", *expression], ["find", "tree//", *expression], end)
        for follow in ("-L", "-H", "-P"):
            self.same(["find", follow, self.tree], ["find", follow, self.tree])

    def test_as_find_on_usr(self):
        for expression in FIND_EXPRESSIONS[1:22]:
            arguments = ["/usr/include", "/usr/share/doc/", *expression]
            end = b"\0" if "-print0" in expression else b"\n"
            self.same(["find", *arguments], ["find", *arguments], end)

    def test_exec_sees_exit_codes_where_sigchld_is_ignored(self):
        ignoring = ["env", "--ignore-signal=CHLD", WARREN, "find", "tree", "-maxdepth", "0"]
        for command, printed in (("false", b""), ("true", b"tree\n")):
            done = self.run_program(*ignoring, "-exec", command, ";", "-print")
            self.assertEqual(done.stdout, printed)

    def test_exec_gathers_what_a_command_can_take(self):
        for number in range(3000):
            (self.tree / f"{'long' * 30}{number}").touch()
        lines = self.lines("find", "tree", "-type", "f", "-exec", "echo", "run", "{}", "+")
        self.assertGreater(len(lines), 1)
        names = [name for line in lines for name in line.split()[1:]]
        self.assertEqual(sorted(names), sorted(f"tree/{path.name}"
                                               for path in self.tree.iterdir()))
        self.warren("find", "tree", "-maxdepth", "0", "-exec", "false", "{}", "+", code=1)
        self.warren("find", "tree", "-maxdepth", "0", "-exec", "false", "{}", ";")
        self.assertIn("cannot run", self.error("find", "tree", "-maxdepth", "0", "-exec",
                                               "/no/such", "{}", ";", code=0))

    def test_delete(self):
        self.fill()
        twin = self.folder / "twin"
        self.run_program("cp", "-a", self.tree, twin)
        expression = ["-type", "f", "-size", "-2", "-delete", "-print"]
        own = sorted(self.lines("find", ".", *expression, folder=self.tree))
        other = self.run_program("find", ".", *expression, folder=twin).stdout
        self.assertEqual(own, sorted(other.decode(errors="surrogateescape").splitlines()))
        left = [sorted(self.run_program("find", ".", folder=place).stdout.splitlines())
                for place in (self.tree, twin)]
        self.assertEqual(left[0], left[1])
        self.warren("find", self.tree, "-delete")
        self.assertFalse(self.tree.exists())

    def test_removals_are_seen_by_the_next_test(self):
        # One of two names stays, however slow a stat is: its link count must not be from before.
        if not shutil.which("cc"):
            self.skipTest("there is no C compiler")
        self.write("slow.c", SLOW_STATX)
        self.run_program("cc", "-shared", "-fPIC", "-o", "slow.so", "slow.c")
        twin = self.folder / "twin"
        for place in (self.tree, twin):
            (place / "all").mkdir(parents=True)
            for number in range(400):
                (place / "all" / f"{number}").touch()
                os.link(place / "all" / f"{number}", place / "all" / f"{number}-")
        expression = ["-type", "f", "-links", "+1", "-delete"]
        self.run_program("find", twin, *expression)
        self.run_program("env", f"LD_PRELOAD={self.folder}/slow.so", WARREN, "find", self.tree,
                         "--threads", "1", *expression)
        for place in (twin, self.tree):
            left = sorted(name.strip("-") for name in os.listdir(place / "all"))
            self.assertEqual(left, sorted(str(number) for number in range(400)))

    def test_quit_and_order(self):
        self.fill(100)
        lines = self.output("find", self.tree, "-quit", "-print0")
        self.assertEqual(lines, "")
        ordered = self.output("find", "-s", self.tree, "-print0").split("\0")
        self.assertEqual(ordered[:-1], sorted(ordered[:-1], key=os.fsencode))
        objects = json.loads(self.output("find", "--json", self.tree, "-type", "f"))
        expected = self.run_program("find", self.tree, "-type", "f", "-print0").stdout
        self.assertEqual(sorted(os.fsencode(entry["path"]) for entry in objects),
                         sorted(expected.split(b"\0")[:-1]))

    def test_lists_as_ls_does(self):
        self.fill(150)
        hour = 3600
        for age in (181 * 24 * hour, 179 * 24 * hour, -hour / 2, -2 * hour):
            path = self.tree / f"age{age}"
            path.touch()
            os.utime(path, (time.time() - age,) * 2)
        own, other = (sorted(re.sub(rb" +", b" ", line) for line in listed.stdout.splitlines())
                      for listed in (self.warren("find", self.tree, "-ls"),
                                     self.run_program("find", self.tree, "-ls")))
        self.assertEqual(own, other)

    def found_newer(self, text, zone):
        """The results for a file ten minutes older than that time and one ten minutes newer."""
        def run(*words):
            return subprocess.run(words, stdout=subprocess.PIPE, check=True,
                                  env={**os.environ, "TZ": zone}).stdout

        while True:
            today = run("date", "+%F")
            seconds = int(run("date", "-d", text, "+%s"))
            for name, offset in (("before", -600), ("after", 600)):
                os.utime(self.write(f"times/{name}", b""), (seconds + offset,) * 2)
            found = run(WARREN, "find", self.folder / "times", "-type", "f", "-newermt", text,
                        "-printf", "%f ")
            if run("date", "+%F") == today:  # else a time of day would belong to two days
                return found

    def test_times_are_those_of_date(self):
        for zone in ("UTC", "America/New_York"):
            for text in TIMES:
                self.assertEqual(self.found_newer(text, zone), b"after ", (text, zone))

    def test_wrong_words(self):
        for words, part in ((["-exec", "echo"], "';'"), (["-exec", ";"], "-exec"),
                            (["-newermt", "2023-02-29"], "as a time"),
                            (["-newermt", "someday"], "as a time"),
                            (["-newermt", "3 days before"], "as a time"),
                            (["-newermt", "2 hours 3"], "as a time"),
                            (["-newermt", "12:60"], "as a time"),
                            (["-newermt", "9999999 years ago"], "as a time"),
                            (["-regex", "\\("], "invalid pattern"),
                            (["-regextype", "nonsense"], "invalid argument"),
                            (["-newerxy", "/etc"], "unknown predicate"),
                            (["-perm", "u+q"], "invalid argument"),
                            (["-samefile", "/no/such"], "No such file"),
                            (["-size", "x"], "invalid argument")):
            self.assertIn(part, self.error("find", ".", *words))
        self.assertIn("invalid number", self.error("find", "--threads", "0", "."))
        self.make_volume()
        for option in ("-L", "-H"):
            self.assertIn(f"{option} works on files of the host",
                          self.error("find", option, self.inside("/")))
        self.assertIn("-delete works on files of the host",
                      self.error("find", self.inside("/"), "-delete"))


class DuTest(WalkCase):
    def test_options_for_the_host(self):
        self.make_volume()
        for words in (["-L"], ["-D"], ["-H"], ["-S"], ["--inodes"], ["--exclude=x"],
                      ["--top=1"], ["--histogram"]):
            self.assertIn("works on files of the host, not inside a volume",
                          self.error("du", *words, self.inside("/")), words)
        self.warren("du", "-P", self.inside("/"))
        self.assertIn("--top works on files of the host",
                      self.error("du", "--shared", "--top=1", self.inside("/")))

    def test_as_du_on_a_random_tree(self):
        self.fill()
        for options in DU_OPTIONS:
            end = b"\0" if "-0" in options else b"\n"
            # It depends on timing which name of a file counts, so lines below the top differ if its
            # names are in several directories.
            # differ where names lie in several directories.
            names = ["-l"] if options[0] in LINES_OF_DIRECTORIES else []
            for threads in ("1", "3"):
                self.same(["du", "--threads", threads, *options, *names, self.tree],
                          ["du", *options, *names, self.tree], end)

    def test_several_operands_count_once(self):
        self.fill()
        below = next(path for path in self.tree.iterdir() if path.is_dir())
        operands = [below, self.tree, below, "/etc"]
        self.same(["du", "-s", "-c", *operands], ["du", "-s", "-c", *operands])

    def test_as_du_on_usr(self):
        for options in (["-s"], ["-sb"], ["-s", "--inodes"], ["-d", "2"], ["-sx"], ["-sL"]):
            self.same(["du", *options, "/usr/share", "/usr/include"],
                      ["du", *options, "/usr/share", "/usr/include"])

    def test_another_file_system_is_left_out(self):
        mounted = self.tree / "mounted"
        mounted.mkdir()
        (self.tree / "own").write_bytes(b"x" * 5000)
        done = self.run_program("mount", "-t", "tmpfs", "-o", "size=1m", "none", mounted,
                                code=None)
        if done.returncode != 0:
            self.skipTest("may not mount")
        self.addCleanup(self.run_program, "umount", mounted)
        (mounted / "other").write_bytes(b"x" * 9000)
        for options in (["-x"], ["-xa"], ["-sx"], ["-s"]):
            self.same(["du", *options, self.tree], ["du", *options, self.tree])
        self.same(["find", self.tree, "-xdev"], ["find", self.tree, "-xdev"])
        self.same(["walk", "-x", self.tree], ["find", self.tree, "-xdev"])

    def test_largest_and_histogram(self):
        for size in (5, 100, 70000, 3):
            (self.tree / f"f{size}").write_bytes(b"x" * size)
        text = self.output("du", "-sb", "--top", "2", "--histogram", self.tree)
        self.assertIn(f"70000\t{self.tree}/f70000\n100\t{self.tree}/f100\n", text)
        self.assertNotIn("f5\n", text)
        self.assertIn("below 8\t1 file\t5 bytes\n", text)

    def test_wrong_options(self):
        self.assertIn("invalid number", self.error("du", "--top", "0", "."))
        self.assertIn("conflicts with --max-depth=1", self.error("du", "-s", "-d", "1", "."))
        self.assertIn("invalid --block-size", self.error("du", "-B", "0", "."))
        self.assertIn("invalid --threshold", self.error("du", "-t", "much", "."))
        self.assertIn("'/no/such': No such file", self.error("du", "-X", "/no/such", "."))
        self.assertIn("cannot both summarize", self.error("du", "-s", "-a", "."))
        self.assertIn("combined with --json", self.error("du", "--json", "--top", "1", "."))
        self.assertIn("invalid number", self.error("du", "--max-ops", "x", "."))


class WalkTest(WalkCase):
    def test_forms(self):
        self.fill()
        root = self.tree
        self.same(["walk", root], ["find", root])
        self.same(["walk", "--print0", "--type", "f,d", root],
                  ["find", root, "-type", "f,d", "-print0"], b"\0")
        self.same(["walk", "--stat", "--type", "f", root],
                  ["find", root, "-type", "f", "-printf", r"%s\t%p\n"])
        self.same(["walk", "--format", r"%p %m %n\n", root],
                  ["find", root, "-printf", r"%p %m %n\n"])
        self.same(["walk", "-L", root], ["find", "-L", root])
        self.same(["walk", "-d", "1", "--inode-order", "--threads", "3", root],
                  ["find", root, "-maxdepth", "1"])
        objects = [json.loads(line) for line in self.lines("walk", "--json", root)]
        expected = self.run_program("find", root, "-print0").stdout
        self.assertEqual(sorted(os.fsencode(entry["path"]) for entry in objects),
                         sorted(expected.split(b"\0")[:-1]))

    def test_counts(self):
        self.fill()
        counts = dict(reversed(line.split("\t")) for line in
                      self.lines("walk", "--count", "--stat", self.tree))
        for name, letter in (("files", "f"), ("directories", "d"), ("symbolic links", "l")):
            found = self.run_program("find", self.tree, "-type", letter, "-printf", "x").stdout
            self.assertEqual(int(counts[name]), len(found))
        sizes = self.run_program("find", self.tree, "-printf", r"%s\n").stdout.split()
        self.assertEqual(int(counts["bytes"]), sum(map(int, sizes)))

    def test_limited_rate(self):
        for number in range(20):
            (self.tree / str(number)).mkdir()
        self.assertEqual(len(self.lines("walk", "--max-ops", "1000", self.tree)), 21)

    def test_wrong_options(self):
        self.assertIn("invalid type", self.error("walk", "--type", "z"))
        self.assertIn("invalid maximum depth", self.error("walk", "-d", "x"))
        self.make_volume()
        self.assertIn("use 'warren find'", self.error("walk", self.inside("/")))


class FailureTest(WalkCase):
    """Files that cannot be read, as a user without rights to them."""

    def setUp(self):
        super().setUp()
        (self.tree / "open").mkdir()
        (self.tree / "open" / "file").write_bytes(b"12345")
        (self.tree / "closed").mkdir()
        (self.tree / "closed" / "file").touch()
        (self.tree / "closed").chmod(0)
        self.user = []
        if os.geteuid() == 0:
            for path in (self.folder, self.tree, self.tree / "open", self.tree / "open" / "file",
                         self.tree / "closed"):
                os.chown(path, 65534, 65534)
            self.user = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
        self.addCleanup(lambda: (self.tree / "closed").exists() and
                        (self.tree / "closed").chmod(0o755))

    def as_user(self, *words, code=1):
        return self.run_program(*self.user, WARREN, *words, code=code)

    def test_unreadable_directories(self):
        errors = self.folder / "errors"
        for words in (["find", "tree"], ["walk", "tree"], ["du", "tree"]):
            done = self.as_user(*words, "--errors", errors)
            self.assertEqual(done.stderr.decode(),
                             f"warren {words[0]}: cannot read directory 'tree/closed': "
                             "Permission denied\n")
            told = [json.loads(line) for line in errors.read_text().splitlines()]
            self.assertEqual(told, [{"path": "tree/closed", "action": "open", "errno": 13,
                                     "reason": "Permission denied"}])
            peer = self.run_program(*self.user, "du" if words[0] == "du" else "find", "tree",
                                    code=1)
            self.assertEqual(sorted(done.stdout.splitlines()), sorted(peer.stdout.splitlines()))
        self.assertIn(b"cannot make", self.as_user("walk", "--errors", "/no/such").stderr)

    def test_rm_of_what_may_not_be_removed(self):
        done = self.as_user("rm", "-r", "tree")
        self.assertEqual(done.stderr.decode(),
                         "warren rm: cannot remove 'tree/closed': Permission denied\n")
        self.assertEqual(sorted(path.name for path in self.tree.iterdir()), ["closed"])
        (self.tree / "closed").chmod(0o755)
        (self.tree / "closed" / "file").unlink()
        (self.tree / "closed").chmod(0)
        self.as_user("rm", "-rf", "tree", code=0)  # unreadable, but empty
        self.assertFalse(self.tree.exists())


class RmTest(WalkCase):
    def test_trees(self):
        self.fill()
        outside = self.folder / "outside"
        outside.mkdir()
        (outside / "kept").touch()
        (self.tree / "link").symlink_to(outside)
        self.warren("rm", "-r", self.tree)
        self.assertFalse(self.tree.exists())
        self.assertTrue((outside / "kept").exists())
        self.warren("rm", "-rf", self.tree)
        self.assertIn("No such file or directory", self.error("rm", "-r", self.tree))

    def test_deeper_than_any_path(self):
        at = os.open(self.tree, os.O_RDONLY)
        for _ in range(100):
            os.mkdir("x" * 200, dir_fd=at)
            below = os.open("x" * 200, os.O_RDONLY, dir_fd=at)
            os.close(at)
            at = below
        os.close(at)
        self.assertEqual(len(self.lines("walk", self.tree)), 101)
        self.same(["du", "-s", "--inodes", self.tree], ["du", "-s", "--inodes", self.tree])
        self.warren("rm", "-r", self.tree)
        self.assertFalse(self.tree.exists())

    def test_what_rm_refuses(self):
        link = self.folder / "link"
        link.symlink_to(self.tree)
        (self.tree / "f").touch()
        self.assertIn("Not a directory", self.error("rm", "-r", f"{link}/"))
        self.assertTrue((self.tree / "f").exists())
        self.assertIn("Is a directory", self.error("rm", self.tree))
        self.assertIn("Directory not empty", self.error("rm", "-d", self.tree))
        self.assertIn("'.' or '..'", self.error("rm", "-r", f"{self.tree}/."))
        root = self.folder / "root"
        root.symlink_to("/")
        for name in ("/", "//", "/../", "/usr/.."):
            done = self.warren("rm", "-r", "--one-file-system", name, code=1)
            self.assertRegex(done.stderr, rb"root directory|'\.' or '\.\.'")
        self.warren("rm", "-r", root)
        self.assertFalse(root.is_symlink())
        self.warren("rm", link, self.tree / "f")
        self.warren("rm", "-d", self.tree)

    def test_verbose_as_rm(self):
        self.fill(60)
        twin = self.folder / "twin"
        twin.mkdir()
        self.run_program("cp", "-a", self.tree, twin / "tree")
        own = self.warren("rm", "-rv", "tree").stdout
        other = self.run_program("rm", "-rv", "tree", folder=twin).stdout
        self.assertEqual(own.count(b"removed directory "), other.count(b"removed directory "))
        self.assertEqual(own.count(b"removed "), other.count(b"removed "))

    def test_questions(self):
        (self.tree / "d").mkdir()
        (self.tree / "d" / "f").touch()
        done = self.warren("rm", "-ri", "tree", stdin=b"y\ny\nn\n")
        self.assertIn(b"descend into directory 'tree'?", done.stderr)
        self.assertIn(b"remove regular file 'tree/d/f'?", done.stderr)
        self.assertTrue((self.tree / "d" / "f").exists())
        self.warren("rm", "-ri", "tree", stdin=b"y\n" * 5)
        self.assertFalse(self.tree.exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
