#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The chunking library is usable alone: installed as the components "chunk" and "hash" it serves a C
# program that knows nothing but pkg-config.
set -euo pipefail

for tool in cmake pkg-config cc; do
    command -v "$tool" >/dev/null || { echo "no $tool here"; exit 77; }
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for component in hash chunk; do
    cmake --install "$WARREN_BUILD" --component $component --prefix "$folder/usr" \
        >>"$folder/log" || { cat "$folder/log"; exit 1; }
done
PKG_CONFIG_PATH=$(dirname "$(find "$folder/usr" -name warren_chunk.pc)")
export PKG_CONFIG_PATH
cat >"$folder/use.c" <<'TEXT'
#include <stdio.h>
#include <stdlib.h>
#include <warren/chunk.h>

int main(void) {
    static unsigned char bytes[200000]; /* zeros never match under lbfs */
    rabinpoly_t *rabin = rabin_init(48, 8, 2, 64);
    size_t *markers = malloc(rabin_marker_limit(rabin, sizeof bytes) * sizeof *markers);
    size_t count = compute_rabin_segments_cpu(rabin, bytes, sizeof bytes, markers);
    for (size_t i = 0; i < count; ++i)
        printf("%zu ", markers[i]);
    free(markers);
    rabin_free(rabin);
    return 0;
}
TEXT
read -ra flags <<<"$(pkg-config --cflags warren_chunk)"
read -ra static <<<"$(pkg-config --static --libs warren_chunk)"
cc -std=c11 -Wall -Werror "${flags[@]}" "$folder/use.c" -o "$folder/use" "${static[@]}"
markers=$(LD_LIBRARY_PATH=$(dirname "$PKG_CONFIG_PATH") "$folder/use")
echo "markers: $markers"
[[ $markers == "65536 131072 196608 " ]]
