// SPDX-License-Identifier: Apache-2.0
// Makes columns of the output of a scan, all in device memory.
//
// Invariant: the table is complete when fill() returns; nothing is queued any more.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>

#include "fs/bulk/scan/scan_call.hpp"
#include "fs/bulk/scan/scan_table.hpp"
#include "gpu/buffer.hpp"
#include "gpu/stream.hpp"

namespace warren::cuda_engine {

class TableFill {
 public:
    /// Calls `take_share` before it takes so many more bytes of device memory.
    explicit TableFill(std::function<Errc(u64 bytes)> take_share)
        : take_share_(std::move(take_share)) {}

    /// Fills the table of `call`, whose results are the output in `ref`: `written` as in ScanState,
    /// with `directories` directories.
    Errc fill(const gpu::Stream& stream, const bulk::ScanRef& ref, u64 written, u64 directories,
              const ScanCall& call);

 private:
    Errc measure(const gpu::Stream& stream, const bulk::TableSource& source, ScanTableSize& whole);
    template <class Buffer>
    Errc grow(Buffer& buffer, u64 count) {
        WARREN_TRY(take_share_(buffer.missing_bytes(count)));
        return buffer.grow(count);
    }

    const std::function<Errc(u64 bytes)> take_share_;
    gpu::DeviceBuffer<bulk::TableDirectory> ways_;
    gpu::DeviceBuffer<ScanTableSize> sizes_;  // of the root and all bundles; then of all before
    gpu::DeviceBuffer<std::byte> memory_;     // of CUB
    gpu::DeviceBuffer<char> path_;
    gpu::PinnedBuffer<ScanTableSize> whole_;
};

}  // namespace warren::cuda_engine
