// SPDX-License-Identifier: Apache-2.0
// Three slots are used in turn: one is copied while another is scanned. If the rule allows it, the
// device selects the cuts. Otherwise the host selects them among the candidates, about one byte in
// thousands, while the next slot is being processed.
//
// Invariant: slots are finished in the order in which they were queued, which is that of the
// stream.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "chunk/cuda/scan_launch.hpp"
#include "chunk/cuda/select_launch.hpp"
#include "chunk/scanner.hpp"
#include "chunk/select.hpp"
#include "gpu/device.hpp"
#include "gpu/failure.hpp"
#include "warren/chunk_gpu.hpp"

namespace warren::chunk {

namespace {

constexpr u64 copied_bytes = 32 * mib;
constexpr u64 resident_bytes = 512 * mib;
constexpr u64 least_slot_bytes = mib;

struct Slot {
    gpu::Stream stream;
    gpu::Event done;
    cuda::ScanResult result;
    cuda::SelectResult choice;
    gpu::DeviceBuffer<u8> staging;
    u64 base = 0;
    u64 count = 0;  // 0: nothing queued
};

/// The data of a call, and the callbacks that receive its candidates or ends.
struct Job {
    const u8* source = nullptr;
    u64 count = 0;
    u64 position = 0;             // of the data in their stream
    const u8* history = nullptr;  // points past the bytes before the data; null if there are none
    u8* keep = nullptr;
    bool is_copied = true;
    GpuChunker::OnKnown on_known;
    /// Receives ends relative to `base`; empty: the host selects all cuts.
    std::function<Errc(std::span<const u32> ends, u64 base)> on_chosen;
};

}  // namespace

class GpuChunker::Implementation {
 public:
    Errc open(const Rule& rule) {
        if (gpu::device_count() == 0) return Errc::no_device;
        for (Slot& slot : slots_) {
            WARREN_TRY(slot.stream.open());
            WARREN_TRY(slot.done.open());
        }
        WARREN_TRY(state_.allocate(1));
        WARREN_TRY(rule_.open(rule, slots_[0].stream));
        front_bytes_ = (rule_.reach_bytes() + 127) / 128 * 128;
        return Errc::ok;
    }

    const Rule& rule() const { return rule_.rule(); }

    /// Makes all work queued from here on wait for the work queued in the stream.
    Errc wait_for(cudaStream_t stream) {
        cudaEvent_t event = nullptr;
        WARREN_TRY(gpu::check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
                              "cudaEventCreate"));
        Errc code = gpu::check(cudaEventRecord(event, stream), "cudaEventRecord");
        for (Slot& slot : slots_) {
            if (code == Errc::ok)
                code = gpu::check(cudaStreamWaitEvent(slot.stream.get(), event, 0),
                                  "cudaStreamWaitEvent");
        }
        static_cast<void>(gpu::check(cudaEventDestroy(event), "cudaEventDestroy"));
        return code;
    }

    void pin(std::span<std::byte> memory) {
        pinned_ = gpu::PinnedRange();
        if (!memory.empty()) pinned_ = gpu::PinnedRange(memory.data(), memory.size());
    }

    Errc run(const Job& job) {
        if (job.count == 0) return Errc::ok;
        job_ = &job;
        u64 slot_bytes = job.is_copied ? copied_bytes : resident_bytes;
        slot_bytes = std::min(slot_bytes, (job.count + 127) / 128 * 128);
        WARREN_TRY(allocate(slot_bytes));
        WARREN_TRY(cuda::queue_start(state_.data(), slots_[0].stream));
        size_t oldest = 0;
        size_t next = 0;
        Errc code = Errc::ok;
        for (u64 base = 0; base < job.count && code == Errc::ok; base += slot_bytes) {
            Slot& slot = slots_[next % slots_.size()];
            if (slot.count != 0) code = finish(slots_[oldest++ % slots_.size()]);
            slot.base = base;
            slot.count = std::min(slot_bytes, job.count - base);
            if (code == Errc::ok) code = queue(slot, next);
            ++next;
        }
        while (oldest < next) {
            Slot& slot = slots_[oldest++ % slots_.size()];
            if (code == Errc::ok) code = finish(slot);
            // After a failure no queued work may still be running when the caller continues.
            if (code != Errc::ok) static_cast<void>(slot.stream.wait());
            slot.count = 0;
        }
        return code;
    }

    /// Copies bytes [from, to) of the job's data to the host.
    Errc fetch(u64 from, u64 to, Stretch& stretch) {
        fetched_.resize(to - from);
        WARREN_TRY(slots_[0].stream.copy(fetched_.data(), job_->source + from, to - from));
        WARREN_TRY(slots_[0].stream.wait());
        stretch = {fetched_.data(), from};
        return Errc::ok;
    }

 private:
    /// Allocates memory for slots of `slot_bytes`, or makes the slots smaller if the device has too
    /// little.
    Errc allocate(u64& slot_bytes) {
        const bool is_for_device = job_->on_chosen != nullptr;
        if (slot_bytes_ >= slot_bytes && is_for_device_ == is_for_device &&
            (has_staging_ || !needs_staging())) {
            slot_bytes = std::min(slot_bytes, slot_bytes_);
            return Errc::ok;
        }
        while (true) {
            const Errc code = allocate_all(slot_bytes, is_for_device);
            slot_bytes_ = code == Errc::ok ? slot_bytes : 0;
            is_for_device_ = is_for_device;
            has_staging_ = needs_staging();
            if (code != Errc::no_memory || slot_bytes / 2 < least_slot_bytes) return code;
            slot_bytes = slot_bytes / 2 / 128 * 128;
        }
    }

    bool needs_staging() const { return job_->is_copied && job_->keep == nullptr; }

    Errc allocate_all(u64 slot_bytes, bool is_for_device) {
        for (Slot& slot : slots_) {
            slot.staging.clear();
            if (needs_staging()) WARREN_TRY(slot.staging.allocate(front_bytes_ + slot_bytes));
            WARREN_TRY(slot.result.allocate(rule(), slot_bytes, is_for_device));
            if (is_for_device) WARREN_TRY(slot.choice.allocate(rule(), slot_bytes));
        }
        return Errc::ok;
    }

    Errc queue(Slot& slot, size_t number) {
        const u64 position = job_->position + slot.base;
        const u64 reach = rule_.reach_bytes();
        const u8* at = job_->source + slot.base;
        if (job_->is_copied) {
            u8* const to =
                job_->keep != nullptr ? job_->keep + slot.base : slot.staging.data() + front_bytes_;
            const u8* const before = slot.base > 0 ? at : job_->history;
            // In `keep` the previous slot also copies these bytes, with the same result.
            if (position > 0) WARREN_TRY(slot.stream.copy(to - reach, before - reach, reach));
            WARREN_TRY(slot.stream.copy(to, at, slot.count));
            at = to;
        }
        WARREN_TRY(cuda::queue_scan(rule_, {at, slot.count, position}, slot.result, slot.stream));
        if (is_for_device_) {
            // The start of the current chunk comes from the previous slot.
            if (number > 0)
                WARREN_TRY(slot.stream.wait_for(slots_[(number - 1) % slots_.size()].done));
            WARREN_TRY(cuda::queue_selection(rule_, {at, slot.base, slot.count, job_->count},
                                             slot.result, slot.choice, state_.data(), slot.stream));
        }
        return slot.done.record(slot.stream);
    }

    /// Waits for the slot and passes on what was found.
    Errc finish(Slot& slot) {
        WARREN_TRY(slot.done.wait());
        const u64 known = job_->position + slot.base + slot.count;
        if (is_for_device_ && slot.choice.outcome.data()->is_chosen != 0) {
            const std::span<const u32> ends(slot.choice.host_ends.data(),
                                            slot.choice.outcome.data()->ends);
            const u64 base = slot.base;
            slot.count = 0;
            return job_->on_chosen(ends, base);
        }
        const u64 found = slot.result.count.data()[0];
        const u64 room =
            is_for_device_ ? slot.result.device_list.count() : slot.result.list.count();
        WARREN_TRY(found <= room ? take_list(slot, found) : take_bits(slot));
        slot.count = 0;
        return job_->on_known(candidates_, early_, known);
    }

    Errc take_list(Slot& slot, u64 found) {
        if (is_for_device_) {
            WARREN_TRY(slot.result.list.reserve(found + 1));
            WARREN_TRY(slot.stream.copy(slot.result.list.data(), slot.result.device_list.data(),
                                        found * sizeof(u32)));
            WARREN_TRY(slot.stream.wait());
        }
        const std::span<const u32> list(slot.result.list.data(), found);
        const u64 base = job_->position + slot.base;
        if (rule().method == Method::fastcdc) {
            candidates_.assign_flagged(list, late_flag, base, least());
            early_.assign_flagged(list, early_flag, base, least());
        } else {
            candidates_.assign_list(list, base, least());
        }
        return Errc::ok;
    }

    /// For more candidates than a list can hold. Fastcdc's candidates need flags, which a bitmap
    /// does not have, so the host scans again.
    Errc take_bits(Slot& slot) {
        const u64 base = job_->position + slot.base;
        bits_.assign((slot.count + 63) / 64, 0);
        if (rule().method == Method::fastcdc) {
            std::vector<u64> early(bits_.size());
            WARREN_TRY(scan_on_host(slot, early));
            early_.assign(early, base, slot.count, least());
        } else {
            const cuda::BitPlaces places = cuda::bit_places(rule(), base, slot.count);
            std::vector<u64> words((places.count + 63) / 64);
            WARREN_TRY(slot.stream.copy(words.data(), slot.result.bits.data(), words.size() * 8));
            WARREN_TRY(slot.stream.wait());
            if (places.stride == 1 && places.first_end == 1) {
                bits_ = std::move(words);
            } else {
                spread(words, places);
            }
        }
        candidates_.assign(bits_, base, slot.count, least());
        return Errc::ok;
    }

    void spread(std::span<const u64> words, const cuda::BitPlaces& places) {
        for (u64 bit = 0; bit < places.count; ++bit) {
            const u64 place = places.first_end + bit * places.stride - 1;
            if ((words[bit / 64] >> (bit % 64) & 1) != 0) bits_[place / 64] |= u64{1} << place % 64;
        }
    }

    Errc scan_on_host(Slot& slot, std::vector<u64>& early) {
        const Scanner scanner(rule());
        const u64 before = scanner.history_bytes();
        std::vector<u8> bytes(before + slot.count);
        const u64 taken = slot.base == 0 ? 0 : before;
        if (slot.base == 0 && job_->history != nullptr)
            std::memcpy(bytes.data(), job_->history - before, before);
        WARREN_TRY(slot.stream.copy(bytes.data() + before - taken, job_->source + slot.base - taken,
                                    taken + slot.count));
        WARREN_TRY(slot.stream.wait());
        scanner.scan(bytes.data() + before, job_->position + slot.base, slot.count, bits_.data(),
                     early.data());
        return Errc::ok;
    }

    /// Windows that end before this position are not whole; rabin's window starts filled with
    /// zeros.
    u64 least() const { return rule().method == Method::rabin ? 0 : rule().window_bytes; }

    cuda::DeviceRule rule_;
    std::array<Slot, 3> slots_;
    gpu::DeviceBuffer<cuda::SelectState> state_;
    gpu::PinnedRange pinned_;
    u64 front_bytes_ = 0;  // in a staging buffer before the data: the reach of windows, rounded up
    u64 slot_bytes_ = 0;   // for which the slots have memory
    bool is_for_device_ = false;
    bool has_staging_ = false;
    const Job* job_ = nullptr;
    CandidateList candidates_;
    CandidateList early_;
    std::vector<u64> bits_;
    std::vector<u8> fetched_;
};

GpuChunker::GpuChunker() = default;
GpuChunker::~GpuChunker() = default;
GpuChunker::GpuChunker(GpuChunker&&) noexcept = default;
GpuChunker& GpuChunker::operator=(GpuChunker&&) noexcept = default;

bool GpuChunker::has_kernel(const Rule& rule) {
    return cuda::DeviceRule::has_kernel(rule);
}

Errc GpuChunker::open(const Rule& rule) {
    if (!describe_problem(rule).empty()) return Errc::invalid;
    auto made = std::make_unique<Implementation>();
    WARREN_TRY(made->open(rule));
    implementation_ = std::move(made);
    return Errc::ok;
}

namespace {

/// Turns the results of all slots into the ends of a whole stream.
template <class Source>
Errc cut_stream(Source& source, Job& job, const Rule& rule, std::vector<u64>& ends,
                const GpuChunker::OnEnds& on_ends) {
    Selector selector(rule);
    auto tell = [&] { return on_ends ? on_ends(ends) : Errc::ok; };
    job.on_known = [&](CandidateList& candidates, CandidateList& early, u64 known) {
        Stretch stretch{nullptr, 0};
        if (rule.method == Method::fastcdc)
            WARREN_TRY(source.fetch(selector.start(), known, stretch));
        selector.run(candidates, early, known, stretch, ends);
        return tell();
    };
    if (cuda::has_selection(rule)) {
        job.on_chosen = [&](std::span<const u32> found, u64 base) {
            const size_t before = ends.size();
            ends.resize(before + found.size());
            for (size_t index = 0; index < found.size(); ++index)
                ends[before + index] = base + found[index];
            if (!found.empty()) selector.cut_at(ends.back());
            return tell();
        };
    }
    WARREN_TRY(source.run(job));
    selector.finish(job.count, ends);
    return tell();
}

}  // namespace

void GpuChunker::pin(std::span<std::byte> memory) {
    implementation_->pin(memory);
}

Errc GpuChunker::cut(std::span<const std::byte> bytes, std::vector<u64>& ends,
                     const OnEnds& on_ends, void* keep) {
    if (reinterpret_cast<u64>(keep) % 16 != 0) return Errc::invalid;
    Job job;
    job.source = reinterpret_cast<const u8*>(bytes.data());
    job.count = bytes.size();
    job.keep = static_cast<u8*>(keep);
    return cut_stream(*implementation_, job, implementation_->rule(), ends, on_ends);
}

Errc GpuChunker::cut_device(const void* bytes, u64 count, void* stream, std::vector<u64>& ends,
                            const OnEnds& on_ends) {
    WARREN_TRY(implementation_->wait_for(static_cast<cudaStream_t>(stream)));
    Job job;
    job.source = static_cast<const u8*>(bytes);
    job.count = count;
    job.is_copied = reinterpret_cast<u64>(bytes) % 16 != 0;
    return cut_stream(*implementation_, job, implementation_->rule(), ends, on_ends);
}

Errc GpuChunker::cut_device(const void* bytes, u64 count, void* stream, u64* device_ends,
                            u64 most_ends, u64& found) {
    std::vector<u64> ends;
    WARREN_TRY(cut_device(bytes, count, stream, ends));
    found = ends.size();
    if (found > most_ends) return Errc::no_space;
    const auto queue = static_cast<cudaStream_t>(stream);
    WARREN_TRY(gpu::check(cudaMemcpyAsync(device_ends, ends.data(), found * sizeof(u64),
                                          cudaMemcpyHostToDevice, queue),
                          "cudaMemcpyAsync"));
    return gpu::check(cudaStreamSynchronize(queue), "cudaStreamSynchronize");
}

Errc GpuChunker::scan(std::span<const u8> bytes, u64 position, const u8* history,
                      const OnKnown& on_known) {
    Job job;
    job.source = bytes.data();
    job.count = bytes.size();
    job.position = position;
    job.history = position > 0 ? history : nullptr;
    job.on_known = on_known;
    return implementation_->run(job);
}

}  // namespace warren::chunk
