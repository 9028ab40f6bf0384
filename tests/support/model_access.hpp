// SPDX-License-Identifier: Apache-2.0
// The permission checks of the model: mode bits, access control lists and the rules of extended
// attributes, derived from acl(5) and xattr(7) rather than from the code under test.
//
// Invariant: a stored list is valid and expresses more than the mode bits.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "warren/volume.hpp"

namespace warren {

using ModelAttributes = std::map<std::string, std::string, std::less<>>;

inline constexpr std::string_view access_acl = "system.posix_acl_access";
inline constexpr std::string_view default_acl = "system.posix_acl_default";

/// An access control list, with entries in the order of the attribute's value.
struct ModelAcl {
    struct Entry {
        u32 tag = 0;
        u32 bits = 0;
        u32 id = 0;
    };
    std::vector<Entry> entries;

    static constexpr u32 user_object = 1, user = 2, group_object = 4, group = 8, mask = 16,
                         other = 32;

    /// Errc::invalid or Errc::not_supported if the value is not a valid list.
    static Errc parse(std::string_view value, ModelAcl& acl);
    std::string value() const;
    const Entry* find(u32 tag) const;
    /// The nine mode bits that correspond to the list.
    u32 mode() const;
    /// Whether the list expresses no more than mode bits can.
    bool is_plain() const;
    /// Changes the list to correspond to the nine bits of `mode`.
    void set_mode(u32 mode);
    /// Whether a user other than the owner has the access `wanted`.
    bool allows(const Caller& caller, u32 owning_group, u32 wanted) const;
};

bool is_in_group(const Caller& caller, u32 group);
/// Whether the caller has the rights of the owner of a file of `user`.
bool acts_as_owner(const Caller& caller, u32 user);
/// Whether the caller has CAP_FOWNER and similar capabilities.
bool is_privileged(const Caller& caller);
/// Whether the caller may make an inode with this mode: devices, but not whiteouts, need
/// privileges.
bool may_make(const Caller& caller, u32 mode, u32 device);

/// Whether `caller` has the access `wanted` (read 4, write 2, execute 1) to such an inode.
bool is_allowed(const Caller& caller, u32 mode, u32 user, u32 group,
                const ModelAttributes& attributes, u32 wanted);

/// Errc::ok for a valid name of an extended attribute.
Errc check_attribute_name(std::string_view name);
/// Errc::ok if all attributes together fit.
Errc check_attribute_space(const ModelAttributes& attributes);

}  // namespace warren
