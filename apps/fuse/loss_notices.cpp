// SPDX-License-Identifier: Apache-2.0
// Losses are rare, so one lock covers them all; without losses, a call only reads one word.
#include "apps/fuse/loss_notices.hpp"

namespace warren::fuse {

void LossNotices::add(u64 node, u32 last) {
    const std::lock_guard lock(mutex_);
    Loss& loss = losses_[node];
    loss.last = last;
    loss.told.clear();
    count_.store(losses_.size(), std::memory_order_relaxed);
}

bool LossNotices::must_tell(u64 node, OpenNumber number) const {
    if (is_empty() || !number.writes()) return false;
    const std::lock_guard lock(mutex_);
    const auto loss = losses_.find(node);
    return loss != losses_.end() && number.is_up_to(loss->second.last) &&
           !loss->second.told.contains(number.number());
}

void LossNotices::note_told(u64 node, OpenNumber number) {
    const std::lock_guard lock(mutex_);
    const auto loss = losses_.find(node);
    if (loss != losses_.end()) loss->second.told.insert(number.number());
}

bool LossNotices::has_untold(u64 node, u64 writers) const {
    if (is_empty()) return false;
    const std::lock_guard lock(mutex_);
    const auto loss = losses_.find(node);
    return loss != losses_.end() && loss->second.told.size() < writers;
}

void LossNotices::close(u64 node, OpenNumber number) {
    if (is_empty()) return;
    const std::lock_guard lock(mutex_);
    const auto loss = losses_.find(node);
    if (loss != losses_.end()) loss->second.told.erase(number.number());
}

void LossNotices::forget(u64 node) {
    if (is_empty()) return;
    const std::lock_guard lock(mutex_);
    losses_.erase(node);
    count_.store(losses_.size(), std::memory_order_relaxed);
}

void LossNotices::forget_all() {
    const std::lock_guard lock(mutex_);
    losses_.clear();
    count_.store(0, std::memory_order_relaxed);
}

}  // namespace warren::fuse
