// SPDX-License-Identifier: Apache-2.0
// Rabin chunking for C programs (C99), under the function names of CloudFS's deduplication module.
// A marker is the position just past the last byte of a segment.
//
// Invariant: all functions that take data continue the same stream, in whatever order they are
// called. So the markers depend neither on how the stream is divided into buffers nor on the
// processor. A chunker may be used by one thread at a time.
#ifndef WARREN_CHUNK_H
#define WARREN_CHUNK_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rabinpoly rabinpoly_t;

/* Returned by a function that takes data if memory runs out (rabin_segment_next() returns -1). The
 * position in the stream is lost then: all functions that take data return it until rabin_reset().
 * */
#define RABIN_NO_MEMORY ((size_t)-1)

/* Creates a chunker with LBFS's polynomial and value. The window size is in bytes; segment sizes
 * are in KB, and the average must be a power of two. Returns null if a size is invalid or memory
 * runs out. */
rabinpoly_t* rabin_init(unsigned int window_bytes, unsigned int average_segment_kb,
                        unsigned int minimum_segment_kb, unsigned int maximum_segment_kb);

/* Takes bytes up to the end of a segment and returns how many it took. Sets *is_new_segment to 1 if
 * a segment ended there, or to 0 if all bytes were taken without reaching an end. */
int rabin_segment_next(rabinpoly_t* rabin, const char* buffer, unsigned int bytes,
                       int* is_new_segment);

/* The maximum number of markers that a call with `bytes` bytes can find. */
size_t rabin_marker_limit(const rabinpoly_t* rabin, size_t bytes);

/* Take the whole buffer, write the markers found in it (positions from its beginning, ascending)
 * and return how many there are. `markers` must have room for rabin_marker_limit(rabin, bytes). The
 * first function processes one byte after the other, the second uses all processors, the third a
 * GPU. Without a GPU the third behaves like the second. */
size_t compute_rabin_segments_serial(rabinpoly_t* rabin, const void* buffer, size_t bytes,
                                     size_t* markers);
size_t compute_rabin_segments_cpu(rabinpoly_t* rabin, const void* buffer, size_t bytes,
                                  size_t* markers);

/* The GPU has kernels for windows of 48 and 64 bytes; with other windows it behaves like the
 * second. */
size_t compute_rabin_segments_gpu(rabinpoly_t* rabin, const void* buffer, size_t bytes,
                                  size_t* markers);

/* Discards the stream and begins another. */
void rabin_reset(rabinpoly_t* rabin);

void rabin_free(rabinpoly_t* rabin);

#ifdef __cplusplus
}
#endif

#endif
