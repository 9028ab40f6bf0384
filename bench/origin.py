# SPDX-License-Identifier: Apache-2.0
"""Where a file of figures comes from, for the benchmarks that are Python programs."""

import datetime
import os
import pathlib
import platform
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def heads(program):
    """The lines at the head of a CSV file; `program` is the path below the repository."""
    text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    model = next((line for line in text.splitlines() if line.startswith("model name")), ": ?")
    commit = subprocess.run(
        ["git", "-C", ROOT, "describe", "--always", "--dirty= with changes"],
        capture_output=True, text=True, check=False,
    ).stdout.strip()  # fmt: skip
    release = platform.release().partition("-")[0]
    now = datetime.datetime.now(tz=datetime.timezone.utc)
    cores = len(os.sched_getaffinity(0))
    yield f"machine: {cores} cores of {model.split(': ')[1]}, Linux {release}"
    yield f"date: {now:%Y-%m-%d %H:%M} UTC"
    yield f"commit: {commit}"
    yield "load: " + " ".join(f"{load:.1f}" for load in os.getloadavg())
    yield "command: " + " ".join([program, *sys.argv[1:]])
