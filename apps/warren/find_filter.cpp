// SPDX-License-Identifier: Apache-2.0
// Derives a filter for the engine's scan from an expression: the tests that are joined by -and at
// its beginning, which every file must pass before any action. A filter may pass files that the
// expression rejects, never the reverse.
#include <algorithm>

#include "apps/warren/find_expression.hpp"

namespace warren::cli {

namespace {

/// Whether the scan matches the pattern exactly like fnmatch(3).
bool is_plain(const std::string& pattern, bool folds_case) {
    if (pattern.empty() || pattern.size() > 255) return false;
    const std::size_t set = pattern.find('[');
    if (set != std::string::npos) {
        const bool is_simple = pattern.find('[', set + 1) == std::string::npos &&
                               pattern.find(']', set + 2) != std::string::npos &&
                               pattern.find('-', set) == std::string::npos;
        if (folds_case || !is_simple) return false;
    }
    return std::all_of(pattern.begin(), pattern.end(), [](char byte) { return byte > 0; });
}

u16 types_of(const std::string& letters) {
    static constexpr std::pair<char, u32> known[] = {{'f', 8}, {'d', 4}, {'l', 10}, {'b', 6},
                                                     {'c', 2}, {'p', 1}, {'s', 12}};
    u32 types = 0;
    for (const auto& [letter, type] : known) {
        if (letters.find(letter) != std::string::npos) types |= 1u << type;
    }
    return static_cast<u16>(types);
}

}  // namespace

/// Whether evaluating this part can print or prune.
bool Expression::acts(size_t index) const {
    const Node& node = nodes_[index];
    switch (node.kind) {
        case Kind::both:
        case Kind::either:
        case Kind::sequence:
            return acts(node.left) || acts(node.right);
        case Kind::negation:
            return acts(node.left);
        default:
            return is_action(node.kind);
    }
}

/// Adds the tests of this part to the filter. Returns false if the part acts: tests after it come
/// too late.
bool Expression::narrow(size_t index, ScanFilter& filter) const {
    const Node& node = nodes_[index];
    switch (node.kind) {
        case Kind::both:
            return narrow(node.left, filter) && narrow(node.right, filter);
        case Kind::name:
            if (filter.pattern.empty() && is_plain(node.text, node.fold_case)) {
                filter.pattern = node.text;
                filter.folds_case = node.fold_case;
            }
            return true;
        case Kind::type:
            filter.types &= types_of(node.text);
            return true;
        case Kind::newer: {
            if (node.time != &Attributes::modified) return true;
            const i64 time = static_cast<i64>(node.number);
            if (time < INT64_MAX) filter.modified_min = std::max(filter.modified_min, time + 1);
            return true;
        }
        case Kind::size: {
            if (node.number > (u64{1} << 60) / node.unit) return true;
            const u64 size = node.number * node.unit;
            if (node.sign == Sign::more) filter.size_min = std::max(filter.size_min, size + 1);
            if (node.sign == Sign::equal) filter.size_max = std::min(filter.size_max, size);
            if (node.sign == Sign::less && node.number > 0) {
                filter.size_max = std::min(filter.size_max, size - node.unit);
            }
            return true;
        }
        default:
            return !acts(index);
    }
}

ScanFilter Expression::filter() const {
    ScanFilter filter;
    static_cast<void>(narrow(root_, filter));
    return filter;
}

}  // namespace warren::cli
