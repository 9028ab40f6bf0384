# SPDX-License-Identifier: Apache-2.0
"""`python -m warren` and the script `warren`: the program takes this process over."""

import os
import signal
import sys

from ._program import PROGRAM


def main() -> None:
    # Python ignores them, and so would the program.
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored, signal.SIG_DFL)
    os.execv(PROGRAM, ["warren", *sys.argv[1:]])


if __name__ == "__main__":
    main()
