// SPDX-License-Identifier: Apache-2.0
// The file holds the oldest work batches. A new one is appended in memory; when memory exceeds its
// limit, the oldest batches there are moved to the end of the file.
#include "walk/central_queue.hpp"

#include <algorithm>
#include <map>

#include "base/check.hpp"
#include "base/crc32c.hpp"
#include "walk/work_batch.hpp"

namespace warren::walk {

namespace {

constexpr u64 truncate_bytes = 1 * mib;  // space at the file's end, freed at once

u32 checksum_of(std::string_view bytes) {
    return crc32c(std::as_bytes(std::span(bytes)));
}

/// Counts the results by owner and lease. Items of one directory share a lease, so the list is
/// short.
std::vector<CentralQueue::Due> due_of(std::string_view batch) {
    std::map<Owner, u64> results;
    WorkBatch::Content content{};
    for (WorkBatchReader reader(batch); reader.begin_group();) {
        while (reader.next_item(content))
            ++results[content.owner];
    }
    std::vector<CentralQueue::Due> due;
    due.reserve(results.size());
    for (const auto& [owner, count] : results)
        due.push_back({owner, count});
    return due;
}

}  // namespace

CentralQueue::CentralQueue(u64 memory_bytes, std::unique_ptr<SpillStore> store)
    : memory_bytes_(memory_bytes), store_(std::move(store)) {}

Errc CentralQueue::push(std::string batch) {
    Waiting& youngest = waiting_.emplace_back();
    youngest.size = static_cast<u32>(batch.size());
    youngest.due = due_of(batch);
    youngest.bytes = std::move(batch);
    for (const Due& due : youngest.due)
        items_ += due.results;
    used_bytes_ += youngest.memory();
    while (used_bytes_ > memory_bytes_ && spilled_ < waiting_.size()) {
        Waiting& oldest = waiting_[spilled_];
        if (const Errc code = store_->write(end_, oldest.bytes); code != Errc::ok) {
            store_->truncate(stored_ = end_);  // others may need the space
            return code;
        }
        oldest.checksum = checksum_of(oldest.bytes);
        oldest.offset = end_;
        used_bytes_ -= oldest.memory();
        oldest.bytes.clear();
        oldest.bytes.shrink_to_fit();
        ++spilled_;
        end_ += oldest.size;
        stored_ = std::max(stored_, end_);
    }
    return Errc::ok;
}

Errc CentralQueue::pop(std::string& batch, std::vector<Due>& lost) {
    WARREN_CHECK(!is_empty());
    Waiting youngest = std::move(waiting_.back());
    waiting_.pop_back();
    for (const Due& due : youngest.due)
        items_ -= due.results;
    if (waiting_.size() >= spilled_) {
        used_bytes_ -= youngest.memory();
        batch = std::move(youngest.bytes);
        return Errc::ok;
    }
    spilled_ = waiting_.size();
    const Errc code = read(youngest, batch);
    if (code != Errc::ok) lost = std::move(youngest.due);
    end_ = youngest.offset;
    shrink();
    return code;
}

Errc CentralQueue::read(const Waiting& waiting, std::string& batch) const {
    batch.resize(waiting.size);
    WARREN_TRY(store_->read(waiting.offset, batch));
    return checksum_of(batch) == waiting.checksum ? Errc::ok : Errc::io;
}

void CentralQueue::shrink() {
    if (stored_ - end_ < truncate_bytes) return;
    store_->truncate(end_);
    stored_ = end_;
}

Errc CentralQueue::visit(const std::function<void(std::string_view)>& visitor) const {
    std::string batch;
    for (size_t at = 0; at < waiting_.size(); ++at) {
        if (at < spilled_) WARREN_TRY(read(waiting_[at], batch));
        visitor(at < spilled_ ? batch : waiting_[at].bytes);
    }
    return Errc::ok;
}

}  // namespace warren::walk
