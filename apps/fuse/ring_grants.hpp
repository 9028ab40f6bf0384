// SPDX-License-Identifier: Apache-2.0
// Which inodes the owner of a ring may name by handle. A handle can be guessed, and a path cannot
// be walked without permission in every directory on it: so a ring takes only handles of
// directories that its owner showed a descriptor of, and of what was found or made by the ring.
//
// Invariant: at most `handles_max` handles; what is found beyond that is told and not granted.
#pragma once

#include <mutex>
#include <unordered_map>

#include "base/out_of_memory.hpp"
#include "warren/volume.hpp"

namespace warren::fuse {

class RingGrants {
 public:
    static constexpr std::size_t handles_max = std::size_t{1} << 20;

    /// A handle for which there is no room or no memory is not granted.
    void add(Handle handle, bool may_change) {
        static_cast<void>(or_no_memory([&] {
            const std::lock_guard lock(mutex_);
            if (handles_.size() >= handles_max && !handles_.contains(handle.inode)) {
                return Errc::no_memory;
            }
            Grant& grant = handles_[handle.inode];
            // By another way to it the owner may have less; that of the same file never shrinks.
            grant.may_change =
                may_change || (grant.may_change && grant.generation == handle.generation);
            grant.generation = handle.generation;
            return Errc::ok;
        }));
    }

    /// Errc::bad_handle if it is not granted, Errc::read_only if not to be changed.
    Errc check(Handle handle, bool to_change) const {
        const std::lock_guard lock(mutex_);
        const auto found = handles_.find(handle.inode);
        if (found == handles_.end() || found->second.generation != handle.generation) {
            return Errc::bad_handle;
        }
        return to_change && !found->second.may_change ? Errc::read_only : Errc::ok;
    }

 private:
    struct Grant {
        u32 generation = 0;
        bool may_change = false;
    };

    mutable std::mutex mutex_;
    std::unordered_map<u64, Grant> handles_;
};

}  // namespace warren::fuse
