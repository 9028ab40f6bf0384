// SPDX-License-Identifier: Apache-2.0
// Hashes host data through the pipeline of src/gpu. Pinned memory is copied from its place;
// pageable memory is first copied to the pipeline's pinned slots by several threads.
//
// Invariant: one call at a time uses the pipeline, which is kept for later calls because pinned
// memory is slow to allocate.
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "base/stopwatch.hpp"
#include "base/workers.hpp"
#include "gpu/device.hpp"
#include "gpu/failure.hpp"
#include "gpu/pipeline.hpp"
#include "hash/alone.hpp"
#include "hash/blake3_tree.hpp"
#include "hash/cuda/kernels.hpp"
#include "hash/device.hpp"

namespace warren::hash {
namespace {

using gpu::Turn;

constexpr u64 least_slot_bytes = mib;
constexpr u32 most_copiers = 8;  // enough to saturate the host's memory channels
constexpr u64 output_share = 8;  // slots have an eighth of their size for results

/// memcpy() on several threads.
void copy_by_threads(Workers& workers, u8* to, const void* from, u64 bytes) {
    constexpr u64 step = 512 * kib;
    workers.run_ranges(bytes, step, [&](u64 first, u64 last, u32) {
        std::memcpy(to + first, static_cast<const u8*>(from) + first, last - first);
    });
}

/// The pipeline of the process.
class SharedPipeline {
 public:
    static SharedPipeline& get() {
        static SharedPipeline shared;
        return shared;
    }

    /// Allocates the pipeline if necessary, with smaller slots if the device has little memory.
    /// Requires: the mutex is held.
    Errc open(double& seconds) {
        if (pipeline_ != nullptr) return Errc::ok;
        const Stopwatch clock;
        Errc code = Errc::no_memory;
        gpu::PipelineSettings settings;
        settings.overlaps = settings_.overlaps;
        settings.slot_bytes = settings_.slot_bytes;
        for (; code == Errc::no_memory && settings.slot_bytes >= least_slot_bytes;
             settings.slot_bytes /= 2) {
            settings.output_bytes = settings.slot_bytes / output_share;
            pipeline_ = std::make_unique<gpu::Pipeline>();
            code = pipeline_->open(settings);
        }
        if (code != Errc::ok) pipeline_.reset();
        seconds += clock.seconds();
        return code;
    }

    /// Requires: the mutex is held.
    void set(const DeviceSettings& settings) {
        settings_ = settings;
        pipeline_.reset();
    }

    const DeviceSettings& settings() const { return settings_; }
    /// The note for a pipeline that had to be made smaller than configured.
    const char* note() const {
        return pipeline_->settings().slot_bytes < settings_.slot_bytes
                   ? "the GPU has little memory: it worked in smaller pieces"
                   : nullptr;
    }

    gpu::Pipeline& pipeline() { return *pipeline_; }
    /// The threads that copy between the caller's memory and the slots. Requires: the mutex is
    /// held.
    Workers& copiers() { return copiers_; }
    std::mutex& mutex() { return mutex_; }

 private:
    std::mutex mutex_;
    DeviceSettings settings_;
    std::unique_ptr<gpu::Pipeline> pipeline_;
    Workers copiers_{std::min(most_copiers, usable_processors())};
};

cuda::DeviceBeginning on_device(const Beginning& beginning) {
    cuda::DeviceBeginning copy;
    copy.bytes = beginning.bytes;
    if (beginning.state != nullptr) std::memcpy(copy.state, beginning.state, sizeof copy.state);
    return copy;
}

/// The source of a turn's copy: the caller's memory, or the slot after staging.
const void* staged(const void* from, u64 bytes, u8* slot) {
    if (gpu::kind_of(from) != gpu::MemoryKind::pageable) return from;
    if (!SharedPipeline::get().settings().stages_pageable) return from;
    copy_by_threads(SharedPipeline::get().copiers(), slot, from, bytes);
    return slot;
}

/// Hashes equal pieces of one buffer.
class CutWork final : public gpu::PipelineWork {
 public:
    CutWork(Algorithm algorithm, const Pieces& pieces, const Beginning& beginning, u8* digests,
            u64 slot_bytes)
        : algorithm_(algorithm),
          pieces_(pieces),
          beginning_(on_device(beginning)),
          digests_(digests) {
        const u64 by_output = slot_bytes / output_share / digest_bytes(algorithm);
        turn_pieces_ = std::min(slot_bytes / pieces.piece_bytes(), by_output);
    }

    bool fill(Turn& turn, u8* slot) override {
        const u64 first = turn.number * turn_pieces_;
        if (first >= pieces_.count()) return false;
        const u64 offset = first * pieces_.piece_bytes();
        turn.bytes = std::min(pieces_.data().size() - offset, turn_pieces_ * pieces_.piece_bytes());
        turn.output_bytes =
            std::min(turn_pieces_, pieces_.count() - first) * digest_bytes(algorithm_);
        turn.source = staged(pieces_.data().data() + offset, turn.bytes, slot);
        return true;
    }

    Errc launch(const Turn& turn, const u8* input, u8* output, const gpu::Stream& stream) override {
        cuda::DevicePieces pieces;
        pieces.data = input;
        pieces.data_bytes = turn.bytes;
        pieces.piece_bytes = pieces_.piece_bytes();
        pieces.count = turn.output_bytes / digest_bytes(algorithm_);
        return cuda::hash_pieces(algorithm_, pieces, beginning_, output, stream.get());
    }

    void drain(const Turn& turn, const u8* output) override {
        const u64 first = turn.number * turn_pieces_;
        copy_by_threads(SharedPipeline::get().copiers(),
                        digests_ + first * digest_bytes(algorithm_), output, turn.output_bytes);
    }

 private:
    Algorithm algorithm_;
    const Pieces& pieces_;
    cuda::DeviceBeginning beginning_;
    u8* digests_;
    u64 turn_pieces_;
};

/// Hashes pieces at any address and of any length, none longer than a quarter of a slot. They are
/// gathered in the slot, the longest first, so that the threads of a warp finish at about the same
/// time.
class ListWork final : public gpu::PipelineWork {
 public:
    ListWork(Algorithm algorithm, std::span<const Bytes> pieces, std::span<const u64> chosen,
             const Beginning& beginning, u8* digests, u64 slot_bytes)
        : algorithm_(algorithm),
          pieces_(pieces),
          chosen_(chosen),
          beginning_(on_device(beginning)),
          digests_(digests),
          data_bytes_(slot_bytes / 4 * 3),
          most_pieces_(slot_bytes / output_share / 32) {}

    bool fill(Turn& turn, u8* slot) override {
        std::vector<u64>& jobs = turns_.emplace_back();
        u64 bytes = 0;
        for (; next_ < chosen_.size() && jobs.size() < most_pieces_; ++next_) {
            const u64 own = padded(pieces_[chosen_[next_]].size());
            if (bytes + own > data_bytes_) break;
            bytes += own;
            jobs.push_back(chosen_[next_]);
        }
        if (jobs.empty()) return false;
        std::stable_sort(jobs.begin(), jobs.end(), [&](u64 left, u64 right) {
            return pieces_[left].size() > pieces_[right].size();
        });
        turn.source = slot;
        turn.bytes = bytes;
        turn.extra_bytes = 16 * jobs.size();
        turn.output_bytes = jobs.size() * digest_bytes(algorithm_);
        auto* const places = reinterpret_cast<u64*>(slot + turn.extra_offset());
        turn.extra = places;
        u64 at = 0;
        for (u64 i = 0; i < jobs.size(); ++i) {
            places[i] = at;
            places[jobs.size() + i] = pieces_[jobs[i]].size();
            at += padded(pieces_[jobs[i]].size());
        }
        gather(jobs, places, slot);
        return true;
    }

    Errc launch(const Turn& turn, const u8* input, u8* output, const gpu::Stream& stream) override {
        cuda::DevicePieces pieces;
        pieces.data = input;
        pieces.data_bytes = turn.bytes;
        pieces.count = turn.output_bytes / digest_bytes(algorithm_);
        pieces.offsets = reinterpret_cast<const u64*>(input + turn.extra_offset());
        pieces.lengths = pieces.offsets + pieces.count;
        return cuda::hash_pieces(algorithm_, pieces, beginning_, output, stream.get());
    }

    void drain(const Turn& turn, const u8* output) override {
        const u32 size = digest_bytes(algorithm_);
        for (const u64 job : turns_[turn.number]) {
            std::memcpy(digests_ + job * size, output, size);
            output += size;
        }
        turns_[turn.number] = {};
    }

 private:
    static u64 padded(u64 bytes) { return (bytes + 15) / 16 * 16; }

    void gather(const std::vector<u64>& jobs, const u64* places, u8* slot) const {
        SharedPipeline::get().copiers().run_ranges(jobs.size(), 64, [&](u64 first, u64 last, u32) {
            for (u64 i = first; i < last; ++i) {
                const Bytes& piece = pieces_[jobs[i]];
                if (!piece.empty()) std::memcpy(slot + places[i], piece.data(), piece.size());
            }
        });
    }

    Algorithm algorithm_;
    std::span<const Bytes> pieces_;
    std::span<const u64> chosen_;
    cuda::DeviceBeginning beginning_;
    u8* digests_;
    u64 data_bytes_;
    u64 most_pieces_;
    u64 next_ = 0;
    std::vector<std::vector<u64>> turns_;
};

/// Hashes one long BLAKE3 message: each turn is a subtree, and the CPU joins these at the end.
class TreeWork final : public gpu::PipelineWork {
 public:
    TreeWork(Bytes data, u64 slot_bytes, u64 turns)
        : data_(data), slot_bytes_(slot_bytes), values_(8 * turns) {}

    Errc open(u32 slots) {
        words_each_ = cuda::tree_words(slot_bytes_);
        return words_.allocate(words_each_ * slots);
    }

    bool fill(Turn& turn, u8* slot) override {
        const u64 offset = turn.number * slot_bytes_;
        if (offset >= data_.size()) return false;
        turn.bytes = std::min(data_.size() - offset, slot_bytes_);
        turn.output_bytes = 32;
        turn.source = staged(data_.data() + offset, turn.bytes, slot);
        return true;
    }

    Errc launch(const Turn& turn, const u8* input, u8* output, const gpu::Stream& stream) override {
        const u64 slots = words_.count() / words_each_;
        return cuda::hash_tree(input, turn.bytes, turn.number * (slot_bytes_ / 1024), false,
                               words_.data() + turn.number % slots * words_each_, output,
                               stream.get());
    }

    void drain(const Turn& turn, const u8* output) override {
        std::memcpy(values_.data() + 8 * turn.number, output, 32);
    }

    std::vector<u32>& values() { return values_; }

 private:
    Bytes data_;
    u64 slot_bytes_;
    u64 words_each_ = 0;
    gpu::DeviceBuffer<u32> words_;
    std::vector<u32> values_;
};

/// Hashes sliding windows. Successive turns overlap by a window minus a stride.
class WindowWork final : public gpu::PipelineWork {
 public:
    WindowWork(const Windows& windows, Bytes data, const WindowOutput& output, u64 slot_bytes)
        : windows_(windows), data_(data), output_(output) {
        const u64 by_input = (slot_bytes - windows.window_bytes) / windows.stride_bytes + 1;
        const u64 by_output = output.kept_bytes == 0
                                  ? slot_bytes / output_share * 8
                                  : slot_bytes / output_share / output.kept_bytes;
        turn_windows_ = std::min(by_input, by_output) / 64 * 64;
        count_ = window_count(windows, data.size());
    }

    /// Whether at least 64 windows fit into a slot.
    bool is_possible() const { return turn_windows_ != 0; }

    bool fill(Turn& turn, u8* slot) override {
        const u64 first = turn.number * turn_windows_;
        if (first >= count_) return false;
        const u64 windows = windows_of(turn);
        turn.bytes = (windows - 1) * windows_.stride_bytes + windows_.window_bytes;
        turn.output_bytes =
            output_.kept_bytes == 0 ? (windows + 63) / 64 * 8 : windows * output_.kept_bytes;
        turn.source = staged(data_.data() + first * windows_.stride_bytes, turn.bytes, slot);
        return true;
    }

    Errc launch(const Turn& turn, const u8* input, u8* output, const gpu::Stream& stream) override {
        WindowOutput here = output_;
        here.digests = output;
        here.bitmap = reinterpret_cast<u64*>(output);
        return cuda::hash_windows(
            windows_.algorithm, plan_windows(windows_, turn.bytes), input, windows_of(turn), here,
            SharedPipeline::get().settings().uses_shared_memory, stream.get());
    }

    void drain(const Turn& turn, const u8* output) override {
        const u64 first = turn.number * turn_windows_;
        u8* const to = output_.kept_bytes == 0 ? reinterpret_cast<u8*>(output_.bitmap + first / 64)
                                               : output_.digests + first * output_.kept_bytes;
        copy_by_threads(SharedPipeline::get().copiers(), to, output, turn.output_bytes);
    }

 private:
    u64 windows_of(const Turn& turn) const {
        return std::min(turn_windows_, count_ - turn.number * turn_windows_);
    }

    const Windows& windows_;
    Bytes data_;
    const WindowOutput& output_;
    u64 turn_windows_ = 0;
    u64 count_ = 0;
};

/// Runs `work` and adds the times of its stages to `stages`.
Errc run_stages(gpu::Pipeline& pipeline, gpu::PipelineWork& work, Stages& stages) {
    gpu::StageSeconds seconds;
    const Errc code = pipeline.run(work, seconds);
    stages.copy_in += seconds.copy_in;
    stages.staging += seconds.staging;
    stages.kernel += seconds.kernel;
    stages.copy_out += seconds.copy_out;
    stages.finish += seconds.finish;
    stages.processor = Processor::gpu;
    return code;
}

Errc hash_one_tree(Bytes data, u8* digest, gpu::Pipeline& pipeline, Stages& stages) {
    const u64 slot_bytes = pipeline.settings().slot_bytes;
    TreeWork work(data, slot_bytes, (data.size() + slot_bytes - 1) / slot_bytes);
    WARREN_TRY(work.open(pipeline.settings().slots));
    WARREN_TRY(run_stages(pipeline, work, stages));
    join_blake3(widest_lanes(), work.values(), true);
    std::memcpy(digest, work.values().data(), 32);
    return Errc::ok;
}

/// Hashes a list: short pieces on the GPU, long ones by their tree or on the CPU.
Errc hash_list(Algorithm algorithm, const Pieces& pieces, const Beginning& beginning, u8* digests,
               const Options& options, gpu::Pipeline& pipeline, Stages& stages) {
    const Stopwatch clock;
    const u64 slot_bytes = pipeline.settings().slot_bytes;
    const u32 size = digest_bytes(algorithm);
    std::vector<Bytes> list(pieces.count());
    std::vector<u64> chosen;
    std::vector<u64> others;
    for (u64 i = 0; i < list.size(); ++i) {
        list[i] = pieces[i];
        (list[i].size() <= slot_bytes / 4 ? chosen : others).push_back(i);
    }
    // Inspecting the pieces counts as gathering.
    const double looking = clock.seconds();
    stages.staging += looking;
    stages.copy_in += looking;
    for (const u64 i : others) {
        if (algorithm == Algorithm::blake3 && list[i].size() > slot_bytes) {
            WARREN_TRY(hash_one_tree(list[i], digests + i * size, pipeline, stages));
        } else {
            const Pieces one(std::span(&list[i], 1));
            hash_on_cpu(algorithm, one, beginning, digests + i * size, options);
            stages.note = "long pieces were hashed on the CPU: a stream has no parallel parts";
        }
    }
    if (chosen.empty()) return Errc::ok;
    ListWork work(algorithm, list, chosen, beginning, digests, slot_bytes);
    return run_stages(pipeline, work, stages);
}

}  // namespace

bool has_device() {
    static const bool found = gpu::device_count() > 0;
    return found;
}

Errc set_device_settings(const DeviceSettings& settings) {
    if (settings.slot_bytes < least_slot_bytes || settings.slot_bytes % mib != 0) {
        return Errc::invalid;
    }
    SharedPipeline& shared = SharedPipeline::get();
    const std::lock_guard lock(shared.mutex());
    shared.set(settings);
    return Errc::ok;
}

bool is_pinned(const void* at) {
    return gpu::kind_of(at) != gpu::MemoryKind::pageable;
}

Errc hash_on_device(Algorithm algorithm, const Pieces& pieces, const Beginning& beginning,
                    u8* digests, const Options& options, Stages& stages) {
    if (!has_device()) return Errc::no_device;
    const Stopwatch clock;
    SharedPipeline& shared = SharedPipeline::get();
    const std::lock_guard lock(shared.mutex());
    stages = {};
    const bool is_tree =
        algorithm == Algorithm::blake3 && pieces.bytes() > shared.settings().slot_bytes;
    if (pieces.count() == 1 && !is_tree) {
        hash_on_cpu(algorithm, pieces, beginning, digests, options);
        stages.note = "one stream was hashed on the CPU: it keeps one thread of a GPU busy";
        stages.kernel = stages.total = clock.seconds();
        return Errc::ok;
    }
    WARREN_TRY(shared.open(stages.initialise));
    stages.note = shared.note();
    gpu::Pipeline& pipeline = shared.pipeline();
    const u64 slot_bytes = pipeline.settings().slot_bytes;
    Errc code;
    if (!pieces.is_list() && pieces.piece_bytes() <= slot_bytes / 4) {
        CutWork work(algorithm, pieces, beginning, digests, slot_bytes);
        code = run_stages(pipeline, work, stages);
    } else {
        code = hash_list(algorithm, pieces, beginning, digests, options, pipeline, stages);
    }
    stages.total = clock.seconds();
    return code;
}

Errc hash_windows_on_device(const Windows& windows, Bytes data, const WindowOutput& output,
                            Stages& stages) {
    if (!has_device()) return Errc::no_device;
    const Stopwatch clock;
    SharedPipeline& shared = SharedPipeline::get();
    const std::lock_guard lock(shared.mutex());
    stages = {};
    WARREN_TRY(shared.open(stages.initialise));
    stages.note = shared.note();
    const u64 slot_bytes = shared.pipeline().settings().slot_bytes;
    if (windows.window_bytes > slot_bytes / 2) return Errc::not_supported;
    WindowWork work(windows, data, output, slot_bytes);
    if (!work.is_possible()) return Errc::not_supported;
    const Errc code = run_stages(shared.pipeline(), work, stages);
    stages.total = clock.seconds();
    return code;
}

}  // namespace warren::hash
