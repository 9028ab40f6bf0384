// SPDX-License-Identifier: Apache-2.0
// Where a file has data, and what the kernel tells of their place on disk.
#pragma once

#include <string>
#include <vector>

#include "apps/warren/directory.hpp"

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
std::vector<DataRange> data_ranges(OpenFile& file, u64 size);

/// The parts of a file that other files, or other parts of it, use too; nothing where the file
/// system does not tell.
std::vector<DiskExtent> shared_extents(const std::string& path);

/// Whether two ranges lie on the same place of the disk, by the shared extents of their files.
bool same_place(const std::vector<DiskExtent>& left, u64 left_offset,
                const std::vector<DiskExtent>& right, u64 right_offset, u64 length);

}  // namespace warren::cli
