// SPDX-License-Identifier: Apache-2.0
// Versions of tree blocks as last observed. The teams of one thread block share these notes, which
// lie in its shared memory. A lookup that uses a noted version instead of a load validates it later
// on its path, as it validates a loaded version.
//
// Invariant: a note holds a version that the block had while it was in memory and not locked, never
// a later one. So a note may be out of date, but using it is safe.
#pragma once

#include "fs/core/operation.hpp"

namespace warren::core {

#if defined(WARREN_CUDA)
/// An atomic for words in the shared memory of a thread block.
template <class T>
using near_atomic = cuda::atomic_ref<T, cuda::thread_scope_block>;
#else
template <class T>
using near_atomic = std::atomic_ref<T>;
#endif

struct VersionNotes {
    static constexpr u32 count = 512;
    static constexpr u64 versions_end = u64{1} << 32;  // greater versions are not noted

    u64 notes[count] = {};  // block number and version in one word; 0: no note

    /// Looks for a note for the block at `place` and stores it in `seen`; false if there is none.
    template <class Team>
    WARREN_HD bool find(const Team& team, u64 place, Seen& seen) {
        const u64 block = place / format::block_size;
        // Acquire: pairs with the release in write(), so that what the block held at that version
        // is visible.
        const u64 note = once(team, [&] {
            return near_atomic<u64>(notes[block % count]).load(hd::memory_order_acquire);
        });
        if (note / versions_end != block || note == 0) return false;
        seen = {place, note % versions_end};
        return true;
    }

    /// Notes a version that the caller has observed, or that its end_apply() has set.
    template <class Team>
    WARREN_HD void write(const Team& team, const Seen& seen) {
        const u64 block = seen.place / format::block_size;
        if (block >= versions_end || seen.version >= versions_end) return;
        once(team, [&] {
            // Release: pairs with the acquire in find().
            near_atomic<u64>(notes[block % count])
                .store(block * versions_end + seen.version, hd::memory_order_release);
        });
    }
};

}  // namespace warren::core
