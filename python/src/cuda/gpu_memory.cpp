// SPDX-License-Identifier: Apache-2.0
// Contents pass through the staging memory of the GPU, on all cores, each with two buffers.
#include "python/src/gpu_memory.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "gpu/buffer.hpp"
#include "gpu/device.hpp"
#include "gpu/failure.hpp"
#include "gpu/gather.hpp"
#include "gpu/staging.hpp"
#include "python/src/kept_threads.hpp"
#include "python/src/shared.hpp"
#include "warren/chunk_gpu.hpp"

namespace warren::python {
namespace {

using gpu::Staging;
using gpu::StagingPool;

/// Pieces of at least this many bytes on average are copied by the GPU's copy engine.
constexpr u64 long_piece_bytes = 256 * kib;

class GpuLane final : public StagingLane {
 public:
    static constexpr StagingRoom room{Staging::buffer_bytes, Staging::pieces_max};

    explicit GpuLane(Staging& staging) : staging_(staging) {}

    bool can_read(const HeldContents& held) const override { return held.is_pinned(); }
    Errc next(std::span<std::byte>& memory, std::span<CopyPiece>& pieces) override {
        WARREN_TRY(staging_.next(buffer_));
        memory = {buffer_->memory.data(), buffer_->memory.count()};
        pieces = {buffer_->pieces.data(), buffer_->pieces.count()};
        return Errc::ok;
    }
    Errc copy(u64 count) override {
        WARREN_CHECK(count <= buffer_->pieces.count());
        const std::span pieces(buffer_->pieces.data(), count);
        u64 bytes = 0;
        for (const CopyPiece& piece : pieces)
            bytes += piece.bytes;
        const bool is_short = count > 1 && bytes < count * long_piece_bytes;
        WARREN_TRY(is_short ? gpu::gather(pieces, staging_.stream())
                            : staging_.stream().copy_many(pieces));
        return staging_.queued(*buffer_);
    }
    Errc wait() override { return staging_.wait(); }

 private:
    static_assert(StagingLane::alignment == gpu::gather_alignment);

    Staging& staging_;
    Staging::Buffer* buffer_ = nullptr;
};

/// Calls work(worker, staging) on at most `threads` threads. What they queue waits for what the
/// stream has to do by now, and the stream then for that. Returns the first error, of which
/// gpu_failure() knows on this thread.
template <class Work>
Errc with_stagings(u64 threads, i32 gpu, u64 stream_address, const Work& work) {
    // It may be the default stream of the calling thread, which only this thread can name.
    const auto stream = reinterpret_cast<cudaStream_t>(stream_address);
    const gpu::DeviceScope scope(gpu);
    WARREN_TRY(scope.code());
    gpu::Event begin;
    WARREN_TRY(begin.open());
    WARREN_TRY(gpu::check(cudaEventRecord(begin.get(), stream), "cudaEventRecord"));
    std::vector<gpu::Event> ends(std::clamp<u64>(threads, 1, usable_processors()));
    std::mutex mutex;
    Failure failure;
    run_on_kept_threads(static_cast<u32>(ends.size()), [&](u32 worker) {
        const Errc code = StagingPool::of(gpu).with([&](Staging& staging) -> Errc {
            WARREN_TRY(staging.stream().wait_for(begin));
            WARREN_TRY(work(worker, staging));
            WARREN_TRY(ends[worker].open());
            return ends[worker].record(staging.stream());
        });
        const std::lock_guard lock(mutex);
        if (failure.code == Errc::ok && code != Errc::ok) failure = gpu_failure(code);
    });
    for (const gpu::Event& end : ends) {
        if (end.get() == nullptr) continue;  // a thread that took no part
        WARREN_TRY(gpu::check(cudaStreamWaitEvent(stream, end.get()), "cudaStreamWaitEvent"));
    }
    return failure.code == Errc::ok ? Errc::ok : gpu::fail(failure.code, failure.message);
}

Errc run(StagedReads& reads, i32 gpu, u64 stream, LongCall& call) {
    return with_stagings(reads.parts(), gpu, stream, [&](u32 worker, Staging& staging) {
        GpuLane lane(staging);
        return reads.run(
            lane, [&] { return worker == 0 ? call.goes_on(reads.taken()) : !call.is_stopped(); });
    });
}

/// The work of a thread: fetches a piece, unless take(piece) returns false, while put(piece, bytes)
/// is called with the one before.
template <class Take, class Put>
Errc fetch_pieces(Staging& staging, const std::byte* source, const Take& take, const Put& put) {
    struct Fetched {
        StagedWrite::Piece piece;
        Staging::Buffer* buffer = nullptr;  // null: there is no piece
    };
    const auto fetch = [&](Fetched& next) -> Errc {
        next.buffer = nullptr;
        if (!take(next.piece)) return Errc::ok;
        return staging.fetch(source + next.piece.begin, next.piece.bytes, next.buffer);
    };
    Fetched now;
    Fetched next;
    WARREN_TRY(fetch(now));
    for (; now.buffer != nullptr; now = next) {
        WARREN_TRY(fetch(next));
        WARREN_TRY(now.buffer->copied.wait());
        put(now.piece, std::span<const std::byte>(now.buffer->memory.data(), now.piece.bytes));
    }
    return Errc::ok;
}

}  // namespace

i32 gpu_of(const void* at) {
    cudaPointerAttributes attributes{};
    if (cudaPointerGetAttributes(&attributes, at) != cudaSuccess) {
        static_cast<void>(cudaGetLastError());
        return -1;
    }
    return attributes.type == cudaMemoryTypeDevice ? attributes.device : -1;
}

Failure gpu_failure(Errc code) {
    const Failure& last = gpu::last_failure();
    return last.code == code ? last : Failure{code, "the GPU cannot be used"};
}

Errc make_on_gpu(i32 gpu, const ElementType& type, std::vector<i64> shape, Array& made) {
    if (gpu < 0 || gpu >= gpu::device_count())
        return gpu::fail(Errc::no_device, "there is no GPU " + std::to_string(gpu));
    const gpu::DeviceScope scope(gpu);
    WARREN_TRY(scope.code());
    auto memory = std::make_shared<gpu::DeviceBuffer<std::byte>>();
    Array array(memory, nullptr, type, std::move(shape));
    WARREN_TRY(memory->allocate(std::max<u64>(array.size_bytes(), 1)));
    made = Array(memory, memory->data(), type, array.shape());
    made.set_gpu(gpu);
    return Errc::ok;
}

Errc copy_to_gpu(const Array& from, i32 gpu, Array& to) {
    WARREN_TRY(make_on_gpu(gpu, from.type(), from.shape(), to));
    const gpu::DeviceScope scope(gpu);
    WARREN_TRY(scope.code());
    gpu::Stream stream;
    WARREN_TRY(stream.open());
    WARREN_TRY(stream.copy(to.data<void>(), from.data<void>(), from.size_bytes()));
    return stream.wait();
}

Errc copy_to_host(const Array& from, void* to) {
    const gpu::DeviceScope scope(from.gpu());
    WARREN_TRY(scope.code());
    gpu::Stream stream;
    WARREN_TRY(stream.open());
    WARREN_TRY(stream.copy(to, from.data<void>(), from.size_bytes()));
    return stream.wait();
}

Errc copy_to_host(const GpuBytes& from, void* to) {
    const gpu::DeviceScope scope(from.gpu);
    WARREN_TRY(scope.code());
    const auto stream = reinterpret_cast<cudaStream_t>(from.stream);
    WARREN_TRY(gpu::check(
        cudaMemcpyAsync(to, from.data, from.bytes, cudaMemcpyDeviceToHost, stream),
        "cudaMemcpyAsync"));
    return wait_for_stream(from.gpu, from.stream);
}

Errc cut_on_gpu(const chunk::Rule& rule, const GpuBytes& data, std::vector<u64>& ends) {
    const gpu::DeviceScope scope(data.gpu);
    WARREN_TRY(scope.code());
    chunk::GpuChunker chunker;
    WARREN_TRY(chunker.open(rule));
    return chunker.cut_device(data.data, data.bytes, reinterpret_cast<void*>(data.stream), ends);
}

Result<u64> read_to_gpu(Volume& volume, Handle file, u64 offset, const GpuBytes& target,
                        LongCall& call) {
    StagedRead read{.file = file, .offset = offset, .target = target.data, .bytes = target.bytes};
    StagedReads reads(volume, std::span(&read, 1), AtEnd::nothing, GpuLane::room);
    WARREN_TRY(run(reads, target.gpu, target.stream, call));
    WARREN_TRY(read.code);
    return read.done;
}

Errc read_many_to_gpu(Volume& volume, std::span<StagedRead> reads, i32 gpu, u64 stream,
                      LongCall& call) {
    StagedReads all(volume, reads, AtEnd::zeros, GpuLane::room);
    return run(all, gpu, stream, call);
}

Result<u64> write_from_gpu(Volume& volume, Handle file, u64 offset, const GpuBytes& source,
                           LongCall& call) {
    StagedWrite write(volume, file, offset, source.bytes, Staging::buffer_bytes);
    Errc moved = Errc::ok;
    if (write.begin() == Errc::ok) {
        const auto work = [&](u32 worker, Staging& staging) {
            const auto take = [&](StagedWrite::Piece& piece) {
                return (worker == 0 ? call.goes_on(0) : !call.is_stopped()) && write.take(piece);
            };
            return fetch_pieces(staging, source.data, take,
                                [&](const auto& piece, auto bytes) { write.put(piece, bytes); });
        };
        moved = with_stagings(write.pieces(), source.gpu, source.stream, work);
    }
    WARREN_TRY(write.end());
    WARREN_TRY(moved);
    return source.bytes;
}

Errc fetch_pieces(
    const GpuBytes& source, std::span<const StagedWrite::Piece> pieces,
    const std::function<bool(u32 worker)>& goes_on,
    const std::function<void(const StagedWrite::Piece&, std::span<const std::byte>)>& put) {
    static_assert(staged_bytes_max == Staging::buffer_bytes);
    Counter counter(pieces.size(), 1);
    const auto work = [&](u32 worker, Staging& staging) {
        const auto take = [&](StagedWrite::Piece& piece) {
            u64 number = 0;
            u64 last = 0;
            if (!goes_on(worker) || !counter.take(number, last)) return false;
            piece = pieces[number];
            return true;
        };
        return fetch_pieces(staging, source.data, take, put);
    };
    return with_stagings(pieces.size(), source.gpu, source.stream, work);
}

Errc wait_for_stream(i32 gpu, u64 stream) {
    const gpu::DeviceScope scope(gpu);
    WARREN_TRY(scope.code());
    return gpu::check(cudaStreamSynchronize(reinterpret_cast<cudaStream_t>(stream)),
                      "cudaStreamSynchronize");
}

}  // namespace warren::python
