#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every header under src/ and include/ compiles alone.

A header that leans on what its includer happened to include breaks at the next rearrangement. If
one header includes another, at whatever depth, then both compile alone if the including one
compiles behind the other: it meets nothing there that it does not ask for itself. So the headers
are put into chains, as few as possible, and each chain is one run of the compiler, with the
warnings of the build. A header stands in it twice, so it must guard itself.

Headers of the CUDA runtime's side (src/gpu, cuda/ folders, .cuh) are compiled only with --cuda.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

FLAGS = ["-std=c++20", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror", "-O0",
         "-fsyntax-only", "-x", "c++", "-"]
INCLUDE = re.compile(r'\s*#\s*include\s+["<]([^">]+)[">]')
CONDITION = re.compile(r"\s*#\s*(if|endif)")


def needs_cuda(name):
    return name.startswith("gpu/") or "/cuda/" in name or name.endswith(".cuh")


def find_headers(root, with_cuda):
    """The headers by the names under which others include them."""
    found = {}
    for folder in (root / "include", root / "src"):
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder).as_posix()
            if path.suffix in (".hpp", ".h", ".cuh") and not path.name.startswith("."):
                if with_cuda or not needs_cuda(name):
                    found[name] = path
    return found


def includes_of(path):
    """What a file includes under no condition, in order."""
    names, depth = [], 0
    for line in path.read_text().splitlines():
        if condition := CONDITION.match(line):
            depth += 1 if condition[1] == "if" else -1
        elif depth == 0 and (include := INCLUDE.match(line)):
            names.append(include[1])
    return names


def close(headers):
    """For each header all headers that it includes, at whatever depth."""
    closed = {}

    def visit(name):
        if name not in closed:
            closed[name] = set()
            for other in includes_of(headers[name]):
                if other in headers:
                    closed[name] |= {other} | visit(other)
        return closed[name]

    for name in headers:
        visit(name)
    return closed


def make_chains(names, closed):
    """As few lists as possible in which each header includes the one before it: a largest matching
    between headers and their next ones, by augmenting paths."""
    before = {}

    def match(name, tried):
        for follower in names:
            if name in closed[follower] and follower not in tried:
                tried.add(follower)
                if follower not in before or match(before[follower], tried):
                    before[follower] = name
                    return True
        return False

    for name in names:
        match(name, set())
    chains = []
    for last in set(names) - set(before.values()):
        chain = [last]
        while chain[-1] in before:
            chain.append(before[chain[-1]])
        chains.append(chain[::-1])
    return sorted(chains)


def compile_chain(chain, options):
    command = [options.compiler, *FLAGS]
    command += ["-I", str(options.root / "src"), "-I", str(options.root / "include")]
    if options.cuda:
        command.append("-DWARREN_CUDA=1")
        for folder in options.cuda:
            command += ["-isystem", folder]
    text = "".join(f'#include "{name}"\n' for name in chain * 2)
    done = subprocess.run(command, input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True)
    return chain, done.returncode, done.stdout


def part_of(text):
    """K/N as numbers."""
    match = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", text)
    if match is None or int(match[1]) > int(match[2]):
        raise argparse.ArgumentTypeError(f"'{text}': write K/N with K from 1 to N")
    return int(match[1]), int(match[2])


def main():
    parser = argparse.ArgumentParser(description="compile every header alone")
    parser.add_argument("--root", type=pathlib.Path, help="the tree whose headers are compiled",
                        default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--compiler", default=os.environ.get("CXX", "c++"))
    parser.add_argument("--part", default=(1, 1), type=part_of, metavar="K/N",
                        help="compile only each N-th chain, beginning with the K-th")
    parser.add_argument("--cuda", default=[], nargs="*", help="include folders of a CUDA build")
    options = parser.parse_args()
    options.root = options.root.resolve()

    headers = find_headers(options.root, bool(options.cuda))
    closed = close(headers)
    first, step = options.part
    chains = make_chains(list(headers), closed)[first - 1::step]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for chain, status, output in pool.map(lambda each: compile_chain(each, options), chains):
            if status != 0:
                failed += 1
                print(f"{', '.join(chain)}: one of these does not compile alone\n{output}")
    print(f"{sum(map(len, chains))} of {len(headers)} headers in {len(chains)} runs of the "
          f"compiler, of which {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
