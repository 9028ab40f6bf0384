// SPDX-License-Identifier: Apache-2.0
// Who may do what in the model: mode bits, access control lists and the rules of extended
// attributes, written from acl(5) and xattr(7) and not from the code under test.
//
// Invariant: a list that is kept is sound and says more than the mode bits.
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

/// An access control list, entries in the order of the value.
struct ModelAcl {
    struct Entry {
        u32 tag = 0;
        u32 bits = 0;
        u32 id = 0;
    };
    std::vector<Entry> entries;

    static constexpr u32 user_object = 1, user = 2, group_object = 4, group = 8, mask = 16,
                         other = 32;

    /// Errc::invalid or Errc::not_supported for what is none.
    static Errc parse(std::string_view value, ModelAcl& acl);
    std::string value() const;
    const Entry* find(u32 tag) const;
    /// The nine mode bits that the list stands for.
    u32 mode() const;
    /// Whether the list says no more than nine bits can.
    bool is_plain() const;
    /// Makes the list stand for the nine bits of `mode`.
    void set_mode(u32 mode);
    /// Whether a user other than the owner may do `wanted`.
    bool allows(const Caller& caller, u32 owning_group, u32 wanted) const;
};

bool is_in_group(const Caller& caller, u32 group);
/// Whether the caller acts as the owner of a file of `user`.
bool acts_as_owner(const Caller& caller, u32 user);
/// Whether a caller with CAP_FOWNER and the like.
bool is_privileged(const Caller& caller);

/// Whether `caller` may do `wanted` (read 4, write 2, execute 1) with such an inode.
bool is_allowed(const Caller& caller, u32 mode, u32 user, u32 group,
                const ModelAttributes& attributes, u32 wanted);

/// Errc::ok for a good name of an extended attribute.
Errc check_attribute_name(std::string_view name);
/// Errc::ok if all attributes together can be kept.
Errc check_attribute_space(const ModelAttributes& attributes);

}  // namespace warren
