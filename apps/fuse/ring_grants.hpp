// SPDX-License-Identifier: Apache-2.0
// Which inodes the owner of a ring may use by handle. A handle can be guessed, whereas resolving a
// path requires permission in every directory on it. So a ring accepts only handles of directories
// whose descriptor its owner has presented, and of inodes found or created through the ring.
//
// Invariant: an attached directory stays granted as long as the ring and the directory exist. Of
// the others at least the `found` most recently used ones are granted, and at most twice as many:
// they are kept in two tables, and when the newer is full the older is dropped.
#pragma once

#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/out_of_memory.hpp"
#include "warren/mount_ring.hpp"

namespace warren::fuse {

class RingGrants {
 public:
    struct Limits {
        std::size_t attached = MountRing::attached_max;
        std::size_t found = MountRing::found_kept;
    };

    RingGrants() : RingGrants(Limits{}) {}
    explicit RingGrants(Limits limits) : limits_(limits) {}

    /// Grants a directory whose descriptor the owner has presented. Errc::too_many_files if the
    /// maximum is attached and `is_there(handle)` holds for all of them. Throws std::bad_alloc.
    template <class IsThere>
    Errc attach(Handle handle, bool may_change, const IsThere& is_there) {
        const std::lock_guard lock(mutex_);
        if (!attached_.contains(handle.inode) && attached_.size() >= limits_.attached) {
            std::erase_if(attached_, [&](const auto& one) {
                return !is_there(Handle{one.first, one.second.generation});
            });
            if (attached_.size() >= limits_.attached) return Errc::too_many_files;
        }
        const Grant* known = find(handle);
        attached_[handle.inode] = {handle.generation,
                                   may_change || (known != nullptr && known->may_change)};
        return Errc::ok;
    }

    /// Grants an inode that was found or created. If memory is short it is not granted.
    void add(Handle handle, bool may_change) {
        static_cast<void>(or_no_memory([&] {
            const std::lock_guard lock(mutex_);
            // Another path to it may give the owner fewer rights, but an existing grant is never
            // reduced.
            if (Grant* known = find(handle); known != nullptr) {
                known->may_change = known->may_change || may_change;
            } else {
                attached_.erase(handle.inode);  // of a removed directory
                keep(handle.inode, {handle.generation, may_change});
            }
        }));
    }

    /// Errc::bad_handle if it is not granted, Errc::read_only if it must not be changed.
    Errc check(Handle handle, bool to_change) {
        const std::lock_guard lock(mutex_);
        const Grant* known = find(handle);
        if (known == nullptr) return Errc::bad_handle;
        return to_change && !known->may_change ? Errc::read_only : Errc::ok;
    }

    /// The number of handles in memory.
    std::size_t size() const {
        const std::lock_guard lock(mutex_);
        return attached_.size() + newer_.size() + older_.size();
    }

 private:
    struct Grant {
        u32 generation = 0;
        bool may_change = false;
    };
    using Grants = std::unordered_map<u64, Grant>;  // by inode

    static Grant* find_in(Grants& grants, Handle handle) {
        const auto found = grants.find(handle.inode);
        const bool is_it = found != grants.end() && found->second.generation == handle.generation;
        return is_it ? &found->second : nullptr;
    }

    /// The grant of `handle`, or null; marks it as used.
    Grant* find(Handle handle) {
        if (Grant* known = find_in(attached_, handle); known != nullptr) return known;
        if (Grant* known = find_in(newer_, handle); known != nullptr) return known;
        Grant* known = find_in(older_, handle);
        if (known == nullptr) return nullptr;
        // If memory is short it stays in the older table.
        static_cast<void>(or_no_memory([&] { known = &keep(handle.inode, *known); }));
        return known;
    }

    Grant& keep(u64 inode, Grant grant) {
        if (newer_.size() >= limits_.found && !newer_.contains(inode)) {
            older_ = std::exchange(newer_, {});
        }
        return newer_[inode] = grant;
    }

    const Limits limits_;
    mutable std::mutex mutex_;
    Grants attached_;
    Grants newer_;  // found, created or used since the tables were exchanged
    Grants older_;
};

}  // namespace warren::fuse
