# SPDX-License-Identifier: Apache-2.0
"""warren sync with two operands that are both on mounts: trees, or whole volumes."""

import os

import mounted
from mounted import MountedTest, Volume, run


class SyncTest(MountedTest):
    def test_two_trees_of_one_mount(self):
        os.mkdir(self.path("a"))
        self.write("a/f", b"contents")
        run("sync", self.path("a"), self.path("b"))
        with open(self.path("b/f"), "rb") as file:
            self.assertEqual(file.read(), b"contents")
        self.write("a/g")
        self.write("b/own")
        run("sync", self.path("a/"), self.path("b"))
        self.assertEqual(sorted(os.listdir(self.path("b"))), ["f", "g", "own"])
        run("sync", self.path("a/f"), self.path("c"))
        with open(self.path("c"), "rb") as file:
            self.assertEqual(file.read(), b"contents")

    def test_a_tree_and_a_volume(self):
        other = Volume("64M")
        self.addCleanup(other.remove)
        other.mount()
        self.write("f", b"contents")
        run("sync", self.folder, other.root)
        with open(os.path.join(other.root, "f"), "rb") as file:
            self.assertEqual(file.read(), b"contents")
        # Either may be meant, so the command refuses.
        refused = run("sync", self.volume.root, other.root, code=1)
        self.assertIn("name one at a time", refused.stderr)
        self.assertEqual(os.listdir(other.root), ["f"])
        other.unmount()
        run("sync", other.image, self.volume.image)
        run("sync", self.volume.root)


if __name__ == "__main__":
    mounted.main()
