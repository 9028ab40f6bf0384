// SPDX-License-Identifier: Apache-2.0
// The image after a power cut is built in two steps: all events up to the last flush, then later
// events as the options of the cut say, selected by a generator with the given seed.
#include "tests/support/memory_disk.hpp"

#include <malloc.h>

#include <algorithm>
#include <cstring>

#include "base/check.hpp"
#include "base/random.hpp"

namespace warren {
namespace {

constexpr u64 sector_bytes = 512;

/// Tests make and drop volumes thousands of times: the allocator keeps what they free, or the
/// kernel would clear the pages again for the next one. Larger pieces than this go back.
[[maybe_unused]] const bool is_memory_kept =
    mallopt(M_MMAP_THRESHOLD, 32 << 20) == 1 && mallopt(M_TRIM_THRESHOLD, 256 << 20) == 1;

void apply(const DiskEvent& event, SparseBytes& bytes) {
    if (event.kind == DiskEventKind::write) bytes.write(event.offset, event.bytes);
    if (event.kind == DiskEventKind::discard) bytes.zero(event.offset, event.length_bytes);
}

/// Applies those sectors of a write that `random` selects.
void apply_torn(const DiskEvent& event, SparseBytes& bytes, Random& random) {
    for (u64 at = 0; at < event.bytes.size();) {
        const u64 offset = event.offset + at;
        const u64 piece =
            std::min<u64>(sector_bytes - offset % sector_bytes, event.bytes.size() - at);
        if (random.one_in(2)) bytes.write(offset, std::span(event.bytes).subspan(at, piece));
        at += piece;
    }
}

void apply_cut(std::span<const DiskEvent> events, const Cut& cut, SparseBytes& bytes) {
    Random random(cut.seed);
    std::vector<u64> order(events.size());
    for (u64 i = 0; i < order.size(); ++i)
        order[i] = i;
    if (cut.reorder) {
        for (u64 i = order.size(); i > 1; --i)
            std::swap(order[i - 1], order[random.below(i)]);
    }
    for (const u64 i : order) {
        if (i < 64 && ((cut.lost >> i) & 1) != 0) continue;
        if (cut.drop && random.one_in(2)) continue;
        if (cut.tear && events[i].kind == DiskEventKind::write && random.one_in(2)) {
            apply_torn(events[i], bytes, random);
        } else {
            apply(events[i], bytes);
        }
    }
}

}  // namespace

SparseBytes::SparseBytes(const SparseBytes& other) {
    // From here on neither copy may write to the shared pieces.
    for (auto& [number, slot] : other.pieces_)
        slot.is_own = false;
    pieces_ = other.pieces_;
}

SparseBytes::Piece& SparseBytes::own_piece(u64 number) {
    Slot& slot = pieces_[number];
    if (!slot.piece) {
        slot.piece = std::make_shared<Piece>();
    } else if (!slot.is_own) {
        slot.piece = std::make_shared<Piece>(*slot.piece);
    }
    slot.is_own = true;
    return *slot.piece;
}

void SparseBytes::read(u64 offset, std::span<std::byte> target) const {
    while (!target.empty()) {
        const u64 within = offset % piece_bytes;
        const u64 length = std::min<u64>(target.size(), piece_bytes - within);
        const auto found = pieces_.find(offset / piece_bytes);
        if (found == pieces_.end()) {
            std::memset(target.data(), 0, length);
        } else {
            std::memcpy(target.data(), found->second.piece->data() + within, length);
        }
        offset += length;
        target = target.subspan(length);
    }
}

void SparseBytes::write(u64 offset, std::span<const std::byte> source) {
    while (!source.empty()) {
        const u64 within = offset % piece_bytes;
        const u64 length = std::min<u64>(source.size(), piece_bytes - within);
        std::memcpy(own_piece(offset / piece_bytes).data() + within, source.data(), length);
        offset += length;
        source = source.subspan(length);
    }
}

void SparseBytes::zero(u64 offset, u64 length_bytes) {
    const u64 end = offset + length_bytes;
    const auto zero_part = [&](u64 number, u64 from, u64 to) {
        if (to - from == piece_bytes) {
            pieces_.erase(number);
        } else if (pieces_.contains(number)) {
            std::memset(own_piece(number).data() + from, 0, to - from);
        }
    };
    // A range of terabytes may span many more pieces than exist.
    if (length_bytes / piece_bytes > pieces_.size() + 2) {
        std::erase_if(pieces_, [&](const auto& entry) {
            const u64 start = entry.first * piece_bytes;
            return start >= offset && start + piece_bytes <= end;
        });
        if (offset % piece_bytes != 0) {
            zero_part(offset / piece_bytes, offset % piece_bytes, piece_bytes);
        }
        if (end % piece_bytes != 0) zero_part(end / piece_bytes, 0, end % piece_bytes);
        return;
    }
    while (offset < end) {
        const u64 within = offset % piece_bytes;
        const u64 length = std::min<u64>(end - offset, piece_bytes - within);
        zero_part(offset / piece_bytes, within, within + length);
        offset += length;
    }
}

Errc MemoryDisk::read(u64 offset, std::span<std::byte> target) {
    if (!contains(offset, target.size())) return Errc::io;
    const std::lock_guard guard(mutex_);
    bytes_.read(offset, target);
    return Errc::ok;
}

Errc MemoryDisk::write(u64 offset, std::span<const std::byte> source) {
    if (!contains(offset, source.size())) return Errc::io;
    const std::lock_guard guard(mutex_);
    bytes_.write(offset, source);
    if (is_recording_) {
        log_.push_back({DiskEventKind::write, offset, source.size(),
                        std::vector<std::byte>(source.begin(), source.end())});
    }
    return Errc::ok;
}

Errc MemoryDisk::flush() {
    const std::lock_guard guard(mutex_);
    if (is_recording_) log_.push_back({DiskEventKind::flush, 0, 0, {}});
    return Errc::ok;
}

Errc MemoryDisk::discard(u64 offset, u64 length_bytes) {
    if (!contains(offset, length_bytes)) return Errc::io;
    const std::lock_guard guard(mutex_);
    bytes_.zero(offset, length_bytes);
    if (is_recording_) log_.push_back({DiskEventKind::discard, offset, length_bytes, {}});
    return Errc::ok;
}

void MemoryDisk::start_recording() {
    const std::lock_guard guard(mutex_);
    log_.clear();
    base_ = std::make_unique<SparseBytes>(bytes_);
    prefix_.reset();
    is_recording_ = true;
}

void MemoryDisk::stop_recording() {
    const std::lock_guard guard(mutex_);
    is_recording_ = false;
}

u64 MemoryDisk::event_count() const {
    const std::lock_guard guard(mutex_);
    return log_.size();
}

DiskEvent MemoryDisk::event(u64 index) const {
    const std::lock_guard guard(mutex_);
    WARREN_CHECK(index < log_.size());
    return log_[index];
}

u64 MemoryDisk::unflushed_before(u64 events) const {
    u64 durable = events;
    while (durable > 0 && log_[durable - 1].kind != DiskEventKind::flush)
        --durable;
    return events - durable;
}

u64 MemoryDisk::count_unflushed(u64 events) const {
    const std::lock_guard guard(mutex_);
    WARREN_CHECK(events <= log_.size());
    return unflushed_before(events);
}

void MemoryDisk::advance_prefix(u64 events) const {
    if (!prefix_ || prefix_events_ > events) {
        prefix_ = std::make_unique<SparseBytes>(*base_);
        prefix_events_ = 0;
    }
    for (; prefix_events_ < events; ++prefix_events_)
        apply(log_[prefix_events_], *prefix_);
}

std::unique_ptr<MemoryDisk> MemoryDisk::image_after(u64 events, const Cut& cut) const {
    const std::lock_guard guard(mutex_);
    WARREN_CHECK(base_ && events <= log_.size());
    const u64 durable = events - unflushed_before(events);
    advance_prefix(durable);
    std::unique_ptr<MemoryDisk> image(new MemoryDisk(size_bytes_, *prefix_));
    apply_cut(std::span(log_).subspan(durable, events - durable), cut, image->bytes_);
    return image;
}

std::unique_ptr<MemoryDisk> MemoryDisk::copy() const {
    const std::lock_guard guard(mutex_);
    return std::unique_ptr<MemoryDisk>(new MemoryDisk(size_bytes_, bytes_));
}

u64 MemoryDisk::resident_bytes() const {
    const std::lock_guard guard(mutex_);
    return bytes_.piece_count() * SparseBytes::piece_bytes;
}

}  // namespace warren
