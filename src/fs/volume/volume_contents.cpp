// SPDX-License-Identifier: Apache-2.0
// File contents: operations return the addresses of data, and this code transfers the data between
// the caller and the disk.
//
// Data are written to the disk before any commit that contains the metadata which make them
// visible; on the host's Store, before these metadata are applied. Meanwhile the data lock of a
// file keeps its blocks in place, and keeps readers from blocks whose data have not been written
// yet.
#include <algorithm>
#include <array>
#include <cstring>

#include "base/out_of_memory.hpp"
#include "fs/core/fence.hpp"
#include "fs/volume/data_writer.hpp"
#include "fs/volume/inline_dedup.hpp"
#include "fs/volume/volume_implementation.hpp"

namespace warren {

using ops::Verb;

namespace {

constexpr std::array<std::byte, format::block_size> zero_block{};

/// Writes zeros to a part of one block.
Errc write_zeros_at(VolumeImplementation& volume, u64 place, u64 length) {
    const DataRoom room(volume, length);
    if (room.code() != Errc::ok) return room.code();
    WARREN_TRY(volume.write_data(place, std::span(zero_block).first(length)));
    volume.note_data(FreshData::yes);
    return Errc::ok;
}

/// Replaces a shared block of a file by a copy of its own, before a part of it is written.
Errc unshare_block(VolumeImplementation& volume, Handle file, u64 block) {
    const DataRoom room(volume, format::block_size);
    WARREN_TRY(room.code());
    ops::Command command = command_on(file);
    command.from = block;
    command.length = 1;
    DataWriter writer = moving_writer(volume);
    WARREN_TRY(writer.keep_block(file, block));
    return volume.ask<Verb::unshare>(command, writer).code();
}

/// Zeroes the part of one block that the bytes [begin, end) of a file cover, if the block holds
/// data.
Errc zero_part_of_block(VolumeImplementation& volume, Handle file, u64 begin, u64 end) {
    const u64 block = begin / format::block_size;
    Result<ops::Mapping> mapping = volume.map_block(file, block);
    if (mapping && mapping->is_shared) {
        WARREN_TRY(unshare_block(volume, file, block));
        mapping = volume.map_block(file, block);
    }
    if (!mapping) return mapping.code();
    if (mapping->kind != ops::MappingKind::data) return Errc::ok;
    return write_zeros_at(volume, mapping->place + begin % format::block_size, end - begin);
}

/// Zeroes the last block of the file from the end of the file to `first_new_byte`.
Errc zero_tail(VolumeImplementation& volume, Handle file, u64 first_new_byte) {
    const auto find_tail = [&] {
        return volume.ask<Verb::tail_to_zero>([&](ops::Command& command) {
            command.handle = file;
            command.from = first_new_byte;
        });
    };
    Result<ops::Gap> gap = find_tail();
    if (gap && gap->is_shared) {
        WARREN_TRY(unshare_block(volume, file, gap->file_block));
        gap = find_tail();
    }
    if (!gap) return gap.code();
    return gap->length == 0 ? Errc::ok : write_zeros_at(volume, gap->place, gap->length);
}

/// How many bytes of a command are done, and the code that ended it.
struct RangeProgress {
    u64 done = 0;
    Errc code = Errc::ok;
};

/// Runs `command` step by step until the bytes [offset, offset + length) are done.
template <Verb verb>
RangeProgress run_steps(VolumeImplementation& volume, ops::Command command, u64 offset, u64 length,
                        const DataWriter& writer) {
    RangeProgress progress;
    while (progress.done < length) {
        command.from = offset + progress.done;
        command.length = length - progress.done;
        // Only `fill` writes this much; other verbs write at most a block.
        if (verb == Verb::fill) command.length = std::min(command.length, volume.data_step_bytes());
        const DataRoom room(volume, verb == Verb::fill ? command.length : 0);
        progress.code = room.code();
        if (progress.code != Errc::ok) break;
        const Result<u64> step = volume.ask<verb>(command, writer);
        progress.code = step.code();
        if (!step) break;
        progress.done += *step;
    }
    return progress;
}

/// Sets the size and frees the blocks beyond it. Mappings of the file stay as they are.
Errc set_size(VolumeImplementation& volume, Handle file, u64 size, i64 now) {
    ops::Command command = command_on(file);
    command.from = size;
    command.now = now;
    command.may_use_reserve = true;
    Result<bool> done = false;
    const DataRoom room(volume, 0);
    WARREN_TRY(room.code());
    while (done && !*done)
        done = volume.ask<Verb::truncate>(command, moving_writer(volume));
    return done.code();
}

}  // namespace

Result<ops::Mapping> VolumeImplementation::map_block(Handle file, u64 block) {
    return ask<Verb::map>([&](ops::Command& command) {
        command.handle = file;
        command.from = block;
    });
}

bool VolumeImplementation::still_maps(Handle file, u64 block, u64 place, u64 blocks) {
    core::fence_acquire();
    const Result<ops::Mapping> now = map_block(file, block);
    return now && now->kind == ops::MappingKind::data && now->place == place &&
           now->blocks >= blocks;
}

Errc VolumeImplementation::resize_locked(Handle file, u64 size, i64 now) {
    WARREN_TRY(zero_tail(*this, file, size));
    const Errc code = set_size(*this, file, size, now);
    const Errc shown = mapped_files_.reload(file, size, format::file_size_max);
    return code == Errc::ok ? shown : code;
}

Errc VolumeImplementation::grow_locked(Handle file, u64 size, i64 now) {
    WARREN_LET(found, attributes(file));
    return found->size < size ? resize_locked(file, size, now) : Errc::ok;
}

Errc VolumeImplementation::punch_locked(Handle file, u64 offset, u64 length, i64 now) {
    ops::Command command = command_on(file);
    command.how = static_cast<u8>(Allocate::punch_hole);
    command.now = now;
    command.may_use_reserve = true;
    return run_steps<Verb::allocate>(*this, command, offset, length, moving_writer(*this)).code;
}

Result<bool> VolumeImplementation::make_hole_locked(Handle file, u64 offset, u64 length, i64 now) {
    const u64 end = offset + length;
    WARREN_LET(found, attributes(file));
    if (found->size < end) {
        // Raising the size would free blocks that are reserved beyond it.
        const u64 block = end / format::block_size;
        WARREN_LET(behind, map_block(file, block));
        const bool is_last = behind->kind == ops::MappingKind::bytes ||
                             (behind->kind == ops::MappingKind::hole &&
                              behind->blocks >= format::file_size_max / format::block_size - block);
        if (!is_last) return false;
    }
    Errc code = punch_locked(file, offset, length, now);
    if (code == Errc::ok && found->size < end) code = set_size(*this, file, end, now);
    if (code == Errc::no_space) return false;  // the list of extents cannot grow
    return code == Errc::ok ? Result<bool>(true) : code;
}

Result<u64> Volume::read(Handle file, u64 offset, std::span<std::byte> target) {
    return or_no_memory([&]() -> Result<u64> {
        const std::shared_lock lock(implementation_->data_lock(file.inode));
        return implementation_->read_contents(file, offset, target);
    });
}

void VolumeImplementation::copy_inline(const ops::InlineBytes& bytes, u64 at,
                                       std::span<std::byte> target) {
    std::ranges::fill(target, std::byte{0});
    if (target.empty() || at >= format::area_bytes) return;
    const u64 count = std::min<u64>(target.size(), format::area_bytes - at);
    std::memcpy(target.data(), reinterpret_cast<const std::byte*>(bytes.words) + at, count);
}

Result<u64> VolumeImplementation::read_contents(Handle file, u64 offset,
                                                std::span<std::byte> target) {
    u64 done = 0;
    while (done < target.size()) {
        const u64 at = offset + done;
        const u64 block = at / format::block_size;
        WARREN_LET(mapping, map_block(file, block));
        if (at >= mapping->size) break;
        u64 end = std::min(mapping->size, offset + target.size());
        if (mapping->kind != ops::MappingKind::bytes) {
            // A hole may be unbounded: its end must not overflow.
            const u64 limit = (format::file_size_max / format::block_size) * 2;
            const u64 blocks = std::min(mapping->blocks, limit);
            end = std::min(end, (block + blocks) * format::block_size);
        }
        const std::span<std::byte> part = target.subspan(done, end - at);
        switch (mapping->kind) {
            case ops::MappingKind::data: {
                const u64 run_end = mapping->place + mapping->blocks * format::block_size;
                WARREN_TRY(read_data(mapping->place + at % format::block_size, part, run_end));
                const bool may_leave = mapping->is_shared;
                if (may_leave && !still_maps(file, block, mapping->place, mapping->blocks))
                    continue;
                break;
            }
            case ops::MappingKind::bytes:
                copy_inline(mapping->bytes, at, part);
                break;
            default:
                std::memset(part.data(), 0, part.size());
        }
        done += part.size();
    }
    return done;
}

/// Stores bytes in the inode of a file or in its blocks. Requires: the data lock, as taken by
/// Volume::write(); the size of the file is `size`.
Result<u64> VolumeImplementation::write_contents(Handle file, u64 offset,
                                                 std::span<const std::byte> source, u64 size,
                                                 i64 now) {
    if (offset + source.size() <= format::area_bytes) {
        const Result<bool> in_inode = ask<Verb::store_inline>([&](ops::Command& command) {
            command.handle = file;
            command.from = offset;
            command.text = source.data();
            command.text_bytes = source.size();
            command.now = now;
        });
        if (!in_inode) return in_inode.code();
        if (*in_inode) return source.size();
    }
    ops::Command fill = command_on(file);
    fill.now = now;
    const bool replaces = offset + source.size() <= size;
    DataWriter writer(*this, offset, source, replaces ? FreshData::no : FreshData::yes);
    WARREN_TRY(writer.keep_edges(file, size));
    const RangeProgress progress =
        run_steps<Verb::fill>(*this, fill, offset, source.size(), writer);
    return progress.done > 0 || progress.code == Errc::ok ? Result<u64>(progress.done)
                                                          : Result<u64>(progress.code);
}

DedupStep* VolumeImplementation::look_up(Handle file, u64 offset, std::span<const std::byte> source,
                                         Awaited awaited, DedupStep& step) {
    if (dedup_ == nullptr || !InlineDedup::can_gain(offset, source.size(), awaited)) return nullptr;
    return dedup_->look_up(file, offset, source, step) ? &step : nullptr;
}

Result<u64> VolumeImplementation::write_alone(Handle file, u64 offset,
                                              std::span<const std::byte> source, i64 now,
                                              const FileMapping* from, DedupStep* step) {
    WARREN_LET(before, attributes(file));
    WARREN_TRY(zero_tail(*this, file, offset));
    const Result<u64> done = step != nullptr
                                 ? dedup_->write(file, offset, source, before->size, now, *step)
                                 : write_contents(file, offset, source, before->size, now);
    const bool is_whole = done && *done == source.size();
    WARREN_TRY(is_whole ? mapped_files_.show(file, offset, source, from)
                        : mapped_files_.reload(file, offset, offset + source.size(), from));
    return done;
}

namespace {

/// Takes the data lock and writes. `step` is as for VolumeImplementation::write_alone().
Result<u64> write_locked(VolumeImplementation& volume, Handle file, u64 offset,
                         std::span<const std::byte> source, i64 now, DedupStep* step) {
    std::shared_mutex& mutex = volume.data_lock(file.inode);
    // Whole blocks that begin within the file, or at its end, may be written concurrently.
    // Exclusive access is needed to zero the rest of a new block, or the bytes between the old end
    // and the new data, to update mappings, and to share blocks with other files.
    if (volume.works_on_host() && step == nullptr &&
        (offset | source.size()) % format::block_size == 0) {
        const std::shared_lock shared(mutex);
        WARREN_LET(before, volume.attributes(file));
        if (offset <= before->size && !volume.mapped_files().has(file.inode))
            return volume.write_contents(file, offset, source, before->size, now);
    }
    const std::unique_lock exclusive(mutex);
    return volume.write_alone(file, offset, source, now, nullptr, step);
}

}  // namespace

Result<u64> Volume::write(Handle file, u64 offset, std::span<const std::byte> source, Stamp stamp,
                          Awaited awaited) {
    return or_no_memory([&]() -> Result<u64> {
        VolumeImplementation& volume = *implementation_;
        const i64 now = stamp == Stamp::yes ? now_nanoseconds() : 0;
        if (!format::fits_in_file(offset, source.size())) return Errc::file_too_big;
        DedupStep step;
        return write_locked(volume, file, offset, source, now,
                            volume.look_up(file, offset, source, awaited, step));
    });
}

namespace {

/// Zeroes the covered parts of the blocks at either end of a range that it covers in part.
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
    return or_no_memory([&]() -> Errc {
        VolumeImplementation& volume = *implementation_;
        if (length == 0) return Errc::invalid;
        if (!format::fits_in_file(offset, length)) return Errc::file_too_big;
        std::unique_lock lock(volume.data_lock(file.inode));
        const i64 now = stamp == Stamp::yes ? now_nanoseconds() : 0;
        const bool grows = how == Allocate::reserve || how == Allocate::zero_range;
        const bool zeroes = how == Allocate::punch_hole || how == Allocate::zero_range ||
                            how == Allocate::zero_range_keep_size;
        if (grows) WARREN_TRY(zero_tail(volume, file, offset + length));
        ops::Command command = command_on(file);
        command.how = static_cast<u8>(how);
        command.now = now;
        command.may_use_reserve = how == Allocate::punch_hole;
        const RangeProgress progress =
            run_steps<Verb::allocate>(volume, command, offset, length, moving_writer(volume));
        Errc code = progress.code;
        if (code == Errc::ok && zeroes) code = zero_edges(volume, file, offset, offset + length);
        const Errc shown =
            zeroes ? volume.mapped_files().reload(file, offset, offset + length) : Errc::ok;
        return code == Errc::ok ? shown : code;
    });
}

Result<u64> Volume::seek(Handle file, u64 offset, Seek whence) {
    ops::Command command = command_on(file);
    command.how = static_cast<u8>(whence);
    for (command.from = offset;;) {
        WARREN_LET(step, implementation_->ask<Verb::seek>(command));
        if (step->is_found) return step->offset;
        command.from = step->offset;
    }
}

}  // namespace warren
