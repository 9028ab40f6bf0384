// SPDX-License-Identifier: Apache-2.0
// A run is a sequence of records: the sizes of key and value in the format of
// ByteWriter::put_number(), the key, the value. A record larger than a run's buffer makes the
// buffer grow.
#include "walk/spill_sort.hpp"

#include <algorithm>

#include "walk/bytes.hpp"

namespace warren::walk {

namespace {

constexpr size_t written_at_once = 256 * kib;
constexpr u64 least_buffer_bytes = 4 * kib;
constexpr u64 most_buffer_bytes = 256 * kib;
constexpr size_t sizes_bytes_most = 10;  // two numbers of 32 bits

}  // namespace

/// One sorted run and, while it is read, its current record.
class SpillSort::Run {
 public:
    Run(u64 begin, u64 end) : offset_(begin), end_(end) {}

    /// Sets the buffer size. Requires: advance() has not been called.
    void take_buffer(u64 bytes) { buffer_bytes_ = bytes; }
    bool at_end() const { return taken_ == buffer_.size() && offset_ == end_; }

    /// Goes to the next record. Requires: there is one.
    Errc advance(SpillStore& store) {
        WARREN_TRY(fill(store, sizes_bytes_most));
        ByteReader reader(std::string_view(buffer_).substr(taken_));
        const u64 key_bytes = reader.get_number();
        const u64 value_bytes = reader.get_number();
        const size_t head_bytes = buffer_.size() - taken_ - reader.rest().size();
        WARREN_TRY(fill(store, head_bytes + key_bytes + value_bytes));
        const std::string_view record = std::string_view(buffer_).substr(taken_ + head_bytes);
        key_ = record.substr(0, key_bytes);
        value_ = record.substr(key_bytes, value_bytes);
        taken_ += head_bytes + key_bytes + value_bytes;
        return Errc::ok;
    }
    std::string_view key() const { return key_; }
    std::string_view value() const { return value_; }

 private:
    /// Fills the buffer with at least `bytes` unread bytes, or with all that remain.
    Errc fill(SpillStore& store, u64 bytes) {
        if (buffer_.size() - taken_ >= bytes || offset_ == end_) return Errc::ok;
        buffer_.erase(0, taken_);
        taken_ = 0;
        const size_t kept = buffer_.size();
        const u64 wanted = std::max(bytes, buffer_bytes_) - kept;
        const u64 more = std::min(wanted, end_ - offset_);
        buffer_.resize(kept + more);
        WARREN_TRY(store.read(offset_, std::span(buffer_).subspan(kept)));
        offset_ += more;
        return Errc::ok;
    }

    u64 offset_;  // of what has not been read yet
    u64 end_;
    u64 buffer_bytes_ = least_buffer_bytes;
    std::string buffer_;
    size_t taken_ = 0;  // bytes consumed from the buffer
    std::string_view key_;
    std::string_view value_;
};

SpillSort::SpillSort(u64 memory_bytes, std::unique_ptr<SpillStore> store)
    : memory_bytes_(memory_bytes), store_(std::move(store)) {}

SpillSort::~SpillSort() = default;

size_t SpillSort::runs() const {
    return runs_.size();
}

Errc SpillSort::error() const {
    std::lock_guard lock(mutex_);
    return error_;
}

Errc SpillSort::add(std::string_view key, std::string_view value) {
    std::lock_guard lock(mutex_);
    if (error_ != Errc::ok) return error_;
    const u64 used = bytes_.size() + (places_.size() + 1) * sizeof(Place);
    if (!places_.empty() && used + key.size() + value.size() > memory_bytes_) error_ = spill();
    if (error_ != Errc::ok) return error_;
    places_.push_back(
        {bytes_.size(), static_cast<u32>(key.size()), static_cast<u32>(value.size())});
    bytes_.append(key).append(value);
    ++count_;
    return Errc::ok;
}

std::string_view SpillSort::key_of(const Place& place) const {
    return std::string_view(bytes_).substr(place.offset, place.key_bytes);
}

void SpillSort::sort() {
    std::sort(places_.begin(), places_.end(), [this](const Place& one, const Place& two) {
        const int order = key_of(one).compare(key_of(two));
        return order != 0 ? order < 0 : one.offset < two.offset;
    });
}

/// Writes the records in memory as one run. Requires: mutex_ is held.
Errc SpillSort::spill() {
    sort();
    const u64 begin = stored_bytes_;
    std::string pending;
    const auto write_out = [&] {
        WARREN_TRY(store_->write(stored_bytes_, pending));
        stored_bytes_ += pending.size();
        pending.clear();
        return Errc::ok;
    };
    for (const Place& place : places_) {
        ByteWriter sizes;
        sizes.put_number(place.key_bytes);
        sizes.put_number(place.value_bytes);
        pending.append(sizes.bytes());
        pending.append(bytes_, place.offset, u64{place.key_bytes} + place.value_bytes);
        if (pending.size() >= written_at_once) WARREN_TRY(write_out());
    }
    WARREN_TRY(write_out());
    runs_.emplace_back(begin, stored_bytes_);
    bytes_.clear();
    places_.clear();
    return Errc::ok;
}

Errc SpillSort::begin_reading() {
    if (runs_.empty()) {
        sort();
        return Errc::ok;
    }
    if (!places_.empty()) WARREN_TRY(spill());
    std::string().swap(bytes_);
    std::vector<Place>().swap(places_);
    const u64 share = memory_bytes_ / runs_.size();
    for (size_t run = 0; run < runs_.size(); ++run) {
        runs_[run].take_buffer(std::clamp(share, least_buffer_bytes, most_buffer_bytes));
        WARREN_TRY(advance(run));
    }
    return Errc::ok;
}

/// Adds the next record of the run, if there is one, to the heads.
Errc SpillSort::advance(size_t run) {
    if (runs_[run].at_end()) return Errc::ok;
    WARREN_TRY(runs_[run].advance(*store_));
    heads_.push({runs_[run].key(), run});
    return Errc::ok;
}

bool SpillSort::next_in_memory(std::string_view& key, std::string_view& value) {
    if (given_ == places_.size()) return false;
    const Place& place = places_[given_++];
    key = key_of(place);
    value = std::string_view(bytes_).substr(place.offset + place.key_bytes, place.value_bytes);
    return true;
}

bool SpillSort::next(std::string_view& key, std::string_view& value) {
    std::lock_guard lock(mutex_);
    if (!is_read_ && error_ == Errc::ok) error_ = begin_reading();
    is_read_ = true;
    if (error_ != Errc::ok) return false;
    if (runs_.empty()) return next_in_memory(key, value);
    if (last_run_ < runs_.size()) error_ = advance(last_run_);
    if (error_ != Errc::ok || heads_.empty()) return false;
    last_run_ = heads_.top().run;
    heads_.pop();
    key = runs_[last_run_].key();
    value = runs_[last_run_].value();
    return true;
}

}  // namespace warren::walk
