// SPDX-License-Identifier: Apache-2.0
// File modes in the notation of chmod(1): octal numbers, and clauses such as u+rwX,g=u,o-t.
//
// Invariant: the result depends on the old mode, on whether it is that of a directory, and on the
// umask, which applies to clauses that name no class of users.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "warren/types.hpp"

namespace warren::cli {

class ModeChange {
 public:
    /// nullopt if the text is not a valid mode.
    static std::optional<ModeChange> parse(std::string_view text);
    /// The change that sets exactly this mode.
    static ModeChange exactly(u32 mode);

    /// The twelve permission bits that result from `mode`.
    u32 apply(u32 mode, bool is_directory, u32 umask) const;

 private:
    enum class Source : u8 { bits, existing, bits_and_search };
    struct Clause {
        char operation = '=';  // + - =
        Source source = Source::bits;
        u32 who = 0;    // 0: no class was named, so the umask applies
        u32 bits = 0;   // to set or clear; with `existing`: the class to copy
        u32 named = 0;  // set-id bits outside of it are kept on directories
    };

    static bool parse_clause(std::string_view& text, ModeChange& change);
    static bool parse_action(std::string_view& text, u32 who, Clause& clause);

    std::vector<Clause> clauses_;
};

}  // namespace warren::cli
