// SPDX-License-Identifier: Apache-2.0
// A stream of look-ups on the host, for tests of what a volume does with one: its slots are few and
// small, a piece takes a while, and some look-ups are left to others.
//
// Invariant: what it leaves does not depend on which piece a name was in.
#pragma once

#include <vector>

#include "fs/engine/engine.hpp"
#include "tests/support/lookup_memory.hpp"

namespace warren {

class HostLookups final : public LookupStream {
 public:
    HostLookups() : slots_(slots, Slot(shape_of_slots)) {}

    /// Takes look-ups on behalf of `caller`, which must outlive this; `engine` has the answers.
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
    // Fewer words than as many usual names need.
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
