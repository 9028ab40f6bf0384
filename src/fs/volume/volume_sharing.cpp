// SPDX-License-Identifier: Apache-2.0
// Shares a range of one file with another, step by step: after a crash between two steps the target
// has some of the bytes. Each step replaces blocks of the target atomically, so where both files
// have the same bytes a crash is not visible. Also counts shared blocks.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "base/out_of_memory.hpp"
#include "fs/volume/data_locks.hpp"
#include "fs/volume/data_writer.hpp"
#include "fs/volume/share_blocks.hpp"
#include "fs/volume/tree_cloner.hpp"

namespace warren {

using ops::Verb;

namespace {

using format::block_size;

/// The steps of share_blocks(); `done` counts blocks.
Errc share_by_steps(VolumeImplementation& volume, const SharedRange& range, u64& done) {
    const u64 blocks = ops::blocks_of(range.length);
    ops::Command command = command_on(range.source);
    command.target = range.target;
    command.references = range.target_offset + range.length;
    command.now = range.now;
    const DataRoom room(volume, block_size);
    WARREN_TRY(room.code());
    while (done < blocks) {
        command.from = range.offset / block_size + done;
        command.to = range.target_offset / block_size + done;
        command.length = blocks - done;
        WARREN_LET(run, volume.map_block(range.source, command.from));
        if (run->kind != ops::MappingKind::data) {
            const u64 hole = std::min(run->blocks, command.length);
            WARREN_TRY(volume.punch_locked(range.target, command.to * block_size, hole * block_size,
                                           range.now));
            done += hole;
            continue;
        }
        volume.note_shared_data();
        WARREN_LET(step, volume.ask<Verb::share>(command, moving_writer(volume)));
        done += *step;
    }
    return Errc::ok;
}

}  // namespace

Errc share_blocks(VolumeImplementation& volume, const SharedRange& range, u64& done) {
    done = 0;
    u64 blocks = 0;
    const Errc code = share_by_steps(volume, range, blocks);
    if (blocks == 0) return code;
    const u64 reached = std::min(blocks * block_size, range.length);
    // If the source has a hole, no extent has set the size of the target.
    WARREN_TRY(volume.grow_locked(range.target, range.target_offset + reached, range.now));
    done = reached;
    return code;
}

namespace {

/// The data locks of a source and a target.
auto lock_both(VolumeImplementation& volume, Handle source, Handle target) {
    return lock_data<std::unique_lock>(volume, std::array{source, target},
                                       [](Handle file) { return file.inode; });
}

/// Whether two runs have the same contents without being read: they are in the same blocks, or both
/// read as zeros.
bool must_be_equal(const ops::Mapping& one, const ops::Mapping& other) {
    using ops::MappingKind;
    const auto is_zero = [](const ops::Mapping& run) {
        return run.kind == MappingKind::hole || run.kind == MappingKind::unwritten;
    };
    if (is_zero(one) && is_zero(other)) return true;
    return one.kind == MappingKind::data && other.kind == one.kind && other.place == one.place;
}

/// Whether the target has the bytes of the source. Requires: neither file ends within the range.
Result<bool> have_equal_bytes(VolumeImplementation& volume, const SharedRange& range) {
    constexpr u64 piece_bytes = mib;
    const auto memory = std::make_unique_for_overwrite<std::byte[]>(2 * piece_bytes);
    for (u64 done = 0; done < range.length;) {
        const u64 offset = range.offset + done;
        const u64 target_offset = range.target_offset + done;
        const u64 left = range.length - done;
        WARREN_LET(run, volume.map_block(range.source, offset / block_size));
        WARREN_LET(other, volume.map_block(range.target, target_offset / block_size));
        if (must_be_equal(*run, *other)) {
            const u64 blocks = std::min({run->blocks, other->blocks, ops::blocks_of(left)});
            done += std::min(blocks * block_size, left);
            continue;
        }
        const std::span<std::byte> bytes(memory.get(), std::min(left, piece_bytes));
        const std::span<std::byte> others(memory.get() + piece_bytes, bytes.size());
        WARREN_LET(read, volume.read_contents(range.source, offset, bytes));
        WARREN_LET(read_other, volume.read_contents(range.target, target_offset, others));
        if (*read != bytes.size() || *read_other != bytes.size()) return Errc::corrupt;
        if (std::memcmp(bytes.data(), others.data(), bytes.size()) != 0) return false;
        done += bytes.size();
    }
    return true;
}

/// Copies the contents of a file that is small enough for its inode.
Errc copy_small(VolumeImplementation& volume, const SharedRange& range) {
    std::array<std::byte, format::area_bytes> bytes{};
    const std::span<std::byte> part = std::span(bytes).first(range.length);
    WARREN_LET(read, volume.read_contents(range.source, range.offset, part));
    WARREN_LET(done, volume.write_alone(range.target, range.target_offset, part, range.now));
    return *done == range.length ? Errc::ok : Errc::no_space;
}

/// The size of a regular file. Errc::is_directory or Errc::invalid if it is something else.
Result<u64> size_of_file(Volume& volume, Handle file) {
    WARREN_LET(attributes, volume.attributes(file));
    if (format::is_directory(attributes->mode)) return Errc::is_directory;
    return format::is_regular(attributes->mode) ? Result<u64>(attributes->size) : Errc::invalid;
}

bool begins_with_blocks(const SharedRange& range) {
    return (range.offset | range.target_offset) % block_size == 0;
}

/// Whether both ranges are in one file and their blocks overlap.
bool has_overlap(const SharedRange& range) {
    const u64 whole = ops::blocks_of(range.length) * block_size;
    return range.source.inode == range.target.inode && range.offset < range.target_offset + whole &&
           range.target_offset < range.offset + whole;
}

/// How many bytes of the range share_range() shares, or the error.
Result<u64> length_to_share(SharedRange range, u64 source_size, u64 target_size) {
    if (!begins_with_blocks(range)) return Errc::invalid;
    if (range.offset >= source_size) return u64{0};
    range.length = std::min(range.length, source_size - range.offset);
    if (!format::fits_in_file(range.target_offset, range.length)) return Errc::file_too_big;
    const bool ends_files = range.offset + range.length == source_size &&
                            range.target_offset + range.length >= target_size;
    const bool is_whole = range.length % block_size == 0 || ends_files;
    return is_whole && !has_overlap(range) ? Result<u64>(range.length) : Errc::invalid;
}

/// How many bytes of the range one call of dedupe_range() handles, or the error.
Result<u64> length_to_dedupe(const SharedRange& range, u64 source_size, u64 target_size) {
    const auto fits = [&](u64 offset, u64 size) {
        return offset <= size && range.length <= size - offset;
    };
    if (!begins_with_blocks(range)) return Errc::invalid;
    if (!fits(range.offset, source_size)) return Errc::invalid;
    if (!fits(range.target_offset, target_size)) return Errc::invalid;
    if (has_overlap(range)) return Errc::invalid;
    const u64 length = std::min(range.length, dedupe_bytes_max);
    const bool ends_source = range.offset + length == source_size;
    const bool ends_files = ends_source && range.target_offset + length == target_size;
    return ends_files ? length : length / block_size * block_size;
}

/// Errc::access unless the caller may read the source, Errc::not_permitted unless it owns the
/// target or may write to it.
Errc check_rights(Volume& volume, const Caller& caller, Handle source, Handle target) {
    if (!caller.check) return Errc::ok;
    WARREN_TRY(volume.check_access(caller, source, core::may_read));
    WARREN_LET(attributes, volume.attributes(target));
    if (attributes->user == caller.user) return Errc::ok;
    const Errc code = volume.check_access(caller, target, core::may_write);
    return code == Errc::access ? Errc::not_permitted : code;
}

/// Whether the contents of either file are in its inode, where no block can be shared.
Result<bool> is_in_inode(VolumeImplementation& volume, const SharedRange& range) {
    for (const Handle file : {range.source, range.target}) {
        WARREN_LET(first, volume.map_block(file, 0));
        if (first->kind == ops::MappingKind::bytes) return true;
    }
    return false;
}

}  // namespace

Result<u64> Volume::share_range(Handle source, u64 offset, Handle target, u64 target_offset,
                                u64 length, Stamp stamp) {
    return or_no_memory([&]() -> Result<u64> {
        VolumeImplementation& volume = *implementation_;
        WARREN_TRY(volume.check_sharing());
        const auto locks = lock_both(volume, source, target);
        WARREN_LET(source_size, size_of_file(*this, source));
        WARREN_LET(target_size, size_of_file(*this, target));
        SharedRange range{source,        target, offset,
                          target_offset, length, stamp == Stamp::yes ? now_nanoseconds() : 0};
        const Result<u64> bytes = length_to_share(range, *source_size, *target_size);
        if (!bytes || *bytes == 0) return bytes;
        range.length = *bytes;
        if (*source_size <= format::area_bytes) {
            WARREN_TRY(copy_small(volume, range));
            return range.length;
        }
        if (target_offset > *target_size)
            WARREN_TRY(volume.resize_locked(target, target_offset, 0));
        u64 done = 0;
        const Errc shared = share_blocks(volume, range, done);
        // Also after an error: some of the range is shared by then.
        const Errc reloaded =
            volume.mapped_files().reload(target, target_offset, target_offset + range.length);
        WARREN_TRY(shared);
        WARREN_TRY(reloaded);
        return range.length;
    });
}

Errc Volume::clone(const Caller& caller, Handle source, Handle directory, std::string_view name,
                   ClonedTree& done) {
    return or_no_memory([&]() -> Errc {
        VolumeImplementation& volume = *implementation_;
        WARREN_TRY(volume.check_sharing());
        return TreeCloner(*this, volume, caller).clone(source, directory, name, done);
    });
}

Result<Deduped> Volume::dedupe_range(const Caller& caller, Handle source, u64 offset, Handle target,
                                     u64 target_offset, u64 length) {
    return or_no_memory([&]() -> Result<Deduped> {
        VolumeImplementation& volume = *implementation_;
        WARREN_TRY(volume.check_sharing());
        WARREN_TRY(check_rights(*this, caller, source, target));
        if (relaxed_load(volume.store().state->read_only) != 0) return Errc::read_only;
        const auto locks = lock_both(volume, source, target);
        WARREN_LET(source_size, size_of_file(*this, source));
        WARREN_LET(target_size, size_of_file(*this, target));
        SharedRange range{source, target, offset, target_offset, length, 0};
        WARREN_LET(bytes, length_to_dedupe(range, *source_size, *target_size));
        if (*bytes == 0) return Deduped{};
        range.length = *bytes;
        WARREN_LET(equal, have_equal_bytes(volume, range));
        if (!*equal) return Deduped{0, true};
        WARREN_LET(in_inode, is_in_inode(volume, range));
        if (*in_inode) return Deduped{};
        u64 done = 0;
        WARREN_TRY(share_blocks(volume, range, done));
        return Deduped{range.length, false};
    });
}

Result<FileSpace> Volume::space_of(Handle file) {
    constexpr u64 blocks_max = format::file_size_max / block_size + 1;
    FileSpace space;
    ops::Command command = command_on(file);
    for (command.from = 0; command.from < blocks_max;) {
        WARREN_LET(step, implementation_->ask<Verb::count_shared>(command));
        WARREN_CHECK(step->passed > 0 && step->shared <= step->allocated);
        space.blocks += step->allocated;
        space.shared += step->shared;
        command.from += step->passed;
    }
    return space;
}

}  // namespace warren
