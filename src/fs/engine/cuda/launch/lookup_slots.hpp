// SPDX-License-Identifier: Apache-2.0
// The slots of a lookup stream (fs/engine/lookup_stream.hpp) on a GPU: pinned memory, and device
// memory of the same layout. A segment is a copy, a launch and a copy in one of several CUDA
// streams, so that segments of the other streams keep the bus and the multiprocessors busy. There
// are few slots, and the one freed last is used next, so the pinned memory stays in the cache.
//
// Invariant: no work is in flight for a slot before start() or after poll() has returned anything
// but Errc::busy.
#pragma once

#include <cstddef>
#include <stop_token>

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
    /// `loss` receives errors of the device, and outlives this.
    explicit LookupSlots(EngineLoss& loss) : loss_(loss) {}
    /// How much memory of the device make_ready() takes.
    static constexpr u64 device_bytes() {
        return slots * (in_bytes + out_bytes) + core::groups_max * sizeof(u32);
    }
    LookupSlots(const LookupSlots&) = delete;
    LookupSlots& operator=(const LookupSlots&) = delete;

    /// Calls make_ready() in advance, unless the volume has room for only a few files.
    void prepare(u64 files, const std::stop_token& must_stop) {
        if (files >= slots * items_max) static_cast<void>(make_ready(must_stop));
    }
    /// Allocates the memory unless that was done. Stops with Errc::canceled when `must_stop` asks
    /// for it. Thread-safe.
    Errc make_ready(const std::stop_token& must_stop = {});
    /// Prepares lookups on behalf of `caller` in `store`, which outlives them. Requires:
    /// make_ready() returned ok.
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
    // A slot's input: operands, then names. Its output: codes, then attributes.
    static constexpr u64 operands_bytes = items_max * sizeof(ops::BatchOperand);
    static constexpr u64 in_bytes = operands_bytes + words_max * sizeof(u64);
    static constexpr u64 codes_bytes = items_max * sizeof(Errc);
    static constexpr u64 out_bytes = codes_bytes + items_max * sizeof(Attributes);

    Errc take_room(const std::stop_token& must_stop);
    Errc send(const gpu::Stream& stream, u32 slot, u64 items, u64 words);

    EngineLoss& loss_;
    TakenOnce room_;  // guards the allocation of buffers, streams and events
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
