# SPDX-License-Identifier: Apache-2.0
"""--json of rm, cp, sync, chmod, cmp and hash: the counts agree with a simple scan of the tree.
"""

import hashlib
import json
import os
import random
import stat
import unittest

from command_line import WARREN, CommandCase
from ranks import HAS_MPI, in_ranks
from walk_tools_test import make_tree

SEED = int(os.environ.get("WARREN_SEED", random.randrange(1 << 31)))


def counts_of(root):
    """The counts that cp and sync report for a copy of the tree at `root`."""
    counts = {"files": 0, "bytes": 0, "directories": 1, "links": 0, "others": 0}
    known = set()
    for folder, directories, files in os.walk(os.fsencode(root)):
        for name in directories + files:
            status = os.lstat(os.path.join(folder, name))
            if stat.S_ISDIR(status.st_mode):
                counts["directories"] += 1
            elif status.st_ino in known:
                counts["links"] += 1
            elif stat.S_ISREG(status.st_mode):
                counts["files"] += 1
                counts["bytes"] += status.st_size
            else:
                counts["others"] += 1
            if status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode):
                known.add(status.st_ino)
    return counts


class JsonAnswersTest(CommandCase):
    def setUp(self):
        super().setUp()
        print(f"WARREN_SEED={SEED}", flush=True)
        self.tree = self.folder / "tree"
        self.tree.mkdir()
        make_tree(self.tree, random.Random(SEED), 300)

    def objects(self, *words, **more):
        return [json.loads(line) for line in self.lines(*words, **more)]

    def object(self, *words, **more):
        objects = self.objects(*words, **more)
        self.assertEqual(len(objects), 1, words)
        return objects[0]

    def test_copies_and_removals_are_counted(self):
        made = counts_of(self.tree)
        nothing = dict.fromkeys(made, 0)
        good = {"removed": 0, "failures": 0}
        # If names of one file are copied concurrently, several may count as the first.
        self.assertEqual(self.object("cp", "-a", "--json", "-j", "1", "tree", "copy"),
                         {**made, **good})
        self.assertEqual(self.object("sync", "-n", "--json", "tree", "new")["bytes"] >=
                         made["bytes"], True)
        self.assertFalse((self.folder / "new").exists())
        (self.tree / "one more").write_bytes(b"12345")
        (self.folder / "copy/extra/below").mkdir(parents=True)
        for rehearsal in (["-n"], []):
            self.assertEqual(self.object("sync", "--delete", "--json", *rehearsal, "tree", "copy"),
                             {**nothing, "files": 1, "bytes": 5, "removed": 2, "failures": 0})
        names = sum(made[what] for what in ("files", "links", "others")) + 1
        expected = {"files": names, "directories": made["directories"], "failures": 0}
        self.run_program("cp", "-a", "copy", "again")
        self.assertEqual(self.object("rm", "-r", "--json", "copy"), expected)
        self.assertEqual(self.object("rm", "--json", "copy", "tree", "tree/one more", code=1),
                         {"files": 1, "directories": 0, "failures": 2})
        self.assertEqual(self.object("cp", "--json", "nothing", "/etc/hostname", "again", code=1),
                         {**nothing, "files": 1,
                          "bytes": os.stat("/etc/hostname").st_size, "removed": 0, "failures": 1})
        (self.folder / "again/hostname").unlink()
        if HAS_MPI:
            done = self.run_program(*in_ranks(2, WARREN, "rm", "-r", "--json", "again"))
            self.assertEqual(json.loads(done.stdout), expected)

    def test_removals_in_a_volume_are_counted(self):
        self.make_volume()
        self.warren("cp", "-r", "tree", self.inside("/"))
        files = sum(len(files) for _, _, files in os.walk(self.tree)) + \
            sum(os.path.islink(os.path.join(above, name))
                for above, folders, _ in os.walk(self.tree) for name in folders)
        told = self.object("rm", "-r", "--json", self.inside("/tree"), self.inside("/no"), code=1)
        self.assertEqual(told, {"files": files, "directories": counts_of(self.tree)["directories"],
                                "failures": 1})
        self.assertIn("files of the host", self.error("cp", "--json", "/etc/hostname",
                                                      self.inside("/")))

    def test_changes_are_counted(self):
        paths = [path for path in self.tree.rglob("*") if not path.is_symlink()] + [self.tree]
        modes = {os.stat(path).st_ino: os.stat(path).st_mode for path in paths}
        # Two threads may change the same file by two of its names.
        told = self.object("chmod", "-R", "--threads", "1", "--json", "a+r,go-w", "tree")
        changed = sum(os.stat(path).st_mode != modes[os.stat(path).st_ino] for path in
                      {os.stat(path).st_ino: path for path in paths}.values())
        self.assertEqual(told, {"changed": changed, "unchanged": len(paths) - changed,
                                "failures": 0})
        told = self.object("chown", "--json", f"{os.getuid()}", "tree", "missing", code=1)
        self.assertEqual(told, {"changed": 0, "unchanged": 1, "failures": 1})

    def test_differences_are_named(self):
        for side in ("one", "two"):
            for name in ("same", "bytes", "kind", "mode"):
                self.write(f"{side}/{name}", b"same")
            os.symlink(side, self.folder / side / "link")
            self.write(f"{side}/only {side}\n", b"")
        self.write("two/bytes", b"else")
        (self.folder / "two/kind").unlink()
        (self.folder / "two/kind").mkdir()
        for name in ("bytes", "same", "mode", "link"):
            os.utime(self.folder / "one" / name, (1, 1), follow_symlinks=False)
            os.utime(self.folder / "two" / name, (1, 1), follow_symlinks=False)
        (self.folder / "two/mode").chmod(0o600)
        expected = {"bytes": "contents", "kind": "kind", "link": "target",
                    "only one\n": "only in the first", "only two\n": "only in the second"}
        told = self.objects("cmp", "--json", "one", "two", code=1)
        self.assertEqual({each["path"]: each["differs"] for each in told}, expected)
        self.assertEqual(len(told), len(expected))
        told = self.objects("cmp", "--json", "--attributes", "one", "two", code=1)
        self.assertIn({"path": "mode", "differs": "mode"}, told)
        self.assertEqual(self.objects("cmp", "--json", "tree", "tree"), [])
        self.assertEqual(self.object("cmp", "--json", "one/bytes", "two/bytes", code=1),
                         {"first": "one/bytes", "second": "two/bytes", "differs": "contents",
                          "byte": 1, "line": 1})

    def test_digests_are_told(self):
        objects = self.objects("hash", "-a", "sha256", "--json", "tree")
        files = [path for path in self.tree.rglob("*") if path.is_file() and not path.is_symlink()]
        self.assertEqual(
            {os.fsencode(each["path"]): each["digest"] for each in objects},
            {os.fsencode(path.relative_to(self.folder)):
             hashlib.sha256(path.read_bytes()).hexdigest() for path in files})
        self.assertEqual({each["algorithm"] for each in objects}, {"sha256"})
        self.assertEqual(len(objects), len(files))
        sums = self.warren("hash", "tree").stdout
        self.write("sums", sums + b"0" * 64 + b"  no such file\n")
        checked = self.objects("hash", "-c", "--json", "sums", code=1)
        self.assertEqual(checked[-1], {"path": "no such file", "ok": False})
        self.assertEqual([(each["path"], each["ok"]) for each in checked[:-1]],
                         [(each["path"], True) for each in objects])
        self.assertIn("combined with --tag", self.error("hash", "--json", "--tag", "sums"))


if __name__ == "__main__":
    unittest.main()
