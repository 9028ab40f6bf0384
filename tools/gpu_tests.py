#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs all tests that use a GPU, on a machine that has one, each test in a process of its own.

Tests that can share the GPU run side by side under the CUDA multi-process service (MPS); then those
that fault the GPU, kill a process at work, or take or count all its memory run one after the other
without it. Tests of the volume run on the CUDA engine, or on the one that --engine names. The long
tests are left out.

usage: tools/gpu_tests.py BUILD [--engine NAME] [--jobs N] [--limit SECONDS] [--only REGEX]
                          [--log FILE]

The status is 0 if no test failed.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

PROGRAMS = ("test_fs", "test_gpu_fs", "test_gpu_hash", "test_gpu_chunk", "test_gpu_dedup",
            "test_gpu_gpu")
LEFT_OUT = re.compile(r"Long\b|Long/|Long\.")
ALONE = re.compile(r"DeathTest|KillBulk|CudaFault|LittleMemory|HostProgram|givesItsMemoryBack")
# They take minutes and start first, so that they do not end last.
SLOW = re.compile(r"FieldMutation|RepairSurvivesEachFailingAccess|FullVolume|IoFault|PowerCut|"
                  r"SequenceCuts|SpaceCuts|ReplayedBlocks|DedupeCuts|SharedRemovalCuts|"
                  r"losesNothingSynced|aFileOf4Gibibytes|WorkloadCuts|DataModes")


def tests_of(program):
    """The names of a test program's tests."""
    listed = subprocess.run([program, "--gtest_list_tests"], check=True, capture_output=True,
                            text=True).stdout
    suite = ""
    for line in listed.splitlines():
        name = line.split("#")[0].strip()
        if line.startswith(" "):
            yield suite + name
        elif name.endswith("."):
            suite = name


def run(test, limit):
    """One test in a process; how it ended, its seconds and its output."""
    program, name = test
    begun = time.monotonic()
    try:
        ended = subprocess.run([program, f"--gtest_filter={name}"], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit,
                               check=False)
        output = ended.stdout.decode(errors="replace")
        passed = ended.returncode == 0 and "[==========] 1 test" in output
        result = "failed" if not passed else "skipped" if "[  SKIPPED ]" in output else "passed"
    except subprocess.TimeoutExpired as late:
        output = (late.stdout or b"").decode(errors="replace")
        result = f"stopped after {limit} s"
    return test, result, time.monotonic() - begun, output


class Report:
    """Counts results by program; prints and logs what failed."""

    def __init__(self, log):
        self.log = log
        self.counts = collections.defaultdict(collections.Counter)
        self.bad = []

    def add(self, test, result, seconds, output):
        program = pathlib.Path(test[0]).name
        self.counts[program][result] += 1
        self.log.write(f"{result} {seconds:.1f} s {program} {test[1]}\n")
        self.log.flush()
        if result in ("passed", "skipped"):
            return
        self.bad.append((program, test[1], result))
        self.log.write(output[-20000:])
        print(f"{result}: {program} {test[1]}\n{output[-3000:]}", flush=True)

    def print_counts(self, title, seconds):
        print(f"== {title}: {seconds:.0f} s")
        for program, counts in sorted(self.counts.items()):
            print(f"{program}: " + ", ".join(f"{n} {result}" for result, n in counts.items()))
        self.counts.clear()
        sys.stdout.flush()


def run_together(tests, jobs, limit, report):
    with tempfile.TemporaryDirectory() as pipes:
        os.environ["CUDA_MPS_PIPE_DIRECTORY"] = os.environ["CUDA_MPS_LOG_DIRECTORY"] = pipes
        subprocess.run(["nvidia-cuda-mps-control", "-d"], check=True)
        try:
            with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
                for ended in [pool.submit(run, test, limit) for test in tests]:
                    report.add(*ended.result())
        finally:
            subprocess.run(["nvidia-cuda-mps-control"], input=b"quit\n", check=False)
            del os.environ["CUDA_MPS_PIPE_DIRECTORY"], os.environ["CUDA_MPS_LOG_DIRECTORY"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("build", type=pathlib.Path, help="folder of the CUDA build")
    parser.add_argument("--engine", default="cuda", metavar="NAME",
                        help="what WARREN_TEST_ENGINE is for the tests (default: cuda)")
    parser.add_argument("--jobs", type=int, default=max(1, len(os.sched_getaffinity(0)) - 3),
                        help="tests at a time (default: processors less 3)")
    parser.add_argument("--limit", type=int, default=400, metavar="SECONDS",
                        help="the longest that a test may take (default: 400)")
    parser.add_argument("--only", type=re.compile, default=re.compile(""), metavar="REGEX",
                        help="tests whose PROGRAM SUITE.NAME holds it")
    parser.add_argument("--log", type=argparse.FileType("w"), default=os.devnull,
                        help="file for each test's result and seconds, and what failed ones say")
    options = parser.parse_args()

    os.environ["WARREN_TEST_ENGINE"] = options.engine
    tests = [(str(options.build / "tests" / program), name) for program in PROGRAMS
             for name in tests_of(options.build / "tests" / program)
             if not LEFT_OUT.search(name) and options.only.search(f"{program} {name}")]
    if not tests:
        parser.error(f"no test's name holds '{options.only.pattern}'")
    together = sorted((test for test in tests if not ALONE.search(test[1])),
                      key=lambda test: not SLOW.search(test[1]))
    alone = [test for test in tests if ALONE.search(test[1])]

    report = Report(options.log)
    begun = time.monotonic()
    if together:
        run_together(together, options.jobs, options.limit, report)
        report.print_counts(f"side by side, {options.jobs} at a time under MPS",
                            time.monotonic() - begun)
    begun = time.monotonic()
    for test in alone:
        report.add(*run(test, options.limit))
    report.print_counts("alone", time.monotonic() - begun)
    for program, name, result in report.bad:
        print(f"{result}: {program} {name}")
    return 1 if report.bad else 0


if __name__ == "__main__":
    sys.exit(main())
