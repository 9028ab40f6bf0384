// SPDX-License-Identifier: Apache-2.0
// A superblock is checked in three steps, each with its own message: whether there is a sound copy
// at all, whether this program knows its format, and whether its numbers fit each other and the
// device.
#include "fs/commit/superblock_io.hpp"

#include <cstring>
#include <string_view>
#include <utility>

#include "fs/disk/block_io.hpp"
#include "fs/format/frame.hpp"
#include "fs/format/journal.hpp"

namespace warren {
namespace {

using format::Block;
using format::block_size;
using format::BlockKind;
using format::Superblock;

Failure unreadable(const std::string& path, Errc first, Errc second) {
    if (first == Errc::no_data && second == Errc::no_data) {
        return {Errc::invalid,
                path + ": is not a Warren volume; check the path, or make one with 'warren mkfs'"};
    }
    if (first == Errc::io || second == Errc::io) {
        return {Errc::io, path +
                              ": the superblock cannot be read; check the device and the "
                              "system's log"};
    }
    return {Errc::corrupt, path +
                               ": both copies of the superblock are damaged; restore the volume "
                               "from a backup"};
}

Failure check_version(const Superblock& superblock, const std::string& path) {
    if (superblock.version_major != format::version_major) {
        return {Errc::not_supported,
                path + ": has format version " + std::to_string(superblock.version_major) + "." +
                    std::to_string(superblock.version_minor) + ", this program knows version " +
                    std::to_string(format::version_major) + "; use a newer warren"};
    }
    if ((superblock.features_incompatible & ~format::incompatible_known) != 0) {
        return {Errc::not_supported,
                path + ": uses features that this program does not know; use a newer warren"};
    }
    return {};
}

bool overlaps(u64 offset, u64 blocks, u64 other, u64 other_blocks) {
    return offset < other + other_blocks * block_size && other < offset + blocks * block_size;
}

/// Whether `blocks` blocks from `offset` on lie in a volume of `size_bytes` and overlap neither
/// copy of the superblock.
bool is_good_range(u64 offset, u64 blocks, u64 size_bytes) {
    return offset % block_size == 0 && blocks > 0 && offset < size_bytes &&
           blocks <= (size_bytes - offset) / block_size &&
           !overlaps(offset, blocks, format::superblock_offset, 1) &&
           !overlaps(offset, blocks, format::superblock_copy_offset, 1);
}

/// Whether `number` can be the number of an inode: it lies in the volume, not in a system frame,
/// and not in the bitmap block of its frame.
bool is_good_inode(u64 number, const Superblock& superblock) {
    const u64 frame = number / format::inodes_per_frame;
    constexpr u64 blocks = format::blocks_per_frame;
    return frame != 0 && frame < superblock.frame_count &&
           number % format::inodes_per_frame >= format::inodes_per_block &&
           !overlaps(frame * format::frame_size, blocks, superblock.frame_table_offset,
                     superblock.frame_table_blocks) &&
           !overlaps(frame * format::frame_size, blocks, superblock.journal_offset,
                     superblock.journal_blocks);
}

/// The name of an invalid part of the superblock, or null.
const char* find_nonsense(const Superblock& superblock) {
    const u64 size = superblock.size_bytes;
    const u64 frames = superblock.frame_count;
    if (size < format::volume_size_min || size > format::volume_size_max ||
        size % format::frame_size != 0 || frames != size / format::frame_size) {
        return "size";
    }
    if (!is_good_range(superblock.frame_table_offset, superblock.frame_table_blocks, size) ||
        superblock.frame_table_blocks < format::table_blocks_for(frames)) {
        return "frame table's place";
    }
    if (!is_good_range(superblock.journal_offset, superblock.journal_blocks, size) ||
        superblock.journal_blocks % 2 != 0 ||
        overlaps(superblock.journal_offset, superblock.journal_blocks,
                 superblock.frame_table_offset, superblock.frame_table_blocks)) {
        return "journal's place";
    }
    if (!is_good_inode(superblock.root_inode, superblock) ||
        !is_good_inode(superblock.orphan_directory, superblock) ||
        superblock.root_inode == superblock.orphan_directory) {
        return "root directory";
    }
    if (superblock.metadata_frames_end > frames || superblock.data_frames_begin > frames ||
        superblock.blocks_used > frames * format::blocks_per_frame ||
        superblock.inodes_used > frames * format::inodes_per_frame || superblock.clean > 1 ||
        superblock.header.transaction == 0) {
        return "state";
    }
    return nullptr;
}

Errc write_copy(Disk& disk, Superblock& superblock, u64 place, u64 transaction) {
    Superblock copy = superblock;
    WARREN_TRY(write_sealed(disk, place, BlockKind::superblock, format::volume_of(copy),
                            transaction, reinterpret_cast<Block&>(copy)));
    superblock.header = copy.header;
    return disk.flush();
}

}  // namespace

Errc read_superblock_copy(Disk& disk, u64 place, Superblock& superblock) {
    if (disk.size_bytes() < place + block_size) return Errc::no_data;
    auto& block = reinterpret_cast<Block&>(superblock);
    WARREN_TRY(disk.read(place, block.bytes()));
    if (superblock.magic != format::magic) return Errc::no_data;
    return format::check_block(block, BlockKind::superblock, format::volume_of(superblock), place);
}

Failure validate_superblock(const Superblock& superblock, u64 device_bytes,
                            const std::string& path) {
    WARREN_TRY(check_version(superblock, path));
    if (const char* part = find_nonsense(superblock)) {
        return {Errc::corrupt, path + ": the superblock's " + part +
                                   " makes no sense; restore the volume from a backup"};
    }
    if (superblock.journal_blocks < format::journal_blocks_min) {
        return {Errc::corrupt, path + ": the superblock says that the journal has " +
                                   std::to_string(superblock.journal_blocks) +
                                   " blocks, and the least is " +
                                   std::to_string(format::journal_blocks_min) +
                                   "; restore the volume from a backup"};
    }
    if (device_bytes < superblock.size_bytes) {
        return {Errc::corrupt, path + ": " + std::to_string(superblock.size_bytes - device_bytes) +
                                   " bytes are missing at the end (the volume has " +
                                   std::to_string(superblock.size_bytes) + ", here are " +
                                   std::to_string(device_bytes) + "); copy the whole image again"};
    }
    return {};
}

const char* find_foreign_file_system(Disk& disk) {
    struct Signature {
        u64 offset;
        std::string_view bytes;
        const char* name;
    };
    static constexpr Signature signatures[] = {
        {0, "XFSB", "an XFS file system"},
        {1080, "\x53\xef", "an ext2, ext3 or ext4 file system"},
        {64 * kib + 64, "_BHRfS_M", "a Btrfs file system"},
        {0, std::string_view("LUKS\xba\xbe", 6), "an encrypted volume (LUKS)"},
        {3, "NTFS    ", "an NTFS file system"},
        {1024, "\x10\x20\xf5\xf2", "an F2FS file system"},
        {512, "EFI PART", "a partition table"},
    };
    for (const Signature& signature : signatures) {
        std::byte found[8];
        const u64 length = signature.bytes.size();
        if (disk.size_bytes() < signature.offset + length) continue;
        if (disk.read(signature.offset, std::span(found, length)) != Errc::ok) continue;
        if (std::memcmp(found, signature.bytes.data(), length) == 0) return signature.name;
    }
    return nullptr;
}

Failure read_superblock(Disk& disk, const std::string& path, Superblock& superblock) {
    Superblock found;
    const Errc first = read_superblock_copy(disk, format::superblock_offset, found);
    Errc second = Errc::ok;
    if (first != Errc::ok) {
        second = read_superblock_copy(disk, format::superblock_copy_offset, found);
        if (second != Errc::ok) return unreadable(path, first, second);
        // A torn write keeps the magic number. If it is gone, another program has written there.
        const char* foreign = first == Errc::no_data ? find_foreign_file_system(disk) : nullptr;
        if (foreign != nullptr) {
            return {Errc::invalid,
                    path + ": holds " + foreign + " over what was a Warren volume; check the path"};
        }
    }
    WARREN_TRY(validate_superblock(found, disk.size_bytes(), path));
    superblock = found;
    return {};
}

void raise_generation(Superblock& superblock, u64 last) {
    constexpr u64 ahead_min = u64{1} << 20;
    if (superblock.generation < last + ahead_min) superblock.generation = last + 2 * ahead_min;
}

Errc write_superblock(Disk& disk, Superblock& superblock, u64 transaction) {
    // With this number on disk, earlier transactions are not replayed, so they must be durable at
    // their home locations before.
    WARREN_TRY(disk.flush());
    // The second copy is written first, unless it is the only sound one.
    Superblock present;
    const bool is_first_sound =
        read_superblock_copy(disk, format::superblock_offset, present) == Errc::ok;
    u64 places[] = {format::superblock_copy_offset, format::superblock_offset};
    if (!is_first_sound) std::swap(places[0], places[1]);
    WARREN_TRY(write_copy(disk, superblock, places[0], transaction));
    return write_copy(disk, superblock, places[1], transaction);
}

}  // namespace warren
