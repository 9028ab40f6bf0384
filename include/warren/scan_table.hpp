// SPDX-License-Identifier: Apache-2.0
// What a scan finds as columns in the memory of the GPU that scans.
#pragma once

#include <functional>
#include <string_view>

#include "warren/result.hpp"
#include "warren/types.hpp"

namespace warren {

/// What a column of a ScanTable holds of each entry. `handle` and `parent` are two numbers: inode
/// and generation. `mode` and `depth` are i32, all others i64.
enum class ScanColumn : u8 {
    handle,
    parent,
    size,
    blocks,
    modified,
    accessed,
    changed,
    mode,
    links,
    user,
    group,
    depth,
};
inline constexpr u32 scan_columns = 12;

/// Columns in the memory of a GPU. Null: not wanted.
struct ScanTable {
    /// All strings without gaps: string i is bytes[offsets[i]] up to bytes[offsets[i + 1]].
    struct Text {
        i64* offsets = nullptr;
        char* bytes = nullptr;
    };
    void* numbers[scan_columns] = {};  // by ScanColumn
    Text names;
    Text paths;
};

struct ScanTableSize {
    u64 rows = 0;
    u64 name_bytes = 0;
    u64 path_bytes = 0;
};

/// Asks a scan for its results as columns, a row for each file that matches.
struct ScanTableOrder {
    std::string_view path;  // of the root of the scan: "/", or "/a/b"
    bool wants_paths = false;
    /// Sets `table` to memory of GPU number `gpu`. Called at most once, and must not call the
    /// volume. After Errc::no_memory the visitor is called instead.
    std::function<Errc(i32 gpu, const ScanTableSize& size, ScanTable& table)> make;
    bool is_filled = false;  // set by the scan: the columns have all results
};

}  // namespace warren
