// SPDX-License-Identifier: Apache-2.0
// Gives a file the owner, extended attributes (access control lists among them), mode and times of
// another one, in the order in which none undoes what was set before.
//
// Invariant: no link is followed. What this user or the file system cannot keep is left out as
// `cp -a` leaves it out; a file that stays with another owner never keeps a set-id bit.
#pragma once

#include <sys/stat.h>

#include <ctime>
#include <string>
#include <vector>

#include "apps/warren/file_contents.hpp"
#include "apps/warren/place.hpp"

namespace warren::cli {

/// Which attributes of a file its copy is to have.
struct Keeps {
    bool mode = false;  // with access control lists
    bool owner = false;
    bool times = false;
    bool extended = false;  // attributes that are neither lists nor labels
    bool context = false;   // the label of a security module

    static constexpr Keeps all() { return {true, true, true, true, true}; }
    bool any() const { return mode || owner || times || extended || context; }
};

/// What is kept besides extended attributes.
struct Kept {
    u32 mode = 0;  // with the type
    u32 user = 0;
    u32 group = 0;
    timespec accessed{};
    timespec modified{};
};

Kept kept_of(const struct statx& status);

/// Sets what `keeps` wants of what `kept` says and of the extended attributes of `from`.
Fault keep_attributes(const Place& from, const Place& to, const Kept& kept, const Keeps& keeps);

/// Gives `to` the extended attributes that a write into `replaced` would leave there: access
/// control lists and users' attributes, but no capabilities.
Fault keep_replaced_attributes(const Place& replaced, const Place& to);

/// Whether two files have the same extended attributes, as far as this user sees them.
bool same_extended_attributes(const Place& first, const Place& second);

}  // namespace warren::cli
