// SPDX-License-Identifier: Apache-2.0
// A lookup stream on the host, for tests of how a volume uses one: it has few and small slots, a
// segment takes some time, and some lookups are left to the caller.
//
// Invariant: which lookups are left does not depend on the segment that a name is in.
#pragma once

#include <vector>

#include "fs/engine/engine.hpp"
#include "tests/support/lookup_memory.hpp"

namespace warren {

class HostLookups final : public LookupStream {
 public:
    HostLookups() : slots_(slots, Slot(shape_of_slots)) {}

    /// Accepts lookups on behalf of `caller`; `engine` answers them. Both must outlive this object.
    void open(Engine& engine, const core::Credentials& caller) {
        engine_ = &engine;
        caller_ = caller;
    }

    LookupStreamShape shape() const override { return shape_of_slots; }
    ops::BatchMemory memory(u32 slot) override;
    Errc start(u32 slot, u64 items, u64 words) override;
    Errc poll(u32 slot) override;

 private:
    static constexpr u32 slots = 3;
    // Fewer words than that many names of usual length need.
    static constexpr LookupStreamShape shape_of_slots{slots, 300, 400};

    struct Slot : LookupMemory {
        using LookupMemory::LookupMemory;
        u32 polls_left = 0;
    };

    Engine* engine_ = nullptr;
    core::Credentials caller_;
    std::vector<Slot> slots_;
};

}  // namespace warren
