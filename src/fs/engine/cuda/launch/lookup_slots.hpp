// SPDX-License-Identifier: Apache-2.0
// The slots of a stream of look-ups (fs/engine/lookup_stream.hpp) on a GPU: pinned memory and its
// like on the device. A piece is a copy, a launch and a copy in one of several streams, so that the
// pieces of the others keep the bus and the processors busy meanwhile. There are few slots and the
// last one that got free is the next one taken: what the bus brings stays in the processor's cache.
//
// Invariant: nothing is under way in a slot that start() has not taken, or that poll() has given
// back.
#pragma once

#include <atomic>
#include <cstddef>

#include "fs/core/permission.hpp"
#include "fs/core/store.hpp"
#include "fs/engine/cuda/engine_loss.hpp"
#include "fs/engine/lookup_stream.hpp"
#include "fs/engine/taken_once.hpp"
#include "gpu/buffer.hpp"
#include "gpu/stream.hpp"

namespace warren::cuda_engine {

class LookupSlots final : public LookupStream {
 public:
    /// `loss` is told of what ends the engine, and outlives this.
    explicit LookupSlots(EngineLoss& loss) : loss_(loss) {}
    LookupSlots(const LookupSlots&) = delete;
    LookupSlots& operator=(const LookupSlots&) = delete;

    /// Takes the memory ahead for a volume of so many files; not for few. As make_ready().
    void prepare(u64 files, const std::atomic<bool>& must_stop) {
        if (files >= slots * items_max) static_cast<void>(make_ready(&must_stop));
    }
    /// Takes the memory, if it is not there; no more of it once `must_stop`, where there is one,
    /// and then the answer is Errc::canceled. By any thread, at any time.
    Errc make_ready(const std::atomic<bool>* must_stop = nullptr);
    /// Gets ready for look-ups on behalf of `caller` in `store`, which outlives their answers.
    /// Requires: make_ready() was ok.
    Errc open(const core::Store& store, const core::Credentials& caller);

    LookupStreamShape shape() const override { return {slots, items_max, words_max}; }
    ops::BatchMemory memory(u32 slot) override;
    Errc start(u32 slot, u64 items, u64 words) override;
    Errc poll(u32 slot) override;

 private:
    static constexpr u32 slots = 24;
    static constexpr u64 items_max = 16'384;
    static constexpr u64 words_max = 4 * items_max;
    static constexpr u32 streams = 4;
    // A slot's memory on its way in: ends, then names; and out: codes, then attributes.
    static constexpr u64 ends_bytes = items_max * sizeof(ops::BatchEnd);
    static constexpr u64 in_bytes = ends_bytes + words_max * sizeof(u64);
    static constexpr u64 codes_bytes = items_max * sizeof(Errc);
    static constexpr u64 out_bytes = codes_bytes + items_max * sizeof(Attributes);

    Errc take_room(const std::atomic<bool>* must_stop);
    Errc send(const gpu::Stream& stream, u32 slot, u64 items, u64 words);

    EngineLoss& loss_;
    TakenOnce room_;  // the buffers, the streams and the events
    gpu::PinnedBuffer<std::byte> host_in_;
    gpu::PinnedBuffer<std::byte> host_out_;
    gpu::DeviceBuffer<std::byte> in_;
    gpu::DeviceBuffer<std::byte> out_;
    gpu::DeviceBuffer<u32> groups_;
    gpu::Stream streams_[streams];
    gpu::Event ends_[slots];
    u32 next_stream_ = 0;
    const core::Store* store_ = nullptr;
    core::Credentials caller_;
};

}  // namespace warren::cuda_engine
