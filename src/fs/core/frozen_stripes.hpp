// SPDX-License-Identifier: Apache-2.0
// Locking version words on the host while the freeze barrier is closed: no operation holds one
// then, and only readers look at them.
#pragma once

#include "base/check.hpp"
#include "fs/core/store.hpp"
#include "team/team.hpp"

namespace warren::core {

/// How many a thread takes at a time when threads lock or unlock all of them together.
inline constexpr u64 stripes_at_once = 4096;

inline void lock_frozen_stripe(const Store& store, u64 stripe) {
    const u64 version = relaxed_load(store.versions[stripe]);
    WARREN_CHECK((version & 1) == 0);
    relaxed_store(store.versions[stripe], version | 1);
}

inline void unlock_frozen_stripe(const Store& store, u64 stripe) {
    device_atomic<u64> word(store.versions[stripe]);
    // Release: pairs with the acquire in Operation::observe().
    word.store(word.load(hd::memory_order_relaxed) + 1, hd::memory_order_release);
}

}  // namespace warren::core
