#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The hashing library is usable alone: installed as the component "hash" it serves a C program that
# knows nothing but pkg-config, linked with the shared library and with the static one.
set -euo pipefail

for tool in cmake pkg-config cc; do
    command -v "$tool" >/dev/null || { echo "no $tool here"; exit 77; }
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cmake --install "$WARREN_BUILD" --component hash --prefix "$folder/usr" >"$folder/log" ||
    { cat "$folder/log"; exit 1; }
PKG_CONFIG_PATH=$(dirname "$(find "$folder/usr" -name warren_hash.pc)")
export PKG_CONFIG_PATH
cat >"$folder/use.c" <<'TEXT'
#include <stdio.h>
#include <warren/hash.h>

int main(void) {
    const void* pieces[] = {"abc"};
    const size_t lengths[] = {3};
    unsigned char digest[32];
    if (warren_hash_many(WARREN_HASH_SHA256, pieces, lengths, 1, digest, sizeof digest) != 0) {
        return 1;
    }
    for (int i = 0; i < 32; ++i)
        printf("%02x", digest[i]);
    return 0;
}
TEXT
expected=$(printf abc | sha256sum | cut -d' ' -f1)
read -ra flags <<<"$(pkg-config --cflags warren_hash)"
read -ra shared <<<"$(pkg-config --libs warren_hash)"
read -ra static <<<"$(pkg-config --static --libs warren_hash)"

cc -std=c11 -Wall -Werror "${flags[@]}" "$folder/use.c" -o "$folder/with_shared" "${shared[@]}"
libraries=$(dirname "$PKG_CONFIG_PATH")
[[ $(LD_LIBRARY_PATH=$libraries "$folder/with_shared") == "$expected" ]]

rm "$libraries"/libwarren_hash.so*
cc -std=c11 -Wall -Werror "${flags[@]}" "$folder/use.c" -o "$folder/with_static" "${static[@]}"
[[ $("$folder/with_static") == "$expected" ]]
echo "shared and static: $expected"
