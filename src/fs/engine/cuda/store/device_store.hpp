// SPDX-License-Identifier: Apache-2.0
// A volume's metadata in device memory: the counterpart of a host's Store. It is filled from that
// when the volume is opened, and block by block later, as commands miss blocks.
//
// A metadata block lies at base + place, in one reserved range of addresses as large as the volume,
// in which metadata frames have memory. The other tables (frame table, overlays, bitmaps) are
// arrays of their own. With a buffer cache there is no such range, and blocks can be evicted.
//
// Invariant: without a buffer cache, a block that is resident on the host is resident here, or is
// copied by show_block() before a command uses it. show_block(), prepare_inode_frame(),
// add_frames() and read_counters() may be called by any thread while commands run; all other calls
// require that no command runs.
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include "fs/core/store.hpp"
#include "fs/engine/cuda/store/device_meta_buffer.hpp"
#include "gpu/buffer.hpp"
#include "gpu/reserved_range.hpp"
#include "gpu/stream.hpp"

namespace warren::cuda_engine {

class DeviceStore {
 public:
    /// Makes the counterpart of `host`, a fully resident store that outlives this, and fills it.
    /// With `meta_buffer_blocks` it is a buffer cache of that many blocks, empty at first.
    /// Errc::no_memory if the device has too little; gpu::last_failure() has the size requested.
    Errc open(const core::Store& host, u64 meta_buffer_blocks = 0);

    /// The Store for kernels, with device pointers.
    const core::Store& store() const { return device_; }

    /// Requires: open() was called with `meta_buffer_blocks`.
    DeviceMetaBuffer& meta_buffer() { return meta_buffer_; }

    /// Reads the StoreState in device memory.
    Errc read_counters(core::StoreState& counters);

    // Without a buffer cache.
    /// Copies a block that the loader has read into the host's Store to the device and makes it
    /// resident.
    Errc show_block(u64 place);
    /// Makes all blocks of a claimed frame resident and zero, so that none is loaded from disk.
    Errc prepare_inode_frame(u64 frame);
    /// Gives memory to more frames, unless `wanted` free frames have memory already.
    /// Errc::no_memory if the device has too little, Errc::no_space if all frames have memory.
    Errc add_frames(u64 wanted = 1);

 private:
    /// Frames [begin, end).
    struct Frames {
        u64 begin;
        u64 end;
    };

    template <class T>
    Errc mirror(T*& pointer, u64 count);
    Errc open_tables();
    Errc open_range();
    Errc map_frames(Frames frames);
    Errc upload_entries(Frames frames) const;
    Errc upload_tables() const;
    Errc upload_blocks() const;

    core::Store host_{};
    core::Store device_{};
    u64 table_blocks_ = 0;
    DeviceMetaBuffer meta_buffer_;
    gpu::ReservedRange range_;
    std::vector<bool> has_memory_;  // by frame
    u64 frames_with_memory_ = 0;    // all below it have memory, except system frames
    std::vector<gpu::DeviceBuffer<std::byte>> arrays_;
    std::vector<gpu::PinnedRange> pinned_;
    gpu::Stream stream_;
    gpu::PinnedBuffer<core::StoreState> state_;
    gpu::PinnedBuffer<format::Block> block_;
    gpu::PinnedBuffer<u64> words_;
    mutable std::mutex mutex_;  // guards all of this
};

}  // namespace warren::cuda_engine
