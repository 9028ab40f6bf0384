// SPDX-License-Identifier: Apache-2.0
// A segment that is not full is copied with the gap between its operands and its names, because a
// second copy would take longer.
#include "fs/engine/cuda/launch/lookup_slots.hpp"

#include <algorithm>

#include "fs/engine/cuda/launch/lookup_many.hpp"

namespace warren::cuda_engine {

Errc LookupSlots::make_ready(const std::stop_token& must_stop) {
    return room_.ensure(TakenOnce::Clock::now, [&] { return take_room(must_stop); });
}

/// Allocates the buffers, streams and events that are missing.
Errc LookupSlots::take_room(const std::stop_token& must_stop) {
    const auto take = [&](auto& buffer, u64 count) {
        return must_stop.stop_requested() ? Errc::canceled : buffer.reserve(count);
    };
    WARREN_TRY(take(host_in_, slots * in_bytes));
    WARREN_TRY(take(in_, slots * in_bytes));
    WARREN_TRY(take(host_out_, slots * out_bytes));
    WARREN_TRY(take(out_, slots * out_bytes));
    WARREN_TRY(take(groups_, core::groups_max));
    for (gpu::Stream& stream : streams_)
        WARREN_TRY(stream.open());
    for (gpu::Event& end : ends_)
        WARREN_TRY(end.open());
    return Errc::ok;
}

Errc LookupSlots::open(const core::Store& store, const core::Credentials& caller) {
    store_ = &store;
    caller_ = caller;
    caller_.group_count = std::min(caller.group_count, core::groups_max);
    if (caller_.group_count == 0) return Errc::ok;
    WARREN_TRY(streams_[0].copy(groups_.data(), caller.groups, caller_.group_count * sizeof(u32)));
    caller_.groups = groups_.data();
    return streams_[0].wait();  // other streams use the groups as well
}

ops::BatchMemory LookupSlots::memory(u32 slot) {
    std::byte* const in = host_in_.data() + slot * in_bytes;
    std::byte* const out = host_out_.data() + slot * out_bytes;
    ops::BatchMemory memory;
    memory.operands = reinterpret_cast<ops::BatchOperand*>(in);
    memory.names = reinterpret_cast<u64*>(in + operands_bytes);
    memory.codes = reinterpret_cast<Errc*>(out);
    memory.attributes = reinterpret_cast<Attributes*>(out + codes_bytes);
    return memory;
}

/// Queues the copies and the kernel of a segment.
Errc LookupSlots::send(const gpu::Stream& stream, u32 slot, u64 items, u64 words) {
    const u64 in_at = slot * in_bytes;
    const u64 out_at = slot * out_bytes;
    WARREN_TRY(stream.copy(in_.data() + in_at, host_in_.data() + in_at,
                           operands_bytes + words * sizeof(u64)));
    WARREN_TRY(launch_lookups(
        *store_, caller_, reinterpret_cast<const ops::BatchOperand*>(in_.data() + in_at),
        reinterpret_cast<const u64*>(in_.data() + in_at + operands_bytes), static_cast<u32>(items),
        reinterpret_cast<Attributes*>(out_.data() + out_at + codes_bytes),
        reinterpret_cast<Errc*>(out_.data() + out_at), stream.get()));
    WARREN_TRY(stream.copy(host_out_.data() + out_at, out_.data() + out_at,
                           codes_bytes + items * sizeof(Attributes)));
    return ends_[slot].record(stream);
}

Errc LookupSlots::start(u32 slot, u64 items, u64 words) {
    const gpu::DeviceScope device = loss_.enter_device();
    WARREN_TRY(device.code());
    const gpu::Stream& stream = streams_[next_stream_++ % streams];
    const Errc sent = send(stream, slot, items, words);
    // Work queued before the error would still use the slot when another segment has it.
    if (sent != Errc::ok) static_cast<void>(stream.wait());
    return loss_.answer(sent);
}

Errc LookupSlots::poll(u32 slot) {
    const gpu::DeviceScope device = loss_.enter_device();
    WARREN_TRY(device.code());
    return ends_[slot].is_reached() ? loss_.answer(ends_[slot].wait()) : Errc::busy;
}

}  // namespace warren::cuda_engine
