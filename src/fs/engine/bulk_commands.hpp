// SPDX-License-Identifier: Apache-2.0
// What an engine that runs bulk work by itself offers: commands for whole trees, and batches of
// items.
//
// A bulk run is a template of fs/bulk/ that many teams run over metadata blocks: they read blocks
// where the engine has them, name those that they lack, and mark dirty what they change. Commands
// and batches go in as plain values, so the volume does not see where a run takes place.
#pragma once

#include <functional>

#include "fs/bulk/batch/batch.hpp"
#include "fs/bulk/scan/scan_call.hpp"
#include "fs/ops/command.hpp"
#include "fs/ops/unlink.hpp"

namespace warren {

/// What bulk commands ask of the volume: before the first of them, and between two runs.
struct VolumeCalls {
    std::function<void()> load_metadata;        // loads all metadata into the host's Store
    std::function<Errc(u64 place)> load_block;  // loads a block into the host's Store
    std::function<Errc()> commit;
    /// Unlinks the names of a directory being deleted that a bulk step cannot free. Adds their
    /// number to `files`.
    std::function<Errc(u64 directory, u64& files)> remove_leftovers;
    /// Frees a directory in the orphan directory and everything below it by commands.
    std::function<Errc(u64 directory, Removal& removal)> remove_by_names;
};

/// Errc::not_supported, and nothing has changed: the volume does it in another way.
class BulkCommands {
 public:
    virtual ~BulkCommands() = default;

    /// Visits, measures or checks what lies below a directory. With an error, what was found
    /// before it may have been delivered. Never Errc::not_supported.
    virtual Errc scan(const ScanCall& call) = 0;
    /// Frees the directory `root`, which hangs on the orphan directory, and all below it.
    virtual Errc remove_tree(u64 root, Removal& removal) = 0;
    /// Takes the directory that `detach` (a command of Verb::detach_tree) names out of its parent
    /// and frees it and all below it; `removed` is what is left to do behind it.
    virtual Errc remove_named_tree(const ops::Command& detach, Removal& removal,
                                   ops::Removed& removed) = 0;
    /// Packs a directory's tree, which had `blocks` blocks a moment ago; the counts before and
    /// after are the caller's.
    virtual Errc rebuild(const core::Credentials& caller, Handle directory, u64 blocks) = 0;
};

/// Batches of items of one kind, in a form of their own; see fs/bulk/batch/batch.hpp. One at a
/// time: open_batch() waits for the one before.
class ItemBatches {
 public:
    virtual ~ItemBatches() = default;

    /// The memory of a batch, to be filled in before run_batch(); it stays until close_batch(). An
    /// error: the items must be commands.
    virtual Result<ops::BatchMemory> open_batch(const ops::BatchShape& shape) = 0;
    /// Items [part.begin, part.end), whose names are the words of `part`, are filled in: the engine
    /// may bring them to where it works. By any thread, all items once or none, before run_batch().
    virtual void send_batch(const ops::BatchPart& part) = 0;
    /// Runs items [window.begin, window.end) or the first of them, up to window.done. Else the
    /// answer is a retry reason, and nothing has changed; or another code: the items must be
    /// commands.
    virtual Errc run_batch(const ops::BatchHeader& header, ops::BatchWindow& window) = 0;
    virtual void close_batch() = 0;
};

}  // namespace warren
