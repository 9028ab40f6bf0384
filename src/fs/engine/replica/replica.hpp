// SPDX-License-Identifier: Apache-2.0
// A replica: a copy of the metadata blocks of a fully resident Store, for readers that must not
// stop writers. Each version of it is the state of one moment; it is brought up to date by
// pre-copy, so that the freeze barrier closes for the swap of the marks and the last few blocks.
//
// Invariant: a block differs from the image only if it is marked (core/change_marks.hpp), or taken
// by the refresh that runs. Blocks that are not resident or not in use, the kind of a frame without
// blocks in use, and what only the host uses (InodeBitmap::held), may differ. Once the memory was
// released, all blocks in memory are marked.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <shared_mutex>

#include "base/fair_lock.hpp"
#include "fs/engine/replica/change_set.hpp"
#include "fs/engine/replica/replica_memory.hpp"

namespace warren {

struct ReplicaFigures {
    u64 blocks_sent = 0;
    u64 complete_loads = 0;
};

class Replica {
 public:
    /// Calls an action while nothing applies to the Store: Committer::freeze().
    using Freeze = std::function<void(const std::function<void()>& action)>;
    /// Calls `body(i)` for each i below `count`, by many threads or by one. It must not wait for a
    /// thread that may wait for this replica.
    using ForEach = std::function<void(u64 count, const std::function<void(u64)>& body)>;
    /// Makes the memory of an empty image, or fails.
    using MakeMemory = std::function<Errc(std::unique_ptr<ReplicaMemory>& memory)>;
    /// Works on the image, beside others, until it ends or unlocks `hold`. Until then it calls
    /// nothing that waits for this replica.
    using Reader = std::function<Errc(const core::Store& image, std::shared_lock<FairLock>& hold)>;

    /// Changes the image and the Store. It throws nothing, and waits for nobody.
    using Changer = std::function<Errc(ReplicaMemory& memory)>;

    /// Requires: `store` outlives this and its changes are marked (StoreMemory::mark_changes()).
    /// `for_each` runs the copying of a round. `make_memory`: for the first version, and for the
    /// first after a release.
    Replica(const core::Store& store, Freeze freeze, ForEach for_each, MakeMemory make_memory);

    /// Calls `reader` with an image that has all changes that ended before this call, and returns
    /// its result: with the current version if nothing was marked since, else with a new one. An
    /// error of the memory: `reader` was not called, and the image will be loaded again. Requires:
    /// the caller has not passed the freeze barrier. Errc::not_supported, and `reader` was not
    /// called: the memory was released, and `may_load` is false.
    Errc read(const Reader& reader, bool may_load = true);
    /// Calls `changer` with the memory of an image that equals the Store, while nothing applies to
    /// the Store, and returns its result; waits for readers. Afterwards both are equal again, or
    /// `changer` has failed with an error of the memory or Errc::corrupt: then the image is lost.
    /// `blocks`: see ReplicaMemory::prepare_changes(); Errc::no_space if there is no memory for
    /// them. Otherwise as read().
    Errc change(u64 blocks, const Changer& changer, bool may_load);
    /// Takes the memory of the image if it has none, for the next version.
    Errc make_ready();
    /// Makes a new version; waits for readers.
    Errc refresh();
    /// Frees the memory of the image; waits for readers. A later version takes memory again.
    void release();
    /// Whether the image has no memory: none was made yet, or it was released.
    bool is_released() const { return is_released_.load(std::memory_order_relaxed); }

    /// The number of the current version, 0 before the first.
    u64 version() const {
        // Acquire: pairs with the release in end_version().
        return version_.load(std::memory_order_acquire);
    }
    /// How many blocks the next version sends, about; counting takes microseconds.
    u64 marked() const { return taken_.marked(); }
    ReplicaFigures figures();

 private:
    static constexpr u32 rounds_max = 3;
    static constexpr u64 frozen_blocks_max = 512;  // fewer need no further round
    static constexpr u64 copied_at_once = 16;      // blocks

    bool is_current(u64 seen) const;
    Errc take_memory();
    Errc send_version(const Changer* changer = nullptr, u64 blocks = 0);
    void mark_resident();
    void end_version();
    Errc send_taken(const ForEach& for_each);
    Errc send_stage(const ForEach& for_each);
    Errc make_room(const ForEach& for_each);
    void drop(u64 at, u64 word, u64 bits) const;
    void stage_block(u64 at) const;
    const format::Block* source_of(u64 place) const;

    const core::Store& store_;
    const Freeze freeze_;
    const ForEach for_each_;
    const MakeMemory make_memory_;
    FairLock image_;  // shared by readers: none joins while a refresh waits
    std::atomic<u64> version_{0};
    std::atomic<bool> is_released_{true};
    // Under image_.
    std::unique_ptr<ReplicaMemory> memory_;  // null while it is released
    bool is_complete_ = false;               // the image is that of version_
    ChangeSet taken_;
    ReplicaValues values_{};
    ReplicaFigures figures_;
    ReplicaStage stage_;
    u64 staged_count_ = 0;
};

/// Calls `body(i)` for each i below `count`; a thread takes `at_once` of them at a time. Allocates
/// nothing.
template <class Body>
void for_parts(const Replica::ForEach& for_each, u64 count, u64 at_once, const Body& body) {
    const auto take_part = [&](u64 part) {
        for (u64 i = part * at_once; i < std::min((part + 1) * at_once, count); ++i)
            body(i);
    };
    for_each((count + at_once - 1) / at_once, std::ref(take_part));
}

}  // namespace warren
