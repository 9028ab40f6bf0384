# SPDX-License-Identifier: Apache-2.0
"""How the program finds the plug-in for the MPI that has started it, and the error for one that it
cannot use. The test builds plug-ins in C, without an MPI."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from command_line import WARREN, CommandCase

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "src"
CODE = """
#include "walk/mpi/plugin.h"
static const char *start(uint32_t *rank, uint32_t *ranks) {
    *rank = 0;
    *ranks = 1;
    return PROBLEM;
}
static void finish(void) {}
const warren_mpi_plugin_table warren_mpi_plugin = {
    .version = WARREN_MPI_PLUGIN_VERSION + NEWER,
    .size = sizeof(warren_mpi_plugin_table) + LARGER,
    .start = start,
    .finish = finish};
"""
OPEN_MPI = {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "0"}
MPICH = {"PMI_SIZE": "4", "PMI_RANK": "0"}
# The environment that a launcher sets for four processes, its plug-in, and the variable with the
# number of processes.
LAUNCHERS = [(OPEN_MPI, "openmpi", "OMPI_COMM_WORLD_SIZE"), (MPICH, "mpich", "PMI_SIZE"),
             ({"SLURM_NTASKS": "8", "SLURM_STEP_NUM_TASKS": "2", **MPICH}, "mpich", "PMI_SIZE"),
             ({"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "0", "PMIX_RANK": "0"}, "openmpi",
              "SLURM_STEP_NUM_TASKS")]


def compiler_says(option):
    return subprocess.run(["cc", option], capture_output=True, check=True).stdout.decode().strip()


class PluginTest(CommandCase):
    @classmethod
    def setUpClass(cls):
        cls.prefix = pathlib.Path(tempfile.mkdtemp(prefix="warren-plugin-"))
        cls.addClassCleanup(shutil.rmtree, cls.prefix)
        cls.program = cls.prefix / "bin/warren"
        cls.program.parent.mkdir()
        shutil.copy2(WARREN, cls.program)

    def setUp(self):
        super().setUp()
        self.write("kept/f")

    def make(self, folder, mpi, newer=0, larger=0, problem="0"):
        path = self.prefix / folder / f"libwarren-mpi-{mpi}.so"
        path.parent.mkdir(parents=True, exist_ok=True)
        code = self.write("plugin.c", CODE.encode())
        self.run_program("cc", "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror",
                         "-Wno-missing-field-initializers", "-shared", "-fPIC", f"-I{SOURCE}",
                         f"-DNEWER={newer}", f"-DLARGER={larger}", f"-DPROBLEM={problem}", code,
                         "-o", path)
        self.addCleanup(path.unlink, missing_ok=True)
        return path

    def refusal(self, variables, *words):
        """The error of a command that does nothing because no MPI is available."""
        settings = [f"{name}={value}" for name, value in variables.items()]
        done = self.run_program("env", *settings, self.program,
                                *(words or ("rm", "-r", "kept")), code=1)
        self.assertEqual(sorted(os.listdir(self.folder / "kept")), ["f"])
        self.assertEqual(done.stdout, b"")
        return done.stderr.decode()

    def test_versions_are_compared_wherever_a_plugin_lies(self):
        folders = ["bin", "lib/warren", "lib64/warren",
                   f"lib/{compiler_says('-print-multiarch')}/warren"]
        for folder in folders:
            for variables, mpi, _ in LAUNCHERS[:2]:
                with self.subTest(folder=folder, mpi=mpi):
                    path = self.make(folder, mpi, newer=6)
                    error = self.refusal(variables)
                    self.assertEqual(len(error.splitlines()), 1)
                    self.assertIn(f"{path} is a plug-in of version 7, and this program takes "
                                  "version 1: install warren and warren-mpi of the same", error)
                    path.unlink()

    def test_the_launcher_decides_which_plugin(self):
        for variables, mpi, _ in LAUNCHERS:
            with self.subTest(variables=variables):
                path = self.make("bin", mpi, larger=8)
                self.assertRegex(self.refusal(variables),
                                 f"{path} has an interface of [0-9]+ bytes, and version 1 has ")
                self.assertEqual(self.refusal({**variables, "OMPI_COMM_WORLD_LOCAL_RANK": "1",
                                               "MPI_LOCALRANKID": "1", "SLURM_LOCALID": "1"}), "")
                path.unlink()

    def test_an_mpi_without_the_other_processes(self):
        for variables, mpi, counts in LAUNCHERS:
            with self.subTest(variables=variables):
                path = self.make("bin", mpi)
                name = {"openmpi": "Open MPI", "mpich": "MPICH"}[mpi]
                for words in (("rm", "-r", "kept"), ("cp", "-r", "kept", "copy")):
                    self.assertIn(f"of the 4 processes that {counts} counts, {name} has joined 1: "
                                  "start it by", self.refusal(variables, *words))
                self.assertIn("is for one process", self.refusal(variables, "ls", "kept"))
                self.assertFalse((self.folder / "copy").exists())
                path.unlink()

    def test_an_mpi_that_does_not_start(self):
        self.make("bin", "mpich", problem='"no network"')
        self.assertIn("MPICH does not start: no network", self.refusal(MPICH))

    def test_files_that_are_no_plugins(self):
        path = self.make("bin", "openmpi")
        path.write_bytes(b"text")
        self.assertRegex(self.refusal(OPEN_MPI),
                         rf"cannot load {path}: .*: is Open MPI \(Debian's package openmpi-bin\)")
        self.run_program("cc", "-shared", "-o", path, "-x", "c", "/dev/null")
        self.assertIn(f"{path} is not a plug-in of Warren: it has no warren_mpi_plugin",
                      self.refusal(OPEN_MPI))

    def test_a_plugin_that_is_missing(self):
        cache = pathlib.Path(os.environ["WARREN_BUILD"], "CMakeCache.txt").read_text()
        prefix, folder = (re.search(rf"^CMAKE_INSTALL_{what}:PATH=(.*)$", cache, re.M)[1]
                          for what in ("PREFIX", "LIBDIR"))
        installed = pathlib.Path(prefix, folder, "warren/libwarren-mpi-mpich.so")
        if installed.exists():
            self.skipTest(f"there is {installed}, which the program would take")
        self.make("bin", "openmpi")  # the other MPI's
        error = self.refusal(MPICH)
        self.assertEqual(len(error.splitlines()), 1)
        for text in ("the plug-in for MPICH is missing (libwarren-mpi-mpich.so: cannot open",
                     f"{self.prefix}/lib64/warren/, ", f", {installed.parent}/, ",
                     "install the package warren-mpi",
                     "MPICH's mpicc"):
            self.assertIn(text, error)


if __name__ == "__main__":
    if shutil.which("cc") is None:
        print("there is no C compiler here")
        sys.exit(77)
    unittest.main()
