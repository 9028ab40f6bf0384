// SPDX-License-Identifier: Apache-2.0
// How many names a scan will list: all inodes from the volume's root, else as many as the last scan
// of the same directory; else, about, the share of all inodes that scans of such directories have
// listed before.
#pragma once

#include <algorithm>
#include <array>
#include <mutex>

#include "warren/volume.hpp"

namespace warren {

class ScanSizes {
 public:
    struct Estimate {
        u64 items;
        bool is_known;
    };

    explicit ScanSizes(u64 root_inode) : root_inode_(root_inode) {}

    /// Of a scan from `root` down to `depth_max` of a volume with so many `inodes`.
    Estimate estimate(Handle root, u32 depth_max, u64 inodes) const {
        if (is_whole(root, depth_max)) return {inodes, true};
        const std::lock_guard lock(mutex_);
        const Seen& seen = seen_[slot_of(root, depth_max)];
        if (seen.root == root && seen.depth_max == depth_max) return {seen.items, true};
        return {static_cast<u64>(share_ * static_cast<double>(inodes)), false};
    }
    /// Such a scan has listed `items` names.
    void note(Handle root, u32 depth_max, u64 inodes, u64 items) {
        if (is_whole(root, depth_max)) return;
        const std::lock_guard lock(mutex_);
        Seen& seen = seen_[slot_of(root, depth_max)];
        if (seen.root != root || seen.depth_max != depth_max) {
            const double share =
                static_cast<double>(items) / static_cast<double>(std::max<u64>(inodes, 1));
            share_ += (share - share_) * (has_share_ ? gain : 1);
            has_share_ = true;
        }
        seen = {root, depth_max, items};
    }

 private:
    struct Seen {
        Handle root;
        u32 depth_max = 0;
        u64 items = 0;
    };
    static constexpr std::size_t slots = 256;
    static constexpr double gain = 0.3;

    bool is_whole(Handle root, u32 depth_max) const {
        return root.inode == root_inode_ && depth_max == ~u32{0};
    }
    static std::size_t slot_of(Handle root, u32 depth_max) {
        return (root.inode + depth_max) % slots;
    }

    const u64 root_inode_;
    mutable std::mutex mutex_;
    std::array<Seen, slots> seen_;
    double share_ = 0.5;  // the side that is wrong by the least if all sizes are as likely
    bool has_share_ = false;
};

}  // namespace warren
