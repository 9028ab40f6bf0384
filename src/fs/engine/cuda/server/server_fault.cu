// SPDX-License-Identifier: Apache-2.0
// Writing and reading the record of a failed check: see fs/engine/cuda/server/server_fault.hpp.
//
// Invariant: the record is complete in host memory before the trap.
#include "fs/engine/cuda/server/server_fault.hpp"

#include <cuda_runtime_api.h>

#include <cstdio>
#include <map>
#include <mutex>
#include <new>

#include "base/check.hpp"
#include "gpu/failure.hpp"

namespace warren {
namespace {

__device__ cuda_engine::FaultRecord* device_record = nullptr;
__device__ u32 device_faults = 0;

__device__ void copy_text(char* to, const char* from, u32 bytes) {
    u32 i = 0;
    for (; i + 1 < bytes && from[i] != 0; ++i)
        to[i] = from[i];
    to[i] = 0;
}

__device__ void write_record(const char* what, const char* file, int line) {
    copy_text(device_record->what, what, sizeof device_record->what);
    copy_text(device_record->file, file, sizeof device_record->file);
    device_record->line = line;
    // Release: pairs with the acquire in fault_record().
    system_atomic<u32>(device_record->is_set).store(1, hd::memory_order_release);
    __threadfence_system();
}

}  // namespace

__device__ __noinline__ void record_fault(const char* what, const char* file, int line) {
    const bool is_first =
        device_atomic<u32>(device_faults).exchange(1, hd::memory_order_relaxed) == 0;
    if (!is_first) {
        // Other threads that fail a check wait 5 ms before they trap, so that the first one can
        // write the record.
        for (u32 i = 0; i < 10; ++i)
            __nanosleep(500'000);
        return;
    }
    if (device_record != nullptr) write_record(what, file, line);
    printf("warren: broken invariant: %s (%s:%d)\n", what, file, line);
}

namespace cuda_engine {
namespace {

std::mutex record_mutex;
std::map<int, FaultRecord*> host_records;  // by device

__global__ void fail_check(u32 two) {
    WARREN_CHECK(two + two == 5);
}

}  // namespace

Errc prepare_fault_record() {
    const std::lock_guard lock(record_mutex);
    int device = 0;
    WARREN_TRY(gpu::check(cudaGetDevice(&device), "cudaGetDevice"));
    if (host_records.contains(device)) return Errc::ok;
    void* memory = nullptr;
    WARREN_TRY(gpu::check(cudaHostAlloc(&memory, sizeof(FaultRecord), cudaHostAllocMapped),
                          "cudaHostAlloc"));
    auto* record = new (memory) FaultRecord;
    WARREN_TRY(gpu::check(cudaMemcpyToSymbol(device_record, &record, sizeof record),
                          "cudaMemcpyToSymbol"));
    host_records[device] = record;
    return Errc::ok;
}

const FaultRecord* fault_record() {
    const std::lock_guard lock(record_mutex);
    int device = 0;
    static_cast<void>(cudaGetDevice(&device));
    const auto found = host_records.find(device);
    if (found == host_records.end()) return nullptr;
    FaultRecord* const record = found->second;
    // Acquire: pairs with the release in record_fault().
    const u32 is_set = system_atomic<u32>(record->is_set).load(hd::memory_order_acquire);
    return is_set != 0 ? record : nullptr;
}

std::string loss_reason() {
    const FaultRecord* const fault = fault_record();
    if (fault == nullptr) return gpu::last_failure().message;
    return std::string("broken invariant: ") + fault->what + " (" + fault->file + ":" +
           std::to_string(fault->line) + ")";
}

Errc break_invariant() {
    fail_check<<<2, 64>>>(2);
    return cudaDeviceSynchronize() == cudaSuccess ? Errc::ok : Errc::io;
}

}  // namespace cuda_engine
}  // namespace warren
