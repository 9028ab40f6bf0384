#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every header under src/ and include/ compiles alone.

A header that leans on what its includer happened to include breaks at the next rearrangement. Each
one is included by a file of its own, twice, and compiled with the warnings of the build. Objects
are kept in a folder and compiled through ccache if there is one, so a second run costs little.
Headers of the CUDA runtime's side (src/gpu, cuda/ folders, .cuh) are compiled only with --cuda.
"""

import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FLAGS = ["-std=c++20", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror", "-O0"]


def needs_cuda(header):
    parts = header.relative_to(ROOT).parts
    return parts[:2] == ("src", "gpu") or "cuda" in parts or header.suffix == ".cuh"


def headers(with_cuda):
    for folder in ("include", "src"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".hpp", ".h", ".cuh") and not path.name.startswith("."):
                if with_cuda or not needs_cuda(path):
                    yield path


def compile_alone(header, options):
    name = header.relative_to(ROOT / header.relative_to(ROOT).parts[0])
    source = options.folder / (str(name).replace("/", "__") + ".cpp")
    text = f'#include "{name}"\n' * 2
    if not source.exists() or source.read_text() != text:
        source.write_text(text)
    command = [*options.launcher, options.compiler, *FLAGS]
    command += ["-I", str(ROOT / "src"), "-I", str(ROOT / "include")]
    if options.cuda:
        command.append("-DWARREN_CUDA=1")
        for folder in options.cuda:
            command += ["-isystem", folder]
    command += ["-c", str(source), "-o", str(source.with_suffix(".o"))]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return header, done.returncode, done.stdout


def main():
    parser = argparse.ArgumentParser(description="compile every header alone")
    parser.add_argument("--compiler", default=os.environ.get("CXX", "c++"))
    parser.add_argument("--launcher", default=[], nargs="*", help="for instance ccache")
    parser.add_argument("--folder", default="build/check_headers", type=pathlib.Path,
                        help="where objects are kept")
    parser.add_argument("--cuda", default=[], nargs="*", help="include folders of a CUDA build")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)

    failed = count = 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for header, status, output in pool.map(lambda path: compile_alone(path, options),
                                               headers(bool(options.cuda))):
            count += 1
            if status != 0:
                failed += 1
                print(f"{header.relative_to(ROOT)}: does not compile alone\n{output}")
    print(f"{count} headers, {failed} do not compile alone")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
