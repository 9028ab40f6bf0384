// SPDX-License-Identifier: Apache-2.0
// Tells the kernel which cached names and attributes are stale after the daemon itself changed the
// volume (by a bulk command), and which nodes to forget. The kernel takes its own locks for that
// and waits for requests, so one thread does it that holds no lock of the daemon and serves no
// request.
//
// Invariant: when drop() returns, no path leads to a stale name. What the kernel still caches below
// a removed directory only uses memory (it is visible only to processes whose working directory is
// inside). It is dropped after the urgent work, in small portions, and not at all if the name
// exists again.
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

/// A cached name or attribute that the kernel must drop.
struct StaleName {
    u64 parent = 0;                  // node of the directory
    u64 child = 0;                   // node of the removed directory that it named; else 0
    std::string name;                // empty: only the attributes of `parent`
    std::vector<std::string> below;  // some names that were in that directory
};

class Invalidator {
 public:
    /// Whether the directory with this node has an entry of this name.
    using IsThere = std::function<bool(u64 parent, const std::string& name)>;

    Invalidator(fuse_session* session, IsThere is_there);
    ~Invalidator();  // drops what is urgent, then ends
    Invalidator(const Invalidator&) = delete;
    Invalidator& operator=(const Invalidator&) = delete;

    /// Returns when the kernel has been told. `can_expire`: the kernel can revalidate a name
    /// without first dropping everything below it. Needs no memory to succeed.
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
    void drop_listing(u64 directory);
    void tell_all(const std::vector<StaleName>& all, bool can_expire);
    void clean_up(const StaleName& removed);
    void note_removed(const StaleName& stale);
    Batch* take_batch();

    fuse_session* session_;
    IsThere is_there_;
    std::mutex mutex_;
    std::condition_variable changed_;
    Batch* first_ = nullptr;  // of those that wait, each on its thread's stack
    Batch** end_ = &first_;
    std::deque<StaleName> removed_;  // used by this object's thread only
    std::deque<u64> closed_;         // nodes to forget
    bool ending_ = false;
    std::thread thread_;
};

}  // namespace warren::fuse
