// SPDX-License-Identifier: Apache-2.0
// The interface between the program and its plug-in for an MPI, in C. A plug-in is a shared library
// with one symbol, `warren_mpi_plugin`, a constant of the type below. It only wraps the calls of
// one MPI; all decisions are made in the program (walk/mpi_group.cpp).
//
// Invariants: all calls are made on the thread that called start(). No exception leaves a call. If
// a call of MPI fails after start(), MPI's default error handler ends the job.
#ifndef WARREN_WALK_MPI_PLUGIN_H
#define WARREN_WALK_MPI_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WARREN_MPI_PLUGIN_SYMBOL "warren_mpi_plugin"
/// Incremented with each change below.
#define WARREN_MPI_PLUGIN_VERSION 1u
#define WARREN_MPI_NAME_BYTES 512

/// Holds an MPI_Request or an MPI_Message, which are pointers in one MPI and numbers in another.
typedef struct {
    uint64_t bits;
} warren_mpi_handle;

typedef struct {
    // These two come first in every version; the program reads nothing else of another version.
    uint32_t version;  // WARREN_MPI_PLUGIN_VERSION
    uint32_t size;     // size of this struct in bytes

    /// Initializes MPI. Returns null, or why that is not possible; then no other call follows.
    const char* (*start)(uint32_t* rank, uint32_t* ranks);
    /// Waits for all ranks and finalizes MPI. (A rank that exits without it counts as crashed.)
    void (*finish)(void);
    /// Gets MPI's name of the machine that this rank runs on, terminated by a zero byte.
    void (*get_machine_name)(char name[WARREN_MPI_NAME_BYTES]);
    /// Allocates `bytes` of zeroed memory for each rank, shared by all ranks of a machine. Sets
    /// places[rank] to the memory of each rank, or null if it is on another machine. All ranks call
    /// it, once.
    void (*share_memory)(size_t bytes, void** places);
    /// Gathers sizes[rank] bytes of each rank at all + offsets[rank]. All ranks call it.
    void (*gather)(const void* own, const int* sizes, const int* offsets, void* all);

    /// All ranks call both, around each walk. A message arrives in the walk in which it was sent.
    /// Every request has completed when end_walk() is called.
    void (*begin_walk)(void);
    void (*end_walk)(void);
    /// Begins to send to another rank. The bytes must not change until the request has completed.
    void (*begin_send)(uint32_t to, const void* bytes, int size, warren_mpi_handle* request);
    /// Returns nonzero if a message has arrived that no earlier call has returned. It must then be
    /// received with begin_receive().
    int (*find_message)(uint32_t* from, int* size, warren_mpi_handle* message);
    /// Begins to receive a message returned by find_message() into `size` bytes.
    void (*begin_receive)(warren_mpi_handle message, void* bytes, int size,
                          warren_mpi_handle* request);
    /// Returns nonzero if the request has completed.
    int (*test_request)(warren_mpi_handle* request);
    /// Waits until the request has completed, without keeping a core busy.
    void (*wait_for_request)(warren_mpi_handle* request);
} warren_mpi_plugin_table;

#ifdef __cplusplus
}
#endif

#endif
