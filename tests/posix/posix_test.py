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
    try:
        case.function(stage, *case.row)
    except Failed as failure:
        return str(failure)
    except OSError as error:
        line = traceback.extract_tb(error.__traceback__)[-1].lineno
        for frame in traceback.extract_tb(error.__traceback__):
            if frame.filename.endswith("_cases.py"):
                line = f"{os.path.basename(frame.filename)}:{frame.lineno}"
        return f"unexpected: {error} ({line})"
    finally:
        os.umask(0o022)
        os.chdir("/")
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


def run_cases(file_system, cases):
    """Failures by the name of their case."""
    failures = {}
    file_system.mount()
    os.chmod(file_system.root, 0o755)

    def run_one(number, case):
        folder = os.path.join(file_system.root, f"{number:04}")
        if not case.read_only:
            os.mkdir(folder)
            os.chmod(folder, 0o755)
        else:
            folder = os.path.join(file_system.root, "read_only")
        message = run_case(case, Stage(folder, file_system.outside))
        if message is not None:
            failures[case.name] = message

    changing = [case for case in cases if not case.read_only]
    for number, case in enumerate(changing):
        run_one(number, case)
    folder = os.path.join(file_system.root, "read_only")
    os.mkdir(folder)
    read_only_cases.prepare(Stage(folder, file_system.outside))
    message = keeps_everything(file_system)
    if message is not None:
        failures["everything is there after mounting again"] = message
    file_system.make_read_only()
    for case in cases:
        if case.read_only:
            run_one(0, case)
    file_system.unmount()
    file_system.check()
    return failures


def run_on(kind, cases):
    file_system = kind()
    start = time.monotonic()
    try:
        failures = run_cases(file_system, cases)
    finally:
        os.chdir("/")
        file_system.remove()
    print(f"{kind.name}: {len(cases) + 1 - len(failures)} passed, {len(failures)} failed, "
          f"{time.monotonic() - start:.1f} s", flush=True)
    return failures


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
