// SPDX-License-Identifier: Apache-2.0
// The plug-in, compiled once for each MPI (see cmake/mpi.cmake). A program that was not started by
// mpirun never loads it, and needs no MPI on its machine.
//
// During a walk only non-blocking messages between two ranks are used, on a communicator of that
// walk.
#include "walk/mpi/plugin.h"

#include <mpi.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace {

MPI_Comm of_walk = MPI_COMM_NULL;
MPI_Win window = MPI_WIN_NULL;
char start_error[MPI_MAX_ERROR_STRING];

static_assert(sizeof(MPI_Request) <= sizeof(warren_mpi_handle));
static_assert(sizeof(MPI_Message) <= sizeof(warren_mpi_handle));
static_assert(MPI_MAX_PROCESSOR_NAME <= WARREN_MPI_NAME_BYTES);

template <class Value>
void put(warren_mpi_handle* handle, Value value) {
    std::memcpy(handle, &value, sizeof value);
}

template <class Value>
Value get(const warren_mpi_handle& handle) {
    Value value;
    std::memcpy(&value, &handle, sizeof value);
    return value;
}

/// Polls with sleeps in between, because there may be more ranks than cores.
void sleep_until_done(MPI_Request request) {
    int is_done = 0;
    for (long pause_us = 10;; pause_us = std::min(2 * pause_us, 500L)) {
        MPI_Test(&request, &is_done, MPI_STATUS_IGNORE);
        if (is_done != 0) return;
        const timespec pause{0, pause_us * 1000};
        ::nanosleep(&pause, nullptr);
    }
}

}  // namespace

extern "C" {

static const char* start(uint32_t* rank, uint32_t* ranks) noexcept {
    int level = 0;
    const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level);
    if (code != MPI_SUCCESS) {
        int size = 0;
        MPI_Error_string(code, start_error, &size);
        return start_error;
    }
    int own = 0;
    int all = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &own);
    MPI_Comm_size(MPI_COMM_WORLD, &all);
    *rank = static_cast<uint32_t>(own);
    *ranks = static_cast<uint32_t>(all);
    return nullptr;
}

static void finish() noexcept {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    sleep_until_done(request);
    MPI_Finalize();
}

static void get_machine_name(char* name) noexcept {
    int size = 0;
    MPI_Get_processor_name(name, &size);
    name[size] = '\0';
}

static void share_memory(size_t bytes, void** places) noexcept {
    MPI_Comm machine = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
    void* own = nullptr;
    MPI_Win_allocate_shared(static_cast<MPI_Aint>(bytes), 1, MPI_INFO_NULL, machine, &own, &window);
    std::memset(own, 0, bytes);
    int near = 0;
    int all = 0;
    int rank = 0;
    MPI_Comm_size(machine, &near);
    MPI_Comm_size(MPI_COMM_WORLD, &all);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    std::fill(places, places + all, nullptr);
    // When the next call returns, all ranks have zeroed their memory.
    int* const worldwide = new int[static_cast<size_t>(near)];
    MPI_Allgather(&rank, 1, MPI_INT, worldwide, 1, MPI_INT, machine);
    for (int neighbour = 0; neighbour < near; ++neighbour) {
        MPI_Aint size = 0;
        int unit = 0;
        MPI_Win_shared_query(window, neighbour, &size, &unit, &places[worldwide[neighbour]]);
    }
    delete[] worldwide;
    MPI_Comm_free(&machine);
}

static void gather(const void* own, const int* sizes, const int* offsets, void* all) noexcept {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Iallgatherv(own, sizes[rank], MPI_BYTE, all, sizes, offsets, MPI_BYTE, MPI_COMM_WORLD,
                    &request);
    sleep_until_done(request);
}

static void begin_walk() noexcept {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Comm_idup(MPI_COMM_WORLD, &of_walk, &request);
    sleep_until_done(request);
}

static void end_walk() noexcept {
    MPI_Comm_free(&of_walk);
}

static void begin_send(uint32_t to, const void* bytes, int size,
                       warren_mpi_handle* request) noexcept {
    MPI_Request sent = MPI_REQUEST_NULL;
    MPI_Isend(bytes, size, MPI_BYTE, static_cast<int>(to), 0, of_walk, &sent);
    put(request, sent);
}

static int find_message(uint32_t* from, int* size, warren_mpi_handle* message) noexcept {
    int is_there = 0;
    MPI_Message found = MPI_MESSAGE_NULL;
    MPI_Status status{};
    // A probe that finds nothing makes MPI fetch what has arrived; the second probe then finds it.
    for (int look = 0; look < 2 && is_there == 0; ++look)
        MPI_Improbe(MPI_ANY_SOURCE, 0, of_walk, &is_there, &found, &status);
    if (is_there == 0) return 0;
    MPI_Get_count(&status, MPI_BYTE, size);
    *from = static_cast<uint32_t>(status.MPI_SOURCE);
    put(message, found);
    return 1;
}

static void begin_receive(warren_mpi_handle message, void* bytes, int size,
                          warren_mpi_handle* request) noexcept {
    MPI_Message found = get<MPI_Message>(message);
    MPI_Request received = MPI_REQUEST_NULL;
    MPI_Imrecv(bytes, size, MPI_BYTE, &found, &received);
    put(request, received);
}

static int test_request(warren_mpi_handle* request) noexcept {
    MPI_Request tested = get<MPI_Request>(*request);
    int is_done = 0;
    MPI_Test(&tested, &is_done, MPI_STATUS_IGNORE);
    put(request, tested);
    return is_done;
}

static void wait_for_request(warren_mpi_handle* request) noexcept {
    sleep_until_done(get<MPI_Request>(*request));
    put(request, MPI_REQUEST_NULL);
}

extern __attribute__((visibility("default"))) const warren_mpi_plugin_table warren_mpi_plugin;
const warren_mpi_plugin_table warren_mpi_plugin = {
    WARREN_MPI_PLUGIN_VERSION,
    sizeof(warren_mpi_plugin_table),
    start,
    finish,
    get_machine_name,
    share_memory,
    gather,
    begin_walk,
    end_walk,
    begin_send,
    find_message,
    begin_receive,
    test_request,
    wait_for_request,
};

}  // extern "C"
