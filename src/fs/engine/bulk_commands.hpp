// SPDX-License-Identifier: Apache-2.0
// What an engine that runs bulk work by itself offers: commands for whole trees, and batches of
// items.
//
// A bulk run is a template of fs/bulk/ that many teams run over metadata blocks. They read blocks
// where the engine keeps them, report those that are missing, and mark the ones they change as
// dirty. Commands and batches are plain values, so the volume does not depend on where a run takes
// place.
#pragma once

#include <functional>

#include "fs/bulk/batch/batch.hpp"
#include "fs/bulk/scan/scan_call.hpp"
#include "fs/ops/command.hpp"
#include "fs/ops/unlink.hpp"

namespace warren {

/// Functions of the volume that an engine calls, at opening and between the runs of bulk commands.
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

/// A function that returns Errc::not_supported has changed nothing; the volume then runs single
/// commands instead.
class BulkCommands {
 public:
    virtual ~BulkCommands() = default;

    /// Visits, measures or checks everything below a directory. Results found before an error may
    /// have been delivered already. Never returns Errc::not_supported.
    virtual Errc scan(const ScanCall& call) = 0;
    /// Frees the directory `root`, an entry of the orphan directory, and everything below it.
    virtual Errc remove_tree(u64 root, Removal& removal) = 0;
    /// Removes the directory that `detach` (a command of Verb::detach_tree) names from its parent
    /// and frees it and everything below it. `removed` receives the work that is left to the
    /// caller.
    virtual Errc remove_named_tree(const ops::Command& detach, Removal& removal,
                                   ops::Removed& removed) = 0;
    /// Packs a directory's tree, which had `blocks` blocks when the caller counted them.
    virtual Errc rebuild(const core::Credentials& caller, Handle directory, u64 blocks) = 0;
};

/// A batch of an engine: its number among those that are open, and the memory that the caller fills
/// in before it is run, which stays valid until it is closed.
struct OpenBatch {
    u32 number;
    ops::BatchMemory memory;
};

/// Batches of items of one kind; see fs/bulk/batch/batch.hpp.
class ItemBatches {
 public:
    virtual ~ItemBatches() = default;

    /// Opens a batch. One at a time, unless call_beside() says otherwise: waits until the previous
    /// one is closed. On an error, run the items as single commands.
    virtual Result<OpenBatch> open_batch(const ops::BatchShape& shape) = 0;
    /// Tells the engine that items [part.begin, part.end), whose names are the words of `part`, are
    /// filled in, so that it may start to copy them. Any thread may call it before run_batch(), for
    /// each item once or for none.
    virtual void send_batch(u32 number, const ops::BatchPart& part) = 0;
    /// Runs items [window.begin, window.end), or the first of them up to window.done. A retry
    /// reason means that nothing has changed; on another error, run the items as single commands.
    virtual Errc run_batch(u32 number, const ops::BatchHeader& header,
                           ops::BatchWindow& window) = 0;
    virtual void close_batch(u32 number) = 0;

    /// Has the next run call `work` once on another thread, while the caller waits. `work` may
    /// close a batch and open one, so that two are open; it throws nothing. False if the engine
    /// does not do this.
    virtual bool call_beside(std::function<void()> /*work*/) { return false; }
};

}  // namespace warren
