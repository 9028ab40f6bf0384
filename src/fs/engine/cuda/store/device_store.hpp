// SPDX-License-Identifier: Apache-2.0
// A volume's metadata in device memory: the counterpart of a host's Store, from which it is filled
// when the volume is opened, and block by block as commands ask for more.
//
// A metadata block lies at base + place, in one reserved range of addresses of the volume's size of
// which the metadata frames have memory. The tables beside the volume (frame table, overlays,
// bitmaps) are arrays of their own. With a meta buffer there is no such range: blocks come and go.
//
// Invariant: a block that the host has resident is resident here. All calls are made while no
// command runs here, except show_block(), prepare_inode_frame(), add_frames() and read_counters(),
// which may be called beside commands and by any thread.
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
    /// Makes the counterpart of `host`, which outlives this and uses the identity map, and fills
    /// it. With `meta_buffer_blocks` it holds no more blocks than that, and none at first.
    /// Errc::no_memory if the device has too little; gpu::last_failure() says what was asked for.
    Errc open(const core::Store& host, u64 meta_buffer_blocks = 0);

    /// With device pointers; for kernels.
    const core::Store& store() const { return device_; }

    /// Requires: it was opened with one.
    DeviceMetaBuffer& meta_buffer() { return meta_buffer_; }

    // For those who let the host's Store and this one take turns.
    /// Brings the host's tables up to date, and there all blocks that are dirty here.
    Errc download();
    /// Brings the tables here up to date.
    Errc upload_tables();

    /// The counters that the StoreState here has now.
    Errc read_counters(core::StoreState& counters);

    // Without a meta buffer.
    /// Shows a block that the loader brought into the host's memory.
    Errc show_block(u64 place);
    /// Makes all blocks of a claimed frame resident and zero: nothing is to be loaded there.
    Errc prepare_inode_frame(u64 frame);
    /// Gives memory to more frames, unless `wanted` free ones have some. Errc::no_memory if that
    /// fails, Errc::no_space if all frames have memory.
    Errc add_frames(u64 wanted = 1);

    /// What it took to fill this, by the device's clock.
    float upload_ms() const { return upload_ms_; }
    u64 mapped_bytes() const;

 private:
    /// Frames [begin, end).
    struct Frames {
        u64 begin;
        u64 end;
    };
    enum class Way : u8 { up, down };

    template <class T>
    Errc mirror(T*& pointer, u64 count);
    Errc open_tables();
    Errc open_range();
    Errc map_frames(Frames frames);
    Errc upload_blocks();
    Errc copy(Way way, void* host, void* device, u64 bytes) const;
    Errc copy_tables(Way way, u64 data_frames_begin) const;
    Errc copy_entries(Way way, Frames frames) const;
    Errc list_dirty_blocks(u64& count);
    Errc download_blocks(u64 count);
    void scatter(const u64* places, u64 count, const format::Block* from) const;

    core::Store host_{};
    core::Store device_{};
    u64 table_blocks_ = 0;
    DeviceMetaBuffer meta_buffer_;
    gpu::ReservedRange range_;
    std::vector<bool> has_memory_;  // by frame
    u64 frames_with_memory_ = 0;    // all below it that are not the system's have memory
    std::vector<gpu::DeviceBuffer<std::byte>> arrays_;
    std::vector<gpu::PinnedRange> pinned_;
    gpu::Stream stream_;
    gpu::Event begin_;
    gpu::Event end_;
    gpu::Event slice_done_[2];
    gpu::PinnedBuffer<core::StoreState> state_;
    gpu::PinnedBuffer<format::Block> staging_;
    gpu::PinnedBuffer<u64> words_;
    gpu::DeviceBuffer<u64> list_;       // how many places, then the places
    gpu::PinnedBuffer<u64> host_list_;  // the same
    mutable std::mutex mutex_;          // for all of this
    float upload_ms_ = 0;
};

}  // namespace warren::cuda_engine
