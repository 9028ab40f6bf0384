# SPDX-License-Identifier: Apache-2.0
"""What the tests of commands in several ranks share: how they are started, found and waited for."""

import os
import pathlib
import shutil
import sys
import unittest

HAS_MPI = shutil.which("mpirun") is not None

# Open MPI runs nothing as root unless it is told twice.
os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")


def in_ranks(count, *words):
    """What runs the words in so many ranks; 0: in a process without mpirun."""
    if count == 0:
        return list(words)
    return ["mpirun", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1",
            "-np", str(count), *words]


def rank_of(job, rank):
    """The process of that rank of an mpirun; None if it is not there."""
    try:
        children = pathlib.Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
        for child in children:
            environment = pathlib.Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
            if f"OMPI_COMM_WORLD_RANK={rank}".encode() in environment:
                return int(child)
    except OSError:
        pass
    return None


def catches(process, number):
    """Whether the process has a handler for the signal: its command has begun."""
    try:
        for line in pathlib.Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    except OSError:
        pass
    return False


def main(**options):
    """Runs a script's tests, or says why they cannot be run."""
    if not HAS_MPI:
        print("mpirun is not installed")
        sys.exit(77)
    unittest.main(**options)
