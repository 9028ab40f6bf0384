# SPDX-License-Identifier: Apache-2.0
"""--engine, WARREN_ENGINE and -o engine=: which commands accept them, what they select, and the
error if the engine is not available. With a GPU, each engine reads what the other has written."""

import json
import unittest

from command_line import WARREN, CommandCase, describe_tree

OPENING = "cat cp du find fsck info ln ls mkdir mv rebuild rm stat sync touch mount".split()


class EngineChoiceTest(CommandCase):
    def setUp(self):
        super().setUp()
        self.make_volume()
        probe = self.warren("info", "--engine=cuda", self.image, code=None)
        self.has_cuda = probe.returncode == 0

    def engine_of(self, *words):
        return json.loads(self.output("info", "--json", *words, self.image))[0]["engine"]

    def test_help(self):
        for command in OPENING:
            self.assertIn("--engine=ENGINE", self.output(command, "--help"), command)
        for command in ("mkfs", "resize", "umount", "doctor"):
            self.assertNotIn("--engine", self.output(command, "--help"), command)
        self.assertIn("engine=auto|cpu|cuda", self.output("mount", "--help"))

    def test_choice(self):
        for choice in ("auto", "cpu"):
            self.assertEqual(self.engine_of("--engine", choice), "cpu")
        self.assertRegex(self.output("info", self.image), r"(?m)^Engine:     cpu\b")
        done = self.run_program("env", "WARREN_ENGINE=cpu", WARREN, "info", self.image)
        self.assertIn(b"Engine:     cpu\n", done.stdout)
        self.run_program("env", "WARREN_ENGINE=", WARREN, "info", self.image)
        # The option overrides the environment.
        self.run_program("env", "WARREN_ENGINE=none", WARREN, "info", "--engine=cpu", self.image)

    def test_no_such_engine(self):
        line = self.error("ls", "--engine=gpu", self.inside("/"), code=2)
        self.assertEqual(line, "warren ls: --engine='gpu': there is no such engine: it is auto, "
                               "cpu or cuda")
        line = self.error("find", self.inside("/"), "--engine", "gpu")
        self.assertIn("--engine='gpu': there is no such engine", line)
        self.assertEqual(self.lines("find", self.inside("/"), "--engine=cpu"), [self.inside("/")])
        done = self.run_program("env", "WARREN_ENGINE=gpu", WARREN, "rm", self.inside("/x"), code=1)
        self.assertIn(b"warren rm: WARREN_ENGINE='gpu': there is no such engine", done.stderr)
        line = self.error("mount", "-o", "engine=gpu", self.image, self.folder)
        self.assertIn("'engine=gpu': there is no such engine", line)

    def test_cuda(self):
        if not self.has_cuda:
            line = self.error("fsck", "--engine=cuda", self.image, code=8)
            self.assertRegex(line, r"^warren fsck: .*v\.img: cannot check the volume with the CUDA "
                                   r"engine: .+; use the CPU engine$")
            for words, code in ((("info", "--engine=cuda", self.image), 1),
                                (("rm", "-r", "--engine=cuda", self.inside("/x")), 1),
                                (("mount", "-o", "engine=cuda", self.image, self.folder), 32)):
                line = self.error(*words, code=code)
                self.assertRegex(line, rf"^warren {words[0]}: .*v\.img: cannot open the volume "
                                       r"with the CUDA engine: .+; use the CPU engine$")
            return
        self.assertEqual(self.engine_of("--engine=cuda"), "cuda")
        looks = [self.output("fsck", "-v", "--engine", engine, self.image).splitlines()
                 for engine in ("cpu", "cuda")]
        self.assertIn("quick check by cuda", looks[1][0])
        self.assertEqual(looks[0][1:], looks[1][1:])
        self.assertRegex(self.output("info", "--engine=cuda", self.image),
                         r"(?m)^Engine:     cuda \(.+\)$")
        for index in range(40):
            self.write(f"tree/{index % 4}/{index}", bytes([index]) * (1 << (index % 16)))
        before = describe_tree(self.folder / "tree")
        for writer, reader in (("cuda", "cpu"), ("cpu", "cuda")):
            place = f"/by-{writer}"
            self.warren("cp", "-a", f"--engine={writer}", "tree", self.inside(place))
            self.assert_clean()
            self.warren("cp", "-a", f"--engine={reader}", self.inside(place), f"out-{writer}")
            self.assertEqual(describe_tree(self.folder / f"out-{writer}"), before)
            self.warren("rm", "-r", f"--engine={reader}", self.inside(place))
            self.assert_clean()


if __name__ == "__main__":
    unittest.main()
