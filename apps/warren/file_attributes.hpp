// SPDX-License-Identifier: Apache-2.0
// Gives a file the owner, extended attributes (access control lists among them), mode and times of
// another, in an order in which no step undoes an earlier one.
//
// Invariant: no link is followed. Attributes that this user or the file system cannot keep are left
// out as `cp -a` leaves them out; a file whose owner could not be set never keeps a set-id bit.
#pragma once

#include <sys/stat.h>

#include <ctime>
#include <string>
#include <vector>

#include "apps/warren/file_contents.hpp"
#include "apps/warren/place.hpp"

namespace warren::cli {

/// Which attributes of a file its copy gets.
struct Keeps {
    bool mode = false;  // and access control lists
    bool owner = false;
    bool times = false;
    bool extended = false;  // attributes that are neither access control lists nor security labels
    bool context = false;   // the label of a security module

    static constexpr Keeps all() { return {true, true, true, true, true}; }
    bool any() const { return mode || owner || times || extended || context; }
};

/// The values to keep, besides extended attributes.
struct Kept {
    u32 mode = 0;  // including the file type
    u32 user = 0;
    u32 group = 0;
    timespec accessed{};
    timespec modified{};
};

Kept kept_of(const struct statx& status);

/// Sets those attributes of `kept`, and those extended attributes of `from`, that `keeps` selects.
Fault keep_attributes(const Place& from, const Place& to, const Kept& kept, const Keeps& keeps);

/// Gives `to` the extended attributes that `replaced` would still have after a write into it:
/// access control lists and users' attributes, but no capabilities.
Fault keep_replaced_attributes(const Place& replaced, const Place& to);

/// Whether two files have the same extended attributes, as far as this user can see them.
bool same_extended_attributes(const Place& first, const Place& second);

}  // namespace warren::cli
