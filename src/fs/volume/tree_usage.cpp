// SPDX-License-Identifier: Apache-2.0
// Each directory has a sum of its own, so that threads do not meet; at the end those below the
// wanted depth are added to the one above.
//
// Invariant: a directory is in the list before any of its entries is visited.
#include "fs/volume/tree_usage.hpp"

#include <atomic>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "fs/volume/tree_scanner.hpp"

namespace warren {
namespace {

/// What one directory holds by itself. All of its entries are met by one thread.
struct Sum {
    Sum* above = nullptr;
    bool is_told = false;  // else it is added to the one above
    DirectoryUsage usage;
    u32 index = 0;  // in the answer
};

/// The directory that a thread was in last: all of its entries are met in a row.
struct Recent {
    u64 run = 0;
    u64 inode = 0;
    Sum* sum = nullptr;
};
thread_local Recent recent;
std::atomic<u64> runs{0};

class Adding {
 public:
    Adding(const UsageOptions& options, Handle root) : options_(options) {
        Sum& sum = sums_.emplace_back();
        sum.is_told = true;
        by_directory_[root.inode] = &sum;
    }

    bool visit(const Scanned& found) {
        const Attributes& attributes = found.attributes;
        const bool is_directory = (attributes.mode & format::type_mask) == format::type_directory;
        Sum* sum = sum_of(found.directory.inode);
        // Moved here from elsewhere while the scan runs.
        if (sum == nullptr) return false;
        if (is_directory) return add_directory(found, *sum);
        ++sum->usage.entries;
        if (attributes.links > 1 && !options_.counts_links) {
            const std::lock_guard lock(mutex_);
            if (!linked_.insert(attributes.handle.inode).second) return true;
        }
        sum->usage.blocks += attributes.blocks;
        sum->usage.bytes += ops::counted_bytes(attributes.mode, attributes.size);
        return true;
    }

    void finish(std::vector<DirectoryUsage>& answer) {
        for (auto sum = sums_.rbegin(); sum + 1 != sums_.rend(); ++sum) {
            if (!sum->is_told) add(sum->usage, sum->above->usage);
        }
        add(sums_.front().usage, answer.front());
        for (auto sum = sums_.begin() + 1; sum != sums_.end(); ++sum) {
            if (!sum->is_told) continue;
            sum->index = static_cast<u32>(answer.size());
            sum->usage.above = sum->above->index;
            answer.push_back(std::move(sum->usage));
        }
    }

 private:
    static void add(const DirectoryUsage& from, DirectoryUsage& to) {
        to.entries += from.entries;
        to.blocks += from.blocks;
        to.bytes += from.bytes;
    }

    Sum* sum_of(u64 directory) {
        if (recent.run == run_ && recent.inode == directory) return recent.sum;
        const std::lock_guard lock(mutex_);
        const auto entry = by_directory_.find(directory);
        if (entry == by_directory_.end()) return nullptr;
        recent = {run_, directory, entry->second};
        return entry->second;
    }

    /// Notes a directory, unless it has been met elsewhere before.
    bool add_directory(const Scanned& found, Sum& above) {
        const Attributes& attributes = found.attributes;
        const std::lock_guard lock(mutex_);
        const auto [entry, is_new] = by_directory_.try_emplace(attributes.handle.inode, nullptr);
        if (!is_new) return false;
        Sum& sum = sums_.emplace_back();
        entry->second = &sum;
        sum.above = &above;
        sum.usage.directory = attributes.handle;
        sum.usage.depth = found.depth;
        sum.usage.entries = 1;
        sum.usage.blocks = attributes.blocks;
        sum.usage.bytes = attributes.size;
        sum.is_told = found.depth <= options_.depth_max;
        if (sum.is_told) sum.usage.name = found.name;
        return true;
    }

    const UsageOptions& options_;
    const u64 run_ = runs.fetch_add(1, std::memory_order_relaxed) + 1;
    std::mutex mutex_;      // all below; a sum itself belongs to the thread in its directory
    std::deque<Sum> sums_;  // a directory lies behind the one above it
    std::unordered_map<u64, Sum*> by_directory_;
    std::unordered_set<u64> linked_;
};

}  // namespace

Errc TreeUsage::measure(const core::Credentials& caller, const Attributes& root,
                        const UsageOptions& options, std::vector<DirectoryUsage>& answer) {
    Adding adding(options, root.handle);
    const ops::FileFilter everything;
    const std::function<bool(const Scanned&)> visit = [&](const Scanned& found) {
        return adding.visit(found);
    };
    const Errc scanned = TreeScanner(volume_).scan({caller, root, everything, visit, {}});
    adding.finish(answer);
    return scanned;
}

}  // namespace warren
