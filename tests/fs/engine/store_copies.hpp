// SPDX-License-Identifier: Apache-2.0
// Copies a volume's metadata between the host's Store and its counterpart in a DeviceStore, for
// programs that use the two alternately. Requires: no command runs, and there is no buffer cache.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <iterator>

#include "fs/core/frame_bits.hpp"
#include "gpu/stream.hpp"
#include "team/team.hpp"

namespace warren {

/// Queues copies of the tables that a commit reads or changes, except the state. Left out are the
/// parts for frames that neither have memory on the device nor hold data.
inline Errc copy_tables(const core::Store& to, const core::Store& from, u64 frames_with_memory,
                        u64 data_frames_begin, const gpu::Stream& stream) {
    const auto copy = [&](auto* to_values, const auto* from_values, u64 count) {
        return stream.copy(to_values, from_values, count * sizeof *to_values);
    };
    const auto copy_entries = [&](u64 begin, u64 end) {
        if (begin >= end) return Errc::ok;
        const u64 first = begin / format::frames_per_table_block;
        const u64 behind = (end - 1) / format::frames_per_table_block + 1;
        WARREN_TRY(copy(to.frame_table + first, from.frame_table + first, behind - first));
        return copy(to.overlays + begin, from.overlays + begin, end - begin);
    };
    WARREN_TRY(copy_entries(0, frames_with_memory));
    WARREN_TRY(copy_entries(std::max(frames_with_memory, data_frames_begin), to.frame_count));
    const u64 words = to.frame_count / 64 + 1;
    WARREN_TRY(copy(to.frames_free, from.frames_free, words));
    for (u32 kind = 0; kind < std::size(to.frames_with_space); ++kind)
        WARREN_TRY(copy(to.frames_with_space[kind], from.frames_with_space[kind], words));
    WARREN_TRY(copy(to.dirty_frames, from.dirty_frames, words));
    return copy(to.dirty, from.dirty, frames_with_memory * (format::blocks_per_frame / 64));
}

/// Updates the host's tables, and its copies of the blocks that are dirty on the device.
inline Errc download(const core::Store& host, const core::Store& device) {
    gpu::Stream stream;
    WARREN_TRY(stream.open());
    core::StoreState state;
    WARREN_TRY(stream.copy(&state, device.state, sizeof state));
    WARREN_TRY(stream.wait());
    const u64 frames = state.frames_with_memory;
    state.frames_with_memory = 0;  // not used there: all frames of the host have memory
    std::memcpy(host.state, &state, sizeof state);
    WARREN_TRY(copy_tables(host, device, frames, state.data_frames_begin, stream));
    WARREN_TRY(stream.wait());
    const u64 table_end = host.table_place(host.frame_count - 1) + format::block_size;
    for (u64 w = 0; w < frames * (format::blocks_per_frame / 64); ++w) {
        for (u64 bits = host.dirty[w]; bits != 0; bits &= bits - 1) {
            const u64 block = w * 64 + static_cast<u64>(std::countr_zero(bits));
            const u64 place = block * format::block_size;
            // The frame table was copied as an array.
            if (place >= host.frame_table_offset && place < table_end) continue;
            WARREN_TRY(stream.copy(host.base + place, device.base + place, format::block_size));
            WARREN_TRY(stream.wait());
            core::make_resident(host, place);
        }
    }
    return Errc::ok;
}

/// Updates the tables on the device from the host's. Frames may get memory there meanwhile.
inline Errc upload_tables(const core::Store& host, const core::Store& device) {
    gpu::Stream stream;
    WARREN_TRY(stream.open());
    u64* const kept = &device.state->frames_with_memory;
    u64 frames = 0;
    WARREN_TRY(stream.copy(&frames, kept, sizeof frames));
    WARREN_TRY(stream.wait());
    const core::StoreState& state = *host.state;
    constexpr u64 kept_at = offsetof(core::StoreState, frames_with_memory);
    constexpr u64 behind_at = kept_at + sizeof frames;
    WARREN_TRY(stream.copy(device.state, &state, kept_at));
    WARREN_TRY(stream.copy(kept + 1, &state.frames_with_memory + 1, sizeof state - behind_at));
    WARREN_TRY(copy_tables(device, host, frames, state.data_frames_begin, stream));
    return stream.wait();
}

}  // namespace warren
