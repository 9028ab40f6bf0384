// SPDX-License-Identifier: Apache-2.0
// Which files were changed since the last commit, for a volume whose engine may be lost with all
// uncommitted changes. After a loss each descriptor that may have written to such a file gets EIO
// once, from fsync(2) or, failing that, from close(2). With the kernel's writeback cache it is
// unknown through which descriptor a byte was written, so all descriptors open for writing get the
// error.
//
// Invariant: a change is recorded before its request is answered. A commit clears only what was
// recorded before it began, so a lost change never counts as saved. A change that was included in a
// commit running at that moment, or in a commit that the volume made by itself, may be reported as
// lost although it is safe.
#pragma once

#include <atomic>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "apps/fuse/loss_notices.hpp"
#include "apps/fuse/spare.hpp"
#include "warren/volume.hpp"

namespace warren::fuse {

class UnsavedWrites {
 public:
    /// If the engine cannot be lost, nothing is recorded, at no cost.
    explicit UnsavedWrites(bool engine_may_be_lost) : is_noting_(engine_may_be_lost) {}

    /// Allocates the memory that this thread's next note() needs. Throws std::bad_alloc.
    static void prepare() { Spare<Rounds>::take(); }
    /// Records a change of the contents of `node`. Requires: prepare() before each call.
    void note(u64 node);
    /// Returns the result of `commit()`, which makes durable everything recorded before the call.
    template <class Commit>
    Errc commit(const Commit& commit) {
        const u64 round = begin_commit();
        const Errc code = commit();
        if (code == Errc::ok) end_commit(round);
        return code;
    }
    /// Whether `node` has changed since the last commit.
    bool is_unsaved(u64 node) const;

    /// The engine and all recorded changes are lost; no other engine will be. `last` is the count
    /// of the last open. Returns the nodes.
    std::vector<u64> lose(u32 last);
    /// Which descriptors still have to get an error about a loss in their file.
    LossNotices& losses() { return losses_; }
    /// The kernel itself reports the loss to all descriptors of the file.
    void forget(u64 node);
    /// Whether there is, or may ever be, a loss to report.
    bool may_have_losses() const {
        return is_noting_.load(std::memory_order_relaxed) || !losses_.is_empty();
    }

 private:
    using Rounds = std::unordered_map<u64, u64>;

    u64 begin_commit();
    void end_commit(u64 round);

    std::atomic<bool> is_noting_;
    LossNotices losses_;
    mutable std::mutex mutex_;  // guards the members below
    u64 round_ = 1;
    Rounds changed_;  // by node: the round of its last change
};

}  // namespace warren::fuse
