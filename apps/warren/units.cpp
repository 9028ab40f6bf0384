// SPDX-License-Identifier: Apache-2.0
// Whole numbers are parsed exactly; a fraction is multiplied in long double, which represents any
// 64-bit integer.
#include "apps/warren/units.hpp"

#include <charconv>
#include <cstdio>

namespace warren::cli {

namespace {

constexpr std::string_view letters = "KMGTPE";

/// The factor of a suffix; 0 if it is unknown.
u64 suffix_factor(std::string_view suffix) {
    if (suffix.empty() || suffix == "B") return 1;
    const char letter = suffix[0] == 'k' ? 'K' : suffix[0];
    size_t power = letters.find(letter);
    if (power == std::string_view::npos) power = std::string_view("kmgtpe").find(letter);
    if (power == std::string_view::npos) return 0;
    const std::string_view rest = suffix.substr(1);
    u64 base = 0;
    if (rest.empty() || rest == "iB") base = 1024;
    if (rest == "B") base = 1000;
    u64 factor = base;
    for (size_t i = 0; i < power; ++i)
        factor *= base;
    return factor;
}

}  // namespace

std::optional<u64> parse_number(std::string_view text) {
    u64 number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || text.empty()) return {};
    return number;
}

std::optional<u64> parse_size(std::string_view text) {
    const size_t digits_end = std::min(text.find_first_not_of("0123456789."), text.size());
    const std::string_view digits = text.substr(0, digits_end);
    const u64 factor = suffix_factor(text.substr(digits_end));
    if (factor == 0 || digits.empty() || digits[0] == '.') return {};
    const size_t point = digits.find('.');
    const std::optional<u64> whole = parse_number(digits.substr(0, point));
    if (!whole) return {};
    u64 bytes = 0;
    if (__builtin_mul_overflow(*whole, factor, &bytes)) return {};
    if (point == std::string_view::npos) return bytes;
    const std::string_view behind = digits.substr(point + 1);
    const std::optional<u64> fraction = parse_number(behind);
    if (!fraction || behind.size() > 15) return {};
    long double part = static_cast<long double>(*fraction);
    for (size_t i = 0; i < behind.size(); ++i)
        part /= 10;
    const u64 more = static_cast<u64>(part * static_cast<long double>(factor));
    if (__builtin_add_overflow(bytes, more, &bytes)) return {};
    return bytes;
}

std::string short_size(u64 bytes, u64 base) {
    const auto letter = [&](size_t power) {
        return power == 0 && base == 1000 ? 'k' : letters[power];
    };
    if (bytes < base) return std::to_string(bytes);
    size_t power = 0;
    u64 unit = base;
    while (power + 1 < letters.size() && bytes / unit >= base) {
        unit *= base;
        ++power;
    }
    const u64 whole = bytes / unit;
    const u64 rest = bytes % unit;
    std::string text;
    const u64 tenths = whole * 10 + (rest * 10 + unit - 1) / unit;
    if (tenths < 100) {
        text = std::to_string(tenths / 10) + "." + std::to_string(tenths % 10);
    } else {
        const u64 rounded = whole + (rest != 0 ? 1 : 0);
        if (rounded == base && power + 1 < letters.size())
            return std::string("1.0") + letter(power + 1);
        text = std::to_string(rounded);
    }
    return text + letter(power);
}

std::string long_size(u64 bytes) {
    if (bytes < 1024) return counted(bytes, "byte", "bytes");
    size_t power = 0;
    double value = static_cast<double>(bytes) / 1024;
    while (value >= 1023.95 && power + 1 < letters.size()) {
        value /= 1024;
        ++power;
    }
    char text[48];
    std::snprintf(text, sizeof text, "%.1f %ciB", value, letters[power]);
    return text;
}

std::string counted(u64 count, std::string_view one, std::string_view many) {
    return grouped(count) + " " + std::string(count == 1 ? one : many);
}

std::string grouped(u64 number) {
    std::string text = std::to_string(number);
    for (size_t place = text.size(); place > 3;) {
        place -= 3;
        text.insert(place, ",");
    }
    return text;
}

}  // namespace warren::cli
