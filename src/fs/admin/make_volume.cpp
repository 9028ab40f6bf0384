// SPDX-License-Identifier: Apache-2.0
// Makes an empty volume: superblocks, frame table, journal, and one inode frame with the root
// directory and the orphan directory.
//
// Invariant: old superblocks are erased before anything else is written, and the new ones are
// written last, so a crash leaves either the complete new volume or nothing that can be opened.
// Table blocks without a used frame are not written, so a sparse image of any size takes a few
// hundred KiB.
#include "fs/admin/make_volume.hpp"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

#include "base/file_clock.hpp"
#include "base/quote.hpp"
#include "base/zeros.hpp"
#include "fs/admin/volume_layout.hpp"
#include "fs/commit/superblock_io.hpp"
#include "fs/disk/block_io.hpp"
#include "fs/disk/file_disk.hpp"
#include "fs/format/frame.hpp"
#include "fs/format/inode.hpp"
#include "warren/volume.hpp"

namespace warren {
namespace {

using format::Block;
using format::block_size;
using format::frame_size;
using format::FrameKind;
using format::Inode;
using format::Superblock;

constexpr u64 first_transaction = 1;
constexpr u32 root_slot = 16;
constexpr u32 orphan_slot = 17;

Failure check_size(const std::string& path, u64 size_bytes) {
    if (size_bytes >= format::volume_size_min && size_bytes <= format::volume_size_max) return {};
    const bool is_small = size_bytes < format::volume_size_min;
    return {Errc::invalid,
            path + ": a volume of " + std::to_string(size_bytes) + " bytes is too " +
                (is_small ? "small; give it at least 16M" : "large; give it at most 16T")};
}

/// Fails unless the label is printable UTF-8 (it is shown on terminals) of at most 32 bytes.
Failure check_label(const std::string& path, const std::string& label) {
    if (label.size() > sizeof Superblock::label) {
        return {Errc::invalid, path + ": the label " + shell_quoted(label) +
                                   " is longer than 32 bytes; choose "
                                   "a shorter one"};
    }
    u32 following = 0;
    bool is_good = true;
    for (const char c : label) {
        const auto byte = static_cast<u8>(c);
        if (following > 0) {
            is_good = is_good && byte >> 6 == 2;
            --following;
        } else if (byte >= 0xc2 && byte < 0xf5) {
            following = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
        } else {
            is_good = is_good && byte >= 0x20 && byte < 0x7f;
        }
    }
    if (is_good && following == 0) return {};
    return {Errc::invalid,
            path + ": the label is not printable UTF-8 text; choose letters and digits"};
}

Errc fill_random(void* target, u64 length_bytes) {
    const ssize_t done = ::getrandom(target, length_bytes, 0);
    return done == static_cast<ssize_t>(length_bytes) ? Errc::ok : Errc::io;
}

/// Describes the contents of the disk that a new volume would overwrite; null if there are none.
const char* find_contents(Disk& disk) {
    if (const char* foreign = find_foreign_file_system(disk)) return foreign;
    Block block;
    for (const u64 place : {format::superblock_offset, format::superblock_copy_offset}) {
        if (disk.size_bytes() < place + block_size) continue;
        if (disk.read(place, block.bytes()) != Errc::ok) continue;
        if (reinterpret_cast<const Superblock&>(block).magic == format::magic) {
            return "a Warren volume";
        }
    }
    for (const u64 place : {u64{0}, 64 * kib}) {
        if (disk.size_bytes() < place + block_size) continue;
        if (disk.read(place, block.bytes()) != Errc::ok) continue;
        if (!is_all_zero(block.bytes())) return "data";
    }
    return nullptr;
}

/// Whether a file is shorter than a block, of which a disk does not know, and holds something.
bool has_short_contents(const FileDisk& disk, const std::string& path) {
    if (disk.is_device() || disk.size_bytes() > 0) return false;
    std::ifstream file(path, std::ios::binary);
    return std::any_of(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>(),
                       [](char byte) { return byte != 0; });
}

/// Checks the requested size (0: that of the disk) and that existing contents may be overwritten,
/// and resizes an image file.
Failure prepare(FileDisk& disk, const std::string& path, const FormatOptions& options, u64& size) {
    size = options.size_bytes;
    if (size == 0 && disk.size_bytes() == 0) {
        return {Errc::invalid, path + ": is empty; give the size that the volume shall have"};
    }
    if (size == 0) size = disk.size_bytes();
    WARREN_TRY(check_size(path, size));
    if (disk.is_device() && size > disk.size_bytes()) {
        return {Errc::no_space, path + ": the device has only " +
                                    std::to_string(disk.size_bytes()) +
                                    " bytes; give a smaller size or none"};
    }
    const char* contents = options.force ? nullptr : find_contents(disk);
    if (!options.force && has_short_contents(disk, path)) contents = "data";
    if (contents != nullptr) {
        return {Errc::exists, path + ": holds " + contents + "; only force overwrites it"};
    }
    Errc code = Errc::ok;
    if (!disk.is_device()) {
        // Truncate the file to 0 bytes first, so that the new image consists of holes.
        code = disk.resize(0);
        if (code == Errc::ok) code = disk.resize(size);
    }
    if (code != Errc::ok) {
        return {code, path + ": cannot be made " + std::to_string(size) +
                          " bytes large; check the limits of the file system it is on"};
    }
    return {};
}

/// Fills in the superblock, except for the layout.
Errc fill_identity(Superblock& superblock, const std::string& label) {
    superblock.magic = format::magic;
    superblock.version_major = format::version_major;
    superblock.version_minor = format::version_minor;
    superblock.features_read_only_compatible = format::feature_shared_blocks;
    WARREN_TRY(fill_random(superblock.uuid, sizeof superblock.uuid));
    WARREN_TRY(fill_random(superblock.hash_key, sizeof superblock.hash_key));
    // Version 4 (random), variant 1 of RFC 9562.
    superblock.uuid[6] = static_cast<u8>((superblock.uuid[6] & 0x0f) | 0x40);
    superblock.uuid[8] = static_cast<u8>((superblock.uuid[8] & 0x3f) | 0x80);
    superblock.header.volume = format::volume_of(superblock);
    std::memcpy(superblock.label, label.data(), label.size());
    superblock.created = now_nanoseconds();
    superblock.clean = 1;
    superblock.inodes_used = 2;
    superblock.generation = 1;
    return Errc::ok;
}

/// Writes the table blocks of the frames [0, used_frames): system frames, and one inode frame at
/// the end.
Errc write_frame_table(Disk& disk, const Superblock& superblock, u64 used_frames) {
    for (u64 first = 0; first < used_frames; first += format::frames_per_table_block) {
        Block block{};
        auto& table = reinterpret_cast<format::FrameTableBlock&>(block);
        const u64 count = std::min<u64>(used_frames - first, format::frames_per_table_block);
        for (u64 i = 0; i < count; ++i) {
            const bool is_last = first + i + 1 == used_frames;
            mark_whole_frame(table.entries[i], is_last ? FrameKind::inodes : FrameKind::system);
        }
        const u64 place =
            superblock.frame_table_offset + first / format::frames_per_table_block * block_size;
        WARREN_TRY(write_sealed(disk, place, format::BlockKind::frame_table,
                                superblock.header.volume, first_transaction, block));
    }
    return Errc::ok;
}

void fill_directory(Inode& inode, u64 number, u32 permissions, i64 now) {
    inode.generation = 1;
    inode.mode = format::type_directory | permissions;
    inode.links = 2;
    inode.parent = number;
    inode.user = ::geteuid();
    inode.group = ::getegid();
    inode.area_kind = static_cast<u8>(format::AreaKind::tree);
    inode.transaction = first_transaction;
    inode.accessed = inode.modified = inode.changed = inode.born = now;
}

/// Writes the bitmap and the first inode block of the inode frame that starts at `place`.
Errc write_inodes(Disk& disk, const Superblock& superblock, u64 place) {
    Block blocks[2] = {};
    auto& bitmap = reinterpret_cast<format::InodeBitmap&>(blocks[0]);
    bitmap.header.kind = static_cast<u16>(format::BlockKind::inode_bitmap);
    bitmap.used[0] = (u64{1} << (orphan_slot + 1)) - 1;
    const u64 volume = superblock.header.volume;
    format::seal_block(blocks[0], volume, place, first_transaction);

    auto* inodes = reinterpret_cast<Inode*>(&blocks[1]);
    fill_directory(inodes[root_slot % format::inodes_per_block], superblock.root_inode, 0755,
                   superblock.created);
    fill_directory(inodes[orphan_slot % format::inodes_per_block], superblock.orphan_directory,
                   0700, superblock.created);
    format::seal_inodes(blocks[1], volume, place + block_size, first_transaction);
    return disk.write(place, std::as_bytes(std::span(blocks)));
}

Errc write_volume(Disk& disk, Superblock& superblock, u64 system_frames) {
    const u64 inode_frame = system_frames;
    const u64 slot_0 = inode_frame * format::inodes_per_frame;
    superblock.root_inode = slot_0 + root_slot;
    superblock.orphan_directory = slot_0 + orphan_slot;
    superblock.metadata_frames_end = inode_frame + 1;
    superblock.data_frames_begin = superblock.frame_count;
    superblock.blocks_used = (inode_frame + 1) * format::blocks_per_frame;
    // The superblocks of an old volume are erased, durably, before any other part of it.
    WARREN_TRY(disk.zero(format::superblock_offset, block_size));
    WARREN_TRY(disk.zero(format::superblock_copy_offset, block_size));
    WARREN_TRY(disk.flush());
    WARREN_TRY(disk.zero(0, frame_size));
    WARREN_TRY(
        disk.zero(superblock.frame_table_offset, superblock.frame_table_blocks * block_size));
    WARREN_TRY(disk.zero(inode_frame * frame_size, frame_size));
    WARREN_TRY(write_frame_table(disk, superblock, inode_frame + 1));
    WARREN_TRY(write_inodes(disk, superblock, inode_frame * frame_size));
    return write_superblock(disk, superblock, first_transaction);
}

}  // namespace

Failure make_volume_on(Disk& disk, const std::string& path, u64 size_bytes,
                       const std::string& label, bool dedup) {
    WARREN_TRY(check_label(path, label));
    WARREN_TRY(check_size(path, size_bytes));
    Superblock superblock{};
    const u64 system_frames = lay_out(superblock, size_bytes);
    if (dedup) superblock.features_compatible = format::feature_dedup;
    Errc code = fill_identity(superblock, label);
    if (code == Errc::ok) code = write_volume(disk, superblock, system_frames);
    if (code == Errc::ok) return {};
    return {code, path + ": cannot write the new volume (" +
                      (code == Errc::no_space ? "no space left" : "I/O error") +
                      "); check the device and the system's log"};
}

Failure make_volume(const std::string& path, const FormatOptions& options) {
    const std::string shown = quoted_if_needed(path);
    WARREN_TRY(check_label(shown, options.label));
    const bool may_create = options.size_bytes != 0;
    if (may_create) WARREN_TRY(check_size(shown, options.size_bytes));
    Failure failure;
    auto disk = FileDisk::open(path, may_create ? OpenMode::create : OpenMode::read_write, failure);
    if (!disk) {
        if (failure.code == Errc::no_entry && !may_create && ::access(path.c_str(), F_OK) != 0) {
            failure.message = shown + ": No such file or directory; give a size to make it";
        }
        return failure;
    }
    u64 size_bytes = 0;
    failure = prepare(*disk, shown, options, size_bytes);
    if (failure.code == Errc::ok) {
        failure = make_volume_on(*disk, shown, size_bytes, options.label, options.dedup);
    }
    if (failure.code != Errc::ok && disk->is_new()) ::unlink(path.c_str());
    return failure;
}

}  // namespace warren
