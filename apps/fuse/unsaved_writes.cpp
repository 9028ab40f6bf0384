// SPDX-License-Identifier: Apache-2.0
// A commit ends a round: it makes durable what was recorded in that round and in earlier ones.
#include "apps/fuse/unsaved_writes.hpp"

namespace warren::fuse {

void UnsavedWrites::note(u64 node) {
    if (!is_noting_.load(std::memory_order_relaxed)) return;
    const std::lock_guard lock(mutex_);
    Spare<Rounds>::insert(changed_, node) = round_;
}

u64 UnsavedWrites::begin_commit() {
    const std::lock_guard lock(mutex_);
    return round_++;
}

void UnsavedWrites::end_commit(u64 round) {
    const std::lock_guard lock(mutex_);
    std::erase_if(changed_, [&](const auto& change) { return change.second <= round; });
}

bool UnsavedWrites::is_unsaved(u64 node) const {
    if (!is_noting_.load(std::memory_order_relaxed)) return false;
    const std::lock_guard lock(mutex_);
    return changed_.contains(node);
}

std::vector<u64> UnsavedWrites::lose(u32 last) {
    const std::lock_guard lock(mutex_);
    std::vector<u64> nodes;
    for (const auto& change : changed_) {
        losses_.add(change.first, last);
        nodes.push_back(change.first);
    }
    changed_.clear();
    is_noting_.store(false, std::memory_order_relaxed);
    return nodes;
}

void UnsavedWrites::forget(u64 node) {
    {
        const std::lock_guard lock(mutex_);
        changed_.erase(node);
    }
    losses_.forget(node);
}

}  // namespace warren::fuse
