// SPDX-License-Identifier: Apache-2.0
// A background thread that frees inodes which had no name when the volume was opened: they were
// still open, or not yet freed, when it was last in use. Orphans that are added later are freed by
// their last close.
//
// Invariant: no wait for this thread is unbounded. It stops between two steps, and leaves the rest
// in the orphan directory until the next opening.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "warren/result.hpp"
#include "warren/types.hpp"
#include "warren/volume.hpp"

namespace warren {

class VolumeImplementation;

class OrphanReclaimer {
 public:
    /// The maximum number of names read at one opening; the rest is left to the next one.
    static constexpr u64 orphans_max = u64{1} << 20;

    /// `name` is the name of the volume, for messages.
    OrphanReclaimer(VolumeImplementation& volume, std::string name)
        : volume_(volume), name_(std::move(name)) {}

    /// Lists the orphan directory and starts the thread. Requires: nothing else uses the volume
    /// yet.
    void start();
    /// Stops the thread after its current step.
    void stop();
    /// Waits until all orphans that can be freed have been freed.
    void finish();
    /// How many orphans were freed, and whether the thread still runs (false on the thread itself).
    u64 freed();
    bool is_running();
    /// Waits for 0.1 s, then for up to 1 s until the number of freed orphans differs from `freed`,
    /// and updates `freed`. False if it has not changed. Does not wait if the thread has ended.
    bool wait_for_space(u64& freed);

    bool is_own_thread() const { return std::this_thread::get_id() == thread_.get_id(); }
    bool is_stopping() const { return thread_.get_stop_token().stop_requested(); }

 private:
    struct Orphan {
        u64 inode;
        bool is_directory;
    };
    Errc list();
    void run();
    Errc free_all();
    void begin_dying();
    Result<Handle> find(const Orphan& orphan);
    Errc reclaim(const Orphan& orphan);
    Errc note(const Orphan& orphan, Errc code);
    void tell(const std::string& what);

    VolumeImplementation& volume_;
    const std::string name_;
    Handle directory_;
    std::vector<Orphan> orphans_;
    u64 damaged_ = 0;
    std::mutex mutex_;  // guards the members below
    std::condition_variable changed_;
    u64 freed_ = 0;
    bool is_over_ = true;
    std::jthread thread_;
};

}  // namespace warren
