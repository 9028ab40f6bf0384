// SPDX-License-Identifier: Apache-2.0
// A read goes to the disk below first and is then patched, so that large reads stay single reads.
#include "fs/volume/overlay_disk.hpp"

#include <algorithm>
#include <cstring>

namespace warren {

using format::block_size;

Errc OverlayDisk::read(u64 offset, std::span<std::byte> target) {
    WARREN_TRY(below_.read(offset, target));
    if (blocks_.empty() || target.empty()) return Errc::ok;
    const u64 end = offset + target.size();
    for (u64 number = offset / block_size; number * block_size < end; ++number) {
        const auto found = blocks_.find(number);
        if (found == blocks_.end()) continue;
        const u64 begin = std::max(offset, number * block_size);
        const u64 stop = std::min(end, (number + 1) * block_size);
        const auto* bytes = reinterpret_cast<const std::byte*>(found->second.get());
        std::memcpy(target.data() + (begin - offset), bytes + begin % block_size, stop - begin);
    }
    return Errc::ok;
}

Errc OverlayDisk::write(u64 offset, std::span<const std::byte> source) {
    const bool is_good = offset % block_size == 0 && source.size() % block_size == 0 &&
                         offset <= size_bytes() && source.size() <= size_bytes() - offset;
    if (!is_good) return Errc::io;
    for (u64 done = 0; done < source.size(); done += block_size) {
        auto& block = blocks_[(offset + done) / block_size];
        if (!block) block = std::make_unique<format::Block>();
        std::memcpy(block.get(), source.data() + done, block_size);
    }
    return Errc::ok;
}

}  // namespace warren
