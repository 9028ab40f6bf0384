// SPDX-License-Identifier: Apache-2.0
// Bytes are taken step by step, so that their digests lie in memory that was taken before. Within a
// step they are divided into elements: whole blocks, and what the file has behind its last one.
//
// Invariant: of the file that blocks come from, only the lock is tried: a writer waits for no other
// file.
#include "fs/volume/inline_dedup.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/zeros.hpp"
#include "fs/volume/share_blocks.hpp"

namespace warren {
namespace {

constexpr u64 block_size = format::block_size;
constexpr u64 step_blocks = 256;

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

    Result<u64> run() {
        const u64 first = std::min((offset_ + block_size - 1) / block_size * block_size, end());
        for (u64 at = first; at < end();) {
            const Result<u64> stop = run_step(at);
            if (!stop) return answer(stop.code());
            at = *stop;
        }
        return answer(write_until(end()));
    }

 private:
    u64 end() const { return offset_ + source_.size(); }
    std::span<const std::byte> bytes(u64 from, u64 to) const {
        return source_.subspan(from - offset_, to - from);
    }
    /// As write(2): an error counts only if nothing was done before it.
    Result<u64> answer(Errc code) const {
        if (code == Errc::ok || written_ > offset_) return written_ - offset_;
        return code;
    }
    /// Whether the file will end with the write.
    bool ends_file() const { return end() >= size_; }

    /// Shares what it can of the elements from `at` on, as many as a step has; returns where they
    /// end.
    Result<u64> run_step(u64 at) {
        const u64 stop = std::min(end(), at + step_blocks * block_size);
        std::array<hash::Bytes, step_blocks> elements;
        u64 count = 0;
        for (u64 from = at; from < stop; from += block_size) {
            const u64 to = std::min(from + block_size, stop);
            // A part of a block that the file has more of is no element.
            if (to % block_size == 0 || ends_file()) elements[count++] = bytes(from, to);
        }
        std::array<DedupDigest, step_blocks> digests;
        dedup_.hash_.digest(std::span(elements).first(count), digests);
        for (u64 i = 0; i < count; ++i)
            dedup_.index_.prefetch(digests[i]);
        for (u64 i = 0; i < count;) {
            const u64 from = at + i * block_size;
            const Result<u64> shared = share_from(from, elements[i], digests[i]);
            if (!shared) return shared.code();
            if (*shared == from) dedup_.index_.put(digests[i], {file_.inode, from / block_size});
            // What a run was shared of beyond this step is looked at no more.
            i = *shared == from ? i + 1 : (*shared - at + block_size - 1) / block_size;
            if (*shared > stop) return *shared;
        }
        return stop;
    }

    /// Shares or zeroes a run that begins at byte `from`; returns where it ends, `from` if there is
    /// none.
    Result<u64> share_from(u64 from, hash::Bytes element, const DedupDigest& digest) {
        if (is_all_zero(element)) {
            const u64 stop = end_of_zeros(from);
            if (stop - from < run_bytes_min) return from;
            WARREN_TRY(write_until(from));
            const Result<u64> zeroed = volume_.zero_locked(file_, from, stop - from, now_);
            if (!zeroed) return zeroed.code();
            dedup_.zero_bytes_.fetch_add(*zeroed, std::memory_order_relaxed);
            written_ += *zeroed;
            return written_ == stop ? Result<u64>(stop) : Errc::no_space;
        }
        dedup_.looked_up_.fetch_add(1, std::memory_order_relaxed);
        FileBlock found;
        if (!dedup_.index_.find(digest, found)) return from;
        return share_with(from, found);
    }

    /// Where the blocks of zeros from `from` on end.
    u64 end_of_zeros(u64 from) const {
        u64 to = from;
        while (to < end()) {
            const u64 next = to + block_size;
            if (next > end() || !is_all_zero(bytes(to, next))) break;
            to = next;
        }
        return to;
    }

    /// As share_from(), with the blocks of a file from `found` on.
    Result<u64> share_with(u64 from, const FileBlock& found) {
        const Result<Attributes> now = volume_.ask<ops::Verb::attributes_of>(
            [&](ops::Command& command) { command.from = found.inode; });
        // What the index says may be long gone, here and below.
        if (!now || (now->mode & format::type_mask) != format::type_regular) return from;
        SharedRange range{now->handle, file_, found.block * block_size, from, 0, now_};
        std::unique_lock<std::shared_mutex> lock;
        std::shared_mutex& mutex = volume_.data_lock(found.inode);
        if (&mutex != &volume_.data_lock(file_.inode)) {
            lock = std::unique_lock(mutex, std::try_to_lock);
            if (!lock) return from;
        }
        const Result<Attributes> source = volume_.ask<ops::Verb::get_attributes>(
            [&](ops::Command& command) { command.handle = range.source; });
        if (!source) return from;
        const Result<u64> stop = end_of_equal(range, source->size);
        if (!stop || *stop == from) return from;
        dedup_.found_.fetch_add(1, std::memory_order_relaxed);
        const bool is_whole = from == 0 && ends_file() && *stop == end() && range.offset == 0 &&
                              source->size == *stop;
        if (*stop - from < run_bytes_min && !is_whole) return from;
        range.length = *stop - from;
        WARREN_TRY(write_until(from));
        u64 shared = 0;
        const Errc code = share_blocks(volume_, range, shared);
        dedup_.shared_bytes_.fetch_add(shared, std::memory_order_relaxed);
        written_ += shared;
        // Nothing is lost where it fails: what it would have shared is written instead.
        if (code != Errc::ok) WARREN_TRY(write_until(*stop));
        return *stop;
    }

    /// Up to where, from the range's target on, the write has the bytes that the range's source
    /// has, in whole elements.
    Result<u64> end_of_equal(const SharedRange& range, u64 source_size) const {
        constexpr u64 piece_blocks = 16;
        std::array<std::byte, piece_blocks * block_size> room;
        u64 limit = end() - range.target_offset;
        if (range.offset >= source_size) return range.target_offset;
        // Of the file itself, only what lies before the write.
        const bool is_own = range.source.inode == file_.inode;
        const u64 source_end = is_own ? offset_ / block_size * block_size : source_size;
        if (range.offset >= source_end) return range.target_offset;
        limit = std::min(limit, source_end - range.offset);
        // A part of a block is shared if both files end with it.
        const bool ends_both = ends_file() && range.target_offset + limit == end() &&
                               range.offset + limit == source_size;
        if (!ends_both) limit = limit / block_size * block_size;
        for (u64 done = 0; done < limit;) {
            const std::span<std::byte> piece =
                std::span(room).first(std::min<u64>(room.size(), limit - done));
            const Result<u64> read =
                volume_.read_contents(range.source, range.offset + done, piece);
            if (!read) return read.code();
            if (*read != piece.size()) return range.target_offset + done;
            const u64 from = range.target_offset + done;
            for (u64 at = 0; at < piece.size(); at += block_size) {
                const u64 length = std::min<u64>(block_size, piece.size() - at);
                const auto own = bytes(from + at, from + at + length);
                if (std::memcmp(own.data(), &piece[at], length) != 0) return from + at;
            }
            done += piece.size();
        }
        return range.target_offset + limit;
    }

    /// Writes what was neither written nor shared before byte `to`.
    Errc write_until(u64 to) {
        if (written_ >= to) return Errc::ok;
        const Result<u64> done =
            volume_.write_contents(file_, written_, bytes(written_, to), size_, now_);
        if (!done) return done.code();
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
    u64 written_;  // up to here it is written, shared or zeroed
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

Result<u64> InlineDedup::write(Handle file, u64 offset, std::span<const std::byte> source, u64 size,
                               i64 now) {
    return Writing(*this, file, offset, source, size, now).run();
}

}  // namespace warren
