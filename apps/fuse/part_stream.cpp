// SPDX-License-Identifier: Apache-2.0
// An answer of a single part needs no thread: the thread that calls finish() sends it.
#include "apps/fuse/part_stream.hpp"

namespace warren::fuse {

PartStream::~PartStream() {
    break_off();
    if (sender_.joinable()) sender_.join();
}

bool PartStream::put(const Encoder& item) {
    const std::lock_guard lock(mutex_);
    if (is_broken_) return false;
    part_.append(item);
    if (part_.size() >= part_bytes) queue_part();
    return true;
}

/// Requires: mutex_ is held.
void PartStream::queue_part() {
    if (!sender_.joinable()) sender_ = std::thread([this] { send_queued(); });
    queue_.push_back(part_.bytes());
    queued_bytes_ += part_.size();
    part_.clear();
    note_fill();
    changed_.notify_all();
}

/// Requires: mutex_ is held.
void PartStream::note_fill() {
    is_full_.store(is_broken_ || queued_bytes_ >= queue_bytes_max, std::memory_order_relaxed);
}

void PartStream::send_queued() {
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [&] { return is_broken_ || is_ending_ || !queue_.empty(); });
        if (is_broken_ || queue_.empty()) return;
        const std::string part = std::move(queue_.front());
        queue_.pop_front();
        lock.unlock();
        const bool is_sent = sink_.send(part);
        lock.lock();
        queued_bytes_ -= part.size();
        is_broken_ = is_broken_ || !is_sent;
        note_fill();
        changed_.notify_all();
    }
}

void PartStream::break_off() {
    {
        const std::lock_guard lock(mutex_);
        if (!is_broken_ && queued_bytes_ != 0) sink_.give_up();
        is_broken_ = true;
        note_fill();
    }
    changed_.notify_all();
}

Errc PartStream::wait_for_room() {
    std::unique_lock lock(mutex_);
    const bool has_room = changed_.wait_for(
        lock, patience, [&] { return is_broken_ || queued_bytes_ <= queue_bytes_max / 2; });
    if (has_room) return is_broken_ ? Errc::canceled : Errc::ok;
    lock.unlock();
    break_off();
    return Errc::canceled;
}

Errc PartStream::finish() {
    {
        const std::lock_guard lock(mutex_);
        is_ending_ = true;
    }
    changed_.notify_all();
    if (sender_.joinable()) sender_.join();
    if (!is_broken_ && part_.size() > 0) is_broken_ = !sink_.send(part_.bytes());
    return is_broken_ ? Errc::canceled : Errc::ok;
}

}  // namespace warren::fuse
