// SPDX-License-Identifier: Apache-2.0
// find -printf: the directives that say something about a file by itself.
#include <cstdio>
#include <utility>

#include "apps/warren/find_expression.hpp"
#include "apps/warren/listing.hpp"

namespace warren::cli {

namespace {

/// The character that a backslash and `letter` stand for; -1 for none.
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

/// The path cut before its last name: "a/" and "b/" of "a/b/". A start may end with slashes, of
/// which the name keeps one.
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

/// The path below where the search started.
std::string below_start(const Found& found, const std::string& path) {
    if (found.depth == 0) return "";
    const size_t begin = std::min(path.find_first_not_of('/', found.start.size()), path.size());
    return path.substr(begin);
}

/// Writes the time that `letter` asks for in the way that `style` asks for.
std::string time_text(i64 time, char style) {
    if (style == '@') return epoch_time(time) + "0";  // ten digits, as find(1) writes them
    if (style == 's') return epoch_time(time).substr(0, epoch_time(time).find('.'));
    return full_time(time);
}

std::string octal_text(u32 number) {
    char octal[16];
    std::snprintf(octal, sizeof octal, "%o", number);
    return octal;
}

/// What the entry takes, in units of so many sectors.
std::string sectors_text(const Found& found, u64 unit) {
    found.attributes();
    return std::to_string((found.sectors + unit - 1) / unit);
}

struct Directive {
    char letter;
    std::string (*text)(const Found& found, const std::string& path);
};

using Path = const std::string&;
constexpr Directive directives[] = {
    {'%', [](const Found&, Path) { return std::string("%"); }},
    {'p', [](const Found&, Path path) { return path; }},
    {'f', [](const Found&, Path path) { return last_part(path); }},
    {'h', [](const Found&, Path path) { return parent_part(path); }},
    {'P', [](const Found& found, Path path) { return below_start(found, path); }},
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
    {'t', [](const Found& found, Path) { return full_time(found.attributes().modified); }},
    {'a', [](const Found& found, Path) { return full_time(found.attributes().accessed); }},
    {'c', [](const Found& found, Path) { return full_time(found.attributes().changed); }},
};

/// The text of a one-letter directive; false if there is no such directive.
bool directive_text(char letter, const Found& found, const std::string& path, std::string& text) {
    for (const Directive& directive : directives) {
        if (directive.letter != letter) continue;
        text = directive.text(found, path);
        return true;
    }
    return false;
}

/// %T@, %A+, %Cs and the like: which time, how written.
bool time_directive(char which, char style, const Attributes& attributes, std::string& text) {
    const bool known_style = style == '@' || style == '+' || style == 's';
    if (!known_style || (which != 'T' && which != 'A' && which != 'C')) return false;
    const i64 time = which == 'T'   ? attributes.modified
                     : which == 'A' ? attributes.accessed
                                    : attributes.changed;
    text = time_text(time, style);
    return true;
}

}  // namespace

void append_formatted(std::string& target, std::string_view format, const Found& found,
                      const std::string& path) {
    std::string text;
    while (!format.empty()) {
        const char first = format[0];
        const char second = format.size() > 1 ? format[1] : '\0';
        const char third = format.size() > 2 ? format[2] : '\0';
        size_t used = 1;
        if (first == '\\' && escaped_character(second) >= 0) {
            target += static_cast<char>(escaped_character(second));
            used = 2;
        } else if (first == '%' && directive_text(second, found, path, text)) {
            target += text;
            used = 2;
        } else if (first == '%' && time_directive(second, third, found.attributes(), text)) {
            target += text;
            used = 3;
        } else {
            target += first;
        }
        format.remove_prefix(used);
    }
}

}  // namespace warren::cli
