// SPDX-License-Identifier: Apache-2.0
// Where a file has data, and which disk addresses the kernel reports for it.
#pragma once

#include <string>
#include <vector>

#include "apps/warren/directory.hpp"

namespace warren::cli {

/// The disk address of a part of a file.
struct DiskExtent {
    u64 offset;
    u64 place;
    u64 length;
};

struct DataRange {
    u64 begin;
    u64 end;
};

/// The parts of a file that are not holes; the whole file if the file system cannot tell.
std::vector<DataRange> data_ranges(OpenFile& file, u64 size);

/// The parts of a file whose blocks are shared, with other files or within the file; empty if the
/// file system cannot tell.
std::vector<DiskExtent> shared_extents(const std::string& path);

/// Whether two ranges have the same disk address, according to the shared extents of their files.
bool same_place(const std::vector<DiskExtent>& left, u64 left_offset,
                const std::vector<DiskExtent>& right, u64 right_offset, u64 length);

}  // namespace warren::cli
