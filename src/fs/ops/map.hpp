// SPDX-License-Identifier: Apache-2.0
// Where the contents of a regular file are: those of one block, the next data or hole, the bytes
// between the end of the file and the end of its last block. These operations take no lock and
// write nothing.
//
// The host reads and writes contents at the places that these operations return. A place belongs to
// the file until an operation frees it. So the host, with a lock for each open file, lets no
// truncation, hole punching or removal of a file run during its reads and writes of the file's
// data.
//
// Invariant: a file of kind `bytes` has at most 128 bytes. They are in the inode, with zeros after
// them.
#pragma once

#include "fs/core/extents.hpp"

namespace warren::ops {

using namespace warren::core;

/// A regular file, with fields that were read under inode.seen.
struct File {
    InodeRef inode;
    u64 size = 0;
    AreaKind kind = AreaKind::bytes;
};

enum class MappingKind : u8 { hole, data, unwritten, bytes };

/// The contents of a file that are in its inode.
struct InlineBytes {
    u64 words[format::area_bytes / 8] = {};

    WARREN_HD bool is_zero() const {
        u64 all = 0;
        for (const u64 word : words)
            all |= word;
        return all == 0;
    }
    friend bool operator==(const InlineBytes&, const InlineBytes&) = default;
};

/// What lies at one block of a file, and the list of extents that covers the block.
struct Spot {
    File file;
    u64 block = 0;
    ExtentHome home;
    u32 index = 0;  // in the list: the extent that covers the block, or the next one after it
    MappingKind kind = MappingKind::hole;
    bool is_shared = false;  // data blocks that another extent may use as well
    u64 place = 0;           // of the block in the volume, for data and unwritten
    u64 blocks = 0;          // this many blocks from here on are alike; a hole may be longer
};

/// The result of map().
struct Mapping {
    MappingKind kind = MappingKind::hole;
    bool is_shared = false;  // data that must not be overwritten in place: see unshare()
    u64 place = 0;           // of the block in the volume, for data and unwritten
    u64 blocks = 0;          // at least this many blocks from here on are alike
    u64 size = 0;            // of the file, in bytes
    InlineBytes bytes;       // for kind `bytes`: the contents, then zeros up to 128 bytes
    Seen seen;               // of the inode; all changes of the above are made under its lock
};

WARREN_HD constexpr u64 blocks_of(u64 bytes) {
    return bytes / format::block_size + (bytes % format::block_size != 0 ? 1 : 0);
}

/// The byte offset at which a file block begins, or the greatest number if the offset would be 2^64
/// or more.
WARREN_HD constexpr u64 bytes_of(u64 blocks) {
    return blocks < (u64{1} << 52) ? blocks * format::block_size : ~u64{0};
}

/// Treats an inode as a regular file. Errc::is_directory or Errc::invalid if it is something else.
template <class Team>
WARREN_HD Result<File> file_at(Operation<Team>& op, const InodeRef& inode) {
    File file;
    file.inode = inode;
    file.size = load(op.team, inode.at->size);
    file.kind = static_cast<AreaKind>(load(op.team, inode.at->area_kind));
    const u32 type = load(op.team, inode.at->mode) & format::type_mask;
    WARREN_TRY(op.confirm(inode.seen));
    if (type == format::type_directory) return Errc::is_directory;
    if (type != format::type_regular) return Errc::invalid;
    const bool sound = file.kind == AreaKind::bytes || file.kind == AreaKind::extents ||
                       file.kind == AreaKind::tree;
    return sound ? Result<File>(file) : Errc::corrupt;
}

/// Finds a regular file; returns the errors of file_at().
template <class Team>
WARREN_HD Result<File> find_file(Operation<Team>& op, Handle handle) {
    WARREN_LET(inode, find_inode(op, handle));
    return file_at(op, *inode);
}

/// A consistent copy of the contents in the inode. Requires: the file is of kind `bytes`.
template <class Team>
WARREN_HD Result<InlineBytes> inline_bytes(Operation<Team>& op, const File& file) {
    // Every lane reads the words itself: if no thread writes meanwhile, all lanes read the same.
    InlineBytes bytes;
    for (u32 i = 0; i < format::area_bytes / 8; ++i) {
        bytes.words[i] = relaxed_load(file.inode.at->area.words[i]);
    }
    WARREN_TRY(op.confirm(file.inode.seen));
    return bytes;
}

/// Finds what lies at `block` of `file`.
template <class Team>
WARREN_HD Result<Spot> locate(Operation<Team>& op, const File& file, u64 block) {
    Spot spot;
    spot.file = file;
    spot.block = block;
    WARREN_LET(home, find_home(op, file.inode, file.kind, block));
    spot.home = *home;
    if (file.kind == AreaKind::bytes && block == 0) {
        spot.kind = MappingKind::bytes;
        spot.blocks = 1;
        return spot;
    }
    const ExtentList& list = spot.home.list;
    spot.index = search_extents(op.team, list, block);
    const bool has_next = spot.index < list.count;
    Extent extent{};
    bool sound = true;
    if (has_next) {
        extent = once(op.team, [&] { return read_extent(list.at[spot.index]); });
        sound = once(op.team, [&] { return is_sound(op.store, extent); });
    }
    WARREN_TRY(op.confirm(spot.home.seen));
    WARREN_TRY(op.confirm(file.inode.seen));
    if (!sound || (has_next && end_of(extent) <= block)) return Errc::corrupt;
    if (has_next && extent.file_block <= block) {
        spot.kind = format::is_unwritten(extent) ? MappingKind::unwritten : MappingKind::data;
        spot.is_shared = spot.kind == MappingKind::data && format::is_shared(extent);
        spot.place = place_at(extent, block);
        spot.blocks = end_of(extent) - block;
    } else {
        spot.blocks = (has_next ? extent.file_block : spot.home.upper) - block;
    }
    return spot;
}

template <class Team>
WARREN_HD Result<Spot> locate(Operation<Team>& op, Handle handle, u64 block) {
    WARREN_LET(file, find_file(op, handle));
    return locate(op, *file, block);
}

/// Where block `file_block` of the file is. It may lie after the end of the file.
template <class Team>
WARREN_HD Result<Mapping> map(Operation<Team>& op, Handle handle, u64 file_block) {
    WARREN_LET(spot, locate(op, handle, file_block));
    Mapping mapping;
    mapping.kind = spot->kind;
    mapping.is_shared = spot->is_shared;
    mapping.place = spot->place;
    mapping.blocks = spot->blocks;
    mapping.size = spot->file.size;
    mapping.seen = spot->file.inode.seen;
    if (mapping.kind == MappingKind::bytes) {
        WARREN_LET(bytes, inline_bytes(op, spot->file));
        mapping.bytes = *bytes;
    }
    return mapping;
}

/// A range of bytes in the volume that must be zero before a file may grow over it.
struct Gap {
    u64 place = 0;
    u32 length = 0;          // 0: nothing to do
    u64 file_block = 0;      // the last block of the file
    bool is_shared = false;  // the block is shared: call unshare() for it, then ask again
};

/// The bytes after the end of a file in its last block are undefined. Before a call that makes the
/// file larger and leaves bytes between the old end and `first_new_byte` unwritten (a write after
/// the end, truncate(), allocate()), the host writes zeros to the gap that this function returns.
/// `first_new_byte` is where the write begins, or the new size. Zeroing the gap is harmless even if
/// the file does not grow afterwards.
template <class Team>
WARREN_HD Result<Gap> tail_to_zero(Operation<Team>& op, Handle handle, u64 first_new_byte) {
    WARREN_LET(file, find_file(op, handle));
    const u64 in_block = file->size % format::block_size;
    if (in_block == 0 || first_new_byte <= file->size) return Gap{};
    WARREN_LET(spot, locate(op, *file, file->size / format::block_size));
    if (spot->kind != MappingKind::data) return Gap{};
    const u64 rest = format::block_size - in_block;
    const u64 until = first_new_byte - file->size;
    return Gap{spot->place + in_block, static_cast<u32>(until < rest ? until : rest),
               file->size / format::block_size, spot->is_shared};
}

/// The result of one step of a search for data or a hole.
struct Sought {
    u64 offset = 0;
    bool is_found = false;  // false: the caller continues the search at `offset`
};

/// Looks for the next data or hole from `offset` on, within one run of blocks. Unwritten blocks
/// count as holes, and so does the end of the file. Errc::no_such_address if `offset` is at or
/// after the end, or if no data follow.
template <class Team>
WARREN_HD Result<Sought> seek(Operation<Team>& op, Handle handle, u64 offset, Seek whence) {
    WARREN_LET(file, find_file(op, handle));
    if (offset >= file->size) return Errc::no_such_address;
    WARREN_LET(spot, locate(op, *file, offset / format::block_size));
    const u64 next = bytes_of(offset / format::block_size + spot->blocks);
    const bool is_data = spot->kind == MappingKind::data || spot->kind == MappingKind::bytes;
    if (is_data == (whence == Seek::data)) return Sought{offset, true};
    if (next < file->size) return Sought{next, false};
    if (whence == Seek::hole) return Sought{file->size, true};
    return Errc::no_such_address;
}

}  // namespace warren::ops
