// SPDX-License-Identifier: Apache-2.0
// Frees many inodes at once by the rules of clear_inode_alone(), on the host.
#pragma once

#include <cstddef>

#include "base/streaming_stores.hpp"
#include "fs/core/inode_table.hpp"

namespace warren::core {

/// Ends the generations of the inodes of word `w` of the bitmap of `frame` in `mask`, of which
/// those in `held` have references. `may_clear_lines`: of one without references its whole first
/// line is cleared, since find_held() may call a handle stale that holds none; the caller calls
/// fence_streamed() before and after it.
inline void end_generations(const Store& store, u64 frame, u32 w, u64 mask, u64 held,
                            bool may_clear_lines) {
    static_assert(offsetof(Inode, generation) < line_bytes &&
                  offsetof(Inode, references) == line_bytes && sizeof(Inode) % line_bytes == 0);
    auto* const slots =
        reinterpret_cast<Inode*>(store.base + frame * format::frame_size) + u64{w} * 64;
    const u64 cleared = may_clear_lines ? mask & ~held : 0;
    for (u64 left = cleared; left != 0; left &= left - 1)
        clear_line(&slots[hd::countr_zero(left)]);
    for (u64 left = mask & ~cleared; left != 0; left &= left - 1)
        end_generation(slots[hd::countr_zero(left)]);
}

/// Frees inodes whose generations have ended: those of word `w` in `mask`, as above. The store is
/// fully resident.
inline void free_inodes_alone(const Store& store, u64 frame, u32 w, u64 mask, u64 held) {
    constexpr u64 one_block = (u64{1} << format::inodes_per_block) - 1;
    const u64 frame_place = frame * format::frame_size;
    for (u32 slot = 0; slot < 64; slot += format::inodes_per_block) {
        if ((mask >> slot & one_block) == 0) continue;
        note_changed(store, frame_place + (u64{w} * 64 + slot) * format::inode_size);
    }
    auto& bitmap = *reinterpret_cast<format::InodeBitmap*>(store.base + frame_place);
    for (u64 left = held; left != 0; left &= left - 1)
        hold_removed(bitmap, {0, w, left & (~left + 1)});
    clear_used(bitmap, w, mask, held != 0);
}

}  // namespace warren::core
