/* SPDX-License-Identifier: Apache-2.0 */
/* C99 and C++: a standard digest, StoreGPU's by both names, and the last of its windows. */
#define WARREN_STOREGPU_NAMES
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <warren/hash.h>

static unsigned char data[10000];

static void print(const void* bytes, size_t count) {
    size_t i;
    for (i = 0; i < count; ++i)
        printf("%02x", ((const unsigned char*)bytes)[i]);
    printf("\n");
}

int main(void) {
    const void* pieces[1] = {"abc"};
    const size_t lengths[1] = {3};
    unsigned char digest[32];
    char* paper;
    char* windows;
    size_t i;

    if (warren_hash_many(WARREN_HASH_SHA256, pieces, lengths, 1, digest, sizeof digest) != 0)
        return 1;
    print(digest, 32);
    for (i = 0; i < sizeof data; ++i)
        data[i] = (unsigned char)(i % 251);
    if (storegpu_sha(data, 4097, digest, 20) != 0) return 2;
    print(digest, 20);
    paper = SHA(data, 4097);
    if (paper == NULL || memcmp(paper, digest, 20) != 0) return 3;
    windows = MD5(data, 10000, 20, 4);
    if (windows == NULL) return 4;
    print(windows + 16 * (storegpu_window_count(10000, 20, 4) - 1), 16);
    free(paper);
    free(windows);
    return 0;
}
