# SPDX-License-Identifier: Apache-2.0
"""The plug-ins are found after an installation, whatever the name of its library folder."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import ranks
from command_line import WARREN, CommandCase

SOURCE = pathlib.Path(__file__).resolve().parents[2]
MPIS = [ranks.OPEN_MPI, ranks.MPICH]
# The environment of a process that mpirun has started as one of two.
LAUNCHED_BY = {
    "openmpi": {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"},
    "mpich": {"PMI_SIZE": "2", "PMI_RANK": "0"},
}


class InstallTest(CommandCase):
    @classmethod
    def setUpClass(cls):
        cache = pathlib.Path(os.environ["WARREN_BUILD"], "CMakeCache.txt").read_text()
        cls.known = dict(re.findall(r"^(\w+):\w+=(.*)$", cache, re.M))
        cls.place = pathlib.Path(tempfile.mkdtemp(prefix="warren-install-"))
        cls.addClassCleanup(shutil.rmtree, cls.place)
        # The tested program, with plug-ins from a build that uses another library folder.
        cls.build = cls.place / "build"
        cls.configure("lib")
        subprocess.run(["cmake", "--build", cls.build, "--target",
                        *(f"warren_mpi_{mpi.name}" for mpi in MPIS if not mpi.why_missing())],
                       check=True)

    @classmethod
    def configure(cls, library_folder):
        subprocess.run(["cmake", "-S", SOURCE, "-B", cls.build, "-G", cls.known["CMAKE_GENERATOR"],
                        f"-DCMAKE_CXX_COMPILER={cls.known['CMAKE_CXX_COMPILER']}",
                        f"-DCMAKE_INSTALL_LIBDIR={library_folder}",
                        f"-DWARREN_MPICC_OPENMPI={cls.known['WARREN_MPICC_OPENMPI']}",
                        f"-DWARREN_MPICC_MPICH={cls.known['WARREN_MPICC_MPICH']}",
                        "-DWARREN_TESTS=OFF", "-DWARREN_BENCH=OFF"], check=True)

    def test_ranks_walk_from_each_library_folder(self):
        multiarch = subprocess.run(["cc", "-print-multiarch"], capture_output=True,
                                   check=True).stdout.decode().strip()
        for number in range(300):
            self.write(f"tree/{number % 7}/{number}")
        expected = self.run_program(WARREN, "walk", "--count", "tree").stdout
        for library_folder in ("lib", "lib64", f"lib/{multiarch}"):
            prefix = self.place / library_folder.replace("/", "-")
            self.configure(library_folder)
            self.run_program("cmake", "--install", self.build, "--prefix", prefix,
                             "--component", "mpi")
            program = prefix / "bin/warren"
            program.parent.mkdir()
            shutil.copy2(WARREN, program)
            for mpi in MPIS:
                with self.subTest(library_folder=library_folder, mpi=mpi.name):
                    if reason := mpi.why_missing():
                        self.skipTest(reason)
                    words = mpi.in_ranks(2, program, "walk", "--count", "tree")
                    self.assertEqual(self.run_program(*words).stdout, expected)
                    plugin = prefix / library_folder / "warren" / mpi.plugin.name
                    plugin.write_bytes(b"")
                    # Without mpirun, which may lose the output of a rank that ends at once.
                    one = subprocess.run(
                        [program, "walk", "--count", "tree"], capture_output=True,
                        env=dict(os.environ, **LAUNCHED_BY[mpi.name]), check=False)
                    self.assertNotEqual(one.returncode, 0)
                    self.assertIn(f"cannot load {plugin}: ", one.stderr.decode())


if __name__ == "__main__":
    ranks.main()
