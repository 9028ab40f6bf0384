// SPDX-License-Identifier: Apache-2.0
// Access control lists (ACLs) as values: whether one is valid, which mode bits it stands for, what
// chmod changes in it, and what a new inode inherits. The rules are those of acl(5) as Linux
// applies them. The form is that of Linux's extended attribute: u32 version, then for each entry
// u16 tag, u16 permissions, u32 id.
//
// Invariant: the mode bits of an inode agree with its access ACL. The owner's bits are those of
// user_object, the group's bits those of the mask (of group_object if there is no mask), the
// others' bits those of other. A change of one changes both.
#pragma once

#include "fs/core/permission.hpp"
#include "fs/core/tree.hpp"

namespace warren::core {

inline constexpr u32 acl_version = 2;
inline constexpr u32 acl_id_none = ~u32{0};
inline constexpr u32 permission_bits = 0777;

/// An ACL in the caller's memory.
struct AclValue {
    const std::byte* bytes = nullptr;
    u32 length = 0;

    WARREN_HD u32 size() const { return length; }
    WARREN_HD u32 byte(u32 index) const { return static_cast<u32>(bytes[index]); }
};

/// Whether an entry before `index` has the same tag and id as the one at `index`.
template <class Acl>
WARREN_HD bool acl_repeats(const Acl& acl, u32 index) {
    const AclEntry entry = acl_entry(acl, index);
    for (u32 i = index; i > 0; --i) {
        const AclEntry other = acl_entry(acl, i - 1);
        if (other.tag != entry.tag) return false;  // the caller has checked that tags are in order
        if (other.id == entry.id) return true;
    }
    return false;
}

/// Whether the entries form a valid ACL: sorted by tag (tags are ascending bits); exactly one entry
/// each of user_object, group_object and other; no user or group named twice; a mask if users or
/// groups are named.
template <class Acl>
WARREN_HD bool acl_is_sound(const Acl& acl) {
    u32 seen = 0;
    u32 last_tag = 0;
    u32 greatest_id = 0;
    for (u32 i = 0; i < acl_count(acl); ++i) {
        const AclEntry entry = acl_entry(acl, i);
        const bool is_named = entry.tag == acl_user || entry.tag == acl_group;
        const bool is_known = is_named || entry.tag == acl_user_object ||
                              entry.tag == acl_group_object || entry.tag == acl_mask ||
                              entry.tag == acl_other;
        if (!is_known || entry.permissions > 7 || entry.tag < last_tag) return false;
        if (entry.tag == last_tag) {
            if (!is_named) return false;
            // Ids usually ascend; only an id that does not is compared with all before it.
            if (entry.id <= greatest_id && acl_repeats(acl, i)) return false;
        }
        if (is_named && entry.id == acl_id_none) return false;
        greatest_id = entry.tag == last_tag && greatest_id > entry.id ? greatest_id : entry.id;
        last_tag = entry.tag;
        seen |= entry.tag;
    }
    const u32 required = acl_user_object | acl_group_object | acl_other |
                         ((seen & (acl_user | acl_group)) != 0 ? acl_mask : 0u);
    return (seen & required) == required;
}

/// Whether `value` means "no ACL": it is empty, or a header without entries.
WARREN_HD inline bool acl_is_empty(const AclValue& value) {
    return value.length == 0 ||
           (value.length == acl_header_bytes && acl_word(value, 0) == acl_version);
}

/// Errc::invalid for a malformed ACL, Errc::not_supported for one of another version.
template <class Acl>
WARREN_HD Errc check_acl(const Acl& acl) {
    if (acl.size() < acl_header_bytes) return Errc::invalid;
    if (acl_word(acl, 0) != acl_version) return Errc::not_supported;
    if ((acl.size() - acl_header_bytes) % acl_entry_bytes != 0) return Errc::invalid;
    return acl_is_sound(acl) ? Errc::ok : Errc::invalid;
}

/// Whether the record, if its name is that of an ACL, holds a valid one.
WARREN_HD inline bool acl_record_is_sound(const AttributeBlock& block,
                                          const AttributeRecord& record) {
    if (!has_name(block, record, acl_access_name, acl_access_length) &&
        !has_name(block, record, acl_default_name, acl_default_length)) {
        return true;
    }
    return check_acl(AclInBlock{block, record}) == Errc::ok;
}

/// Whether the records fill the used bytes of the block without gaps, have different names, and
/// hold a valid ACL where their name is that of an ACL. One lane.
WARREN_HD inline bool attributes_are_sound(const AttributeBlock& block) {
    if (!records_are_sound(block)) return false;
    for (AttributeRecord record = record_at(block, 0); record.offset != attribute_none;
         record = record_at(block, record.offset + record.bytes())) {
        if (!acl_record_is_sound(block, record)) return false;
    }
    return true;
}

/// The permission bits that an ACL stands for, and whether it says no more than these bits.
struct AclMode {
    u32 bits = 0;
    bool is_equivalent = true;
};

/// Requires: the ACL is sound.
template <class Acl>
WARREN_HD AclMode mode_of_acl(const Acl& acl) {
    AclMode mode;
    u32 group_class = 0;
    for (u32 i = 0; i < acl_count(acl); ++i) {
        const AclEntry entry = acl_entry(acl, i);
        const u32 bits = entry.permissions & 7;
        if (entry.tag == acl_user_object) mode.bits |= bits << 6;
        if (entry.tag == acl_other) mode.bits |= bits;
        if (entry.tag == acl_group_object || entry.tag == acl_mask) group_class = bits;
        if (entry.tag == acl_user || entry.tag == acl_group || entry.tag == acl_mask) {
            mode.is_equivalent = false;
        }
    }
    mode.bits |= group_class << 3;
    return mode;
}

/// Changes the access ACL in `record` to the permission bits of `mode`, as chmod does. One lane,
/// with the inode locked.
WARREN_HD inline void store_acl_mode(AttributeBlock& block, const AttributeRecord& record,
                                     u32 mode) {
    const AclInBlock acl{block, record};
    bool has_mask = false;
    for (u32 i = 0; i < acl_count(acl); ++i) {
        has_mask = has_mask || acl_entry(acl, i).tag == acl_mask;
    }
    const u32 group_class = has_mask ? acl_mask : acl_group_object;
    for (u32 i = 0; i < acl_count(acl); ++i) {
        const u32 tag = acl_entry(acl, i).tag;
        u32 shift = 0;
        if (tag == acl_user_object) {
            shift = 6;
        } else if (tag == group_class) {
            shift = 3;
        } else if (tag != acl_other) {
            continue;
        }
        const u32 at = record.value_offset() + acl_header_bytes + i * acl_entry_bytes + 2;
        relaxed_store(block.records[at], static_cast<u8>(mode >> shift & 7));
        relaxed_store(block.records[at + 1], 0);
    }
}

/// The place of the attribute block of `inode`, 0 if it has none. The caller confirms the version
/// or holds the lock.
template <class Team>
WARREN_HD u64 attribute_place(Operation<Team>& op, const InodeRef& inode) {
    return format::BlockPointer{load(op.team, inode.at->attributes.raw)}.offset();
}

/// What a new inode inherits from the default ACL of its parent directory.
struct InheritPlan {
    u32 mode = 0;  // type and permission bits of the new inode
    bool needs_block = false;
    bool takes_access = false;
    bool takes_default = false;
    AttributeRecord record;  // the default ACL, in the parent's block
};

/// The default ACL of a directory, as read by one lane.
struct DefaultAcl {
    AttributeRecord record;
    AclMode mode;
    bool is_sound = false;
};

WARREN_HD inline DefaultAcl find_default_acl(const AttributeBlock& block) {
    DefaultAcl found;
    found.record = find_record(block, acl_default_name, acl_default_length);
    if (found.record.offset == attribute_none) return found;
    const AclInBlock acl{block, found.record};
    found.is_sound = acl_is_sound(acl);
    found.mode = mode_of_acl(acl);
    return found;
}

/// Whether both an access and a default ACL of this size fit in one block: a subdirectory needs
/// both.
WARREN_HD constexpr bool acl_fits_twice(u32 value_length) {
    return attribute_record_bytes(acl_access_length, value_length) +
               attribute_record_bytes(acl_default_length, value_length) <=
           attribute_bytes_max;
}

/// Plans the mode and the ACLs of an inode that is created in `parent` with `mode`. If the parent
/// has a default ACL, it is used instead of the umask, and the parent is locked as if it were
/// written, so that its ACL cannot change during apply.
template <class Team>
WARREN_HD Result<InheritPlan> plan_inherit(Operation<Team>& op, const InodeRef& parent, u32 mode,
                                           u32 umask, bool is_directory) {
    InheritPlan plan;
    plan.mode = mode;
    if (format::is_symlink(mode)) return plan;
    plan.mode = mode & ~(umask & permission_bits);
    WARREN_LET(block, attribute_block(op, parent));
    if (*block == nullptr) return plan;
    const DefaultAcl found = once(op.team, [&] { return find_default_acl(**block); });
    WARREN_TRY(op.confirm(parent.seen));
    if (found.record.offset == attribute_none) return plan;
    if (!found.is_sound) return Errc::corrupt;
    if (is_directory && !acl_fits_twice(found.record.value_length)) return Errc::no_space;
    WARREN_TRY(op.will_write(parent.seen));
    plan.mode = mode & (~permission_bits | found.mode.bits);
    plan.takes_access = !found.mode.is_equivalent;
    plan.takes_default = is_directory;
    plan.needs_block = plan.takes_access || plan.takes_default;
    plan.record = found.record;
    return plan;
}

/// Writes the inherited ACLs into the new inode's attribute block, which is empty. Only within
/// apply. Requires: plan.needs_block.
template <class Team>
WARREN_HD void apply_inherit(Operation<Team>& op, const InheritPlan& plan, const InodeRef& parent,
                             AttributeBlock& fresh) {
    const Result<Block*> pinned = op.pin(attribute_place(op, parent));
    WARREN_CHECK(pinned);  // plan_inherit() pinned it, and the parent is locked
    const auto& from = *reinterpret_cast<const AttributeBlock*>(*pinned);
    once(op.team, [&] {
        const auto* value =
            reinterpret_cast<const std::byte*>(from.records + plan.record.value_offset());
        const u32 length = plan.record.value_length;
        if (plan.takes_access) {
            append_record(fresh, acl_access_name, acl_access_length, value, length);
            store_acl_mode(fresh, record_at(fresh, 0), plan.mode);
        }
        if (plan.takes_default) {
            append_record(fresh, acl_default_name, acl_default_length, value, length);
        }
    });
}

}  // namespace warren::core
