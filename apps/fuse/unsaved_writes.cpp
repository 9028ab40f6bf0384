// SPDX-License-Identifier: Apache-2.0
// A number of an open file is its generation, then whether it writes, then a count of opens, which
// tells the descriptors from before a loss from those behind it.
#include "apps/fuse/unsaved_writes.hpp"

namespace warren::fuse {

namespace {

constexpr u64 writes_bit = u64{1} << 32;
constexpr u32 count_shift = 33;
constexpr u32 count_mask = 0x7fffffff;

}  // namespace

u64 UnsavedWrites::number_open(u32 generation, bool writes) {
    const u64 count = (opens_.fetch_add(1, std::memory_order_relaxed) + 1) & count_mask;
    return generation | (writes ? writes_bit : 0) | count << count_shift;
}

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

std::vector<u64> UnsavedWrites::lose() {
    const std::lock_guard lock(mutex_);
    const u32 last_open = opens_.load(std::memory_order_relaxed) & count_mask;
    std::vector<u64> nodes;
    for (const auto& change : changed_) {
        lost_[change.first] = last_open;
        nodes.push_back(change.first);
    }
    changed_.clear();
    is_noting_.store(false, std::memory_order_relaxed);
    return nodes;
}

bool UnsavedWrites::must_tell(u64 node, u64 number) const {
    const std::lock_guard lock(mutex_);
    const auto lost = lost_.find(node);
    if (lost == lost_.end() || (number & writes_bit) == 0) return false;
    const bool was_open = number >> count_shift <= lost->second;
    return was_open && !told_.contains(number);
}

void UnsavedWrites::note_told(u64 number) {
    const std::lock_guard lock(mutex_);
    has_told_.store(true, std::memory_order_relaxed);
    told_.insert(number);
}

void UnsavedWrites::forget(u64 node) {
    const std::lock_guard lock(mutex_);
    changed_.erase(node);
    lost_.erase(node);
}

void UnsavedWrites::close(u64 number) {
    if (!has_told_.load(std::memory_order_relaxed)) return;
    const std::lock_guard lock(mutex_);
    told_.erase(number);
}

bool UnsavedWrites::may_have_losses() const {
    const std::lock_guard lock(mutex_);
    return is_noting_.load(std::memory_order_relaxed) || !lost_.empty();
}

}  // namespace warren::fuse
