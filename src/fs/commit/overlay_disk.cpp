// SPDX-License-Identifier: Apache-2.0
// A range is first read from the disk below with one request, and then patched with logged blocks.
#include "fs/commit/overlay_disk.hpp"

#include <algorithm>

#include "fs/commit/journal.hpp"

namespace warren {

using format::block_size;

Result<u64> OverlayDisk::show_logged(const format::Superblock& superblock) {
    return Journal::find_logged(below_, superblock, [this](u64 place, u64 in_journal) {
        logged_[place / block_size] = in_journal;
    });
}

Errc OverlayDisk::read(u64 offset, std::span<std::byte> target) {
    WARREN_TRY(below_.read(offset, target));
    return patch(offset, target);
}

Errc OverlayDisk::read_many(std::span<const DiskRead> reads) {
    WARREN_TRY(below_.read_many(reads));
    for (const DiskRead& one : reads)
        WARREN_TRY(patch(one.offset, one.target));
    return Errc::ok;
}

/// Overlays `target` with the parts of logged blocks that lie in the range.
Errc OverlayDisk::patch(u64 offset, std::span<std::byte> target) {
    if (logged_.empty()) return Errc::ok;
    const u64 end = offset + target.size();
    for (u64 at = offset; at < end;) {
        const u64 stop = std::min(end, (at / block_size + 1) * block_size);
        const auto found = logged_.find(at / block_size);
        if (found != logged_.end()) {
            WARREN_TRY(below_.read(found->second + at % block_size,
                                   target.subspan(at - offset, stop - at)));
        }
        at = stop;
    }
    return Errc::ok;
}

}  // namespace warren
