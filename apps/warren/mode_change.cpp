// SPDX-License-Identifier: Apache-2.0
// Follows POSIX chmod with the GNU extensions: several actions in one clause, =755 and +111, and
// directories that keep their set-id bits unless these are named or the number has five digits.
#include "apps/warren/mode_change.hpp"

namespace warren::cli {

namespace {

constexpr u32 all_bits = 07777;
constexpr u32 set_id_bits = 06000;
constexpr u32 read_bits = 0444;
constexpr u32 write_bits = 0222;
constexpr u32 search_bits = 0111;
constexpr size_t digits_that_name_all = 5;

bool is_octal(char letter) {
    return letter >= '0' && letter <= '7';
}

/// Parses an octal number of at most twelve bits; nullopt if it is larger.
std::optional<u32> take_octal(std::string_view& text, size_t& digits) {
    u32 number = 0;
    for (digits = 0; !text.empty() && is_octal(text[0]); text.remove_prefix(1), ++digits) {
        number = number * 8 + static_cast<u32>(text[0] - '0');
        if (number > all_bits) return std::nullopt;
    }
    return number;
}

/// The bits of a class: its three permission bits and the special bit that belongs to it.
u32 bits_of_class(char letter) {
    switch (letter) {
        case 'u':
            return 04700;
        case 'g':
            return 02070;
        case 'o':
            return 01007;
        case 'a':
            return all_bits;
        default:
            return 0;
    }
}

/// The permissions of one class, copied to all three.
u32 spread(u32 of_class) {
    u32 bits = 0;
    for (const u32 kind : {read_bits, write_bits, search_bits}) {
        if ((of_class & kind) != 0) bits |= kind;
    }
    return bits;
}

}  // namespace

ModeChange ModeChange::exactly(u32 mode) {
    ModeChange change;
    change.clauses_.push_back({'=', Source::bits, all_bits, mode & all_bits, all_bits});
    return change;
}

std::optional<ModeChange> ModeChange::parse(std::string_view text) {
    ModeChange change;
    if (!text.empty() && is_octal(text[0])) {
        size_t digits = 0;
        const std::optional<u32> mode = take_octal(text, digits);
        if (!mode || !text.empty()) return std::nullopt;
        const u32 named =
            digits >= digits_that_name_all ? all_bits : (*mode & (set_id_bits | 01000)) | 0777;
        change.clauses_.push_back({'=', Source::bits, all_bits, *mode, named});
        return change;
    }
    while (true) {
        if (!parse_clause(text, change)) return std::nullopt;
        if (text.empty()) return change;
        if (text[0] != ',') return std::nullopt;
        text.remove_prefix(1);
    }
}

bool ModeChange::parse_clause(std::string_view& text, ModeChange& change) {
    u32 who = 0;
    for (; !text.empty() && bits_of_class(text[0]) != 0; text.remove_prefix(1))
        who |= bits_of_class(text[0]);
    bool any = false;
    while (!text.empty() && (text[0] == '+' || text[0] == '-' || text[0] == '=')) {
        Clause clause;
        clause.operation = text[0];
        text.remove_prefix(1);
        if (!parse_action(text, who, clause)) return false;
        change.clauses_.push_back(clause);
        any = true;
    }
    return any;
}

bool ModeChange::parse_action(std::string_view& text, u32 who, Clause& clause) {
    clause.who = who;
    if (!text.empty() && is_octal(text[0])) {
        size_t digits = 0;
        const std::optional<u32> mode = take_octal(text, digits);
        // A number covers all classes, so no class may be named with it.
        if (!mode || who != 0 || (!text.empty() && text[0] != ',')) return false;
        clause.who = clause.named = all_bits;
        clause.bits = *mode;
        return true;
    }
    if (!text.empty() && (text[0] == 'u' || text[0] == 'g' || text[0] == 'o')) {
        clause.source = Source::existing;
        clause.bits = bits_of_class(text[0]) & 0777;
        text.remove_prefix(1);
    } else {
        for (; !text.empty(); text.remove_prefix(1)) {
            static constexpr std::string_view letters = "rwxst";
            static constexpr u32 meanings[] = {read_bits, write_bits, search_bits, set_id_bits,
                                               01000};
            if (text[0] == 'X') {
                clause.source = Source::bits_and_search;
                continue;
            }
            const size_t place = letters.find(text[0]);
            if (place == letters.npos) break;
            clause.bits |= meanings[place];
        }
    }
    clause.named = who == 0 ? clause.bits : who & clause.bits;
    return true;
}

u32 ModeChange::apply(u32 mode, bool is_directory, u32 umask) const {
    mode &= all_bits;
    for (const Clause& clause : clauses_) {
        const u32 kept = is_directory ? set_id_bits & ~clause.named : 0;
        u32 bits = clause.bits;
        if (clause.source == Source::existing) bits = spread(mode & clause.bits);
        if (clause.source == Source::bits_and_search && (is_directory || (mode & search_bits))) {
            bits |= search_bits;
        }
        bits &= (clause.who != 0 ? clause.who : ~umask) & ~kept;
        if (clause.operation == '+') mode |= bits;
        if (clause.operation == '-') mode &= ~bits;
        if (clause.operation != '=') continue;
        const u32 stays = (clause.who != 0 ? ~clause.who : 0) | kept;
        mode = (mode & stays & all_bits) | bits;
    }
    return mode;
}

}  // namespace warren::cli
