// SPDX-License-Identifier: Apache-2.0
// Frees what was removed but still open, or not yet freed, when the volume was last in use, by a
// thread of its own while the volume is used. Only what hung on the orphan directory at the opening
// is freed here: what comes there later is freed by its last close.
//
// Invariant: nothing waits for this thread without bound. It stops between two steps, and what is
// left hangs on the orphan directory until the next opening.
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
    /// An opening reads so many names at most; the rest waits for the next one.
    static constexpr u64 orphans_max = u64{1} << 20;

    /// `name` is the volume's, for messages.
    OrphanReclaimer(VolumeImplementation& volume, std::string name)
        : volume_(volume), name_(std::move(name)) {}

    /// Lists what hangs on the orphan directory and begins to free it. Requires: nobody else uses
    /// the volume yet.
    void start();
    /// Ends the thread after the step that it is at.
    void stop();
    /// Waits until all is freed that can be.
    void finish();
    /// How many have been freed, and whether there are more to free.
    u64 freed();
    bool is_running();
    /// Waits until more have been freed than `freed`, which is brought up to date, a second at
    /// most. False if none were and none can be hoped for.
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
