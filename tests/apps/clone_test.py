# SPDX-License-Identifier: Apache-2.0
"""Compares warren clone with cp -a on another file system: random trees with objects of every kind,
on a mount and inside an image; permissions, errors, and what the kernel caches of a clone."""

import errno
import json
import os
import random
import shutil
import subprocess
import tempfile
import unittest

import mounted
from host_trees import describe, make_hostile_tree
from mounted import MountedTest, as_user, run

SEED = int(os.environ.get("WARREN_SEED", random.randrange(1 << 31)))


def says(*words):
    """The error message of a command that fails."""
    return run(*words, code=1).stderr


class Clones(MountedTest):
    def other_file_system(self):
        folder = tempfile.mkdtemp(prefix="warren-clone-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        return folder

    def copied(self, source, **words):
        """The result of cp -a for a tree, elsewhere."""
        target = os.path.join(self.other_file_system(), "copy")
        subprocess.run(["cp", "-a", source, target], check=True, **words)
        return describe(target)

    def test_random_trees(self):
        for number in range(6):
            with self.subTest(seed=SEED + number):
                source, target = self.path(f"tree{number}"), self.path(f"clone{number}")
                os.mkdir(source)
                make_hostile_tree(source, random.Random(SEED + number), 150)
                self.assertFalse(os.path.lexists(target))  # the kernel may cache that
                run("clone", source, target)
                self.assertEqual(describe(target), describe(source))
                self.assertEqual(describe(target), self.copied(source))
                # The clone is independent of the source.
                run("rm", "-r", source)
                self.assertEqual(len(describe(target)), len(list(os.walk(target))) + sum(
                    len(files) + sum(os.path.islink(os.path.join(above, name)) for name in folders)
                    for above, folders, files in os.walk(target)))

    def test_within_an_image(self):
        source = self.other_file_system()
        make_hostile_tree(source, random.Random(SEED), 150)
        image = os.path.join(self.other_file_system(), "image")
        run("mkfs", "--size", "128M", image)
        run("cp", "-a", f"{source}/.", f"{image}:/tree")
        said = run("clone", "-v", f"{image}:/tree", f"{image}:/clone").stdout
        self.assertIn("/clone", said)
        out = self.other_file_system()
        for name in ("tree", "clone"):
            run("cp", "-a", f"{image}:/{name}", out)
        self.assertEqual(describe(os.path.join(out, "clone")),
                         describe(os.path.join(out, "tree")))
        facts = {name: json.loads(run("du", "-s", "--shared", "--json", f"{image}:/{name}").stdout)
                 for name in ("tree", "clone")}
        self.assertGreater(facts["clone"][0]["shared"], 0)
        self.assertEqual(facts["clone"][0]["shared"], facts["tree"][0]["shared"])
        run("fsck", image)

    def test_one_file_and_what_the_kernel_holds_back(self):
        data = random.randbytes(300_000)
        path = self.write("file", data)
        with open(path, "r+b", buffering=0) as file:
            file.write(b"late")  # not synced
            self.assertFalse(os.path.exists(self.path("clone")))
            run("clone", path, self.path("clone"))
            self.assertEqual(self.read("clone"), b"late" + data[4:])
            file.seek(0)
            file.write(b"later")
        self.assertEqual(self.read("clone"), b"late" + data[4:])
        facts = json.loads(run("stat", "--json", self.path("clone")).stdout)[0]
        self.assertGreater(facts["shared"], 290_000)

    def test_links_are_not_followed(self):
        self.write("file", b"x")
        os.symlink("file", self.path("link"))
        run("clone", self.path("link"), self.path("clone"))
        self.assertEqual(os.readlink(self.path("clone")), "file")

    def test_refusals(self):
        os.makedirs(self.path("tree", "below"))
        self.write("file", b"x")
        tree = self.path("tree")
        for target in (self.path("tree", "below", "copy"), self.path("tree", "copy")):
            self.assertIn("within its source", says("clone", tree, target))
        self.assertIn("exists", says("clone", tree, self.path("file")))
        self.assertIn("exists", says("clone", self.path("file"), self.path("tree")))
        os.mkdir(self.path("full"))
        self.write("full/file")
        self.assertIn("exists", says("clone", tree, self.path("full")))
        self.assertIn("No such file", says("clone", self.path("nothing"), self.path("copy")))
        self.assertIn("No such file", says("clone", tree, self.path("nothing", "copy")))
        self.assertIn("not on a Warren volume", says("clone", "/proc", "/proc/copy"))
        outside = os.path.join(self.other_file_system(), "copy")
        self.assertIn("ross-device", says("clone", tree, outside))
        self.assertIn("operand", says("clone", tree))
        self.assertIn("operands", says("clone", tree, tree, tree))
        self.assertEqual(sorted(os.listdir(self.folder)), ["file", "full", "tree"])
        # An empty directory is replaced.
        os.mkdir(self.path("empty"))
        self.assertEqual(os.listdir(self.path("empty")), [])
        run("clone", tree, self.path("empty"))
        self.assertEqual(os.listdir(self.path("empty")), ["below"])

    def test_read_only_mounts(self):
        os.mkdir(self.path("tree"))
        run("mount", "-o", "remount,ro", self.volume.root)
        try:
            said = says("clone", self.path("tree"), self.path("clone"))
            self.assertIn("Read-only", said)
        finally:
            run("mount", "-o", "remount,rw", self.volume.root)
        self.assertEqual(os.listdir(self.folder), ["tree"])

    @unittest.skipUnless(os.geteuid() == 0, "only root may become another user")
    def test_rights_of_another_user(self):
        os.mkdir(self.path("tree"), 0o755)
        self.write("tree/file", b"x" * 5000)
        os.chmod(self.path("tree", "file"), 0o4644)
        os.mkdir(self.path("open"))
        os.chmod(self.path("open"), 0o777)
        target = self.path("open", "clone")

        def clone():
            try:
                run("clone", self.path("tree"), target)
            except AssertionError:
                raise OSError(errno.EACCES, "refused") from None

        self.assertEqual(as_user(1234, 1235, clone), 0)
        status = os.stat(os.path.join(target, "file"))
        self.assertEqual((status.st_uid, status.st_gid, status.st_mode & 0o7777),
                         (1234, 1235, 0o644))
        run("rm", "-r", target)
        os.chmod(self.path("tree", "file"), 0o600)
        self.assertEqual(as_user(1234, 1235, clone), errno.EACCES)
        os.chmod(self.path("tree", "file"), 0o644)
        os.chmod(self.path("open"), 0o755)
        self.assertEqual(as_user(1234, 1235, clone), errno.EACCES)
        self.assertEqual(os.listdir(self.path("open")), [])


if __name__ == "__main__":
    mounted.main()
