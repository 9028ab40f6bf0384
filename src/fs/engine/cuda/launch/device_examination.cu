// SPDX-License-Identifier: Apache-2.0
// The quick check on a GPU. In each phase a warp checks one item at a time. Several host threads
// load the metadata; each reads a frame into pinned memory while its previous one is copied to the
// device.
//
// Invariant: all metadata and tables are on the device before the first phase begins.
#include <algorithm>
#include <atomic>
#include <vector>

#include "base/array_layout.hpp"
#include "base/crc32c_parts.hpp"
#include "base/out_of_memory.hpp"
#include "base/processors.hpp"
#include "base/stopwatch.hpp"
#include "base/workers.hpp"
#include "fs/bulk/quick_check/examine_run.hpp"
#include "fs/engine/examination.hpp"
#include "gpu/buffer.hpp"
#include "gpu/device.hpp"
#include "gpu/failure.hpp"
#include "gpu/stream.hpp"
#include "team/warp_team.hpp"

namespace warren {
namespace {

using format::Block;
using format::frame_size;
using ops::examine::Exam;
using ops::examine::ExamState;

constexpr u32 exam_threads = 256;
constexpr u32 exam_blocks_max = 132 * 8;
constexpr u32 loaders_max = 16;
constexpr u32 lane_words = format::block_size / 32 / 8;

/// For each lane the factor by which the bytes of the lanes after it shift its CRC state.
struct LaneShifts {
    u32 of[32];
};
constexpr LaneShifts make_shifts() {
    LaneShifts shifts{};
    for (u32 lane = 0; lane < 32; ++lane)
        shifts.of[lane] = crc_parts::shift_of((31 - lane) * lane_words * 8);
    return shifts;
}

__constant__ constexpr std::array<u32, 256> crc_table = crc_parts::make_table();
__constant__ constexpr LaneShifts lane_shifts = make_shifts();

/// Computes CRCs by a warp: each lane takes 128 bytes of a block.
struct WarpSums {
    const u32* table;  // in shared memory

    __device__ u32 state_of(const Block& block, u32 start, u64 first_mask, bool drops_ninth) const {
        const auto* pairs = reinterpret_cast<const ulonglong2*>(block.words) +
                            (threadIdx.x & 31u) * (lane_words / 2);
        u32 state = start;
#pragma unroll
        for (u32 i = 0; i < lane_words / 2; ++i) {
            ulonglong2 pair = pairs[i];
            if (i == 0) pair.x &= first_mask;
            if (i == 4 && drops_ninth) pair.x = 0;
            state = crc_parts::take_word(table, state, pair.x);
            state = crc_parts::take_word(table, state, pair.y);
        }
        return state;
    }

    __device__ bool is_right(const WarpTeam& team, const Block& block) const {
        constexpr u64 without_crc = ~u64{0xffffffff};
        const u32 lane = team.lane();
        u32 part = state_of(block, lane == 0 ? ~0u : 0, lane == 0 ? without_crc : ~u64{0}, false);
        part = crc_parts::multiply(part, lane_shifts.of[lane]);
        const u32 crc = ~__reduce_xor_sync(~0u, part);
        return crc == reinterpret_cast<const format::BlockHeader&>(block).crc;
    }

    /// Two lanes check one inode. The CRC field and the references count as zeros.
    __device__ u32 right_inodes(const WarpTeam& team, const Block& block, u32 wanted, u64 volume,
                                u64 first) const {
        constexpr u32 half_shift = crc_parts::shift_of(lane_words * 8);
        const u32 lane = team.lane();
        const bool is_first = lane % 2 == 0;
        u32 start = 0;
        if (is_first) {
            start = crc_parts::take_word(table, ~0u, volume);
            start = crc_parts::take_word(table, start, first + lane / 2);
        }
        const u64 mask = is_first ? ~u64{0xffffffff} : ~u64{0};
        const u32 state = state_of(block, start, mask, is_first);
        const u32 second = __shfl_down_sync(~0u, state, 1);
        const u32 crc = ~(crc_parts::multiply(state, half_shift) ^ second);
        const auto& inode = reinterpret_cast<const format::Inode*>(&block)[lane / 2];
        const bool is_right =
            is_first && (wanted >> lane / 2 & 1) != 0 && inode.generation != 0 && inode.crc == crc;
        const u32 votes = team.ballot(is_right);
        u32 right = 0;
        for (u32 i = 0; i < format::inodes_per_block; ++i)
            right |= (votes >> 2 * i & 1) << i;
        return right;
    }
};

template <class Phase>
__global__ void __launch_bounds__(exam_threads)
    run_exam_phase(const __grid_constant__ Phase phase, u64 count) {
    __shared__ u32 table[256];
    for (u32 i = threadIdx.x; i < 256; i += blockDim.x)
        table[i] = crc_table[i];
    __syncthreads();
    const WarpTeam team{};
    const u64 warps = u64{gridDim.x} * (exam_threads / 32);
    for (u64 i = u64{blockIdx.x} * (exam_threads / 32) + threadIdx.x / 32; i < count; i += warps)
        phase(team, WarpSums{table}, i);
}

class WarpExecutor {
 public:
    WarpExecutor(const gpu::Stream& stream, ExamState* seen) : stream_(stream), seen_(seen) {}

    Errc code() const { return code_; }

    template <class Phase>
    void each(u64 count, const Phase& phase) {
        if (count == 0 || code_ != Errc::ok) return;
        const u64 wanted = (count + exam_threads / 32 - 1) / (exam_threads / 32);
        const auto blocks = static_cast<u32>(std::min<u64>(wanted, exam_blocks_max));
        run_exam_phase<<<blocks, exam_threads, 0, stream_.get()>>>(phase, count);
        code_ = gpu::check(cudaGetLastError(), "a phase of an examination");
    }
    ExamState look(const ExamState& state) {
        if (code_ == Errc::ok) code_ = stream_.copy(seen_, &state, sizeof state);
        if (code_ == Errc::ok) code_ = stream_.wait();
        ExamState seen = *seen_;
        if (code_ != Errc::ok) seen.flaws = 1;
        return seen;
    }
    void reset(u32& word) {
        if (code_ == Errc::ok) code_ = stream_.fill(&word, 0, sizeof word);
    }

 private:
    const gpu::Stream& stream_;
    ExamState* seen_;
    Errc code_ = Errc::ok;
};

/// Loads frames from the disk to the device; one for each thread.
class Loader {
 public:
    Errc open() {
        WARREN_TRY(gpu::use_device(0));
        WARREN_TRY(stream_.open());
        for (Half& half : halves_) {
            WARREN_TRY(half.memory.allocate(frame_size));
            WARREN_TRY(half.is_sent.open());
        }
        return Errc::ok;
    }
    Errc load(u64 place, std::byte* target, const ReadDisk& read) {
        Half& half = halves_[turn_++ % 2];
        if (turn_ > 2) WARREN_TRY(half.is_sent.wait());
        const Stopwatch reading;
        const Errc code = read(place, std::span(half.memory.data(), frame_size));
        disk_seconds_ += reading.seconds();
        if (code != Errc::ok) return Errc::corrupt;
        WARREN_TRY(stream_.copy(target, half.memory.data(), frame_size));
        return half.is_sent.record(stream_);
    }
    Errc finish() const { return stream_.wait(); }
    double disk_seconds() const { return disk_seconds_; }

 private:
    struct Half {
        gpu::PinnedBuffer<std::byte> memory;
        gpu::Event is_sent;
    };
    gpu::Stream stream_;
    Half halves_[2];
    u64 turn_ = 0;
    double disk_seconds_ = 0;
};

class DeviceExamination {
 public:
    DeviceExamination(const ExamTables& tables, Examined& examined)
        : tables_(tables), examined_(examined) {
        exam_.facts = tables.facts;
        exam_.inode_frames = tables.inode_frames;
        exam_.frames = static_cast<u32>(tables.frame_numbers.size());
    }

    Errc run(const ReadDisk& read) {
        const Stopwatch opening;
        const gpu::DeviceScope device(0);
        WARREN_TRY(device.code());
        WARREN_TRY(stream_.open());
        WARREN_TRY(lay_out_memory());
        WARREN_TRY(fill_tables());
        examined_.start_seconds = opening.seconds();
        const Stopwatch loading;
        const Errc loaded = load(read);
        examined_.load_seconds = loading.seconds();
        examined_.state.flaws = 1;
        if (loaded == Errc::corrupt) return Errc::ok;
        WARREN_TRY(loaded);
        const Stopwatch examining;
        WarpExecutor executor(stream_, seen_.data());
        examined_.state = ops::examine::run(executor, exam_);
        examined_.exam_seconds = examining.seconds();
        return executor.code();
    }

 private:
    Errc lay_out_memory() {
        const u64 loaded = exam_.frames * frame_size;
        ArrayLayout count;
        lay_out(exam_, count);
        WARREN_TRY(memory_.allocate(count.bytes()));
        WARREN_TRY(seen_.allocate(1));
        lay_out(exam_, ArrayLayout(memory_.data()));
        return stream_.fill(memory_.data() + loaded, 0, count.bytes() - loaded);
    }

    template <class T>
    Errc copy_table(T* to, const std::vector<T>& from) {
        return stream_.copy(to, from.data(), from.size() * sizeof(T));
    }

    Errc fill_tables() {
        WARREN_TRY(copy_table(exam_.frame_numbers, tables_.frame_numbers));
        WARREN_TRY(copy_table(exam_.slots, tables_.slots));
        WARREN_TRY(copy_table(exam_.kinds, tables_.kinds));
        WARREN_TRY(copy_table(exam_.used, tables_.used));
        WARREN_TRY(copy_table(exam_.owned, tables_.owned));
        WARREN_TRY(copy_table(exam_.counted, tables_.counted));
        WARREN_TRY(stream_.fill(exam_.parents, 0xff, exam_.inode_slots() * sizeof(u32)));
        // Computes ordinals with the host's copy of the slots, because exam_ has device pointers.
        Exam host = exam_;
        host.slots = const_cast<u32*>(tables_.slots.data());
        const u32 own[2] = {host.ordinal_of(exam_.facts.root_inode),
                            host.ordinal_of(exam_.facts.orphan_directory)};
        for (const u32& ordinal : own) {
            if (ordinal == ops::examine::nobody) return gpu::fail(Errc::corrupt, "no root");
            WARREN_TRY(stream_.copy(exam_.parents + ordinal, &ordinal, sizeof ordinal));
        }
        return stream_.wait();
    }

    Errc load(const ReadDisk& read) {
        const u32 count = std::min({loaders_max, usable_processors(), std::max(1u, exam_.frames)});
        std::vector<Errc> codes(count, Errc::ok);
        std::vector<double> waits(count, 0);
        std::atomic<u32> next{0};
        run_once(count, [&](u32 t) { codes[t] = load_some(read, next, waits[t]); });
        for (const double wait : waits)
            examined_.disk_seconds += wait / count;
        for (const Errc code : codes)
            WARREN_TRY(code);
        return Errc::ok;
    }

    Errc load_some(const ReadDisk& read, std::atomic<u32>& next, double& waited) {
        Loader loader;
        WARREN_TRY(loader.open());
        for (;;) {
            const u32 i = next.fetch_add(1, std::memory_order_relaxed);
            if (i >= exam_.frames) break;
            WARREN_TRY(loader.load(tables_.frame_numbers[i] * frame_size,
                                   exam_.base + i * frame_size, read));
        }
        waited = loader.disk_seconds();
        return loader.finish();
    }

    const ExamTables& tables_;
    Examined& examined_;
    Exam exam_{};
    gpu::Stream stream_;
    gpu::DeviceBuffer<std::byte> memory_;
    gpu::PinnedBuffer<ExamState> seen_;
};

}  // namespace

Errc examine_on_device(const ExamTables& tables, const ReadDisk& read, Examined& examined,
                       std::string& failure) {
    if (gpu::device_count() == 0) {
        failure = "this machine has no GPU that CUDA can use";
        return Errc::no_device;
    }
    const Errc code = or_no_memory([&] { return DeviceExamination(tables, examined).run(read); });
    if (code == gpu::last_failure().code)
        failure = gpu::last_failure().message;
    else if (code == Errc::no_memory)
        failure = "there is not enough memory";
    return code;
}

}  // namespace warren
