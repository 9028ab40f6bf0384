// SPDX-License-Identifier: Apache-2.0
// find -perm with symbolic modes: clauses like u+rw,g=r,o-x, applied to mode 0 as chmod(1) would
// without a umask.
#include <string_view>

#include "apps/warren/find_expression.hpp"

namespace warren::cli {

namespace {

constexpr std::string_view operations = "+-=";

bool begins_with_any(std::string_view text, std::string_view letters) {
    return !text.empty() && letters.find(text[0]) != letters.npos;
}

/// Consumes the letters before the operator; all bits if there are none.
u64 take_who(std::string_view& text) {
    u64 who = 0;
    for (; begins_with_any(text, "ugoa"); text.remove_prefix(1)) {
        switch (text[0]) {
            case 'u':
                who |= 04700;
                break;
            case 'g':
                who |= 02070;
                break;
            case 'o':
                who |= 01007;
                break;
            default:
                who |= 07777;
        }
    }
    return who == 0 ? 07777 : who;
}

/// Consumes the letters after the operator; u, g and o copy from `mode`.
u64 take_bits(std::string_view& text, u64 mode) {
    static constexpr std::string_view letters = "rwxst";
    static constexpr u64 meanings[] = {0444, 0222, 0111, 06000, 01000};
    u64 bits = 0;
    for (; begins_with_any(text, "rwxstugo"); text.remove_prefix(1)) {
        const size_t place = letters.find(text[0]);
        const u64 shift = text[0] == 'u' ? 6 : text[0] == 'g' ? 3 : 0;
        bits |= place != letters.npos ? meanings[place] : (mode >> shift & 7) * 0111;
    }
    return bits;
}

}  // namespace

bool parse_symbolic_permission(std::string_view text, u64& mode) {
    mode = 0;
    while (true) {
        const u64 who = take_who(text);
        if (!begins_with_any(text, operations)) return false;
        while (begins_with_any(text, operations)) {
            const char operation = text[0];
            text.remove_prefix(1);
            const u64 bits = take_bits(text, mode) & who;
            if (operation == '+') mode |= bits;
            if (operation == '-') mode &= ~bits;
            if (operation == '=') mode = (mode & ~who) | bits;
        }
        if (text.empty()) return true;
        if (text[0] != ',') return false;
        text.remove_prefix(1);
    }
}

}  // namespace warren::cli
