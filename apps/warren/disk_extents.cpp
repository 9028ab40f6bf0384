// SPDX-License-Identifier: Apache-2.0
// lseek(2) knows holes, FS_IOC_FIEMAP knows places, FIDEDUPERANGE shares: see
// ioctl_fideduperange(2).
#include "apps/warren/disk_extents.hpp"

#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/descriptor.hpp"

namespace warren::cli {

namespace {

constexpr u32 extents_at_once = 256;
constexpr u64 most_at_once = 16 * mib;  // what one call of FIDEDUPERANGE takes

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

std::vector<DataRange> data_ranges(int descriptor, u64 size) {
    std::vector<DataRange> ranges;
    u64 at = 0;
    while (at < size) {
        const off_t begin = ::lseek(descriptor, static_cast<off_t>(at), SEEK_DATA);
        if (begin < 0 && errno == ENXIO) break;
        const off_t end = begin < 0 ? begin : ::lseek(descriptor, begin, SEEK_HOLE);
        if (end < 0) {
            ranges.push_back({at, size});
            break;
        }
        at = std::min(static_cast<u64>(end), size);
        if (static_cast<u64>(begin) < at) ranges.push_back({static_cast<u64>(begin), at});
    }
    return ranges;
}

std::vector<DiskExtent> shared_extents(int descriptor) {
    std::vector<DiskExtent> shared;
    std::vector<u64> memory((sizeof(fiemap) + extents_at_once * sizeof(fiemap_extent)) / 8 + 1);
    auto* map = reinterpret_cast<fiemap*>(memory.data());
    u64 from = 0;
    while (true) {
        std::fill(memory.begin(), memory.end(), 0);
        map->fm_start = from;
        map->fm_length = ~u64{0} - from;
        map->fm_flags = FIEMAP_FLAG_SYNC;
        map->fm_extent_count = extents_at_once;
        if (::ioctl(descriptor, FS_IOC_FIEMAP, map) != 0 || map->fm_mapped_extents == 0)
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

Errc share_range(const std::string& original, u64 original_offset, const std::string& path,
                 u64 offset, u64 length, u64& shared_bytes) {
    const Descriptor from(::open(original.c_str(), O_RDONLY | O_CLOEXEC));
    if (!from) return static_cast<Errc>(errno);
    const Descriptor to(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!to) return static_cast<Errc>(errno);
    alignas(
        file_dedupe_range) char memory[sizeof(file_dedupe_range) + sizeof(file_dedupe_range_info)];
    auto* range = reinterpret_cast<file_dedupe_range*>(memory);
    while (length > 0) {
        std::memset(memory, 0, sizeof memory);
        range->src_offset = original_offset;
        range->src_length = std::min(length, most_at_once);
        range->dest_count = 1;
        file_dedupe_range_info& info = range->info[0];
        info.dest_fd = to.get();
        info.dest_offset = offset;
        int failure = ::ioctl(from.get(), FIDEDUPERANGE, range) != 0 ? errno : 0;
        if (failure == 0 && info.status < 0) failure = -info.status;
        if (failure == ENOTTY || failure == EINVAL || failure == ENOSYS) failure = EOPNOTSUPP;
        if (failure != 0) return static_cast<Errc>(failure);
        if (info.status == FILE_DEDUPE_RANGE_DIFFERS) return Errc::stale;
        if (info.bytes_deduped == 0) return Errc::ok;  // less than a block at the end
        shared_bytes += info.bytes_deduped;
        original_offset += info.bytes_deduped;
        offset += info.bytes_deduped;
        length -= std::min<u64>(length, info.bytes_deduped);
    }
    return Errc::ok;
}

}  // namespace warren::cli
