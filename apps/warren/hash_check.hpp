// SPDX-License-Identifier: Apache-2.0
// warren hash --check: reads lists of digests and says of each file whether it has its digest, in
// the words of sha256sum.
//
// Invariant: the answer is true only if every file that a list names was read and has its digest,
// and every list had at least one line.
#pragma once

#include "apps/warren/hash_choice.hpp"

namespace warren::cli {

struct CheckRules {
    bool is_quiet = false;         // good files are not named
    bool is_silent = false;        // nothing is printed
    bool is_strict = false;        // a line that is none is a failure
    bool ignores_missing = false;  // files that are not there are passed over
    bool warns = false;            // lines that are none are named
    bool is_verbose = false;       // who computed is told
    bool is_json = false;          // of each file an object
};

/// Checks all lists. `algorithm` is that of lines without a tag.
bool check_lists(Session& session, const std::vector<std::string>& lists, hash::Algorithm algorithm,
                 const HashOptions& options, const CheckRules& rules);

}  // namespace warren::cli
