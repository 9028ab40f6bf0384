#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The CMake package serves a program outside of the tree: installed to a prefix, found by
# find_package(), and a C program calls hashing, StoreGPU's names and chunking through it.
set -euo pipefail

for tool in cmake cc; do
    command -v "$tool" >/dev/null || { echo "no $tool here"; exit 77; }
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for component in Unspecified hash chunk; do
    cmake --install "$WARREN_BUILD" --component $component --prefix "$folder/usr" \
        >>"$folder/log" || { cat "$folder/log"; exit 1; }
done
mkdir "$folder/source"
cat >"$folder/source/CMakeLists.txt" <<'TEXT'
cmake_minimum_required(VERSION 3.25)
project(outsider LANGUAGES C CXX)
find_package(warren REQUIRED)
add_executable(outsider use.c)
target_link_libraries(outsider PRIVATE warren::warren_chunk warren::warren_hash)
set_target_properties(outsider PROPERTIES LINKER_LANGUAGE CXX)
TEXT
cat >"$folder/source/use.c" <<'TEXT'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define WARREN_STOREGPU_NAMES
#include <warren/chunk.h>
#include <warren/hash.h>

static unsigned char data[10000];

static void print(const void* bytes, size_t count) {
    for (size_t i = 0; i < count; ++i)
        printf("%02x", ((const unsigned char*)bytes)[i]);
    printf("\n");
}

int main(void) {
    unsigned char digest[20];
    char* paper;
    char* windows;
    size_t markers[8];
    rabinpoly_t* rabin = rabin_init(48, 8, 2, 64);

    for (size_t i = 0; i < sizeof data; ++i)
        data[i] = (unsigned char)(i % 251);
    if (storegpu_sha(data, 4097, digest, sizeof digest) != 0) return 1;
    print(digest, 20);
    paper = SHA(data, 4097);
    if (paper == NULL || memcmp(paper, digest, 20) != 0) return 2;
    windows = MD5(data, 10000, 20, 4);
    if (windows == NULL) return 3;
    print(windows + 16 * (storegpu_window_count(10000, 20, 4) - 1), 16);
    if (rabin_marker_limit(rabin, sizeof data) > 8) return 4;
    if (compute_rabin_segments_serial(rabin, data, sizeof data, markers) > 8) return 5;
    rabin_free(rabin);
    free(paper);
    free(windows);
    return 0;
}
TEXT
cmake -S "$folder/source" -B "$folder/build" -DCMAKE_PREFIX_PATH="$folder/usr" \
    >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
cmake --build "$folder/build" >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
printed=$("$folder/build/outsider")
# The vector of docs/HASHING.md, and md5sum's digest of the last window, bytes 9980 to 9999.
window=$(for ((i = 9980; i < 10000; ++i)); do
    printf "\\x$(printf %02x $((i % 251)))"
done | md5sum | cut -d' ' -f1)
[[ $printed == "2b68beb53d4def2872a8515fa7ae711b9a94c6cc
$window" ]] || { echo "printed: $printed, not $window"; exit 1; }
echo "found by CMake: $printed"
