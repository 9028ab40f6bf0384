#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# clang-tidy with the checks of .clang-tidy, which says why each is there, over the sources of a
# build without CUDA. Any finding fails the run. Each source is read by itself and without a
# precompiled header, so one that lacks an include is found.
#
# usage: tools/tidy.sh [FILE...]    FILEs as they are in the tree; none: all of them
#   WARREN_TIDY_PART=K/N   only every N-th of all files, from the K-th on (K from 1 to N)
#   WARREN_JOBS            files side by side (default: one for each processor)
#   CLANG_TIDY             the program (default: clang-tidy-19)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=build-tidy
tidy=${CLANG_TIDY:-clang-tidy-19}
part=${WARREN_TIDY_PART:-1/1}
fail() { echo "tidy: $*" >&2; exit 2; }
command -v "$tidy" >/dev/null || fail "'$tidy' is missing: install clang-tidy-19"
[[ $part =~ ^([0-9]+)/([0-9]+)$ ]] &&
    ((BASH_REMATCH[1] >= 1 && BASH_REMATCH[1] <= BASH_REMATCH[2])) ||
    fail "WARREN_TIDY_PART is '$part': write K/N with K from 1 to N"
first=${BASH_REMATCH[1]} step=${BASH_REMATCH[2]}

cmake --preset asan -B "$build" -DWARREN_UNITY=OFF -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON >/dev/null
files=("$@")
if [[ ${#files[@]} == 0 ]]; then
    mapfile -t files < <(python3 - "$build/compile_commands.json" "$PWD" "$first" "$step" <<'PYTHON'
import json, os, sys
database, root, first, step = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
names = {os.path.relpath(os.path.join(entry['directory'], entry['file']), root)
         for entry in json.load(open(database))}
ours = sorted(name for name in names
              if name.startswith(('src/', 'apps/', 'python/src/')) and name.endswith('.cpp'))
print('\n'.join(ours[first - 1::step]))
PYTHON
    )
fi
[[ ${#files[@]} -gt 0 && -n ${files[0]} ]] || fail "'$build' compiles none of the sources"
echo "tidy: ${#files[@]} files (part $part)"
# Compiler warnings are left to g++; each file's findings are printed together.
printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "${WARREN_JOBS:-$(nproc)}" \
    bash -c 'text=$("$0" -p "$1" --quiet --extra-arg=-w "$2" 2>&1) && exit 0
             grep -vE "^[0-9]+ warnings? (generated|treated)" <<<"$text"; exit 1' \
    "$tidy" "$build"
