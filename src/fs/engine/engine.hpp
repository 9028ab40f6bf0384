// SPDX-License-Identifier: Apache-2.0
// What a backend supplies: it runs commands on a volume whose metadata it keeps where it computes,
// in the host's memory or in a GPU's. The volume above serves what commands wish for (blocks from
// the disk, commits) and knows no more of where they ran.
//
// Invariant: between pause() and resume() no command runs, and the host's Store holds all that
// commands have applied; the engine keeps nothing that a commit would miss.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "fs/core/store.hpp"
#include "fs/ops/command.hpp"
#include "warren/volume.hpp"

namespace warren {

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

    /// Brings the counters of the host's StoreState up to date, as statfs(2) asks for them.
    virtual Errc refresh_counters() { return Errc::ok; }

    // Bulk operations. Errc::not_supported: the volume does them with its own threads, by commands.
    /// Frees the directory `root`, which hangs on the orphan directory, and all below it.
    virtual Errc remove_tree(u64 /*root*/, Removal& /*removal*/) { return Errc::not_supported; }
    /// Visits what lies below `root`; see Volume::scan().
    virtual Errc scan(const core::Credentials& /*caller*/, Handle /*root*/,
                      const std::function<bool(const Scanned&)>& /*visit*/) {
        return Errc::not_supported;
    }
    /// Whether `caller` may remove all that lies below `root`.
    virtual Errc check_removable(const core::Credentials& /*caller*/, Handle /*root*/) {
        return Errc::not_supported;
    }
    /// Packs a directory's tree; the counts before and after are the caller's.
    virtual Errc rebuild(const core::Credentials& /*caller*/, Handle /*directory*/) {
        return Errc::not_supported;
    }
};

}  // namespace warren
