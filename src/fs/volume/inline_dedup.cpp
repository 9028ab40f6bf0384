// SPDX-License-Identifier: Apache-2.0
// A write is looked up in steps, the first of them before the file is locked, so that a write of
// new data takes the ordinary path. The index says where another file may contain an anchor of the
// write; from there the run is compared in both directions. Elements are whole blocks, and the
// incomplete block at the end of a file.
//
// Invariant: while it writes one file, a thread only tries to lock the file that it would share
// with; it never waits for it.
#include "fs/volume/inline_dedup.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/zeros.hpp"
#include "fs/volume/share_blocks.hpp"

namespace warren {
namespace {

using format::block_size;
constexpr u64 step_bytes = anchored_blocks_max * block_size;
constexpr u64 piece_bytes = 16 * block_size;  // read and compared at once

/// Whether `source` has the same element at these two offsets.
bool has_twice(std::span<const std::byte> source, u64 one, u64 other) {
    const u64 length = std::min(block_size, source.size() - other);
    return one < source.size() && length <= source.size() - one &&
           std::memcmp(&source[one], &source[other], length) == 0;
}

u64 default_index_bytes(u64 volume_bytes) {
    const auto memory =
        static_cast<u64>(::sysconf(_SC_PHYS_PAGES)) * static_cast<u64>(::sysconf(_SC_PAGESIZE));
    return std::min(volume_bytes / 1024, memory / 8);
}

}  // namespace

/// One call of write().
class InlineDedup::Writing {
 public:
    Writing(InlineDedup& dedup, Handle file, u64 offset, std::span<const std::byte> source,
            u64 size, i64 now)
        : dedup_(dedup),
          volume_(dedup.volume_),
          file_(file),
          offset_(offset),
          source_(source),
          size_(size),
          now_(now),
          written_(offset) {}

    Result<u64> run(DedupStep& step) {
        for (;;) {
            for (u64 i = 0; i < step.count; ++i) {
                const Errc code = take(step.candidates[i]);
                if (code != Errc::ok) return answer(code);
            }
            const u64 next = std::max(step.end, written_);
            if (next >= end()) return answer(write_until(end()));
            dedup_.look_up(file_, next, bytes(next, end()), step);
        }
    }

 private:
    u64 end() const { return offset_ + source_.size(); }
    std::span<const std::byte> bytes(u64 from, u64 to) const {
        return source_.subspan(from - offset_, to - from);
    }
    /// As write(2): an error counts only if nothing was written before it.
    Result<u64> answer(Errc code) const {
        if (code == Errc::ok || written_ > offset_) return written_ - offset_;
        return code;
    }
    /// Whether the end of the write is the end of the file.
    bool ends_file() const { return end() >= size_; }

    /// Shares or zeroes the run around a candidate, if there is one that is long enough.
    Errc take(const DedupStep::Candidate& candidate) {
        if (candidate.at < written_) return Errc::ok;
        if (candidate.is_zero) return zero_from(candidate.at);
        // Once more: an earlier candidate may have replaced the entry.
        FileBlock found;
        if (!dedup_.index_.find(candidate.digest, found)) return Errc::ok;
        const Result<bool> is_kept = share_around(candidate.at, found);
        if (is_kept && !*is_kept)
            dedup_.index_.put(candidate.digest, {file_.inode, candidate.at / block_size});
        return is_kept.code();
    }

    Errc zero_from(u64 from) {
        const u64 stop = end_of_zeros(from);
        if (stop - from < run_bytes_min) return Errc::ok;
        WARREN_TRY(write_until(from));
        WARREN_LET(is_hole, volume_.make_hole_locked(file_, from, stop - from, now_));
        if (!*is_hole) return write_until(stop);
        dedup_.zero_bytes_.fetch_add(stop - from, std::memory_order_relaxed);
        written_ = stop;
        return Errc::ok;
    }

    /// The end of the blocks of zeros that begin at `from`.
    u64 end_of_zeros(u64 from) const {
        u64 to = from;
        while (to < end()) {
            const u64 next = to + block_size;
            if (next > end() || !is_all_zero(bytes(to, next))) break;
            to = next;
        }
        return to;
    }

    /// Shares the run around byte `at` with the file that contains `found`. False if there is no
    /// run to share; but true if this write has the same block at `found`, which has a longer run
    /// behind it than the one at `at`.
    Result<bool> share_around(u64 at, const FileBlock& found) {
        const Result<Attributes> now = volume_.attributes_of(found.inode);
        // The index may be out of date, here and below.
        if (!now || !format::is_regular(now->mode)) return false;
        SharedRange range{now->handle, file_, found.block * block_size, at, 0, now_};
        std::unique_lock<std::shared_mutex> lock;
        std::shared_mutex& mutex = volume_.data_lock(found.inode);
        if (&mutex != &volume_.data_lock(file_.inode)) {
            lock = std::unique_lock(mutex, std::try_to_lock);
            if (!lock) return false;
        }
        const Result<Attributes> source = volume_.attributes(range.source);
        if (!source || !find_run(range, source->size)) return false;
        if (range.length == 0) return true;
        dedup_.found_.fetch_add(1, std::memory_order_relaxed);
        const u64 stop = range.target_offset + range.length;
        const bool is_whole = range.target_offset == 0 && ends_file() && stop == end() &&
                              range.offset == 0 && source->size == stop;
        if (range.length < run_bytes_min && !is_whole) return false;
        WARREN_TRY(write_until(range.target_offset));
        u64 shared = 0;
        const Errc code = share_blocks(volume_, range, shared);
        dedup_.shared_bytes_.fetch_add(shared, std::memory_order_relaxed);
        written_ += shared;
        // If sharing failed, what is left of the run is written instead.
        if (code != Errc::ok) WARREN_TRY(write_until(stop));
        return true;
    }

    /// Extends an empty range to the elements before and behind it that are equal in the write and
    /// in the part of its source that can be shared. False if the first one is not equal. The range
    /// stays empty if that one is in this write.
    bool find_run(SharedRange& range, u64 source_size) const {
        // In the file itself, only bytes before the write can be shared.
        const bool is_own = range.source.inode == file_.inode;
        const u64 source_end = is_own ? offset_ / block_size * block_size : source_size;
        if (range.offset >= source_end) {
            return is_own &&
                   has_twice(source_, range.offset - offset_, range.target_offset - offset_);
        }
        u64 limit = std::min(end() - range.target_offset, source_end - range.offset);
        // A part of a block is shared only if both files end with it.
        const bool ends_both = ends_file() && range.target_offset + limit == end() &&
                               range.offset + limit == source_size;
        if (!ends_both) limit = limit / block_size * block_size;
        const u64 behind = equal_bytes(range, false, limit);
        if (behind == 0) return false;
        const u64 first = (written_ + block_size - 1) / block_size * block_size;
        const u64 before =
            equal_bytes(range, true, std::min(range.target_offset - first, range.offset));
        range.offset -= before;
        range.target_offset -= before;
        range.length = before + behind;
        return true;
    }

    /// How many bytes from the beginning of a range on, or before it, are equal, in whole elements;
    /// at most `limit`.
    u64 equal_bytes(const SharedRange& range, bool is_before, u64 limit) const {
        std::array<std::byte, piece_bytes> room;
        for (u64 done = 0; done < limit;) {
            const auto piece = std::span(room).first(std::min(piece_bytes, limit - done));
            const u64 begin = is_before ? 0 - done - piece.size() : done;  // added modulo 2^64
            if (!read_source(range, range.offset + begin, piece)) return done;
            for (u64 passed = 0; passed < piece.size(); passed += block_size, done += block_size) {
                const u64 at = is_before ? piece.size() - block_size - passed : passed;
                if (!is_equal(piece, at, range.target_offset + begin + at)) return done;
            }
        }
        return limit;
    }

    bool read_source(const SharedRange& range, u64 at, std::span<std::byte> piece) const {
        const Result<u64> read = volume_.read_contents(range.source, at, piece);
        return read && *read == piece.size();
    }

    /// Whether the element at `at` of a piece equals the bytes of the write from `from` on.
    bool is_equal(std::span<const std::byte> piece, u64 at, u64 from) const {
        const u64 length = std::min(block_size, piece.size() - at);
        return std::memcmp(bytes(from, from + length).data(), &piece[at], length) == 0;
    }

    /// Writes what is neither written nor shared before byte `to`.
    Errc write_until(u64 to) {
        if (written_ >= to) return Errc::ok;
        WARREN_LET(done, volume_.write_contents(file_, written_, bytes(written_, to), size_, now_));
        written_ += *done;
        return written_ == to ? Errc::ok : Errc::no_space;
    }

    InlineDedup& dedup_;
    VolumeImplementation& volume_;
    const Handle file_;
    const u64 offset_;
    const std::span<const std::byte> source_;
    const u64 size_;
    const i64 now_;
    u64 written_;  // up to here the bytes are written, shared or zeroed
};

InlineDedup::InlineDedup(VolumeImplementation& volume, u64 index_bytes, u64 fill_bytes)
    : volume_(volume),
      hash_(volume.superblock().hash_key),
      index_(index_bytes != 0 ? index_bytes : default_index_bytes(volume.superblock().size_bytes)),
      filler_(volume, hash_, index_, looked_up_, fill_bytes) {}

DedupStatistics InlineDedup::statistics() const {
    DedupStatistics statistics;
    statistics.is_on = true;
    statistics.index_bytes = index_.bytes();
    statistics.looked_up = looked_up_.load(std::memory_order_relaxed);
    statistics.found = found_.load(std::memory_order_relaxed);
    statistics.shared_bytes = shared_bytes_.load(std::memory_order_relaxed);
    statistics.zero_bytes = zero_bytes_.load(std::memory_order_relaxed);
    statistics.filled_bytes = filler_.bytes_read();
    statistics.is_filling = filler_.is_running();
    return statistics;
}

VolumeImplementation::~VolumeImplementation() = default;

Errc VolumeImplementation::start_dedup() {
    const bool is_wanted =
        options_.dedup == Dedup::as_made ? is_dedup_default() : options_.dedup == Dedup::on;
    if (!is_wanted || options_.read_only) return Errc::ok;
    WARREN_TRY(check_sharing());
    dedup_ =
        std::make_unique<InlineDedup>(*this, options_.dedup_index_bytes, options_.dedup_fill_bytes);
    return dedup_->code();
}

bool InlineDedup::look_up(Handle file, u64 offset, std::span<const std::byte> source,
                          DedupStep& step) {
    const u64 end = offset + source.size();
    const u64 begin = std::min((offset + block_size - 1) / block_size * block_size, end);
    step.end = std::min(end, begin + step_bytes);
    step.count = 0;
    const auto piece = source.subspan(begin - offset, step.end - begin);
    const auto block = [&](u64 at) {
        return piece.subspan(at, std::min(block_size, piece.size() - at));
    };
    std::array<u32, anchored_blocks_max> anchors;
    const u64 count = find_anchors(piece, anchors);
    std::array<hash::Bytes, anchored_blocks_max> elements;
    for (u64 i = 0; i < count; ++i)
        elements[i] = block(anchors[i] * block_size);
    std::array<DedupDigest, anchored_blocks_max> digests;
    hash_.digest(std::span(elements).first(count), digests);
    for (u64 i = 0; i < count; ++i)
        index_.prefetch(digests[i]);
    looked_up_.fetch_add(count, std::memory_order_relaxed);
    u64 zeros_end = 0;  // within the piece
    for (u64 at = 0, i = 0; at < piece.size(); at += block_size) {
        DedupStep::Candidate& next = step.candidates[step.count];
        next.at = begin + at;
        next.is_zero = false;
        if (i < count && at == anchors[i] * block_size) {
            next.digest = digests[i++];
            FileBlock found;
            const bool is_found = index_.find(next.digest, found);
            // In the file itself, only bytes before the write can be shared.
            if (is_found && (found.inode != file.inode || found.block < begin / block_size)) {
                ++step.count;
            } else if (!is_found || !has_twice(piece, found.block * block_size - begin, at)) {
                index_.put(next.digest, {file.inode, next.at / block_size});
            }
        } else if (at >= zeros_end && is_all_zero(block(at))) {
            for (zeros_end = at; zeros_end < piece.size() && is_all_zero(block(zeros_end));)
                zeros_end += block_size;
            next.is_zero = zeros_end - at >= run_bytes_min;
            step.count += next.is_zero ? 1 : 0;
        }
    }
    return step.count > 0 || step.end < end;
}

Result<u64> InlineDedup::write(Handle file, u64 offset, std::span<const std::byte> source, u64 size,
                               i64 now, DedupStep& step) {
    return Writing(*this, file, offset, source, size, now).run(step);
}

}  // namespace warren
