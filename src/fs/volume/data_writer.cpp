// SPDX-License-Identifier: Apache-2.0
// Writes whole blocks where possible: to write a part of a block, the disk would have to read it.
#include "fs/volume/data_writer.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.hpp"

namespace warren {

namespace {

constexpr u64 staged_blocks_max = 16;

}  // namespace

Errc DataWriter::operator()(const ops::Piece& piece) const {
    WARREN_TRY(write(piece));
    volume_.note_data(piece.keeps_rest ? fresh_data_ : FreshData::yes);
    return Errc::ok;
}

/// Writes the caller's bytes within a piece, and the old bytes around them.
Errc DataWriter::write(const ops::Piece& piece) const {
    constexpr u64 size = format::block_size;
    const u64 start = piece.file_block * size;
    const u64 end = start + u64{piece.blocks} * size;
    const u64 begin = std::clamp(offset_, start, end);
    const u64 stop = std::clamp(offset_ + source_.size(), start, end);
    const std::span<const std::byte> bytes = begin < stop
                                                 ? source_.subspan(begin - offset_, stop - begin)
                                                 : std::span<const std::byte>{};
    const bool covers_all = bytes.size() == end - start;
    const bool writes_part = piece.keeps_rest && (bytes.empty() || !keeps_every_edge_);
    if (writes_part || covers_all) {
        return bytes.empty() ? Errc::ok : volume_.write_data(piece.place + (begin - start), bytes);
    }
    // A small piece is written by one call. Of others, each block that the caller's bytes do not
    // cover is written by itself.
    const bool is_small = !piece.keeps_rest && piece.blocks <= staged_blocks_max;
    // On the stack, because a writer runs within an operation, which must not allocate memory.
    std::array<std::byte, staged_blocks_max * size> room;
    for (u64 at = start, next = start; at < end; at = next) {
        const u64 whole_end = begin <= at ? stop / size * size : at;
        if (!is_small && at < whole_end) {
            next = whole_end;
            const auto whole = source_.subspan(at - offset_, next - at);
            WARREN_TRY(volume_.write_data(piece.place + (at - start), whole));
            continue;
        }
        next = is_small ? end : at + size;
        const std::span<std::byte> staged = std::span(room).first(next - at);
        for (u64 block = at; block < next; block += size) {
            const bool is_covered = begin <= block && block + size <= stop;
            if (is_covered) continue;
            WARREN_TRY(read_old(piece, block, staged.subspan(block - at).first<size>()));
        }
        const u64 from = std::clamp(begin, at, next);
        const u64 to = std::clamp(stop, at, next);
        if (from < to) std::memcpy(&staged[from - at], &source_[from - offset_], to - from);
        WARREN_TRY(volume_.write_data(piece.place + (at - start), staged));
    }
    return Errc::ok;
}

Errc DataWriter::keep_block(Handle file, u64 block) {
    if (volume_.works_on_host()) return Errc::ok;
    WARREN_LET(mapping, volume_.map_block(file, block));
    if (mapping->kind != ops::MappingKind::data) return Errc::ok;
    if (!mapping->is_shared && !keeps_every_edge_) return Errc::ok;
    WARREN_CHECK(kept_count_ < kept_.size());
    KeptBlock& kept = kept_[kept_count_];
    kept.block = block;
    const u64 place = mapping->place;
    WARREN_TRY(volume_.read_data(place, kept.bytes, place + format::block_size));
    ++kept_count_;
    return Errc::ok;
}

Errc DataWriter::keep_edges(Handle file, u64 size) {
    const u64 end = offset_ + source_.size();
    u64 newest = ~u64{0};
    for (const u64 edge : {offset_, end}) {
        const u64 block = edge / format::block_size;
        const bool is_inside = edge % format::block_size != 0 && block * format::block_size < size;
        if (!is_inside || block == newest) continue;
        WARREN_TRY(keep_block(file, block));
        newest = block;
    }
    return Errc::ok;
}

/// Reads the file's block that begins at byte `at`: from its place, or the one that the piece
/// replaces, or from the inode; otherwise sets zeros.
Errc DataWriter::read_old(const ops::Piece& piece, u64 at, BlockSpan target) const {
    const u64 start = piece.file_block * format::block_size;
    const u64 old_place = piece.keeps_rest ? piece.place : piece.old_place;
    if (old_place != 0) {
        for (u32 i = 0; i < kept_count_; ++i) {
            if (kept_[i].block != at / format::block_size) continue;
            std::ranges::copy(kept_[i].bytes, target.begin());
            return Errc::ok;
        }
        const u64 place = old_place + (at - start);
        return volume_.read_data(place, target, place + target.size());
    }
    std::ranges::fill(target, std::byte{0});
    if (piece.has_bytes && at == start)
        std::memcpy(target.data(), piece.bytes.words, format::area_bytes);
    return Errc::ok;
}

}  // namespace warren
