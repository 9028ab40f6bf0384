// SPDX-License-Identifier: Apache-2.0
// Tells the kernel which cached names and attributes are no longer true after the daemon changed
// the volume on its own (a bulk command), and which nodes it is to forget. The kernel takes its own
// locks for that and waits for requests, so it is done by one thread that holds no lock of ours and
// serves no request.
//
// Invariant: when drop() returns, no path leads to a stale name. What the kernel caches below a
// removed directory is then only memory (visible only to processes whose working directory is
// inside it). Dropping it is done after the urgent work, in pieces, and not at all if the name has
// come back.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "apps/fuse/library.hpp"
#include "warren/types.hpp"

namespace warren::fuse {

/// One thing that the kernel must stop believing.
struct StaleName {
    u64 parent = 0;    // node of the directory
    u64 child = 0;     // node of the directory that the name led to, if it is gone for good; else 0
    std::string name;  // empty: only the attributes of `parent`
    std::vector<std::string> below;  // some names that were in the directory that is gone
};

class Invalidator {
 public:
    /// Whether there is an entry of this name in the directory of this node.
    using IsThere = std::function<bool(u64 parent, const std::string& name)>;

    Invalidator(fuse_session* session, IsThere is_there);
    ~Invalidator();  // tells what is urgent, then ends
    Invalidator(const Invalidator&) = delete;
    Invalidator& operator=(const Invalidator&) = delete;

    /// Returns when the kernel has been told. `can_expire`: the kernel knows how to look a name up
    /// anew without forgetting what is below it first. Asks for no memory that it needs.
    void drop(std::vector<StaleName> stale, bool can_expire);
    /// Makes the kernel forget a node that is not open, a little later; without memory, never.
    /// Requires: takes_direct_opens().
    void forget(u64 node);

 private:
    struct Batch {
        const std::vector<StaleName>* stale = nullptr;
        bool can_expire = false;
        bool done = false;
        Batch* next = nullptr;
    };

    void run();
    void tell(const StaleName& stale, bool can_expire);
    void tell_all(const std::vector<StaleName>& all, bool can_expire);
    void clean_up(const StaleName& removed);
    void note_removed(const StaleName& stale);
    Batch* take_batch();

    fuse_session* session_;
    IsThere is_there_;
    std::mutex mutex_;
    std::condition_variable changed_;
    Batch* first_ = nullptr;  // of those that wait, each on the stack of its waiting thread
    Batch** end_ = &first_;
    std::deque<StaleName> removed_;  // touched by the thread alone
    std::deque<u64> closed_;         // nodes to forget
    bool ending_ = false;
    std::thread thread_;
};

}  // namespace warren::fuse
