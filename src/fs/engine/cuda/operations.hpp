// SPDX-License-Identifier: Apache-2.0
// Batches of commands for warps on a Store in device memory. All pointers are device pointers.
#pragma once

#include "fs/core/store.hpp"
#include "warren/volume.hpp"

namespace warren::cuda_engine {

enum class Verb : u32 { lookup, create, unlink, remove_directory, rename, link, add_inode_frame };

struct Command {
    Verb verb = Verb::lookup;
    u32 user = 0;
    u32 group = 0;
    u32 mode = 0;
    Handle directory;
    Handle target;  // rename: the other directory; link: the inode
    const char* name = nullptr;
    const char* new_name = nullptr;
    u32 length = 0;
    u32 new_length = 0;
    i64 now = 0;
};

/// What became of a command: its answer, or (Errc from 4096 on) what the host must serve before the
/// command is given again.
struct Verdict {
    Errc code;
    u64 place;
    u64 inode;
    u64 key;
};

/// Runs `count` commands, one warp each, with `blocks` * `warps_per_block` warps, and waits. Errc::io
/// if the device failed.
Errc run_commands(const core::Store& store, const Command* commands, u32 count, Verdict* verdicts,
                  Attributes* results, u32 blocks, u32 warps_per_block);

}  // namespace warren::cuda_engine
