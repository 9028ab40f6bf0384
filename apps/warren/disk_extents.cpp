// SPDX-License-Identifier: Apache-2.0
// Disk addresses come from FS_IOC_FIEMAP.
#include "apps/warren/disk_extents.hpp"

#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#include <algorithm>

#include "base/descriptor.hpp"

namespace warren::cli {

namespace {

constexpr u32 extents_at_once = 256;

/// The extent that holds `offset`, or null.
const DiskExtent* extent_at(const std::vector<DiskExtent>& extents, u64 offset) {
    auto behind =
        std::upper_bound(extents.begin(), extents.end(), offset,
                         [](u64 at, const DiskExtent& extent) { return at < extent.offset; });
    if (behind == extents.begin()) return nullptr;
    --behind;
    return offset - behind->offset < behind->length ? &*behind : nullptr;
}

}  // namespace

std::vector<DataRange> data_ranges(OpenFile& file, u64 size) {
    std::vector<DataRange> ranges;
    u64 at = 0;
    while (at < size) {
        const Result<u64> begin = file.seek(at, Seek::data);
        if (begin.code() == no_such_place) break;
        const Result<u64> end = begin ? file.seek(*begin, Seek::hole) : begin;
        if (!end) {
            ranges.push_back({at, size});
            break;
        }
        at = std::min(*end, size);
        if (*begin < at) ranges.push_back({*begin, at});
    }
    return ranges;
}

std::vector<DiskExtent> shared_extents(const std::string& path) {
    std::vector<DiskExtent> shared;
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    std::vector<u64> memory((sizeof(fiemap) + extents_at_once * sizeof(fiemap_extent)) / 8 + 1);
    auto* map = reinterpret_cast<fiemap*>(memory.data());
    u64 from = 0;
    while (true) {
        std::fill(memory.begin(), memory.end(), 0);
        map->fm_start = from;
        map->fm_length = ~u64{0} - from;
        map->fm_flags = FIEMAP_FLAG_SYNC;
        map->fm_extent_count = extents_at_once;
        if (::ioctl(file.get(), FS_IOC_FIEMAP, map) != 0 || map->fm_mapped_extents == 0)
            return shared;
        bool is_last = false;
        for (u32 index = 0; index < map->fm_mapped_extents; ++index) {
            const fiemap_extent& extent = map->fm_extents[index];
            if ((extent.fe_flags & FIEMAP_EXTENT_SHARED) != 0)
                shared.push_back({extent.fe_logical, extent.fe_physical, extent.fe_length});
            from = extent.fe_logical + extent.fe_length;
            is_last = (extent.fe_flags & FIEMAP_EXTENT_LAST) != 0;
        }
        if (is_last) return shared;
    }
}

bool same_place(const std::vector<DiskExtent>& left, u64 left_offset,
                const std::vector<DiskExtent>& right, u64 right_offset, u64 length) {
    while (length > 0) {
        const DiskExtent* mine = extent_at(left, left_offset);
        const DiskExtent* its = extent_at(right, right_offset);
        if (mine == nullptr || its == nullptr) return false;
        const u64 into_mine = left_offset - mine->offset;
        const u64 into_its = right_offset - its->offset;
        if (mine->place + into_mine != its->place + into_its) return false;
        const u64 step = std::min({length, mine->length - into_mine, its->length - into_its});
        left_offset += step;
        right_offset += step;
        length -= step;
    }
    return true;
}

}  // namespace warren::cli
