# SPDX-License-Identifier: Apache-2.0
"""Compares warren find and du with find(1) and du(1) on trees of this machine, with threads and
ranks.

WARREN_REAL_TREES lists the trees, separated by colons (default: /usr/share and /usr/include).
"""

import os
import unittest

from command_line import WARREN, CommandCase
from ranks import HAS_MPI, in_ranks
from walk_tools_test import DU_OPTIONS, FIND_EXPRESSIONS, LINES_OF_DIRECTORIES

TREES = os.environ.get("WARREN_REAL_TREES", "/usr/share:/usr/include").split(":")

# Tests and actions of find in typical combinations.
MORE_EXPRESSIONS = [
    ["-name", "*.[ch]"], ["-name", "[[:upper:]]*"], ["-name", "?"], ["-iname", "*MAKE*"],
    ["-path", "*/include/*"], ["-ipath", "*LINUX*"], ["-regex", r".*/[a-f]+[0-9]*\.h"],
    ["-regextype", "posix-extended", "-regex", r".*\.(c|h|txt)$"], ["-type", "l"],
    ["-size", "+100k"], ["-size", "-1M"], ["-size", "10c"], ["-size", "-4096c"], ["-size", "2"],
    ["-size", "5w"], ["-size", "3b"], ["-size", "+1G"], ["-newer", "/usr/bin/env"],
    ["-mtime", "-3"], ["-mtime", "0"], ["-mtime", "+30"], ["-user", "root"], ["-user", "0"],
    ["!", "-group", "root"], ["-perm", "755"], ["-perm", "-111", "-type", "f"],
    ["-perm", "/u=s,g=s"], ["-maxdepth", "0"], ["-maxdepth", "3", "-type", "d"],
    ["-mindepth", "4", "-name", "*.h"], ["-inum", "+100000"], ["-quit"],
    ["-name", "doc", "-prune", "-o", "-name", "*.txt", "-print0"],
    ["-type", "f", "-empty"], ["-links", "+1"], ["-links", "2"], ["-depth"], ["-executable"],
    ["-not", "(", "-name", "*.c", "-or", "-name", "*.h", ")", "-and", "-type", "f"],
    ["-name", "a*", "-o", "-name", "b*", "-a", "-type", "d"], ["-samefile", "/usr/bin/env"],
    ["-uid", "-1"], ["-gid", "+5"], ["-nouser"],
]


class RealTreesLongTest(CommandCase):
    def same(self, tool, words, ranks, end):
        peer = self.run_program(tool, *words, code=None)
        own = self.run_program(*in_ranks(ranks, WARREN, tool, *words), code=None)
        with self.subTest(tool=tool, words=words, ranks=ranks):
            self.assertEqual(sorted(own.stdout.split(end)), sorted(peer.stdout.split(end)))
            self.assertEqual(own.returncode != 0, peer.returncode != 0, own.stderr[-500:])

    def each(self, rows, run):
        for ranks in (0, 3) if HAS_MPI else (0,):
            for row in rows:
                # Output of commands may mix with that of other ranks. A process for each of so many
                # files takes minutes.
                if "-exec" not in row or (not ranks and ";" not in row):
                    run(row, ranks)

    def test_find(self):
        self.each(FIND_EXPRESSIONS + MORE_EXPRESSIONS, lambda row, ranks: self.same(
            "find", [*TREES, *row], ranks, b"\0" if "-print0" in row else b"\n"))

    def test_du(self):
        more = [["-sm"], ["-sh"], ["-hl", "-d", "2"], ["--inodes", "-l"], ["-xl"], ["-sxb"]]
        self.each(DU_OPTIONS + more, lambda row, ranks: self.same(
            "du", [*row, *(["-l"] if row[0] in LINES_OF_DIRECTORIES else []), *TREES], ranks,
            b"\0" if "-0" in row else b"\n"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
