// SPDX-License-Identifier: Apache-2.0
// Pinned host memory through which bytes pass between files and device memory. A thread has two
// buffers: while one is copied over the bus, the thread fills or empties the other.
//
// Invariant: a buffer is used again only when the copies queued from or to it have ended.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/copy_piece.hpp"
#include "gpu/buffer.hpp"
#include "gpu/device.hpp"
#include "gpu/stream.hpp"

namespace warren::gpu {

/// Two buffers and a stream. One thread at a time uses it.
class Staging {
 public:
    /// Long enough that the few microseconds between two copies matter little.
    static constexpr u64 buffer_bytes = 4 * mib;
    static constexpr u64 pieces_max = 1024;

    /// Pinned memory, with room for a list of copies and to align each of them.
    struct Buffer {
        PinnedBuffer<std::byte> memory;
        PinnedBuffer<CopyPiece> pieces;
        Event copied;  // behind the last copy queued from or to the memory
    };

    /// Allocates what is not there yet. `is_urgent`: see Stream::open(). Errc::no_memory.
    Errc open(bool is_urgent = false);
    /// Waits until the copies of the next buffer have ended. It is the one used least recently.
    Errc next(Buffer*& buffer);
    /// To be called when copies from or to the buffer have been queued.
    Errc queued(const Buffer& buffer) const { return buffer.copied.record(stream_); }
    /// Queues a copy of at most buffer_bytes from device memory into the next buffer.
    Errc fetch(const std::byte* from, u64 bytes, Buffer*& buffer);

    /// Copies to device memory what source(at, piece) puts into each piece, `at` bytes behind the
    /// first. The last copies may still be queued.
    template <class Source>
    Errc put(std::byte* to, u64 length, const Source& source) {
        for (u64 at = 0; at < length; at += buffer_bytes) {
            const u64 count = length - at < buffer_bytes ? length - at : buffer_bytes;
            Buffer* buffer = nullptr;
            WARREN_TRY(next(buffer));
            WARREN_TRY(source(at, std::span(buffer->memory.data(), count)));
            WARREN_TRY(stream_.copy(to + at, buffer->memory.data(), count));
            WARREN_TRY(queued(*buffer));
        }
        return Errc::ok;
    }
    /// Passes device memory to sink(at, piece).
    template <class Sink>
    Errc get(const std::byte* from, u64 length, const Sink& sink) {
        const auto part = [&](u64 at) {
            return length - at < buffer_bytes ? length - at : buffer_bytes;
        };
        Buffer* buffer = nullptr;
        Buffer* later = nullptr;
        if (length > 0) WARREN_TRY(fetch(from, part(0), buffer));
        for (u64 at = 0; at < length; at += buffer_bytes, buffer = later) {
            const u64 behind = at + part(at);
            if (behind < length) WARREN_TRY(fetch(from + behind, part(behind), later));
            WARREN_TRY(buffer->copied.wait());
            WARREN_TRY(sink(at, std::span<const std::byte>(buffer->memory.data(), part(at))));
        }
        return Errc::ok;
    }

    const Stream& stream() const { return stream_; }
    /// Waits until all queued work is done. Returns its first error.
    Errc wait() const { return stream_.wait(); }

 private:
    Buffer buffers_[2];
    u32 turn_ = 0;
    Stream stream_;
};

/// The staging memory of a GPU that no call uses. It lives until the process ends: at its end the
/// driver may already have shut down.
class StagingPool {
 public:
    static StagingPool& of(int device);

    /// Returns the result of `body(staging)`, called with the GPU selected. After an error its work
    /// has ended.
    template <class Body>
    Errc with(const Body& body) {
        const DeviceScope scope(device_);
        WARREN_TRY(scope.code());
        std::unique_ptr<Staging> staging = take();
        WARREN_TRY(staging->open());
        const Errc code = body(*staging);
        // After an error of its stream it is not used again.
        if (code == Errc::ok || staging->wait() == Errc::ok) give(std::move(staging));
        return code;
    }

 private:
    explicit StagingPool(int device) : device_(device) {}
    std::unique_ptr<Staging> take();
    void give(std::unique_ptr<Staging> staging);

    const int device_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<Staging>> idle_;
};

}  // namespace warren::gpu
