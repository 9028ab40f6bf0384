// SPDX-License-Identifier: Apache-2.0
// Access control lists are parsed and written byte by byte, in the format of Linux.
#include "tests/support/model_access.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace warren {
namespace {

u32 number_at(std::string_view bytes, std::size_t at, u32 count) {
    u32 number = 0;
    for (u32 i = 0; i < count; ++i)
        number |= u32{static_cast<u8>(bytes[at + i])} << 8 * i;
    return number;
}

void put_number(std::string& bytes, u32 number, u32 count) {
    for (u32 i = 0; i < count; ++i)
        bytes.push_back(static_cast<char>(number >> 8 * i & 0xff));
}

bool is_named(u32 tag) {
    return tag == ModelAcl::user || tag == ModelAcl::group;
}

Errc check_entries(const ModelAcl& acl) {
    u32 last_tag = 0;
    u32 tags = 0;
    std::vector<std::pair<u32, u32>> names;
    for (const ModelAcl::Entry& entry : acl.entries) {
        const bool is_tag = entry.tag != 0 && entry.tag <= 32 && std::has_single_bit(entry.tag);
        if (!is_tag || entry.bits > 7 || entry.tag < last_tag) return Errc::invalid;
        if (entry.tag == last_tag && !is_named(entry.tag)) return Errc::invalid;
        if (is_named(entry.tag)) {
            const std::pair name{entry.tag, entry.id};
            if (entry.id == ~u32{0}) return Errc::invalid;
            if (std::find(names.begin(), names.end(), name) != names.end()) return Errc::invalid;
            names.push_back(name);
        }
        last_tag = entry.tag;
        tags |= entry.tag;
    }
    constexpr u32 always = ModelAcl::user_object | ModelAcl::group_object | ModelAcl::other;
    if ((tags & always) != always) return Errc::invalid;
    return names.empty() || (tags & ModelAcl::mask) != 0 ? Errc::ok : Errc::invalid;
}

}  // namespace

Errc ModelAcl::parse(std::string_view value, ModelAcl& acl) {
    acl.entries.clear();
    if (value.size() < 4) return Errc::invalid;
    if (number_at(value, 0, 4) != 2) return Errc::not_supported;
    if ((value.size() - 4) % 8 != 0) return Errc::invalid;
    for (std::size_t at = 4; at < value.size(); at += 8) {
        acl.entries.push_back(
            {number_at(value, at, 2), number_at(value, at + 2, 2), number_at(value, at + 4, 4)});
    }
    return check_entries(acl);
}

std::string ModelAcl::value() const {
    std::string bytes;
    put_number(bytes, 2, 4);
    for (const Entry& entry : entries) {
        put_number(bytes, entry.tag, 2);
        put_number(bytes, entry.bits, 2);
        put_number(bytes, entry.id, 4);
    }
    return bytes;
}

const ModelAcl::Entry* ModelAcl::find(u32 tag) const {
    for (const Entry& entry : entries) {
        if (entry.tag == tag) return &entry;
    }
    return nullptr;
}

u32 ModelAcl::mode() const {
    const Entry* group_class = find(mask);
    if (group_class == nullptr) group_class = find(group_object);
    return find(user_object)->bits << 6 | group_class->bits << 3 | find(other)->bits;
}

bool ModelAcl::is_plain() const {
    return entries.size() == 3;
}

void ModelAcl::set_mode(u32 mode) {
    const u32 group_class = find(mask) != nullptr ? mask : group_object;
    for (Entry& entry : entries) {
        if (entry.tag == user_object) entry.bits = mode >> 6 & 7;
        if (entry.tag == group_class) entry.bits = mode >> 3 & 7;
        if (entry.tag == other) entry.bits = mode & 7;
    }
}

bool ModelAcl::allows(const Caller& caller, u32 owning_group, u32 wanted) const {
    const Entry* limit = find(mask);
    const auto grants = [&](u32 bits) {
        return ((limit == nullptr ? bits : bits & limit->bits) & wanted) == wanted;
    };
    bool is_member = false;
    bool is_granted = false;
    for (const Entry& entry : entries) {
        if (entry.tag == user && entry.id == caller.user) return grants(entry.bits);
        const bool mine = (entry.tag == group_object && is_in_group(caller, owning_group)) ||
                          (entry.tag == group && is_in_group(caller, entry.id));
        is_member |= mine;
        is_granted |= mine && grants(entry.bits);
    }
    if (is_member) return is_granted;
    return (find(other)->bits & wanted) == wanted;
}

bool is_in_group(const Caller& caller, u32 group) {
    return group == caller.group ||
           std::find(caller.groups.begin(), caller.groups.end(), group) != caller.groups.end();
}

bool is_privileged(const Caller& caller) {
    return !caller.check || caller.user == 0;
}

bool may_make(const Caller& caller, u32 mode, u32 device) {
    const bool is_block = (mode & 0170000) == 0060000;
    const bool is_character = (mode & 0170000) == 0020000;
    return is_privileged(caller) || !(is_block || (is_character && device != 0));
}

bool acts_as_owner(const Caller& caller, u32 user) {
    return is_privileged(caller) || caller.user == user;
}

bool is_allowed(const Caller& caller, u32 mode, u32 user, u32 group,
                const ModelAttributes& attributes, u32 wanted) {
    if (!caller.check) return true;
    if (caller.user == 0) {
        const bool is_directory = (mode & 0170000) == 0040000;
        return (wanted & 1) == 0 || is_directory || (mode & 0111) != 0;
    }
    if (caller.user == user) return (mode >> 6 & wanted) == wanted;
    if (const auto found = attributes.find(access_acl); found != attributes.end()) {
        ModelAcl acl;
        static_cast<void>(ModelAcl::parse(found->second, acl));
        return acl.allows(caller, group, wanted);
    }
    return ((is_in_group(caller, group) ? mode >> 3 : mode) & wanted) == wanted;
}

Errc check_attribute_name(std::string_view name) {
    if (name.empty() || name.size() > 255) return Errc::out_of_range;
    if (name.find('\0') != std::string_view::npos) return Errc::invalid;
    for (const std::string_view space : {"user.", "trusted.", "security."}) {
        if (name == space) return Errc::invalid;
        if (name.starts_with(space)) return Errc::ok;
    }
    return name == access_acl || name == default_acl ? Errc::ok : Errc::not_supported;
}

Errc check_attribute_space(const ModelAttributes& attributes) {
    // The limits of the format: each attribute has 4 bytes of lengths and is padded to a multiple
    // of 4; 4032 bytes in all.
    std::size_t total = 0;
    for (const auto& [name, value] : attributes)
        total += (4 + name.size() + value.size() + 3) / 4 * 4;
    return total <= 4032 ? Errc::ok : Errc::no_space;
}

}  // namespace warren
