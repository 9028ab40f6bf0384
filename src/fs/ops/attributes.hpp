// SPDX-License-Identifier: Apache-2.0
// Extended attributes: get, list, set, remove. An inode keeps them in one block of records, which
// is allocated with the first attribute and freed with the last. Permissions are those of xattr(7).
//
// Invariant: the attribute block of an inode is never empty. An access ACL that says no more than
// the mode bits is not stored.
#pragma once

#include "fs/core/acl.hpp"

namespace warren::ops {

using namespace warren::core;

/// The namespaces of attributes; of system.* only the two ACLs exist.
enum class AttributeSpace : u8 { user, trusted, security, access_acl, default_acl };

/// An attribute name in the caller's memory, after make_attribute_name() has checked it.
struct AttributeName {
    const char* bytes = nullptr;
    u32 length = 0;
    AttributeSpace space = AttributeSpace::user;

    WARREN_HD bool is_acl() const {
        return space == AttributeSpace::access_acl || space == AttributeSpace::default_acl;
    }
};

/// Checks a name. Errc::out_of_range for an illegal length, Errc::not_supported for an unknown
/// namespace, Errc::invalid for a name that is only a prefix or contains a NUL.
WARREN_HD inline Result<AttributeName> make_attribute_name(const char* bytes, u32 length) {
    if (length == 0 || length > format::name_length_max) return Errc::out_of_range;
    for (u32 i = 0; i < length; ++i) {
        if (bytes[i] == '\0') return Errc::invalid;
    }
    const auto in = [&](const char* prefix, u32 count) {
        u32 same = 0;
        while (same < count && same < length && bytes[same] == prefix[same])
            ++same;
        return same == count;
    };
    const auto made = [&](AttributeSpace space, u32 prefix) -> Result<AttributeName> {
        if (length == prefix) return Errc::invalid;
        return AttributeName{bytes, length, space};
    };
    if (in("user.", 5)) return made(AttributeSpace::user, 5);
    if (in("trusted.", 8)) return made(AttributeSpace::trusted, 8);
    if (in("security.", 9)) return made(AttributeSpace::security, 9);
    if (length == acl_access_length && in(acl_access_name, acl_access_length)) {
        return AttributeName{bytes, length, AttributeSpace::access_acl};
    }
    if (length == acl_default_length && in(acl_default_name, acl_default_length)) {
        return AttributeName{bytes, length, AttributeSpace::default_acl};
    }
    return Errc::not_supported;
}

/// Whether the caller may read or write attributes of this namespace of `inode`.
template <class Team>
WARREN_HD Errc check_attribute_access(Operation<Team>& op, const InodeRef& inode,
                                      const Credentials& caller, AttributeSpace space,
                                      bool is_write) {
    const u32 mode = load(op.team, inode.at->mode);
    const u32 owner = load(op.team, inode.at->user);
    WARREN_TRY(op.confirm(inode.seen));
    const bool is_directory = format::is_directory(mode);
    const Errc hidden = is_write ? Errc::not_permitted : Errc::no_data;
    switch (space) {
        case AttributeSpace::user: {
            if (!format::is_regular(mode) && !is_directory) return hidden;
            if (is_write && is_directory && must_own_entries(caller, mode, owner)) {
                return Errc::not_permitted;
            }
            return check_permission(op, inode, caller, is_write ? may_write : may_read);
        }
        case AttributeSpace::trusted:
            return caller.is_privileged() ? Errc::ok : hidden;
        case AttributeSpace::security:
            return caller.is_privileged() || !is_write ? Errc::ok : Errc::not_permitted;
        default:
            if (format::is_symlink(mode)) return Errc::not_supported;
            return !is_write || caller.owns(owner) ? Errc::ok : Errc::not_permitted;
    }
}

/// Copies the value of an attribute if `target` has room; returns its length. One lane.
WARREN_HD inline Result<u64> copy_value(const AttributeBlock& block, const AttributeName& name,
                                        std::byte* target, u64 capacity) {
    const AttributeRecord record = find_record(block, name.bytes, name.length);
    if (record.offset == attribute_none) return Errc::no_data;
    const u64 length = record.value_length;
    if (capacity == 0) return length;
    if (length > capacity) return Errc::out_of_range;
    for (u32 i = 0; i < length; ++i) {
        target[i] = static_cast<std::byte>(read_byte(block, record.value_offset() + i));
    }
    return length;
}

/// Reads an attribute's value and returns its length. A `capacity` of 0 asks only for the length.
/// Errc::out_of_range if `capacity` is too small. On an error the contents of `target` are
/// undefined.
template <class Team>
WARREN_HD Result<u64> get_attribute(Operation<Team>& op, const Credentials& caller, Handle handle,
                                    const char* bytes, u32 name_length, std::byte* target,
                                    u64 capacity) {
    WARREN_LET(name, make_attribute_name(bytes, name_length));
    WARREN_LET(inode, find_inode(op, handle));
    WARREN_TRY(check_attribute_access(op, *inode, caller, name->space, false));
    WARREN_LET(block, attribute_block(op, *inode));
    if (*block == nullptr) return Errc::no_data;
    const Result<u64> length =
        once(op.team, [&] { return copy_value(**block, *name, target, capacity); });
    WARREN_TRY(op.confirm(inode->seen));
    return length;
}

/// Writes the names that fit, each followed by a NUL; returns the number of bytes that all need.
/// One lane.
WARREN_HD inline u64 copy_names(const AttributeBlock& block, bool shows_trusted, char* target,
                                u64 capacity) {
    u64 total = 0;
    AttributeRecord record = record_at(block, 0);
    for (; record.offset != attribute_none;
         record = record_at(block, record.offset + record.bytes())) {
        bool is_trusted = record.name_length >= 8;
        for (u32 i = 0; is_trusted && i < 8; ++i) {
            is_trusted =
                read_byte(block, record.name_offset() + i) == static_cast<u8>("trusted."[i]);
        }
        if (is_trusted && !shows_trusted) continue;
        const u64 end = total + record.name_length + 1;
        if (end <= capacity) {
            for (u32 i = 0; i < record.name_length; ++i) {
                target[total + i] = static_cast<char>(read_byte(block, record.name_offset() + i));
            }
            target[end - 1] = '\0';
        }
        total = end;
    }
    return total;
}

/// Lists the names, each followed by a NUL; returns their length in bytes. A `capacity` of 0 asks
/// only for the length. Only user 0 sees trusted.*.
template <class Team>
WARREN_HD Result<u64> list_attributes(Operation<Team>& op, const Credentials& caller, Handle handle,
                                      char* target, u64 capacity) {
    WARREN_LET(inode, find_inode(op, handle));
    WARREN_LET(block, attribute_block(op, *inode));
    if (*block == nullptr) return u64{0};
    const u64 length =
        once(op.team, [&] { return copy_names(**block, caller.is_root(), target, capacity); });
    WARREN_TRY(op.confirm(inode->seen));
    if (capacity != 0 && length > capacity) return Errc::out_of_range;
    return length;
}

/// A planned change of one record: the old record is removed, a new one is added, or both.
struct AttributeEdit {
    AttributeBlock* block = nullptr;
    u64 place = 0;
    AttributeRecord old;
    bool is_fresh = false;    // the block is new
    bool is_emptied = false;  // no record is left, so the block is freed

    WARREN_HD bool has_old() const { return old.offset != attribute_none; }
};

/// Blocks that apply_edit() marks dirty: the inode, the attribute block, a block of the frame
/// table.
inline constexpr u32 edit_blocks_max = 3;

/// The result of looking for a record: the record, and whether all records of the block are valid.
struct RecordSearch {
    AttributeRecord record;
    u32 used = 0;
    bool is_sound = false;
};

WARREN_HD inline RecordSearch search_records(const AttributeBlock& block, const char* name,
                                             u32 length) {
    RecordSearch search;
    search.used = relaxed_load(block.bytes_used);
    search.is_sound = records_are_sound(block);
    search.record = find_record(block, name, length);
    return search;
}

/// Plans to replace the record called `name` by one of `added_bytes`, or to remove it if that is 0.
/// Reserves the attribute block if the inode has none. Errc::no_space if the record does not fit.
template <class Team>
WARREN_HD Result<AttributeEdit> plan_edit(Operation<Team>& op, const InodeRef& inode,
                                          const AttributeName& name, u32 added_bytes,
                                          AttributeSet how) {
    AttributeEdit edit;
    WARREN_LET(block, attribute_block(op, inode));
    RecordSearch search;
    if (*block != nullptr) {
        search = once(op.team, [&] { return search_records(**block, name.bytes, name.length); });
        edit.place = attribute_place(op, inode);
        WARREN_TRY(op.confirm(inode.seen));
        if (!search.is_sound) return Errc::corrupt;
        edit.block = *block;
        edit.old = search.record;
    }
    if (how == AttributeSet::create && edit.has_old()) return Errc::exists;
    if (how == AttributeSet::replace && !edit.has_old()) return Errc::no_data;
    const u32 kept = search.used - (edit.has_old() ? edit.old.bytes() : 0);
    if (kept + added_bytes > attribute_bytes_max) return Errc::no_space;
    edit.is_emptied = edit.has_old() && kept + added_bytes == 0;
    edit.is_fresh = edit.block == nullptr && added_bytes > 0;
    if (!edit.is_fresh) return edit;
    WARREN_LET(fresh, reserve_block(op));
    edit.place = fresh->place;
    edit.block = reinterpret_cast<AttributeBlock*>(fresh->at);
    return edit;
}

/// Sets the inode's pointer to its attribute block (zero: it has none) and adds `step`, 1 or ~0 for
/// -1, to its block count. One lane, within apply.
WARREN_HD inline void hang_attributes(const InodeRef& inode, format::BlockPointer block, u64 step) {
    relaxed_store(inode.at->attributes.raw, block.raw);
    device_atomic<u64>(inode.at->blocks).fetch_add(step, hd::memory_order_relaxed);
}

/// Makes a planned change; `adds`: there is a new record. Only within apply.
template <class Team>
WARREN_HD void apply_edit(Operation<Team>& op, const InodeRef& inode, const AttributeEdit& edit,
                          const AttributeName& name, bool adds, const std::byte* value,
                          u32 value_length) {
    if (edit.is_fresh) {
        const FreshBlock fresh{edit.place, reinterpret_cast<Block*>(edit.block)};
        start_block(op, fresh, identity_of(BlockKind::attributes, inode));
        once(op.team, [&] { hang_attributes(inode, BlockPointer::to(edit.place), 1); });
    }
    once(op.team, [&] {
        if (edit.has_old()) erase_record(*edit.block, edit.old);
        if (adds) append_record(*edit.block, name.bytes, name.length, value, value_length);
        if (edit.is_emptied) hang_attributes(inode, BlockPointer{}, ~u64{0});
    });
    if (edit.is_emptied) {
        free_metadata(op, edit.place);
    } else if (edit.has_old() || adds) {
        op.mark_dirty(edit.place);
    }
    op.mark_dirty(inode.block_place());
}

/// Sets or replaces an ACL, or removes it if the value is empty. The flags of setxattr(2) are
/// ignored.
template <class Team>
WARREN_HD Errc set_acl(Operation<Team>& op, const Credentials& caller, const InodeRef& inode,
                       const AttributeName& name, const std::byte* bytes, u32 length, i64 now) {
    const bool is_access = name.space == AttributeSpace::access_acl;
    const u32 old_mode = load(op.team, inode.at->mode);
    const u32 group = load(op.team, inode.at->group);
    WARREN_TRY(op.confirm(inode.seen));
    const AclValue acl{bytes, length};
    const bool is_empty = acl_is_empty(acl);
    const bool is_directory = format::is_directory(old_mode);
    if (!is_access && !is_directory && !format::is_symlink(old_mode)) {
        return is_empty ? Errc::ok : Errc::access;
    }
    WARREN_TRY(check_attribute_access(op, inode, caller, name.space, true));
    u32 mode = old_mode;
    bool keeps = !is_empty;
    if (!is_empty) {
        WARREN_TRY(once(op.team, [&] { return check_acl(acl); }));
        if (!is_access && !acl_fits_twice(length)) return Errc::no_space;
        if (is_access) {
            const AclMode wanted = once(op.team, [&] { return mode_of_acl(acl); });
            mode = (old_mode & ~permission_bits) | wanted.bits;
            keeps = !wanted.is_equivalent;
            if (!caller.may_set_setgid(group)) mode &= ~format::mode_setgid;
        }
    }
    const u32 added = keeps ? attribute_record_bytes(name.length, length) : 0;
    WARREN_LET(edit, plan_edit(op, inode, name, added, AttributeSet::any));
    if (is_empty && !edit->has_old()) return Errc::ok;
    WARREN_TRY(op.will_write(inode.seen));
    WARREN_TRY(op.begin_apply(WARREN_CREDITS(edit_blocks_max)));
    apply_edit(op, inode, *edit, name, keeps, bytes, length);
    once(op.team, [&] {
        relaxed_store(inode.at->mode, mode);
        relaxed_store(inode.at->changed, now);
        if (is_access && is_directory) note_rights_change(op.store, inode.block_place());
    });
    op.end_apply();
    return Errc::ok;
}

/// Sets an attribute if `adds`, else removes it. `how` may require that the attribute is new (else
/// Errc::exists) or exists (else Errc::no_data). Removing an ACL that does not exist is not an
/// error.
template <class Team>
WARREN_HD Errc change_attribute(Operation<Team>& op, const Credentials& caller, Handle handle,
                                const char* bytes, u32 name_length, bool adds,
                                const std::byte* value, u64 value_length, AttributeSet how,
                                i64 now) {
    WARREN_LET(name, make_attribute_name(bytes, name_length));
    WARREN_LET(inode, find_inode(op, handle));
    if (value_length > attribute_bytes_max) return Errc::no_space;
    const u32 length = static_cast<u32>(value_length);
    if (name->is_acl()) return set_acl(op, caller, *inode, *name, value, length, now);
    WARREN_TRY(check_attribute_access(op, *inode, caller, name->space, true));
    const u32 added = adds ? attribute_record_bytes(name->length, length) : 0;
    WARREN_LET(edit, plan_edit(op, *inode, *name, added, how));
    WARREN_TRY(op.will_write(inode->seen));
    WARREN_TRY(op.begin_apply(WARREN_CREDITS(edit_blocks_max)));
    apply_edit(op, *inode, *edit, *name, adds, value, length);
    once(op.team, [&] { relaxed_store(inode->at->changed, now); });
    op.end_apply();
    return Errc::ok;
}

}  // namespace warren::ops
