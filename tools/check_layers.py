#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rules of the house that a machine can check; run as the test check_layers.

Layers: a folder includes only itself and folders above it in LAYERS. CUDA stays in src/gpu, cuda/
folders and .cu tests. Atomics go through base/host_device.hpp. Files open with their licence and
purpose, and stay short. Each finding is one line: path:line: what is wrong.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# From the bottom up. A name with a slash is a folder inside a library.
LAYERS = ["include", "base", "team", "gpu", "hash", "chunk", "dedup", "walk",
          "fs/format", "fs/core", "fs/ops", "fs/bulk", "fs/ring", "fs/engine", "fs/disk",
          "fs/cache", "fs/commit", "fs/admin", "fs/check", "fs/volume", "apps"]
RANK = {name: rank for rank, name in enumerate(LAYERS)}
WINGS = {"fs"}
BACKENDS = ("fs/engine/cpu", "fs/engine/cuda")

CHECKED_FOLDERS = ("src", "include", "apps", "tests", "bench", "tools", "cmake", "python", ".ci")
CPP_ENDINGS = {".cpp", ".hpp", ".h", ".cu", ".cuh"}
SCRIPT_ENDINGS = {".py", ".sh", ".cmake"}
SINGLE_FILES = ("dev", "CMakeLists.txt", ".ci/run")

COLUMN_LIMIT = 100
FILE_LINES_LIMIT = 500
FUNCTION_LINES_LIMIT = 60
PURPOSE_LINES = (1, 12)

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
CUDA_HEADER = re.compile(r"^(cuda_\w+\.h|cuda\.h|cub/|thrust/|cooperative_groups)")
CUDA_ONLY = [
    (re.compile(r"\b__global__\b"), "__global__"),
    (re.compile(r"<<<"), "a kernel launch"),
    (re.compile(r"\bcuda[A-Z]\w*"), "the CUDA runtime"),
]
VOLATILE = re.compile(r"(?<!asm )(?<!__asm__ )\bvolatile\b")
RAW_ATOMIC = re.compile(
    r"\batomic(Add|Sub|Exch|Min|Max|Inc|Dec|CAS|And|Or|Xor)(_block|_system)?\s*\(")
# Compiles in a build without CUDA, where both orders are the same type.
HOST_ORDER = re.compile(r"\bdevice_atomic<[^;{}]*?\bstd::memory_order")
UNFINISHED = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
COMMENT_OR_LITERAL = re.compile(
    r"//[^\n]*|/\*.*?\*/|R\"(\w*)\(.*?\)\1\"|\"(?:\\.|[^\"\\\n])*\"|(?<!\w)'(?:\\.|[^'\\\n])+'",
    re.DOTALL)
# 'Long' in a test's name leaves it out of all runs but those of long tests.
LONG_BY_CHANCE = re.compile(r"\bTEST(?:_[FP])?\((?:\w+Long\w+,|\w+, \w+Long\w)")
HELPERS = re.compile(r"^namespace {$", re.MULTILINE)
NOT_A_FUNCTION = re.compile(r"^(inline\s+)?(namespace|class|struct|union|enum|extern)\b")


def without_comments(text):
    """The text with comments and literals blanked, line numbers kept."""
    def blank(match):
        return '""' + "\n" * match.group().count("\n")
    return COMMENT_OR_LITERAL.sub(blank, text)


def layer_of(path):
    """The layer of a path relative to src/ (or of an included name); None if it has none."""
    parts = path.split("/")
    if parts[0] in WINGS:
        name = "/".join(parts[:2])
    elif parts[0] == "warren":
        name = "include"
    else:
        name = parts[0]
    return name if name in RANK else None


class Checker:
    def __init__(self):
        self.findings = []
        self.files = 0

    def report(self, path, line, message):
        self.findings.append(f"{path}:{line}: {message}")

    def check_file(self, path):
        name = path.relative_to(ROOT).as_posix()
        self.files += 1
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            self.report(name, 1, "is not UTF-8")
            return
        lines = text.splitlines()
        self.check_lines(name, lines)
        if path.suffix in CPP_ENDINGS:
            code = without_comments(text)
            self.check_purpose(name, lines)
            self.check_includes(name, lines)
            self.check_words(name, code.splitlines())
            self.check_orders(name, code)
            self.check_functions(name, code)
            self.check_own_namespace(path, name, code)

    def check_own_namespace(self, path, name, code):
        """Several tests are compiled as one source: their helpers may have equal names."""
        if not name.startswith("tests/") or not name.endswith(("_test.cpp", "_test.cu")):
            return
        if HELPERS.search(code) and not re.search(rf"^namespace [\w:]+::{path.stem} {{$", code,
                                                  re.MULTILINE):
            self.report(name, 1, f"a test's helpers belong into a namespace warren::{path.stem}")

    def check_lines(self, name, lines):
        for number, line in enumerate(lines, 1):
            if len(line) > COLUMN_LIMIT:
                self.report(name, number, f"{len(line)} columns; the limit is {COLUMN_LIMIT}")
            if "\t" in line:
                self.report(name, number, "a tab; use spaces")
            if line != line.rstrip():
                self.report(name, number, "spaces at the end of the line")
            if UNFINISHED.search(line):
                self.report(name, number, "unfinished work belongs into an issue")
        if len(lines) > FILE_LINES_LIMIT:
            self.report(name, len(lines),
                        f"{len(lines)} lines; split it, the limit is {FILE_LINES_LIMIT}")
        opening = lines[1:2] if lines and lines[0].startswith("#!") else lines[:1]
        if not opening or "SPDX-License-Identifier: Apache-2.0" not in opening[0]:
            self.report(name, 1, "must open with 'SPDX-License-Identifier: Apache-2.0'")

    def check_purpose(self, name, lines):
        count = 0
        for line in lines[1:]:
            if not line.startswith("//"):
                break
            count += 1
        least, most = PURPOSE_LINES
        if not least <= count <= most:
            self.report(name, 2, f"opens with {count} lines on its purpose and invariant; "
                                 f"write {least} to {most}")

    def check_includes(self, name, lines):
        for number, line in enumerate(lines, 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            quoted, system = match.groups()
            if system:
                if CUDA_HEADER.match(system) and not may_use_cuda(name):
                    self.report(name, number, f"<{system}> belongs into gpu/ and cuda/ folders")
            elif name.startswith(("src/", "include/")):
                self.check_direction(name, number, quoted)
            elif not any((ROOT / base / quoted).is_file()
                         for base in ("src", "include", ".", "tests")):
                self.report(name, number, f'"{quoted}" is not a path from src/, include/, tests/ '
                                          "or the root")

    def check_direction(self, name, number, quoted):
        if name.startswith("include/"):
            own = "include"
        else:
            own = layer_of(name.removeprefix("src/"))
        if own is None:
            self.report(name, number, "its folder is not in the list of layers "
                                      "(tools/check_layers.py)")
            return
        if not any((ROOT / base / quoted).is_file() for base in ("src", "include")):
            self.report(name, number, f'"{quoted}" is not a path from src/ or include/')
            return
        other = layer_of(quoted)
        if other is None or RANK[other] > RANK[own]:
            self.report(name, number, f'{own} must not include "{quoted}", which is above it')
        for backend in BACKENDS:
            for twin in BACKENDS:
                if (backend != twin and name.startswith(f"src/{backend}/")
                        and quoted.startswith(f"{twin}/")):
                    self.report(name, number, f'"{quoted}": one engine must not include another')

    def check_words(self, name, code_lines):
        for number, line in enumerate(code_lines, 1):
            if not may_use_cuda(name):
                for pattern, what in CUDA_ONLY:
                    if pattern.search(line):
                        self.report(name, number, f"{what} belongs into gpu/ and cuda/ folders")
            if LONG_BY_CHANCE.search(line):
                self.report(name, number, "'Long' begins or ends the names of long tests alone")
            if VOLATILE.search(line):
                self.report(name, number, "volatile orders nothing: use an atomic")
            if RAW_ATOMIC.search(line):
                self.report(name, number, "a raw atomic: use device_atomic or system_atomic")

    def check_orders(self, name, code):
        for match in HOST_ORDER.finditer(code):
            number = code.count("\n", 0, match.end()) + 1
            self.report(name, number, "the order of a device_atomic is hd::memory_order")

    def check_functions(self, name, code):
        code = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*",
                      lambda match: "\n" * match.group().count("\n"), code, flags=re.MULTILINE)
        line = 1
        head = ""
        blocks = []  # (is a function, line of the opening brace)
        for character in code:
            if character == "\n":
                line += 1
            if character == "{":
                inside = any(is_function for is_function, _ in blocks)
                blocks.append((not inside and opens_function(head), line))
                head = ""
            elif character == "}":
                is_function, start = blocks.pop() if blocks else (False, line)
                if is_function and line - start + 1 > FUNCTION_LINES_LIMIT:
                    self.report(name, start, f"a function of {line - start + 1} lines; "
                                             f"the limit is {FUNCTION_LINES_LIMIT}")
                head = ""
            elif character == ";":
                head = ""
            else:
                head += character


def opens_function(head):
    """Whether a brace after this text begins a function's body."""
    head = head.strip()
    while head.startswith("template"):
        depth = 0
        for position, character in enumerate(head):
            depth += {"<": 1, ">": -1}.get(character, 0)
            if character == ">" and depth == 0:
                head = head[position + 1:].strip()
                break
        else:
            return False
    return "(" in head and not NOT_A_FUNCTION.match(head)


def may_use_cuda(name):
    parts = name.split("/")
    if name.startswith("src/gpu/") or "cuda" in parts[:-1]:
        return True
    return parts[0] in ("tests", "bench") and name.endswith((".cu", ".cuh"))


def checked_files():
    for folder in CHECKED_FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if not path.is_file() or path.name.startswith("."):
                continue
            if path.suffix in CPP_ENDINGS | SCRIPT_ENDINGS or path.name == "CMakeLists.txt":
                yield path
    for name in SINGLE_FILES:
        path = ROOT / name
        if path.is_file():
            yield path


def main():
    checker = Checker()
    for path in checked_files():
        checker.check_file(path)
    for finding in checker.findings:
        print(finding)
    print(f"{checker.files} files, {len(checker.findings)} findings")
    return 1 if checker.findings else 0


if __name__ == "__main__":
    sys.exit(main())
