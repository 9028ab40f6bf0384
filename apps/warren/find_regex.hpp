// SPDX-License-Identifier: Apache-2.0
// The regular expressions of find -regex: those of the C library, in the syntaxes of -regextype.
//
// Invariant: any number of threads match concurrently against one object.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace warren::cli {

class FindRegex {
 public:
    /// The names of the syntaxes.
    static std::vector<std::string_view> syntaxes();
    /// Whether there is a syntax of this name.
    static bool knows(std::string_view syntax);
    /// Null, with the reason in `problem`, if the pattern is not valid in this syntax.
    static std::shared_ptr<const FindRegex> make(const std::string& pattern,
                                                 std::string_view syntax, bool fold_case,
                                                 std::string& problem);
    virtual ~FindRegex() = default;
    /// Whether the pattern matches all of the text.
    virtual bool matches(const std::string& text) const = 0;
};

}  // namespace warren::cli
