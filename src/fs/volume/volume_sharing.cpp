// SPDX-License-Identifier: Apache-2.0
// Sharing a range of one file with another. The target's blocks become holes first, then extents
// are shared step by step: a crash between leaves a target that has some of the bytes.
#include <algorithm>
#include <array>
#include <functional>

#include "base/out_of_memory.hpp"
#include "fs/volume/data_writer.hpp"

namespace warren {

using ops::Verb;

namespace {

constexpr u64 block_size = format::block_size;

/// The data locks of two files, taken in the order of their places.
class TwoDataLocks {
 public:
    TwoDataLocks(std::shared_mutex& one, std::shared_mutex& other)
        : first_(std::less<>()(&one, &other) ? one : other) {
        if (&one != &other) second_ = std::unique_lock(std::less<>()(&one, &other) ? other : one);
    }

 private:
    std::unique_lock<std::shared_mutex> first_;
    std::unique_lock<std::shared_mutex> second_;
};

struct SharedRange {
    Handle source;
    Handle target;
    u64 offset;
    u64 target_offset;
    u64 length;  // bytes
    i64 now;
};

/// Shares whole blocks, the source's last one included. Requires: the target has holes there.
Errc share_blocks(VolumeImplementation& volume, const SharedRange& range) {
    const u64 blocks = ops::blocks_of(range.length);
    ops::Command command = command_on(range.source);
    command.target = range.target;
    command.references = range.target_offset + range.length;
    command.now = range.now;
    const DataRoom room(volume, block_size);
    WARREN_TRY(room.code());
    for (u64 done = 0; done < blocks;) {
        command.from = range.offset / block_size + done;
        command.to = range.target_offset / block_size + done;
        command.length = blocks - done;
        const Result<u64> step = volume.ask<Verb::share>(command, moving_writer(volume));
        if (!step) return step.code();
        done += *step;
    }
    return Errc::ok;
}

/// Copies the contents of a file that is so small that they lie in its inode.
Errc copy_small(VolumeImplementation& volume, const SharedRange& range) {
    std::array<std::byte, format::area_bytes> bytes{};
    const std::span<std::byte> part = std::span(bytes).first(range.length);
    const Result<u64> read = volume.read_contents(range.source, range.offset, part);
    if (!read) return read.code();
    const Result<u64> done = volume.write_alone(range.target, range.target_offset, part, range.now);
    if (!done) return done.code();
    return *done == range.length ? Errc::ok : Errc::no_space;
}

/// The size of a regular file. Errc::is_directory or Errc::invalid if it is something else.
Result<u64> size_of_file(Volume& volume, Handle file) {
    const Result<Attributes> attributes = volume.attributes(file);
    if (!attributes) return attributes.code();
    const u32 type = attributes->mode & format::type_mask;
    if (type == format::type_directory) return Errc::is_directory;
    return type == format::type_regular ? Result<u64>(attributes->size) : Errc::invalid;
}

/// The bytes of the range that can be shared, or Errc::invalid.
Result<u64> length_of(const SharedRange& range, u64 source_size, u64 target_size) {
    if (range.source.inode == range.target.inode) return Errc::invalid;
    if ((range.offset | range.target_offset) % block_size != 0) return Errc::invalid;
    if (range.offset >= source_size) return u64{0};
    const u64 length = std::min(range.length, source_size - range.offset);
    if (range.target_offset > format::file_size_max ||
        length > format::file_size_max - range.target_offset) {
        return Errc::file_too_big;
    }
    const bool ends_files =
        range.offset + length == source_size && range.target_offset + length >= target_size;
    return length % block_size == 0 || ends_files ? Result<u64>(length) : Errc::invalid;
}

}  // namespace

Result<u64> Volume::share_range(Handle source, u64 offset, Handle target, u64 target_offset,
                                u64 length, Stamp stamp) {
    return or_no_memory([&]() -> Result<u64> {
        VolumeImplementation& volume = *implementation_;
        const u64 features = volume.superblock().features_read_only_compatible;
        if ((features & format::feature_shared_blocks) == 0) return Errc::not_supported;
        const TwoDataLocks locks(volume.data_lock(source.inode), volume.data_lock(target.inode));
        const Result<u64> source_size = size_of_file(*this, source);
        if (!source_size) return source_size.code();
        const Result<u64> target_size = size_of_file(*this, target);
        if (!target_size) return target_size.code();
        SharedRange range{source,        target, offset,
                          target_offset, length, stamp == Stamp::yes ? now_nanoseconds() : 0};
        const Result<u64> bytes = length_of(range, *source_size, *target_size);
        if (!bytes || *bytes == 0) return bytes;
        range.length = *bytes;
        if (*source_size <= format::area_bytes) {
            WARREN_TRY(copy_small(volume, range));
            return range.length;
        }
        if (target_offset > *target_size)
            WARREN_TRY(volume.resize_locked(target, target_offset, 0));
        WARREN_TRY(volume.punch_locked(target, target_offset, range.length, range.now));
        WARREN_TRY(share_blocks(volume, range));
        // Where the source ends with a hole, no extent has carried the size there.
        const Result<u64> reached = size_of_file(*this, target);
        if (!reached) return reached.code();
        const u64 end = target_offset + range.length;
        if (*reached < end) WARREN_TRY(volume.resize_locked(target, end, range.now));
        WARREN_TRY(volume.mapped_files().reload(target, target_offset, end));
        return range.length;
    });
}

}  // namespace warren
