// SPDX-License-Identifier: Apache-2.0
// Frees inodes that were removed but still open, or not yet freed, when the volume was last in use,
// by a background thread. It frees only what was in the orphan directory at the opening: later
// orphans are freed by their last close.
//
// Invariant: no wait for this thread is unbounded. It stops between two steps, and the rest stays
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
    /// An opening reads at most so many names; the rest waits for the next one.
    static constexpr u64 orphans_max = u64{1} << 20;

    /// `name` is the volume's, for messages.
    OrphanReclaimer(VolumeImplementation& volume, std::string name)
        : volume_(volume), name_(std::move(name)) {}

    /// Lists the orphan directory and begins to free its entries. Requires: no other user of the
    /// volume yet.
    void start();
    /// Ends the thread after its current step.
    void stop();
    /// Waits until all orphans that can be freed are.
    void finish();
    /// How many have been freed, and whether there are more to free.
    u64 freed();
    bool is_running();
    /// Waits until more than `freed` have been freed, at most a second, and updates `freed`. False
    /// if none were and no more will be.
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
    Errc reclaim(const Orphan& orphan);
    Result<bool> has_name(u64 inode);
    Errc note(const Orphan& orphan, Errc code);
    void tell(const std::string& what);

    VolumeImplementation& volume_;
    const std::string name_;
    Handle directory_;
    std::vector<Orphan> orphans_;
    u64 damaged_ = 0;
    std::mutex mutex_;  // guards what follows
    std::condition_variable changed_;
    u64 freed_ = 0;
    bool is_over_ = true;
    std::jthread thread_;
};

}  // namespace warren
