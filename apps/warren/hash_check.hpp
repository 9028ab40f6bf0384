// SPDX-License-Identifier: Apache-2.0
// warren hash --check: reads checksum lists and reports for each file whether its digest matches,
// in the words of sha256sum.
//
// Invariant: the result is true only if every listed file was read and its digest matches, and
// every list had at least one valid line.
#pragma once

#include "apps/warren/hash_choice.hpp"

namespace warren::cli {

struct CheckRules {
    bool is_quiet = false;         // matching files are not printed
    bool is_silent = false;        // nothing is printed
    bool is_strict = false;        // malformed lines are a failure
    bool ignores_missing = false;  // missing files are skipped
    bool warns = false;            // malformed lines are reported
    bool is_verbose = false;       // report whether the CPU or the GPU computed
    bool is_json = false;          // print an object for each file
};

/// Checks all lists. `algorithm` is the algorithm of lines without a tag.
bool check_lists(Session& session, const std::vector<std::string>& lists, hash::Algorithm algorithm,
                 const HashOptions& options, const CheckRules& rules);

}  // namespace warren::cli
