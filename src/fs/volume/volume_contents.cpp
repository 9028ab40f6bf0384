// SPDX-License-Identifier: Apache-2.0
// File contents: operations say where data lie, this moves them between the caller and the disk.
//
// Data go to the disk before the metadata that make them visible are applied, hence before any
// commit that holds these. The data lock of a file keeps its blocks in place meanwhile.
#include <algorithm>
#include <cstring>
#include <vector>

#include "fs/ops/contents.hpp"
#include "fs/volume/volume_implementation.hpp"

namespace warren {
namespace {

constexpr u64 staged_blocks_max = 16;  // pieces up to this size go out as one write

/// Writes the caller's bytes [offset, offset + source.size()) of a file, piece by piece.
class DataWriter {
 public:
    DataWriter(Disk& disk, u64 offset, std::span<const std::byte> source)
        : disk_(disk), offset_(offset), source_(source) {}

    Errc operator()(const ops::Piece& piece) const {
        const u64 start = piece.file_block * format::block_size;
        const u64 end = start + u64{piece.blocks} * format::block_size;
        const u64 begin = std::clamp(offset_, start, end);
        const u64 stop = std::clamp(offset_ + source_.size(), start, end);
        const std::span<const std::byte> bytes =
            begin < stop ? source_.subspan(begin - offset_, stop - begin)
                         : std::span<const std::byte>{};
        const bool covers_all = bytes.size() == end - start;
        if (piece.keeps_rest || covers_all) {
            return bytes.empty() ? Errc::ok : disk_.write(piece.place + (begin - start), bytes);
        }
        if (piece.blocks > staged_blocks_max) {
            WARREN_TRY(write_rest(piece, start, begin, stop, end));
            return disk_.write(piece.place + (begin - start), bytes);
        }
        std::vector<std::byte> staged(end - start);
        if (piece.has_bytes) std::memcpy(staged.data(), piece.bytes.words, format::area_bytes);
        if (!bytes.empty())
            std::memcpy(staged.data() + (begin - start), bytes.data(), bytes.size());
        return disk_.write(piece.place, staged);
    }

 private:
    /// Zeros around the caller's bytes in a large new piece: less than a block on either side.
    Errc write_rest(const ops::Piece& piece, u64 start, u64 begin, u64 stop, u64 end) const {
        std::vector<std::byte> zeros(format::block_size);
        if (begin > start) {
            std::vector<std::byte> head(begin - start);
            const u64 old = std::min<u64>(head.size(), format::area_bytes);
            if (piece.has_bytes) std::memcpy(head.data(), piece.bytes.words, old);
            WARREN_TRY(disk_.write(piece.place, head));
        }
        for (u64 at = stop; at < end;) {
            const u64 count = std::min<u64>(end - at, zeros.size());
            WARREN_TRY(disk_.write(piece.place + (at - start), std::span(zeros).first(count)));
            at += count;
        }
        return Errc::ok;
    }

    Disk& disk_;
    const u64 offset_;
    const std::span<const std::byte> source_;
};

Errc write_zeros_at(Disk& disk, u64 place, u64 length) {
    const std::vector<std::byte> zeros(length);
    return disk.write(place, zeros);
}

/// Zeroes what lies between the end of the file and `first_new_byte` in its last block.
Errc zero_tail(VolumeImplementation& volume, Handle file, u64 first_new_byte) {
    const Result<ops::Gap> gap =
        volume.run([&](CpuOperation& op) { return ops::tail_to_zero(op, file, first_new_byte); });
    if (!gap) return gap.code();
    return gap->length == 0 ? Errc::ok : write_zeros_at(volume.disk(), gap->place, gap->length);
}

}  // namespace

Errc VolumeImplementation::resize_file(Handle file, u64 size, i64 now) {
    if (size > format::file_size_max) return Errc::file_too_big;
    std::unique_lock lock(data_lock(file.inode));
    WARREN_TRY(zero_tail(*this, file, size));
    const DataWriter writer(disk(), 0, {});
    for (;;) {
        const Result<bool> done = run([&](CpuOperation& op) {
            op.may_use_reserve = true;
            return ops::truncate(op, file, size, now, writer);
        });
        if (!done) return done.code();
        if (*done) return Errc::ok;
    }
}

Result<u64> Volume::read(Handle file, u64 offset, std::span<std::byte> target) {
    VolumeImplementation& volume = *implementation_;
    std::shared_lock lock(volume.data_lock(file.inode));
    u64 done = 0;
    while (done < target.size()) {
        const u64 at = offset + done;
        const u64 block = at / format::block_size;
        const Result<ops::Mapping> mapping =
            volume.run([&](CpuOperation& op) { return ops::map(op, file, block); });
        if (!mapping) return mapping.code();
        if (at >= mapping->size) break;
        u64 end = std::min(mapping->size, offset + target.size());
        if (mapping->kind != ops::MappingKind::bytes) {
            // A hole may go on for ever: its end must not overflow.
            const u64 limit = (format::file_size_max / format::block_size) * 2;
            const u64 blocks = std::min(mapping->blocks, limit);
            end = std::min(end, (block + blocks) * format::block_size);
        }
        const std::span<std::byte> part = target.subspan(done, end - at);
        switch (mapping->kind) {
            case ops::MappingKind::data: {
                const Errc read =
                    volume.disk().read(mapping->place + at % format::block_size, part);
                if (read != Errc::ok) return read;
                break;
            }
            case ops::MappingKind::bytes: {
                std::memset(part.data(), 0, part.size());
                if (at >= format::area_bytes) break;
                const u64 count = std::min<u64>(part.size(), format::area_bytes - at);
                std::memcpy(part.data(),
                            reinterpret_cast<const std::byte*>(mapping->bytes.words) + at, count);
                break;
            }
            default:
                std::memset(part.data(), 0, part.size());
        }
        done += part.size();
    }
    return done;
}

Result<u64> Volume::write(Handle file, u64 offset, std::span<const std::byte> source, Stamp stamp) {
    VolumeImplementation& volume = *implementation_;
    const i64 now = stamp == Stamp::yes ? now_nanoseconds() : 0;
    if (offset > format::file_size_max || source.size() > format::file_size_max - offset) {
        return Errc::file_too_big;
    }
    std::shared_mutex& mutex = volume.data_lock(file.inode);
    std::shared_lock shared(mutex, std::defer_lock);
    std::unique_lock exclusive(mutex, std::defer_lock);
    // Whole blocks below the end of the file may be written side by side. Parts of a block that is
    // new, and the bytes between the old end and the new data, are zeroed around them: alone.
    const bool is_aligned = (offset | source.size()) % format::block_size == 0;
    if (is_aligned) shared.lock();
    const Result<Attributes> before = attributes(file);
    if (!before) return before.code();
    if (!is_aligned || offset > before->size) {
        if (shared.owns_lock()) shared.unlock();
        exclusive.lock();
        WARREN_TRY(zero_tail(volume, file, offset));
    }
    const Result<bool> in_inode = volume.run([&](CpuOperation& op) {
        return ops::store_inline(op, file, offset, source.data(), source.size(), now);
    });
    if (!in_inode) return in_inode.code();
    if (*in_inode) return source.size();
    const DataWriter writer(volume.disk(), offset, source);
    u64 done = 0;
    while (done < source.size()) {
        const Result<u64> step = volume.run([&](CpuOperation& op) {
            return ops::fill(op, file, offset + done, source.size() - done, now, writer);
        });
        if (!step) return done > 0 ? Result<u64>(done) : Result<u64>(step.code());
        done += *step;
    }
    return done;
}

namespace {

/// Zeroes the part of one block that a range covers, where the block holds data.
Errc zero_part_of_block(VolumeImplementation& volume, Handle file, u64 begin, u64 end) {
    const Result<ops::Mapping> mapping = volume.run(
        [&](CpuOperation& op) { return ops::map(op, file, begin / format::block_size); });
    if (!mapping) return mapping.code();
    if (mapping->kind != ops::MappingKind::data) return Errc::ok;
    return write_zeros_at(volume.disk(), mapping->place + begin % format::block_size, end - begin);
}

/// Zeroes the blocks at either end of a range that it covers in part.
Errc zero_edges(VolumeImplementation& volume, Handle file, u64 begin, u64 end) {
    constexpr u64 size = format::block_size;
    if (begin / size == end / size) return zero_part_of_block(volume, file, begin, end);
    if (begin % size != 0) {
        WARREN_TRY(zero_part_of_block(volume, file, begin, (begin / size + 1) * size));
    }
    return end % size == 0 ? Errc::ok : zero_part_of_block(volume, file, end / size * size, end);
}

}  // namespace

Errc Volume::allocate(Handle file, Allocate how, u64 offset, u64 length, Stamp stamp) {
    VolumeImplementation& volume = *implementation_;
    if (length == 0) return Errc::invalid;
    if (offset > format::file_size_max || length > format::file_size_max - offset) {
        return Errc::file_too_big;
    }
    std::unique_lock lock(volume.data_lock(file.inode));
    const i64 now = stamp == Stamp::yes ? now_nanoseconds() : 0;
    const bool grows = how == Allocate::reserve || how == Allocate::zero_range;
    const bool zeroes = how == Allocate::punch_hole || how == Allocate::zero_range ||
                        how == Allocate::zero_range_keep_size;
    if (grows) WARREN_TRY(zero_tail(volume, file, offset + length));
    const DataWriter writer(volume.disk(), 0, {});
    u64 done = 0;
    while (done < length) {
        const Result<u64> step = volume.run([&](CpuOperation& op) {
            op.may_use_reserve = how == Allocate::punch_hole;
            return ops::allocate(op, file, how, offset + done, length - done, now, writer);
        });
        if (!step) return step.code();
        done += *step;
    }
    return zeroes ? zero_edges(volume, file, offset, offset + length) : Errc::ok;
}

Result<u64> Volume::seek(Handle file, u64 offset, Seek whence) {
    VolumeImplementation& volume = *implementation_;
    for (u64 at = offset;;) {
        const Result<ops::Sought> step =
            volume.run([&](CpuOperation& op) { return ops::seek(op, file, at, whence); });
        if (!step) return step.code();
        if (step->is_found) return step->offset;
        at = step->offset;
    }
}

}  // namespace warren
