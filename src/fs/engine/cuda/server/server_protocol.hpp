// SPDX-License-Identifier: Apache-2.0
// The words by which the host and the resident server communicate, and the state that the server
// keeps on the device from one epoch to the next.
//
// Invariant: each word has one writer. The host writes ServerControl, the device ServerReport; both
// lie in pinned memory.
#pragma once

#include <cuda_runtime_api.h>

#include "fs/core/store.hpp"
#include "fs/ring/command_code.hpp"
#include "fs/ring/reply_code.hpp"
#include "fs/ring/ring.hpp"

namespace warren::cuda_engine {

inline constexpr u32 warps_per_server_block = 8;
inline constexpr u32 server_blocks_max = 32;  // one for each lane of the polling warp

/// The ring as passed to the device; its stamp has no groups.
struct RingEntry {
    ring::RingMemory memory;
    ring::Stamp stamp;
};

struct alignas(64) ServerControl {
    u64 end_epoch;  // the server ends its epoch if that has this number or a lower one
    u64 settle;     // a number that the server copies to ServerReport::settled when it is idle
};

/// Why an epoch ended.
enum class EpochEnd : u32 { none, time, idle, asked };

struct alignas(64) ServerReport {
    EpochEnd end;
    u64 ended_epoch;  // number of the last epoch that has ended; written last
    u64 settled;      // the last value of ServerControl::settle that the idle server has read
    u64 next;         // the next ticket, when the epoch ended
};

/// A command that the polling warp hands to a worker.
struct alignas(128) Mailbox {
    ring::CommandCell cell;
    u64 ticket;
};

inline constexpr u64 buffer_bytes_max = 64 * kib;

/// A worker's copy of a command's argument block, and the command's buffer.
struct Staging {
    std::byte block[(ring::block_bytes_max / 64 + 2) * 64];
    std::byte buffer[buffer_bytes_max];
};

/// Device memory that outlives an epoch.
struct ServerMemory {
    Mailbox boxes[server_blocks_max * warps_per_server_block];
    u32 states[server_blocks_max * warps_per_server_block];  // BoxState; block 0 uses shared memory
};

struct ServerArguments {
    core::Store store;
    RingEntry ring;
    u64 next;  // the next ticket
    const ServerControl* control;
    ServerReport* report;
    ServerMemory* memory;
    Staging* staging;  // one for each worker
    u64 epoch;
    u64 epoch_ns;
    u64 idle_ns;
};

/// Starts an epoch of `blocks` (at most server_blocks_max) blocks of warps_per_server_block warps;
/// it ends by itself. Requires: the epoch before has ended. Errc::io if the launch failed.
Errc launch_epoch(const ServerArguments& arguments, u32 blocks, cudaStream_t stream);

}  // namespace warren::cuda_engine
