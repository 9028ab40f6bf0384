// SPDX-License-Identifier: Apache-2.0
// What the kernel tells of a file's place on disk, and its call to share equal blocks.
#pragma once

#include <string>
#include <vector>

#include "warren/result.hpp"
#include "warren/types.hpp"

namespace warren::cli {

/// Where a part of a file lies on disk.
struct DiskExtent {
    u64 offset;
    u64 place;
    u64 length;
};

struct DataRange {
    u64 begin;
    u64 end;
};

/// The parts of a file that are no holes; one range where the file system does not tell.
std::vector<DataRange> data_ranges(int descriptor, u64 size);

/// The parts of a file that other files, or other parts of it, use too.
std::vector<DiskExtent> shared_extents(int descriptor);

/// Whether two ranges lie on the same place of the disk, by the shared extents of their files.
bool same_place(const std::vector<DiskExtent>& left, u64 left_offset,
                const std::vector<DiskExtent>& right, u64 right_offset, u64 length);

/// Lets the range of `path` use the blocks of the original, if the kernel finds the bytes equal;
/// `shared_bytes` is how far it got. Errc::not_supported if the file system cannot, Errc::stale if
/// the bytes differ.
Errc share_range(const std::string& original, u64 original_offset, const std::string& path,
                 u64 offset, u64 length, u64& shared_bytes);

}  // namespace warren::cli
