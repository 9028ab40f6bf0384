// SPDX-License-Identifier: Apache-2.0
// Rabin chunking for C programs (C99), by the names of CloudFS's deduplication module. A marker is
// the position behind the last byte of a segment.
//
// Invariant: all calls that take data continue the same stream, whichever of them came last. So the
// markers of a stream depend neither on its division into buffers nor on the processor.
#ifndef WARREN_CHUNK_H
#define WARREN_CHUNK_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rabinpoly rabinpoly_t;

/* What a call that takes data answers if memory is short (rabin_segment_next: -1). The stream has
 * lost its place then, and all of them answer so until rabin_reset(). */
#define RABIN_NO_MEMORY ((size_t)-1)

/* A chunker by LBFS's polynomial and value. The window is in bytes, sizes of segments are in KB;
 * the average is a power of two. Null if a size makes no sense or memory is short. */
rabinpoly_t* rabin_init(unsigned int window_bytes, unsigned int average_segment_kb,
                        unsigned int minimum_segment_kb, unsigned int maximum_segment_kb);

/* Takes bytes up to the end of a segment and returns how many that were. *is_new_segment is 1 if
 * one ended there, 0 if all bytes were taken. */
int rabin_segment_next(rabinpoly_t* rabin, const char* buffer, unsigned int bytes,
                       int* is_new_segment);

/* The most markers that a call with so many bytes can find. */
size_t rabin_marker_limit(const rabinpoly_t* rabin, size_t bytes);

/* Takes the whole buffer, writes the markers in it (from its beginning, rising) and returns how
 * many there are. `markers` has room for rabin_marker_limit(rabin, bytes). The first takes one byte
 * after the other, the second uses all processors, the third a GPU; where there is none it does as
 * the second. */
size_t compute_rabin_segments_serial(rabinpoly_t* rabin, const void* buffer, size_t bytes,
                                     size_t* markers);
size_t compute_rabin_segments_cpu(rabinpoly_t* rabin, const void* buffer, size_t bytes,
                                  size_t* markers);

/* GPUs have a kernel for windows of 48 and 64 bytes; with others it does as the second too. */
size_t compute_rabin_segments_gpu(rabinpoly_t* rabin, const void* buffer, size_t bytes,
                                  size_t* markers);

/* Begins another stream. */
void rabin_reset(rabinpoly_t* rabin);

void rabin_free(rabinpoly_t* rabin);

#ifdef __cplusplus
}
#endif

#endif
