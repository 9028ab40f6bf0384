// SPDX-License-Identifier: Apache-2.0
// The quoting is that of GNU ls on a terminal (--quoting-style=shell-escape): single quotes, or
// double quotes around a name that contains single quotes and nothing special within double quotes.
#include "base/quote.hpp"

#include <langinfo.h>
#include <locale.h>
#include <wctype.h>

#include <cstdio>

namespace warren {
namespace {

/// The character classes of the environment's locale; null: those of ASCII.
locale_t character_classes() {
    static const locale_t classes = [] {
        const locale_t found = ::newlocale(LC_CTYPE_MASK, "", nullptr);
        const bool is_utf8 =
            found != nullptr && std::string_view(::nl_langinfo_l(CODESET, found)) == "UTF-8";
        if (is_utf8 || found == nullptr) return found;
        ::freelocale(found);
        return locale_t{};
    }();
    return classes;
}

struct Character {
    size_t length = 1;  // in bytes
    bool is_printable = false;
};

/// The first character of the text, or its first byte if no valid character begins there.
Character first_of(std::string_view text) {
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
    if (byte(0) < 0x80) return {1, byte(0) >= 0x20 && byte(0) != 0x7f};
    const locale_t classes = character_classes();
    if (classes == nullptr) return {};
    const size_t length = byte(0) < 0xc2 ? 0 : byte(0) < 0xe0 ? 2 : byte(0) < 0xf0 ? 3 : 4;
    if (byte(0) > 0xf4 || length == 0 || length > text.size()) return {};
    wchar_t code = byte(0) & (0x7f >> length);
    for (size_t i = 1; i < length; ++i) {
        if (byte(i) >> 6 != 2) return {};
        code = code << 6 | (byte(i) & 0x3f);
    }
    const bool is_overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
    if (is_overlong || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return {};
    return {length, ::iswprint_l(static_cast<wint_t>(code), classes) != 0};
}

/// Appends the bytes escaped as within $'...'.
void append_escaped(std::string& result, std::string_view bytes) {
    for (const char character : bytes) {
        const auto byte = static_cast<unsigned char>(character);
        char escaped[8];
        if (byte >= '\a' && byte <= '\r') {
            std::snprintf(escaped, sizeof escaped, "\\%c", "abtnvfr"[byte - '\a']);
        } else {
            std::snprintf(escaped, sizeof escaped, "\\%03o", byte);
        }
        result += escaped;
    }
}

bool is_all_printable(std::string_view name) {
    while (!name.empty()) {
        const Character character = first_of(name);
        if (!character.is_printable) return false;
        name.remove_prefix(character.length);
    }
    return true;
}

}  // namespace

std::string shell_quoted(std::string_view name) {
    const bool doubles = name.find('\'') != name.npos && is_all_printable(name) &&
                         name.find_first_of("!\"$&()*;<=>?[\\^`{|}") == name.npos &&
                         name.find_last_of("#~") + 1 <= 1;  // none except at the start
    if (doubles) return '"' + std::string(name) + '"';
    std::string result = "'";
    bool is_escaped = false;
    while (!name.empty()) {
        const Character character = first_of(name);
        const std::string_view bytes = name.substr(0, character.length);
        name.remove_prefix(character.length);
        if (bytes == "'") {
            result += "'\\''";  // ends either kind of quotes
            is_escaped = false;
            continue;
        }
        if (is_escaped == character.is_printable) {
            is_escaped = !is_escaped;
            result += is_escaped ? "'$'" : "''";
        }
        is_escaped ? append_escaped(result, bytes) : static_cast<void>(result += bytes);
    }
    return result + '\'';
}

std::string quoted_if_needed(std::string_view name) {
    const bool is_plain =
        !name.empty() && name.find_first_of(" !\"$&'()*;<=>?[\\^`|") == name.npos &&
        name[0] != '#' && name[0] != '~' && name != "{" && name != "}" && is_all_printable(name);
    return is_plain ? std::string(name) : shell_quoted(name);
}

std::string masked(std::string_view name) {
    std::string result;
    while (!name.empty()) {
        const Character character = first_of(name);
        result += character.is_printable ? name.substr(0, character.length) : "?";
        name.remove_prefix(character.length);
    }
    return result;
}

}  // namespace warren
