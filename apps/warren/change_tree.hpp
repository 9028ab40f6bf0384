// SPDX-License-Identifier: Apache-2.0
// What chmod and chown share: they change single operands or, with -R, whole trees on all cores,
// and report changes in the words of coreutils.
//
// Invariant: a directory is changed before it is entered. Within a tree symbolic links are not
// followed, neither to change their target nor to descend.
#pragma once

#include <functional>
#include <string>

#include "apps/warren/host_checkpoint.hpp"
#include "apps/warren/place.hpp"

namespace warren::cli {

/// The number of `--reference` in the option tables.
inline constexpr int reference_option = 256;

/// The outcome for one name.
enum class Changed : u8 { yes, no, failed };

struct TreeChange {
    /// Changes the name (the link itself if `follows` is false), and sets `told` to what is
    /// reported, for example "mode of 'x' changed from ...". On failure sets `error` to an errno.
    std::function<Changed(const Place& place, bool follows, const std::string& path,
                          std::string& told, i32& error)>
        apply;
    const char* action = "";  // for error messages: "change the mode of"
    bool recursive = false;
    bool follow_operands = true;  // if they are links, without -R or with -H
    bool changes_links = false;   // links within a tree are changed themselves
    bool tells_all = false;       // -v
    bool tells_changes = false;   // -c
    bool is_silent = false;       // -f
    bool sums_up = false;         // --json
};

/// Reads the options that chmod and chown share, and those of the walk. Returns false after an
/// error message if they are invalid.
bool read_change(const Page& page, const Arguments& parsed, size_t operands, TreeChange& change,
                 WalkSetup& setup);

/// Changes all operands; returns the exit code of the command.
int change_trees(const TreeChange& change, WalkSetup& setup,
                 const std::vector<std::string>& operands);

}  // namespace warren::cli
