# SPDX-License-Identifier: Apache-2.0
"""Each tool with checkpoints is killed or interrupted at random moments with 0 to 4 ranks, and
resumed with another number of ranks; 0 is a process without mpirun.
"""

import itertools
import signal

import ranks
from resume_test import ResumeCase


class ResumeLongTest(ResumeCase):
    entries = 600

    def test_every_tool(self):
        checks = (self.check_du, self.check_walk, self.check_find, self.check_delete,
                  self.check_rm, self.check_cp, self.check_sync, self.check_chmod, self.check_cmp,
                  self.check_hash)
        for ranks, number in itertools.product((0, 2, 4), (signal.SIGKILL, signal.SIGTERM)):
            for check in checks:
                check(ranks, number, self.choose.choice((0, 2, 3)))


if __name__ == "__main__":
    ranks.main(verbosity=2)
