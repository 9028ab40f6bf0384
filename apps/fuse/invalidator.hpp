// SPDX-License-Identifier: Apache-2.0
// Tells the kernel which cached names and attributes are stale after the daemon itself changed the
// volume (by a bulk command), and which nodes to forget. The kernel takes its own locks for that
// and waits for requests, so threads do it that hold no lock of the daemon and serve no request.
//
// A notification waits for the lock of a directory, which any process that can list the directory
// can hold for ever. A thread that is stuck delays only its queue, and a command only for a while.
//
// Invariant: when drop() returns true, no path leads to a stale name; otherwise none does once the
// lock is released, or after cache_seconds. What the kernel caches below a removed directory only
// uses memory (only processes inside see it). It is dropped later, if the name does not exist
// again.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
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
    class Shared;
    struct Pending;

 public:
    /// Whether the directory with this node has an entry of this name.
    using IsThere = std::function<bool(u64 parent, const std::string& name)>;
    /// How long a command waits for the kernel.
    static constexpr std::chrono::seconds patience{5};

    /// The names that one connection or one ring changes, which are dropped in order.
    class Queue {
     public:
        explicit Queue(Invalidator& invalidator);
        Queue(const Queue&) = delete;
        Queue& operator=(const Queue&) = delete;

        /// Returns when the kernel has been told of these names and all before them; false after
        /// `patience`, which is logged, or after end(). `can_expire`: the kernel can revalidate a
        /// name without first dropping everything below it. Needs no memory to succeed.
        bool drop(std::vector<StaleName> stale, bool can_expire);
        /// Waits without limit until the kernel has been told of all names, or for end().
        void finish();

     private:
        const std::shared_ptr<Shared> shared_;
        const std::shared_ptr<Pending> pending_;
    };

    Invalidator(fuse_session* session, IsThere is_there);
    ~Invalidator();  // ends, and waits until no notification is under way
    Invalidator(const Invalidator&) = delete;
    Invalidator& operator=(const Invalidator&) = delete;

    /// Makes the kernel forget a node that is not open, a little later; without memory, never.
    /// Requires: takes_direct_opens().
    void forget(u64 node);
    /// From now on nothing waits for a notification, none begins, and `is_there` is not called.
    void end();
    /// Waits a moment after end(); false if a notification is still under way. Its thread uses the
    /// session, which must not be destroyed then.
    bool has_ended();

 private:
    const std::shared_ptr<Shared> shared_;  // with the queues and the threads
};

}  // namespace warren::fuse
