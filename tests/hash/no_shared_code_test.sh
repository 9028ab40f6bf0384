#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Code compiled for AVX2, AVX-512 or SHA instructions must not be shared with the rest of a program:
# the linker keeps one copy of an inline function, and could keep one that this processor cannot
# run. So the objects of these files must have no such functions.
set -euo pipefail

command -v nm >/dev/null || { echo "no nm here"; exit 77; }
grep -q '^WARREN_SANITIZE:STRING=$' "$WARREN_BUILD/CMakeCache.txt" ||
    { echo "sanitizers inline less; their programs stay on this machine"; exit 77; }
count=0
for object in $(find "$WARREN_BUILD" -name 'lanes_8.cpp.o' -o -name 'lanes_16.cpp.o' \
    -o -name 'sha_blocks.cpp.o' \
    -o -name 'xxh3_library_8.cpp.o' -o -name 'xxh3_library_16.cpp.o'); do
    count=$((count + 1))
    # W and V: functions and data of which the linker may keep the copy of any file.
    if nm -C "$object" | grep -E ' [WV] '; then
        echo "$object shares these with files for every processor"
        exit 1
    fi
done
[[ $count -gt 0 ]] || { echo "no objects in $WARREN_BUILD"; exit 77; }
echo "$count objects share nothing"
