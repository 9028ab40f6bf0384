// SPDX-License-Identifier: Apache-2.0
// What chmod and chown share: operands one by one or, with -R, whole trees on all cores; what
// changed told as coreutils tell it.
//
// Invariant: a directory is changed before it is entered. In a tree no symbolic link is followed,
// neither to change what it names nor to go there.
#pragma once

#include <functional>
#include <string>

#include "apps/warren/host_checkpoint.hpp"
#include "apps/warren/place.hpp"

namespace warren::cli {

/// What became of a name.
enum class Changed : u8 { yes, no, failed };

struct TreeChange {
    /// Changes the name (a link itself, where `follows` is false); fills in what is told of it, as
    /// "mode of 'x' changed from ...". An error is given back in `error`.
    std::function<Changed(const Place& place, bool follows, const std::string& path,
                          std::string& told, i32& error)>
        apply;
    const char* action = "";  // for failures: "change the mode of"
    bool recursive = false;
    bool follow_operands = true;  // those that are links, without -R or where -H asks for it
    bool changes_links = false;   // links in a tree are changed themselves
    bool tells_all = false;       // -v
    bool tells_changes = false;   // -c
    bool is_silent = false;       // -f
    bool sums_up = false;         // --json
};

/// Takes from the options what chmod and chown both have, and those of the walk; false, with a
/// complaint, if they make no sense.
bool read_change(const Page& page, const Arguments& parsed, size_t operands, TreeChange& change,
                 WalkSetup& setup);

/// Changes all operands; the exit code of the command.
int change_trees(const TreeChange& change, WalkSetup& setup,
                 const std::vector<std::string>& operands);

}  // namespace warren::cli
