// SPDX-License-Identifier: Apache-2.0
// A stream of look-ups on the host, for tests of what a volume does with one: its slots are few and
// small, a piece takes a while, and some look-ups are left to others.
//
// Invariant: what it leaves does not depend on which piece a name was in.
#pragma once

#include <vector>

#include "fs/engine/engine.hpp"

namespace warren {

class HostLookups final : public LookupStream {
 public:
    HostLookups() : slots_(slots) {}

    /// Takes look-ups on behalf of `caller`, who stays; `engine` has the answers.
    void open(Engine& engine, const core::Credentials& caller) {
        engine_ = &engine;
        caller_ = caller;
    }

    LookupStreamShape shape() const override { return {slots, items_max, words_max}; }
    ops::BatchMemory memory(u32 slot) override;
    Errc start(u32 slot, u64 items, u64 words) override;
    Errc poll(u32 slot) override;

 private:
    static constexpr u32 slots = 3;
    static constexpr u64 items_max = 300;
    static constexpr u64 words_max = 400;  // fewer than as many usual names need

    struct Slot {
        std::vector<ops::BatchEnd> ends = std::vector<ops::BatchEnd>(items_max);
        std::vector<u64> names = std::vector<u64>(words_max);
        std::vector<Errc> codes = std::vector<Errc>(items_max);
        std::vector<Attributes> attributes = std::vector<Attributes>(items_max);
        u32 polls_left = 0;
    };

    Engine* engine_ = nullptr;
    core::Credentials caller_;
    std::vector<Slot> slots_;
};

}  // namespace warren
