// SPDX-License-Identifier: Apache-2.0
// Commands in the form that the first device tests speak: fewer verbs, all in one step, one caller.
// Each is run through ops::Command.
//
// Invariant: a command whose verdict is a wish of the engine has changed nothing, or has come
// closer to its end; the host serves the wish and gives the command again.
#pragma once

#include "fs/core/store.hpp"
#include "fs/format/directory.hpp"
#include "warren/volume.hpp"

namespace warren::cuda_engine {

enum class Verb : u32 {
    lookup,
    create,
    unlink,
    remove_directory,
    rename,
    link,
    set_attributes,  // of `directory`, whatever it is; `change` does not name the size
    read_leaf,  // of `directory` at `key` into `leaf`; the verdict's key: where the next begins
    truncate,   // of `directory`, a file, to `change.new_size`; its blocks are cut, not zeroed
    reclaim,    // of `directory`, an orphan that is no directory
    add_inode_frame,  // if none has room; one at a time
};

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
    u64 key = 0;
    format::DirectoryLeaf* leaf = nullptr;
    AttributeChange change;
    i64 now = 0;
};

/// What became of a command: its answer, or what the host must serve before the command is given
/// again.
struct Verdict {
    Errc code;
    u64 place;
    u64 inode;
    u64 key;
    Handle orphan;  // with Errc::ok: left without names, Verb::reclaim ends it; inode 0 for none
};

/// Runs `count` commands, one warp each, with `blocks` * `warps_per_block` warps, and waits.
/// Errc::io if the device failed.
Errc run_commands(const core::Store& store, const Command* commands, u32 count, Verdict* verdicts,
                  Attributes* results, u32 blocks, u32 warps_per_block);

}  // namespace warren::cuda_engine
