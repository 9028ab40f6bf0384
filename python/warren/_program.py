# SPDX-License-Identifier: Apache-2.0
"""The program `warren`, which lies in the package beside its modules."""

from __future__ import annotations

import errno
import os
from typing import NamedTuple

_FOLDER = os.path.dirname(__file__)
PROGRAM = os.path.join(_FOLDER, "bin", "warren")


class Finding(NamedTuple):
    """One line of `warren doctor`: its state is "ok", "note" or "missing"."""

    state: str
    subject: str
    detail: str


def refuse_two() -> None:
    """ImportError if several distributions have written their files over each other's."""
    names = sorted(os.listdir(os.path.join(_FOLDER, "_distributions")))
    if len(names) > 1:
        raise ImportError(
            f"{' and '.join(names)} are both installed, and each has overwritten files of the "
            f"other: 'pip uninstall {' '.join(names)}', then install one of them"
        )


def examine(directory: str) -> list[Finding]:
    """What `warren doctor --quick` finds, for volumes in a directory.

    Another process looks at the GPU, because a driver that hangs cannot be left.
    """
    import json
    import subprocess

    command = [PROGRAM, "doctor", "--quick", "--json", "--directory", directory]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode not in (0, 1):  # 1: something is missing, which a finding tells
        told = f"doctor: status {done.returncode}: {os.fsdecode(done.stderr)}"
        raise OSError(errno.EIO, told, PROGRAM)
    return [Finding(**found) for found in json.loads(done.stdout)]
