#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What POSIX and Linux promise of each system call on files, checked on a mounted volume: effects,
error numbers, permission of several users, times, limits. Every case also runs on ext4, the
reference, in the same run: one that fails on both is a case that this kernel cannot satisfy and
does not count against Warren. Words on the command line choose the cases whose names contain them.
"""

import os
import stat
import sys
import time
import traceback

import access_list_cases  # noqa: F401  the modules of cases register themselves
import attribute_cases  # noqa: F401
import creation_cases  # noqa: F401
import link_cases  # noqa: F401
import open_cases  # noqa: F401
import owner_cases  # noqa: F401
import path_cases  # noqa: F401
import permission_cases  # noqa: F401
import read_only_cases
import rename_cases  # noqa: F401
import size_cases  # noqa: F401
import sticky_cases  # noqa: F401
import time_cases  # noqa: F401
from file_systems import WARREN, Ext4, Warren
from stage import CASES, Failed, Stage

SKIPPED = 77


def skip_unless_possible():
    reason = None
    if not WARREN or not os.access(WARREN, os.X_OK):
        reason = "WARREN does not name the program"
    elif os.geteuid() != 0:
        reason = "mounting needs root"
    elif not os.path.exists("/dev/fuse"):
        reason = "there is no /dev/fuse"
    if reason:
        print("skipped:", reason)
        sys.exit(SKIPPED)


def run_case(case, stage):
    """None, or what went wrong."""
    os.umask(0o022)
    first_free = os.dup(0)
    os.close(first_free)
    try:
        case.function(stage, *case.row)
    except Failed as failure:
        return str(failure)
    except OSError as error:
        line = "?"
        for frame in traceback.extract_tb(error.__traceback__):
            if frame.filename.endswith("_cases.py"):
                line = f"{os.path.basename(frame.filename)}:{frame.lineno}"
        return f"unexpected: {error} ({line})"
    finally:
        os.umask(0o022)
        os.chdir("/")
        # What a case that failed left open would keep the mount busy.
        os.closerange(first_free, 256)
    return None


def describe(root):
    """Everything that a mount must find again, by path."""
    tree = {}
    for folder, directories, files in os.walk(root):
        for name in [*directories, *files]:
            path = os.path.join(folder, name)
            facts = os.lstat(path)
            content = os.readlink(path) if stat.S_ISLNK(facts.st_mode) else None
            if stat.S_ISREG(facts.st_mode) and facts.st_size < 1 << 20:
                with open(path, "rb") as file:
                    content = file.read()
            tree[os.path.relpath(path, root)] = (
                facts.st_ino, facts.st_mode, facts.st_uid, facts.st_gid, facts.st_nlink,
                facts.st_rdev, facts.st_mtime_ns, facts.st_ctime_ns, content,
                None if stat.S_ISDIR(facts.st_mode) else facts.st_size)
    return tree


def keeps_everything(file_system):
    """Unmounts, checks, mounts again; None, or what was lost."""
    before = describe(file_system.root)
    file_system.unmount()
    file_system.check()
    file_system.mount()
    after = describe(file_system.root)
    lost = [path for path in sorted(before.keys() | after.keys())
            if before.get(path) != after.get(path)]
    return f"differs after mounting again: {lost[0]}: {before.get(lost[0])} became " \
           f"{after.get(lost[0])}" if lost else None


class Run:
    """All cases on one file system; `failures` by the name of their case."""

    def __init__(self, file_system):
        self.file_system = file_system
        self.failures = {}

    def note(self, name, message):
        if message is not None:
            self.failures[name] = message

    def folder(self, name):
        return os.path.join(self.file_system.root, name)

    def run(self, cases):
        os.chmod(self.file_system.root, 0o755)
        for number, case in enumerate(case for case in cases if not case.read_only):
            folder = self.folder(f"{number:04}")
            os.mkdir(folder)
            os.chmod(folder, 0o755)
            self.note(case.name, run_case(case, Stage(folder, self.file_system.outside)))
        stage = Stage(self.folder("read_only"), self.file_system.outside)
        os.mkdir(stage.folder)
        read_only_cases.prepare(stage)
        self.note("everything is there after mounting again", keeps_everything(self.file_system))
        self.file_system.make_read_only()
        for case in cases:
            if case.read_only:
                self.note(case.name, run_case(case, stage))


def run_on(kind, cases):
    """The failures of the cases on a file system of that kind."""
    file_system = kind()
    run = Run(file_system)
    start = time.monotonic()
    try:
        file_system.mount()
        run.run(cases)
        file_system.unmount()
        file_system.check()
    except (OSError, RuntimeError) as error:
        if not run.failures:
            raise
        run.note("mount, unmount and check", str(error))
    finally:
        os.chdir("/")
        file_system.remove()
    print(f"{kind.name}: {len(cases) + 1 - len(run.failures)} passed, {len(run.failures)} failed, "
          f"{time.monotonic() - start:.1f} s", flush=True)
    return run.failures


def run_reference(cases):
    try:
        return run_on(Ext4, cases)
    except RuntimeError as error:
        print("no reference:", str(error).strip())
        return {}


def main():
    skip_unless_possible()
    words = sys.argv[1:]
    cases = [case for case in CASES if not words or any(word in case.name for word in words)]
    names = [case.name for case in cases]
    doubled = {name for name in names if names.count(name) > 1}
    if doubled:
        sys.exit(f"two cases have one name: {sorted(doubled)}")
    reference = run_reference(cases)
    failures = run_on(Warren, cases)
    for name, message in reference.items():
        print(f"ext4 FAILS  {name}: {message}")
    excused = failures.keys() & reference.keys()
    counted = {name: text for name, text in failures.items() if name not in excused}
    for name, message in counted.items():
        print(f"FAILED  {name}: {message}")
    if excused:
        print(f"{len(excused)} fail on ext4 too and do not count: {sorted(excused)}")
    print(f"{len(cases) + 1 - len(failures)} passed, {len(counted)} failed")
    return 1 if counted else 0


if __name__ == "__main__":
    sys.exit(main())
