// SPDX-License-Identifier: Apache-2.0
// The modes of chmod(1): octal numbers and clauses such as u+rwX,g=u,o-t.
//
// Invariant: what a change does to a mode depends on that mode, whether it is a directory's, and
// the umask, which holds for clauses that name nobody.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "warren/types.hpp"

namespace warren::cli {

class ModeChange {
 public:
    /// Nothing if the text is no mode.
    static std::optional<ModeChange> parse(std::string_view text);
    /// The change to exactly this mode.
    static ModeChange exactly(u32 mode);

    /// The twelve bits that `mode` becomes.
    u32 apply(u32 mode, bool is_directory, u32 umask) const;

 private:
    enum class Source : u8 { bits, existing, bits_and_search };
    struct Clause {
        char operation = '=';  // + - =
        Source source = Source::bits;
        u32 who = 0;    // 0: nobody was named, the umask holds
        u32 bits = 0;   // to set or clear; of `existing`: the class that is copied
        u32 named = 0;  // set-id bits outside of it stay on directories
    };

    static bool parse_clause(std::string_view& text, ModeChange& change);
    static bool parse_action(std::string_view& text, u32 who, Clause& clause);

    std::vector<Clause> clauses_;
};

}  // namespace warren::cli
