# SPDX-License-Identifier: Apache-2.0
"""How the tests start, find and wait for commands in several ranks."""

import atexit
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

# Open MPI runs as root only if both variables are set.
os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
# Hydra passes the end of its input on to rank 0, and fails if that rank has ended before. Jobs read
# a pipe that does not end.
os.dup2(os.pipe()[0], 0)
# A folder for the files of Open MPI's jobs: in that of the machine, one job removes at its end the
# folder in which another is about to make its own.
os.environ["OMPI_MCA_orte_tmpdir_base"] = tempfile.mkdtemp(prefix="warren-ompi-")
atexit.register(shutil.rmtree, os.environ["OMPI_MCA_orte_tmpdir_base"], ignore_errors=True)


class Mpi:
    """An MPI with a plug-in: its launcher, and the variable with a process's rank."""

    def __init__(self, name, tells_version, options, rank_variable):
        self.name = name
        self.options = options
        self.rank_variable = rank_variable
        self.plugin = pathlib.Path(os.environ.get("WARREN_BUILD", ""),
                                   f"bin/libwarren-mpi-{name}.so")
        found = (shutil.which(program) for program in (f"mpirun.{name}", "mpirun"))
        self.launcher = next((path for path in found if path and tells_version in version(path)),
                             None)
        # The MPI libraries keep memory until the end, which an address sanitizer would report as
        # leaks.
        self.launch = ["env", "LSAN_OPTIONS=detect_leaks=0", self.launcher]

    def why_missing(self):
        """Why this MPI cannot be used; None if it can."""
        if self.launcher is None:
            return f"mpirun of {self.name} is not installed"
        if not self.plugin.exists():
            return f"Warren was built without {self.name}: there is no {self.plugin}"
        return None

    def in_ranks(self, count, *words):
        """The command that runs the words in so many ranks; 0: in a process without mpirun."""
        if count == 0:
            return list(words)
        return [*self.launch, *self.options, "-np", str(count), *words]

    def rank_of(self, job, rank):
        """The process with that rank under an mpirun; None if there is none."""
        waiting = [job.pid]
        for process in waiting:
            try:
                place = pathlib.Path(f"/proc/{process}")
                waiting += map(int, (place / f"task/{process}/children").read_text().split())
                environment = (place / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if f"{self.rank_variable}={rank}".encode() in environment:
                return process
        return None


def version(launcher):
    done = subprocess.run([launcher, "--version"], capture_output=True, check=False)
    return (done.stdout + done.stderr).decode(errors="replace")


OPEN_MPI = Mpi("openmpi", "Open", ["--oversubscribe", "--bind-to", "none", "--mca",
                                   "mpi_yield_when_idle", "1"], "OMPI_COMM_WORLD_RANK")
MPICH = Mpi("mpich", "HYDRA", [], "PMI_RANK")

# Used by tests that do not compare MPIs.
ANY_MPI = next((mpi for mpi in (OPEN_MPI, MPICH) if not mpi.why_missing()), None)
HAS_MPI = ANY_MPI is not None


def in_ranks(count, *words):
    return ANY_MPI.in_ranks(count, *words) if count else list(words)


def rank_of(job, rank):
    return ANY_MPI.rank_of(job, rank)


def catches(process, number):
    """Whether the process has a handler for the signal, that is, its command has begun."""
    try:
        for line in pathlib.Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    except OSError:
        pass
    return False


def main(**options):
    """Runs a script's tests, or prints why they cannot run."""
    if not HAS_MPI:
        print(f"{OPEN_MPI.why_missing()}; {MPICH.why_missing()}")
        sys.exit(77)
    unittest.main(**options)
