// SPDX-License-Identifier: Apache-2.0
// The records of an extended-attribute block. One lane runs these functions; readers confirm the
// inode's version afterwards, writers hold its lock.
#pragma once

#include "fs/core/block_identity.hpp"
#include "fs/format/check_structure.hpp"

namespace warren::core {

using format::AttributeBlock;

inline constexpr u32 attribute_bytes_max = sizeof(AttributeBlock::records);
inline constexpr u32 attribute_none = ~u32{0};

struct AttributeRecord {
    u32 offset = attribute_none;
    u32 name_length = 0;
    u32 value_length = 0;

    WARREN_HD u32 name_offset() const { return offset + 4; }
    WARREN_HD u32 value_offset() const { return offset + 4 + name_length; }
    WARREN_HD u32 bytes() const { return (4 + name_length + value_length + 3) / 4 * 4; }
};

WARREN_HD constexpr u32 attribute_record_bytes(u32 name_length, u32 value_length) {
    return (4 + name_length + value_length + 3) / 4 * 4;
}

WARREN_HD inline u32 read_byte(const AttributeBlock& block, u32 offset) {
    return relaxed_load(block.records[offset]);
}

/// The record at `offset`. The offset of the result is attribute_none if there is no record: at the
/// end, or if the bytes are invalid.
WARREN_HD inline AttributeRecord record_at(const AttributeBlock& block, u32 offset) {
    const u32 used = relaxed_load(block.bytes_used);
    if (used > attribute_bytes_max || offset + 4 > used) return {};
    AttributeRecord record;
    record.name_length = read_byte(block, offset) | read_byte(block, offset + 1) << 8;
    record.value_length = read_byte(block, offset + 2) | read_byte(block, offset + 3) << 8;
    record.offset =
        record.name_length > 0 && offset + record.bytes() <= used ? offset : attribute_none;
    return record;
}

WARREN_HD inline bool has_name(const AttributeBlock& block, const AttributeRecord& record,
                               const char* name, u32 length) {
    if (record.name_length != length) return false;
    u32 same = 0;
    while (same < length &&
           read_byte(block, record.name_offset() + same) == static_cast<u8>(name[same])) {
        ++same;
    }
    return same == length;
}

/// The record called `name`; its offset is attribute_none if there is none.
WARREN_HD inline AttributeRecord find_record(const AttributeBlock& block, const char* name,
                                             u32 length) {
    AttributeRecord record = record_at(block, 0);
    while (record.offset != attribute_none && !has_name(block, record, name, length))
        record = record_at(block, record.offset + record.bytes());
    return record;
}

WARREN_HD inline bool have_one_name(const AttributeBlock& block, const AttributeRecord& a,
                                    const AttributeRecord& b) {
    if (a.name_length != b.name_length) return false;
    u32 same = 0;
    while (same < a.name_length &&
           read_byte(block, a.name_offset() + same) == read_byte(block, b.name_offset() + same)) {
        ++same;
    }
    return same == a.name_length;
}

/// Whether the records fill the bytes in use without gaps and have different names.
WARREN_HD inline bool records_are_sound(const AttributeBlock& block) {
    const u32 used = relaxed_load(block.bytes_used);
    u32 end = 0;
    for (AttributeRecord record = record_at(block, 0); record.offset != attribute_none;
         record = record_at(block, end)) {
        end = record.offset + record.bytes();
        if (record.name_length > format::name_length_max) return false;
        for (u32 i = 0; i < record.name_length; ++i) {
            if (read_byte(block, record.name_offset() + i) == 0) return false;
        }
        // "<" instead of "!=": while a writer changes the block, no record may begin at that offset
        // any more.
        for (AttributeRecord other = record_at(block, 0); other.offset < record.offset;
             other = record_at(block, other.offset + other.bytes())) {
            if (have_one_name(block, record, other)) return false;
        }
    }
    return end == used;
}

/// Removes a record and closes the gap.
WARREN_HD inline void erase_record(AttributeBlock& block, const AttributeRecord& record) {
    const u32 used = relaxed_load(block.bytes_used);
    const u32 size = record.bytes();
    for (u32 i = record.offset; i + size < used; ++i) {
        relaxed_store(block.records[i], static_cast<u8>(read_byte(block, i + size)));
    }
    relaxed_store(block.bytes_used, used - size);
}

/// Adds a record at the end. Requires: it fits.
WARREN_HD inline void append_record(AttributeBlock& block, const char* name, u32 name_length,
                                    const std::byte* value, u32 value_length) {
    const u32 at = relaxed_load(block.bytes_used);
    const u32 size = attribute_record_bytes(name_length, value_length);
    const u8 lengths[4] = {static_cast<u8>(name_length), static_cast<u8>(name_length >> 8),
                           static_cast<u8>(value_length), static_cast<u8>(value_length >> 8)};
    for (u32 i = 0; i < size; ++i) {
        u8 byte = 0;
        if (i < 4) {
            byte = lengths[i];
        } else if (i < 4 + name_length) {
            byte = static_cast<u8>(name[i - 4]);
        } else if (i < 4 + name_length + value_length) {
            byte = static_cast<u8>(value[i - 4 - name_length]);
        }
        relaxed_store(block.records[at + i], byte);
    }
    relaxed_store(block.bytes_used, at + size);
}

/// The attribute block of `inode`, pinned; null if it has none.
template <class Team>
WARREN_HD Result<AttributeBlock*> attribute_block(Operation<Team>& op, const InodeRef& inode) {
    const format::BlockPointer pointer{load(op.team, inode.at->attributes.raw)};
    WARREN_TRY(op.confirm(inode.seen));
    if (pointer.raw == 0) return static_cast<AttributeBlock*>(nullptr);
    if (!format::pointer_is_sound(pointer, false, op.store.size_bytes)) return Errc::corrupt;
    WARREN_LET(block, op.pin(pointer.offset()));
    WARREN_TRY(
        require_own_block(op, *block, inode.seen, identity_of(BlockKind::attributes, inode)));
    return reinterpret_cast<AttributeBlock*>(*block);
}

}  // namespace warren::core
