// SPDX-License-Identifier: Apache-2.0
// What the host and the resident server say to each other, and what the server keeps on the device
// from one epoch to the next.
//
// Invariant: each word is written by one side only. ServerControl is the host's, ServerReport the
// device's; both lie in pinned memory. Nothing in them is ever counted up by the other side.
#pragma once

#include "fs/core/store.hpp"
#include "fs/ring/command_code.hpp"
#include "fs/ring/reply_code.hpp"
#include "fs/ring/ring.hpp"

namespace warren::cuda_engine {

inline constexpr u32 warps_per_block = 8;
inline constexpr u32 server_blocks_max = 32;  // one for each lane of the polling warp

/// A ring as the device sees it; the stamp's groups lie in device memory.
struct RingEntry {
    ring::RingMemory memory;
    ring::Stamp stamp;
    u32 is_open;
};

struct alignas(64) ServerControl {
    u64 end_epoch;  // the server ends if its epoch's number is not above this
    u64 settle;     // a number that the server repeats once when it has nothing to do
};

/// Why an epoch ended.
enum class EpochEnd : u32 { none, time, idle, asked };

struct alignas(64) ServerReport {
    u64 beats;          // grows while the polling warp lives
    u64 oldest_ticket;  // of the command that has been running longest, in ring oldest_ring
    u64 oldest_ns;      // for so long; 0: none is running
    u32 oldest_ring;
    EpochEnd end;
    u64 ended_epoch;  // written last
    u64 settled;      // the settle heard last at a moment without a running command
    u64 polls;
    u64 commands;
    u64 next[ring::rings_max];  // the next ticket of each ring, when the epoch ended
};

/// A worker's letter box.
struct alignas(128) Mailbox {
    ring::CommandCell cell;
    u64 ticket;
    u64 since;  // by the device's clock
    u32 ring;
};

inline constexpr u64 buffer_bytes_max = 64 * kib;

/// Where a worker keeps what it copied and what it will copy back.
struct Staging {
    std::byte block[(ring::block_bytes_max / 64 + 2) * 64];
    std::byte buffer[buffer_bytes_max];
};

/// Device memory that outlives an epoch.
struct ServerMemory {
    u64 next[ring::rings_max];  // ticket to be taken next
    u64 seen[ring::rings_max];  // counter of the doorbell when it was last followed
    u64 polls;
    u64 commands;
    Mailbox boxes[server_blocks_max * warps_per_block];
    u32 states[server_blocks_max * warps_per_block];  // BoxState; block 0 has its own
};

struct ServerArguments {
    core::Store store;
    const RingEntry* rings;
    u32 ring_count;
    const ring::Doorbell* doorbell;
    const ServerControl* control;
    ServerReport* report;
    ServerMemory* memory;
    Staging* staging;  // one a worker
    u64 epoch;
    u64 epoch_ns;
    u64 idle_ns;
};

}  // namespace warren::cuda_engine
