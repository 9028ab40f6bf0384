// SPDX-License-Identifier: Apache-2.0
// ScanFilter as a plain value that both a CPU thread and a warp can use.
//
// Invariant: a file matches only if both wants_name() and wants_file() return true, so a name can
// be rejected before its inode is read.
#pragma once

#include "fs/core/name_pattern.hpp"
#include "fs/format/directory.hpp"
#include "fs/format/inode.hpp"
#include "warren/volume.hpp"

namespace warren::ops {

struct FileFilter {
    u32 depth_max = ~u32{0};
    u16 types = 0xffff;  // bit per type of a directory entry
    u8 pattern_length = 0;
    bool folds_case = false;
    u64 size_min = 0;
    u64 size_max = ~u64{0};
    i64 modified_min = INT64_MIN;
    i64 modified_max = INT64_MAX;
    char pattern[format::name_length_max] = {};

    /// Whether every file above the depth matches.
    bool wants_all() const {
        return types == 0xffff && pattern_length == 0 && wants_file(0, INT64_MIN) &&
               wants_file(~u64{0}, INT64_MAX);
    }
    /// Whether a file with this name and type may match.
    WARREN_HD bool wants_name(const char* name, u32 length, u8 type) const {
        if ((types >> (type & 15) & 1) == 0) return false;
        return pattern_length == 0 ||
               core::matches({pattern, pattern_length, folds_case}, name, length);
    }
    /// Whether a file matches, if wants_name() has returned true for it.
    WARREN_HD bool wants_file(u64 size, i64 modified) const {
        return size_min <= size && size <= size_max && modified_min <= modified &&
               modified <= modified_max;
    }
    /// Whether a file matches.
    WARREN_HD bool wants(const char* name, u32 length, const Attributes& of) const {
        return wants_name(name, length, format::entry_type(of.mode)) &&
               wants_file(of.size, of.modified);
    }
};

/// Errc::name_too_long for a pattern longer than any name.
inline Errc set_filter(FileFilter& filter, const ScanFilter& wanted) {
    if (wanted.pattern.size() > format::name_length_max) return Errc::name_too_long;
    filter.depth_max = wanted.depth_max;
    filter.types = wanted.types;
    filter.folds_case = wanted.folds_case;
    filter.size_min = wanted.size_min;
    filter.size_max = wanted.size_max;
    filter.modified_min = wanted.modified_min;
    filter.modified_max = wanted.modified_max;
    filter.pattern_length = static_cast<u8>(wanted.pattern.size());
    wanted.pattern.copy(filter.pattern, wanted.pattern.size());
    return Errc::ok;
}

/// The bytes that du(1) counts for a file of this size. The size of a device is meaningless.
WARREN_HD constexpr u64 counted_bytes(u32 mode, u64 size) {
    return format::is_device(mode) ? 0 : size;
}

}  // namespace warren::ops
