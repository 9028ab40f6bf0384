// SPDX-License-Identifier: Apache-2.0
// Contents pass through two pieces of pinned memory: while one is copied over the bus, the cores
// fill or empty the other.
#include "python/src/gpu_memory.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "base/workers.hpp"
#include "gpu/buffer.hpp"
#include "gpu/device.hpp"
#include "gpu/failure.hpp"
#include "gpu/stream.hpp"
#include "python/src/shared.hpp"

namespace warren::python {
namespace {

constexpr u64 piece_bytes = 32 * mib;  // copied in one call
constexpr u64 slice_bytes = 2 * mib;   // read by one core in one call

/// Pinned memory, and an event recorded after the last copy from or to it.
struct Piece {
    gpu::PinnedBuffer<std::byte> memory;
    gpu::Event copied;

    Errc open() {
        WARREN_TRY(copied.open());
        return memory.reserve(piece_bytes);
    }
    Errc queue(void* to, const void* from, u64 bytes, cudaStream_t stream) const {
        WARREN_TRY(gpu::check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream),
                              "cudaMemcpyAsync"));
        return gpu::check(cudaEventRecord(copied.get(), stream), "cudaEventRecord");
    }
};
struct Staging {
    Piece pieces[2];
};

/// Staging memory that no call uses, by GPU. Never freed, because at the end of the process the
/// driver may already have shut down.
struct Idle {
    std::mutex mutex;
    std::multimap<i32, std::unique_ptr<Staging>> all;
};
Idle& idle() {
    static Idle& one = *new Idle;
    return one;
}

/// Holds the staging memory of a GPU for the lifetime of this object.
class StagingHold {
 public:
    explicit StagingHold(i32 gpu) : gpu_(gpu) {
        const std::lock_guard lock(idle().mutex);
        auto found = idle().all.extract(gpu);
        staging_ = found ? std::move(found.mapped()) : std::make_unique<Staging>();
    }
    ~StagingHold() {
        const std::lock_guard lock(idle().mutex);
        idle().all.emplace(gpu_, std::move(staging_));
    }
    StagingHold(const StagingHold&) = delete;
    StagingHold& operator=(const StagingHold&) = delete;

    Errc open() {
        WARREN_TRY(gpu::use_device(gpu_));
        for (Piece& piece : staging_->pieces)
            WARREN_TRY(piece.open());
        return Errc::ok;
    }
    Piece& piece(u64 number) { return staging_->pieces[number % 2]; }

 private:
    i32 gpu_;
    std::unique_ptr<Staging> staging_;
};

cudaStream_t stream_of(const GpuBytes& bytes) {
    return reinterpret_cast<cudaStream_t>(bytes.stream);
}

/// Reads a file into `target` on all cores and returns the number of bytes read.
Result<u64> read_slices(Workers& workers, Volume& volume, Handle file, u64 offset,
                        std::span<std::byte> target) {
    std::atomic<u64> end{target.size()};
    std::atomic<Errc> failed{Errc::ok};
    const u64 slices = (target.size() + slice_bytes - 1) / slice_bytes;
    workers.run_ranges(slices, 1, [&](u64 first, u64 last, u32) {
        for (u64 i = first; i < last && failed == Errc::ok; ++i) {
            const u64 begin = i * slice_bytes;
            const u64 count = std::min(slice_bytes, target.size() - begin);
            const Result<u64> got = volume.read(file, offset + begin, target.subspan(begin, count));
            if (!got) {
                failed.store(got.code());
            } else if (*got < count) {
                u64 before = end;
                while (begin + *got < before && !end.compare_exchange_weak(before, begin + *got)) {
                }
            }
        }
    });
    if (failed != Errc::ok) return failed.load();
    return end.load();
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

Errc copy_to_gpu(const Array& from, i32 gpu, Array& to) {
    if (gpu < 0 || gpu >= gpu::device_count())
        return gpu::fail(Errc::no_device, "there is no GPU " + std::to_string(gpu));
    WARREN_TRY(gpu::use_device(gpu));
    auto memory = std::make_shared<gpu::DeviceBuffer<std::byte>>();
    WARREN_TRY(memory->allocate(std::max<u64>(from.size_bytes(), 1)));
    gpu::Stream stream;
    WARREN_TRY(stream.open());
    WARREN_TRY(stream.copy(memory->data(), from.data<void>(), from.size_bytes()));
    WARREN_TRY(stream.wait());
    to = Array(memory, memory->data(), from.type(), from.shape());
    to.set_gpu(gpu);
    return Errc::ok;
}

Errc copy_to_host(const Array& from, void* to) {
    WARREN_TRY(gpu::use_device(from.gpu()));
    gpu::Stream stream;
    WARREN_TRY(stream.open());
    WARREN_TRY(stream.copy(to, from.data<void>(), from.size_bytes()));
    return stream.wait();
}

Result<u64> read_to_gpu(Volume& volume, Handle file, u64 offset, const GpuBytes& target,
                        LongCall& call) {
    StagingHold staging(target.gpu);
    WARREN_TRY(staging.open());
    Workers workers(0);
    u64 done = 0;
    for (u64 turn = 0; done < target.bytes && call.goes_on(done); ++turn) {
        Piece& piece = staging.piece(turn);
        WARREN_TRY(piece.copied.wait());
        const u64 count = std::min(piece_bytes, target.bytes - done);
        const std::span room(piece.memory.data(), count);
        const Result<u64> got = read_slices(workers, volume, file, offset + done, room);
        if (!got) return got;
        WARREN_TRY(piece.queue(target.data + done, room.data(), *got, stream_of(target)));
        done += *got;
        if (*got < count) break;
    }
    return done;
}

Result<u64> write_from_gpu(Volume& volume, Handle file, u64 offset, const GpuBytes& source,
                           LongCall& call) {
    StagingHold staging(source.gpu);
    WARREN_TRY(staging.open());
    const u64 pieces = (source.bytes + piece_bytes - 1) / piece_bytes;
    const auto part = [&](u64 number) {
        return std::min(piece_bytes, source.bytes - number * piece_bytes);
    };
    const auto fetch = [&](u64 number) {
        Piece& piece = staging.piece(number);
        return piece.queue(piece.memory.data(), source.data + number * piece_bytes, part(number),
                           stream_of(source));
    };
    if (pieces > 0) WARREN_TRY(fetch(0));
    u64 done = 0;
    for (u64 number = 0; number < pieces && call.goes_on(done); ++number) {
        const Piece& piece = staging.piece(number);
        if (number + 1 < pieces) WARREN_TRY(fetch(number + 1));
        WARREN_TRY(piece.copied.wait());
        for (u64 at = 0; at < part(number);) {
            const std::span rest(piece.memory.data() + at, part(number) - at);
            const Result<u64> put = volume.write(file, offset + done, rest);
            if (!put) return put;
            if (*put == 0) return Errc::io;
            at += *put;
            done += *put;
        }
    }
    return done;
}

Errc wait_for_stream(i32 gpu, u64 stream) {
    WARREN_TRY(gpu::use_device(gpu));
    return gpu::check(cudaStreamSynchronize(reinterpret_cast<cudaStream_t>(stream)),
                      "cudaStreamSynchronize");
}

}  // namespace warren::python
