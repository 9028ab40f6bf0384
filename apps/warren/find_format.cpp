// SPDX-License-Identifier: Apache-2.0
// find -printf: the directives that say something about a file by itself.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "apps/warren/find_expression.hpp"
#include "apps/warren/listing.hpp"

namespace warren::cli {

namespace {

constexpr size_t width_most = 4096;

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

std::string link_target(const Found& found) {
    const bool is_link = found.type == 'l' && found.source != nullptr;
    return is_link ? found.source->link_target() : std::string();
}

/// As find -ls writes a name: what is not a plain letter is escaped.
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

std::string padded(std::string text, size_t width, bool is_left) {
    if (text.size() < width) text.insert(is_left ? text.size() : 0, width - text.size(), ' ');
    return text;
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
    {'H', [](const Found& found, Path) { return std::string(found.start); }},
    {'l', [](const Found& found, Path) { return link_target(found); }},
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
    column(short_time(attributes.modified), 0);
    append_escaped(target, path);
    if (type == 'l') append_escaped(target += " -> ", link_target(found));
    target += '\n';
}

void append_formatted(std::string& target, std::string_view format, const Found& found,
                      const std::string& path) {
    std::string text;
    while (!format.empty()) {
        const char first = format[0];
        const char second = format.size() > 1 ? format[1] : '\0';
        const char third = format.size() > 2 ? format[2] : '\0';
        size_t used = 1;
        // Between % and the letter: a minus, a width.
        const size_t letter = first == '%' ? format.find_first_not_of("-0123456789", 1) : 1;
        if (letter != 1 && letter < format.size() &&
            directive_text(format[letter], found, path, text)) {
            const bool is_left = second == '-';
            const std::string digits(format.substr(is_left ? 2 : 1, letter - (is_left ? 2 : 1)));
            const auto width = static_cast<size_t>(std::atoi(digits.c_str()));
            target += padded(text, std::min(width, width_most), is_left);
            used = letter + 1;
        } else if (first == '\\' && escaped_character(second) >= 0) {
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
