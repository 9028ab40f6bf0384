// SPDX-License-Identifier: Apache-2.0
// What a backend supplies: it runs commands on a volume whose metadata it keeps where it computes,
// in the host's memory or in a GPU's. The volume above serves what commands wish for (blocks from
// the disk, commits) and knows no more of where they ran.
//
// Invariant: between pause() and resume() no command runs, and the host's Store holds all that
// commands have applied; the engine keeps nothing that a commit would miss.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "fs/core/store.hpp"
#include "fs/engine/file_memory.hpp"
#include "fs/ops/batch.hpp"
#include "fs/ops/command.hpp"
#include "fs/ops/scan_filter.hpp"
#include "warren/volume.hpp"

namespace warren {

/// A scan as the volume gives it to an engine.
struct ScanCall {
    core::Credentials caller;
    const Attributes& root;
    const ops::FileFilter& filter;
    const std::function<bool(const Scanned&)>& visit;
    /// Calls `body(i)` for each i below `count`, by many threads.
    std::function<void(u64 count, const std::function<void(u64)>& body)> for_each;
};

class Engine {
 public:
    virtual ~Engine() = default;

    /// "cpu" or "cuda".
    virtual std::string_view name() const = 0;

    /// Tries a command. The reply's code is final, or a wish that the host must serve before it
    /// tries again. Errc::retry asks for nothing but patience; need_split and need_prune are asked
    /// by an engine that leaves changes of a tree's structure to a command of their own
    /// (Verb::change_structure); what it can do by itself it has done.
    virtual void attempt(const ops::Command& command, ops::Reply& reply) = 0;
    /// As attempt() for each command. They may run in any order and at once: whoever needs an
    /// order sends one batch after the other.
    virtual void attempt_many(std::span<const ops::Command> commands,
                              std::span<ops::Reply> replies) = 0;

    /// Lets running commands end, keeps others from starting, and brings the host's Store up to
    /// date. Errc::io if the device is lost.
    virtual Errc pause() = 0;
    /// Shows commands what has changed in the host's Store meanwhile, and lets them go on.
    virtual Errc resume() = 0;
    /// Shows commands a block that the loader has brought into the host's Store.
    virtual Errc show_block(u64 place) = 0;
    /// Gives memory to metadata frames (Errc::need_frame), so that more of them can be claimed.
    virtual Errc add_frames() = 0;

    /// Memory of zeros for `bytes` of a file's contents, where programs of the engine reach it.
    virtual Errc make_file_memory(u64 bytes, std::unique_ptr<FileMemory>& memory) = 0;

    /// Brings the counters of the host's StoreState up to date, as statfs(2) asks for them.
    virtual Errc refresh_counters() { return Errc::ok; }

    // Batches of items of one kind, in a form of their own; see fs/ops/batch.hpp. One at a time:
    // open_batch() waits for the one before. Errc::not_supported: the volume gives commands.
    /// The memory of a batch, to be filled in before run_batch(); it stays until close_batch().
    virtual Result<ops::BatchMemory> open_batch(const ops::BatchShape& /*shape*/) {
        return Errc::not_supported;
    }
    /// Runs items [window.begin, window.end) or the first of them, up to window.done. Else the
    /// answer is a wish, and nothing has changed; or another code: the items must be commands.
    virtual Errc run_batch(const ops::BatchHeader& /*header*/, ops::BatchWindow& /*window*/) {
        return Errc::not_supported;
    }
    virtual void close_batch() {}

    // Bulk operations. Errc::not_supported: the volume does them with its own threads, by commands.
    /// Frees the directory `root`, which hangs on the orphan directory, and all below it.
    virtual Errc remove_tree(u64 /*root*/, Removal& /*removal*/) { return Errc::not_supported; }
    /// Takes the directory that `detach` (a command of Verb::detach_tree) names out of its parent
    /// and frees it and all below it; `removed` is what is left to do behind it.
    virtual Errc remove_named_tree(const ops::Command& /*detach*/, Removal& /*removal*/,
                                   ops::Removed& /*removed*/) {
        return Errc::not_supported;
    }
    /// Visits what lies below the directory `scan.root`; see Volume::scan().
    virtual Errc scan(const ScanCall& /*scan*/) { return Errc::not_supported; }
    /// Adds up what the directory `root` and those below it hold by themselves; see
    /// Volume::usage(). `answer` has the root's own share.
    virtual Errc usage(const core::Credentials& /*caller*/, const Attributes& /*root*/,
                       const UsageOptions& /*options*/, std::vector<DirectoryUsage>& /*answer*/) {
        return Errc::not_supported;
    }
    /// Whether `caller` may remove all that lies below `root`.
    virtual Errc check_removable(const core::Credentials& /*caller*/, Handle /*root*/) {
        return Errc::not_supported;
    }
    /// Packs a directory's tree, which had `blocks` blocks a moment ago; the counts before and
    /// after are the caller's.
    virtual Errc rebuild(const core::Credentials& /*caller*/, Handle /*directory*/,
                         u64 /*blocks*/) {
        return Errc::not_supported;
    }
};

}  // namespace warren
