/* SPDX-License-Identifier: Apache-2.0 */
/* C99 and C++: zeros never match under lbfs, so each segment has the maximum size. */
#include <stdio.h>
#include <stdlib.h>
#include <warren/chunk.h>

int main(void) {
    static unsigned char bytes[200000];
    rabinpoly_t* rabin = rabin_init(48, 8, 2, 64);
    size_t* markers = (size_t*)malloc(rabin_marker_limit(rabin, sizeof bytes) * sizeof *markers);
    size_t count = compute_rabin_segments_cpu(rabin, bytes, sizeof bytes, markers);
    size_t i;

    for (i = 0; i < count; ++i)
        printf("%lu\n", (unsigned long)markers[i]);
    free(markers);
    rabin_free(rabin);
    return 0;
}
