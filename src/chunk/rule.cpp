// SPDX-License-Identifier: Apache-2.0
// The presets, and the checks of a rule. A rule that passes can be followed to the end by every
// implementation: each chunk has at least one byte, and no sum overflows.
#include <algorithm>
#include <array>
#include <bit>

#include "chunk/rabin.hpp"
#include "chunk/tables.hpp"
#include "warren/chunk.hpp"

namespace warren::chunk {

namespace {

constexpr std::array<std::string_view, 8> names = {
    "lbfs", "restic", "fastcdc", "gear", "xet", "borg", "storegpu-md5", "storegpu-sha1"};

/// The `bits` highest bits: in a gear hash, the only ones that all 64 bytes affect.
constexpr u64 high_bits(u32 bits) {
    return ~u64{0} << (64 - bits);
}

Rule lbfs_rule() {
    Rule rule;
    rule.method = Method::rabin;
    rule.window_bytes = 48;
    rule.polynomial = 0xbfe6b8a5bf378d83;
    rule.mask = 8 * kib - 1;
    rule.value = 0x78;
    rule.minimum_bytes = 2 * kib;
    rule.maximum_bytes = 64 * kib;
    return rule;
}

Rule restic_rule() {
    Rule rule;
    rule.method = Method::rabin;
    rule.window_bytes = 64;
    rule.mask = 1 * mib - 1;
    rule.minimum_bytes = 512 * kib;
    rule.maximum_bytes = 8 * mib;
    return rule;
}

Rule gear_rule(u32 bits, u64 minimum_bytes, u64 maximum_bytes) {
    Rule rule;
    rule.method = Method::gear;
    rule.window_bytes = 64;
    rule.mask = high_bits(bits);
    rule.minimum_bytes = minimum_bytes;
    rule.maximum_bytes = maximum_bytes;
    return rule;
}

Rule borg_rule() {
    Rule rule;
    rule.method = Method::buzhash;
    rule.window_bytes = 4095;
    rule.mask = (u64{1} << 21) - 1;
    rule.minimum_bytes = 512 * kib;
    rule.maximum_bytes = 8 * mib;
    return rule;
}

/// The paper states no minimum or maximum; one window and 64 MiB bound every chunk.
Rule storegpu_rule(Method method) {
    Rule rule;
    rule.method = method;
    rule.window_bytes = 20;
    rule.stride_bytes = 4;
    rule.mask = (u64{1} << 20) - 1;
    rule.minimum_bytes = 20;
    rule.maximum_bytes = 64 * mib;
    return rule;
}

std::string sizes_problem(const Rule& rule) {
    if (rule.minimum_bytes == 0) return "the minimum is 0; a chunk has at least one byte";
    if (rule.minimum_bytes > rule.maximum_bytes) {
        return "the minimum " + std::to_string(rule.minimum_bytes) +
               " is larger than the maximum " + std::to_string(rule.maximum_bytes);
    }
    if (rule.maximum_bytes > unlimited_bytes) {
        return "the maximum " + std::to_string(rule.maximum_bytes) + " is larger than 2^62";
    }
    if ((rule.value & ~rule.mask) != 0) {
        return "the value " + std::to_string(rule.value) + " has bits outside of the mask " +
               std::to_string(rule.mask) + ", so no window can match";
    }
    return "";
}

std::string window_problem(const Rule& rule, u32 least, u32 most) {
    if (rule.window_bytes >= least && rule.window_bytes <= most) return "";
    return "the window of " + std::to_string(rule.window_bytes) + " bytes is not one of " +
           std::to_string(least) + " to " + std::to_string(most);
}

std::string rabin_problem(const Rule& rule) {
    if (rule.polynomial == 0) return "the polynomial is missing";
    const u32 bits = degree(rule.polynomial);
    if (bits < 9) return "the polynomial has degree " + std::to_string(bits) + "; 9 is the least";
    if (rule.mask >> bits != 0) {
        return "the mask " + std::to_string(rule.mask) + " is wider than the fingerprint of " +
               std::to_string(bits) + " bits";
    }
    return window_problem(rule, 1, 4096);
}

std::string fastcdc_problem(const Rule& rule) {
    if (rule.minimum_bytes < 64) {
        return "fastcdc needs a minimum of 64 or more, not " + std::to_string(rule.minimum_bytes);
    }
    if (rule.average_bytes < rule.minimum_bytes || rule.average_bytes > rule.maximum_bytes) {
        return "the average " + std::to_string(rule.average_bytes) +
               " is not between minimum and maximum";
    }
    if (rule.value != 0) return "fastcdc has no value to match other than 0";
    return "";
}

std::string digest_problem(const Rule& rule) {
    if (rule.mask == 0 || rule.mask >> 32 != 0 || !std::has_single_bit(rule.mask + 1)) {
        return "the mask of a digest is its low 1 to 32 bits";
    }
    if (rule.value != 0) return "a digest has no value to match other than 0";
    if (rule.stride_bytes == 0) return "the stride is 0";
    return window_problem(rule, 1, 4096);
}

}  // namespace

std::span<const std::string_view> preset_names() {
    return names;
}

Result<Rule> fastcdc_rule(u64 average_bytes, u32 normalization) {
    if (average_bytes < 256 || average_bytes > 4 * mib || !std::has_single_bit(average_bytes) ||
        normalization > 3) {
        return Errc::invalid;
    }
    const auto bits = static_cast<u32>(std::countr_zero(average_bytes));
    Rule rule;
    rule.method = Method::fastcdc;
    rule.window_bytes = 64;
    rule.early_mask = fastcdc_masks[bits + normalization];
    rule.mask = fastcdc_masks[bits - normalization];
    rule.minimum_bytes = average_bytes / 4;
    rule.average_bytes = average_bytes;
    rule.maximum_bytes = average_bytes * 4;
    return rule;
}

Result<Rule> preset(std::string_view name) {
    if (name == "lbfs") return lbfs_rule();
    if (name == "restic") return restic_rule();
    if (name == "fastcdc") return fastcdc_rule(16 * kib);
    if (name == "gear") return gear_rule(13, 2 * kib, 64 * kib);
    if (name == "xet") return gear_rule(16, 8 * kib, 128 * kib);
    if (name == "borg") return borg_rule();
    if (name == "storegpu-md5") return storegpu_rule(Method::md5);
    if (name == "storegpu-sha1") return storegpu_rule(Method::sha1);
    return Errc::invalid;
}

std::string describe_problem(const Rule& rule) {
    std::string problem = sizes_problem(rule);
    if (!problem.empty()) return problem;
    switch (rule.method) {
        case Method::rabin:
            return rabin_problem(rule);
        case Method::gear:
            return window_problem(rule, 64, 64);
        case Method::fastcdc:
            problem = window_problem(rule, 64, 64);
            return problem.empty() ? fastcdc_problem(rule) : problem;
        case Method::buzhash:
            if (rule.mask >> 32 != 0 || rule.value >> 32 != 0) return "buzhash has 32 bits";
            return window_problem(rule, 1, 4095);
        case Method::md5:
        case Method::sha1:
            return digest_problem(rule);
    }
    return "the method is unknown";
}

}  // namespace warren::chunk
