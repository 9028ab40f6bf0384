// SPDX-License-Identifier: Apache-2.0
// Which files were changed since the last commit, for a volume whose engine may be lost with all
// that it had not committed: then each descriptor that may have written there is told once, by EIO
// from fsync(2) or, failing that, close(2). With the kernel's writeback cache nobody can say which
// descriptor a byte came from, so all that are open for writing are told.
//
// Invariant: a change is noted before its request is answered. A commit clears only what was noted
// before it began, so a lost change is never taken for a saved one; one that went into a commit at
// that very moment, or into one that the volume made by itself, may be told of although it is safe.
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
    /// `engine_may_be_lost`: else nothing is noted, and nothing costs anything.
    explicit UnsavedWrites(bool engine_may_be_lost) : is_noting_(engine_may_be_lost) {}

    /// Takes the memory that this thread's next note() needs. Throws std::bad_alloc.
    static void prepare() { Spare<Rounds>::take(); }
    /// Notes that the contents of `node` have changed. Requires: prepare() before each call.
    void note(u64 node);
    /// What `commit()` answers, which makes durable all that was noted before.
    template <class Commit>
    Errc commit(const Commit& commit) {
        const u64 round = begin_commit();
        const Errc code = commit();
        if (code == Errc::ok) end_commit(round);
        return code;
    }
    /// Whether `node` has changed and no commit has followed.
    bool is_unsaved(u64 node) const;

    /// The engine is gone, and with it all that was noted; no other will be lost. `last`: the count
    /// of the last open. The nodes.
    std::vector<u64> lose(u32 last);
    /// Which descriptors have not been told yet of a loss in their file.
    LossNotices& losses() { return losses_; }
    /// The kernel tells all descriptors of the file.
    void forget(u64 node);
    /// Whether there is, or may ever be, something to tell.
    bool may_have_losses() const {
        return is_noting_.load(std::memory_order_relaxed) || !losses_.is_empty();
    }

 private:
    using Rounds = std::unordered_map<u64, u64>;

    u64 begin_commit();
    void end_commit(u64 round);

    std::atomic<bool> is_noting_;
    LossNotices losses_;
    mutable std::mutex mutex_;  // guards what follows
    u64 round_ = 1;
    Rounds changed_;  // node: the round in which it last changed
};

}  // namespace warren::fuse
