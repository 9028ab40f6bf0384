# SPDX-License-Identifier: Apache-2.0
"""Commands started several times by a launcher, as their environment shows."""

import os
import unittest

from command_line import WARREN, CommandCase

# What each launcher sets, and the variable that the error names.
SEVERAL = [({"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "{}"}, "SLURM_STEP_NUM_TASKS"),
           ({"SLURM_NTASKS": "8", "SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "{}"},
            "SLURM_STEP_NUM_TASKS")]
ALONE = [{"SLURM_NTASKS": "4", "SLURM_PROCID": "0"}, {"PMI_SIZE": "1", "PMI_RANK": "0"},
         {"SLURM_STEP_NUM_TASKS": "1", "SLURM_NTASKS": "8", "SLURM_PROCID": "0"},
         {"PMIX_RANK": "0"}, {"SLURM_STEP_NUM_TASKS": "", "PMI_SIZE": "x"},
         # The innermost launcher counts: one process started by mpirun or mpiexec within a step of
         # several.
         {"OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_RANK": "0", "SLURM_STEP_NUM_TASKS": "4",
          "SLURM_PROCID": "3"},
         {"PMI_SIZE": "1", "PMI_RANK": "0", "SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "3"}]


class LauncherTest(CommandCase):
    def launched(self, variables, *words, code):
        settings = [f"{name}={value}" for name, value in variables.items()]
        return self.run_program("env", *settings, WARREN, *words, code=code)

    def test_several_processes_without_an_mpi_are_refused(self):
        self.write("kept/f")
        for variables, named in SEVERAL:
            for words in (("rm", "-r", "kept"), ("cp", "-r", "kept", "copy"), ("ls", "kept")):
                for rank in range(3):
                    own = {name: value.format(rank) for name, value in variables.items()}
                    with self.subTest(own=own, words=words):
                        error = self.launched(own, *words, code=1).stderr.decode()
                        self.assertEqual(len(error.splitlines()), 1 if rank == 0 else 0, error)
                        if rank == 0:
                            self.assertIn(f"({named} is 4)", error)
                            self.assertIn("mpirun", error)
                        self.assertEqual(sorted(os.listdir(self.folder)), ["kept"])
        # PMIx gives a process only its own rank, so all but the first know that there are several.
        self.assertEqual(self.launched({"PMIX_RANK": "2"}, "rm", "-r", "kept", code=1).stderr, b"")
        self.assertEqual(os.listdir(self.folder / "kept"), ["f"])

    def test_one_process_works(self):
        for variables in ALONE:
            with self.subTest(variables=variables):
                self.write("gone/f")
                self.launched(variables, "cp", "-r", "gone", "copy", code=0)
                self.launched(variables, "rm", "-r", "gone", "copy", code=0)
                self.assertEqual(os.listdir(self.folder), [])


if __name__ == "__main__":
    unittest.main()
