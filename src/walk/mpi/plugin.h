// SPDX-License-Identifier: Apache-2.0
// What the program and its plug-in for an MPI know of each other, in C. A plug-in is a shared
// library with one symbol, `warren_mpi_plugin`, which is a constant of the type below. It wraps
// the calls of one MPI; all that is decided is decided in the program (walk/mpi_group.cpp).
//
// Invariants: all calls come from the thread that called start(). Nothing is thrown. A call of MPI
// that fails after start() ends the job, as MPI's default error handler does.
#ifndef WARREN_WALK_MPI_PLUGIN_H
#define WARREN_WALK_MPI_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WARREN_MPI_PLUGIN_SYMBOL "warren_mpi_plugin"
/// Another number for each change below.
#define WARREN_MPI_PLUGIN_VERSION 1u
#define WARREN_MPI_NAME_BYTES 512

/// Room for an MPI_Request or an MPI_Message, which are pointers in one MPI and numbers in another.
typedef struct {
    uint64_t bits;
} warren_mpi_handle;

typedef struct {
    // These two come first in every version; the program reads nothing else of another one.
    uint32_t version;  // WARREN_MPI_PLUGIN_VERSION
    uint32_t size;     // of this struct

    /// Initializes MPI. Null, or why that cannot be done, and then no other call follows.
    const char* (*start)(uint32_t* rank, uint32_t* ranks);
    /// Waits for all ranks and finalizes MPI: a rank that leaves early counts as one that died.
    void (*finish)(void);
    /// What MPI calls the machine that this rank is on; ends with a zero byte.
    void (*get_machine_name)(char name[WARREN_MPI_NAME_BYTES]);
    /// Makes `bytes` of memory for each rank, filled with zeros, which all ranks of a machine see;
    /// places[rank] is that of each, null for a rank on another machine. By all ranks, once.
    void (*share_memory)(size_t bytes, void** places);
    /// Gathers sizes[rank] bytes of each rank at all + offsets[rank]. By all ranks.
    void (*gather)(const void* own, const int* sizes, const int* offsets, void* all);

    /// Around each walk, by all ranks: a message arrives in the walk in which it was sent. Every
    /// request has ended when the walk does.
    void (*begin_walk)(void);
    void (*end_walk)(void);
    /// Begins to send to another rank; the bytes stay as they are until the request has ended.
    void (*begin_send)(uint32_t to, const void* bytes, int size, warren_mpi_handle* request);
    /// Whether a message has come that no call has found yet; it is then for begin_receive().
    int (*find_message)(uint32_t* from, int* size, warren_mpi_handle* message);
    /// Begins to receive a message that was found into `size` bytes.
    void (*begin_receive)(warren_mpi_handle message, void* bytes, int size,
                          warren_mpi_handle* request);
    /// Whether the request has ended.
    int (*test_request)(warren_mpi_handle* request);
    /// Waits until the request has ended, without keeping a core busy.
    void (*wait_for_request)(warren_mpi_handle* request);
} warren_mpi_plugin_table;

#ifdef __cplusplus
}
#endif

#endif
