// SPDX-License-Identifier: Apache-2.0
// Marks of metadata blocks that have changed since a replica (engine/replica/) took them. They are
// apart from the dirty marks: a block that stays dirty may change again after it was sent, and some
// changes never reach the disk.
//
// Rule: code that changes a word of a block that a reader of the replica may load marks the block
// before its apply ends. Marks are swapped with the freeze barrier closed, so a mark and its change
// belong to the same version. Operation::mark_dirty() does it; code that changes a block without
// marking it dirty calls one of these functions.
#pragma once

#include "fs/core/frame_bits.hpp"

namespace warren::core {

/// Marks the block at `place`. One lane, within apply. Without a replica, and on a GPU, nothing.
WARREN_HD inline void note_changed([[maybe_unused]] const Store& store,
                                   [[maybe_unused]] u64 place) {
#if !defined(__CUDA_ARCH__)
    if (store.changed == nullptr) [[likely]]
        return;
    // A mark that is set stays set until this apply ends: the swap waits for it.
    set_bit(store.changed, place / format::block_size);
    set_bit(store.changed_frames, place / format::frame_size);
#endif
}

/// Marks the block at `place`, which was loaded: no barrier is passed, so a version may lack it,
/// and the next one has it. One lane, after the block is resident.
WARREN_HD inline void note_loaded([[maybe_unused]] const Store& store, [[maybe_unused]] u64 place) {
#if !defined(__CUDA_ARCH__)
    if (store.changed == nullptr) [[likely]]
        return;
    // Pairs with the acquire in ChangeSet::take(). A mark that was set earlier may be taken at any
    // moment, without this change.
    release_bit(store.changed, place / format::block_size);
    release_bit(store.changed_frames, place / format::frame_size);
#endif
}

/// Marks all resident blocks of a frame. One lane, within apply or while the frame is claimed.
WARREN_HD inline void note_frame_changed([[maybe_unused]] const Store& store,
                                         [[maybe_unused]] u64 frame) {
#if !defined(__CUDA_ARCH__)
    if (store.changed == nullptr) [[likely]]
        return;
    constexpr u64 words = format::words_per_frame;
    for (u64 w = frame * words; w < (frame + 1) * words; ++w) {
        // Acquire: pairs with the release of the thread that made the blocks resident.
        const u64 bits = device_atomic<u64>(store.resident[w]).load(hd::memory_order_acquire);
        device_atomic<u64>(store.changed[w]).fetch_or(bits, hd::memory_order_relaxed);
    }
    release_bit(store.changed_frames, frame);  // as in note_loaded()
#endif
}

}  // namespace warren::core
