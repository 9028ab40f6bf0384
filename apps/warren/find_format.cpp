// SPDX-License-Identifier: Apache-2.0
// find -printf: the directives, each of which prints one property of the file.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "apps/warren/find_expression.hpp"
#include "apps/warren/listing.hpp"
#include "apps/warren/messages.hpp"

namespace warren::cli {

namespace {

constexpr size_t width_most = 4096;

/// The character that backslash and `letter` denote; -1 if there is none.
int escaped_character(char letter) {
    switch (letter) {
        case 'n':
            return '\n';
        case 't':
            return '\t';
        case 'r':
            return '\r';
        case '0':
            return '\0';
        case '\\':
            return '\\';
        case 'a':
            return '\a';
        case 'f':
            return '\f';
        case 'v':
            return '\v';
        default:
            return -1;
    }
}

/// Splits the path before its last component: "a/b" into "a/" and "b". If a start ends with
/// slashes, its name keeps one: "a/b/" gives "a/" and "b/".
std::pair<std::string_view, std::string_view> cut_path(std::string_view path) {
    const size_t end = path.find_last_not_of('/');
    if (end == path.npos) return {path.substr(0, 0), path.substr(0, 1)};
    const size_t slash = path.rfind('/', end);
    const size_t begin = slash == path.npos ? 0 : slash + 1;
    return {path.substr(0, begin), path.substr(begin, end + 2 - begin)};
}

std::string last_part(const std::string& path) {
    return std::string(cut_path(path).second);
}

std::string parent_part(const std::string& path) {
    std::string_view above = cut_path(path).first;
    if (above.empty()) return path.starts_with('/') ? "" : ".";
    above.remove_suffix(1);
    return std::string(above);
}

/// The path relative to the start of the search.
std::string below_start(const Found& found, const std::string& path) {
    if (found.depth == 0) return "";
    const size_t begin = std::min(path.find_first_not_of('/', found.start.size()), path.size());
    return path.substr(begin);
}

/// Formats the time in the style that `style` selects.
std::string time_text(i64 time, char style) {
    if (style == '@') return epoch_time(time) + "0";  // ten digits, as find(1) writes them
    if (style == 's') return epoch_time(time).substr(0, epoch_time(time).find('.'));
    return joined_time_of_find(time);
}

std::string octal_text(u32 number) {
    char octal[16];
    std::snprintf(octal, sizeof octal, "%o", number);
    return octal;
}

/// The space that the entry takes, in units of so many sectors.
std::string sectors_text(const Found& found, u64 unit) {
    found.attributes();
    return std::to_string((found.sectors + unit - 1) / unit);
}

std::string link_target(const Found& found) {
    const bool is_link = found.type == 'l' && found.source != nullptr;
    return is_link ? found.source->link_target() : std::string();
}

/// Escapes a name like find -ls: printable characters stay, others become escape sequences.
void append_escaped(std::string& target, std::string_view name) {
    static constexpr std::string_view plain = "\n\t\b\r\f\\ \"";
    static constexpr std::string_view written = "ntbrf\\ \"";
    for (const char letter : name) {
        const size_t place = plain.find(letter);
        char octal[8];
        if (place != plain.npos) {
            (target += '\\') += written[place];
        } else if (letter > ' ' && letter < 0x7f) {
            target += letter;
        } else {
            std::snprintf(octal, sizeof octal, "\\%03o", static_cast<unsigned char>(letter));
            target += octal;
        }
    }
}

std::string padded(std::string text, size_t width, bool is_left, char fill = ' ') {
    if (text.size() < width) text.insert(is_left ? text.size() : 0, width - text.size(), fill);
    return text;
}

/// What precedes the letter in a directive: a minus, a zero, a width.
struct Column {
    size_t letter;  // its position in the format
    size_t width;
    bool is_left;
    bool has_zeros;
};

/// Requires: `format` begins with %.
Column column_of(std::string_view format) {
    const size_t digits = std::min(format.find_first_not_of("-0", 1), format.size());
    const size_t letter = std::min(format.find_first_not_of("0123456789", digits), format.size());
    const std::string_view flags = format.substr(1, digits - 1);
    const std::string width(format.substr(digits, letter - digits));
    return {letter, std::min(std::strtoul(width.c_str(), nullptr, 10), width_most),
            flags.find('-') != flags.npos, flags.find('0') != flags.npos};
}

struct Directive {
    char letter;
    std::string (*text)(const Found& found, const std::string& path);
};

using Path = const std::string&;
constexpr Directive directives[] = {
    {'%', [](const Found&, Path) { return std::string("%"); }},
    {'p', [](const Found&, Path path) { return masked_name(path); }},
    {'f', [](const Found&, Path path) { return masked_name(last_part(path)); }},
    {'H', [](const Found& found, Path) { return std::string(found.start); }},
    {'l', [](const Found& found, Path) { return masked_name(link_target(found)); }},
    {'h', [](const Found&, Path path) { return masked_name(parent_part(path)); }},
    {'P', [](const Found& found, Path path) { return masked_name(below_start(found, path)); }},
    {'d', [](const Found& found, Path) { return std::to_string(found.depth); }},
    {'s', [](const Found& found, Path) { return std::to_string(found.attributes().size); }},
    {'b', [](const Found& found, Path) { return sectors_text(found, 1); }},
    {'k', [](const Found& found, Path) { return sectors_text(found, 2); }},
    {'i', [](const Found& found, Path) { return std::to_string(found.attributes().handle.inode); }},
    {'n', [](const Found& found, Path) { return std::to_string(found.attributes().links); }},
    {'y', [](const Found& found, Path) { return std::string(1, found.type); }},
    {'M', [](const Found& found, Path) { return mode_text(found.attributes().mode); }},
    {'m', [](const Found& found, Path) { return octal_text(found.attributes().mode & 07777); }},
    {'u', [](const Found& found, Path) { return user_text(found.attributes().user); }},
    {'g', [](const Found& found, Path) { return group_text(found.attributes().group); }},
    {'U', [](const Found& found, Path) { return std::to_string(found.attributes().user); }},
    {'G', [](const Found& found, Path) { return std::to_string(found.attributes().group); }},
    {'t', [](const Found& found, Path) { return long_time_of_find(found.attributes().modified); }},
    {'a', [](const Found& found, Path) { return long_time_of_find(found.attributes().accessed); }},
    {'c', [](const Found& found, Path) { return long_time_of_find(found.attributes().changed); }},
};

/// T@, A+, Cs and similar: which time, in which style.
bool time_directive(char which, char style, const Found& found, std::string& text) {
    const bool known_style = style == '@' || style == '+' || style == 's';
    if (!known_style || (which != 'T' && which != 'A' && which != 'C')) return false;
    const Attributes& attributes = found.attributes();
    const i64 time = which == 'T'   ? attributes.modified
                     : which == 'A' ? attributes.accessed
                                    : attributes.changed;
    text = time_text(time, style);
    return true;
}

/// Sets `text` to the output of the directive with which `format` begins. Returns the number of its
/// letters, 0 if it is unknown.
size_t directive_text(std::string_view format, const Found& found, const std::string& path,
                      std::string& text) {
    if (format.empty()) return 0;
    for (const Directive& directive : directives) {
        if (directive.letter != format[0]) continue;
        text = directive.text(found, path);
        return 1;
    }
    return format.size() > 1 && time_directive(format[0], format[1], found, text) ? 2 : 0;
}

/// Appends the output of the directive with which `format` begins; returns its length, 0 if it is
/// unknown.
size_t append_directive(std::string& target, std::string_view format, const Found& found,
                        const std::string& path) {
    const Column column = column_of(format);
    const std::string_view letters = format.substr(column.letter);
    std::string text;
    const size_t used = directive_text(letters, found, path, text);
    if (used == 0) return 0;
    const bool is_number = letters[0] == 'm' || letters[0] == 'd';
    const char fill = is_number && column.has_zeros && !column.is_left ? '0' : ' ';
    target += padded(std::move(text), column.width, column.is_left, fill);
    return column.letter + used;
}

}  // namespace

void append_listed(std::string& target, const Found& found, const std::string& path) {
    const Attributes& attributes = found.attributes();
    const char type = type_letter(attributes.mode);
    const auto column = [&](std::string text, size_t width, bool is_left = false) {
        target += padded(std::move(text), width, is_left) + " ";
    };
    column(std::to_string(attributes.handle.inode), 9);
    column(sectors_text(found, 2), 6);
    column(mode_text(attributes.mode), 0);
    column(std::to_string(attributes.links), 3);
    column(user_text(attributes.user), 8, true);
    column(group_text(attributes.group), 8, true);
    if (type == 'b' || type == 'c') {
        column(padded(std::to_string(attributes.device >> 20), 3, false) + ", " +
                   padded(std::to_string(attributes.device & 0xfffff), 3, false),
               8);
    } else {
        column(std::to_string(attributes.size), 8);
    }
    column(short_time_of_find(attributes.modified), 0);
    append_escaped(target, path);
    if (type == 'l') append_escaped(target += " -> ", link_target(found));
    target += '\n';
}

void append_formatted(std::string& target, std::string_view format, const Found& found,
                      const std::string& path) {
    while (!format.empty()) {
        const char second = format.size() > 1 ? format[1] : '\0';
        size_t used = format[0] == '%' ? append_directive(target, format, found, path) : 0;
        if (format[0] == '\\' && escaped_character(second) >= 0) {
            target += static_cast<char>(escaped_character(second));
            used = 2;
        } else if (used == 0) {
            target += format[0];
            used = 1;
        }
        format.remove_prefix(used);
    }
}

}  // namespace warren::cli
