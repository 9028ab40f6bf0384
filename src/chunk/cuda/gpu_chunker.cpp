// SPDX-License-Identifier: Apache-2.0
// Three slots take turns: while one is copied and scanned, the host chooses the cuts of the one
// before. What comes back over the bus is a list of candidates, a few bytes in ten thousand.
//
// Invariant: slots are finished in the order in which they were queued, which is that of the
// stream.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>

#include "chunk/cuda/scan_launch.hpp"
#include "chunk/select.hpp"
#include "gpu/device.hpp"
#include "gpu/failure.hpp"
#include "warren/chunk_gpu.hpp"

namespace warren::chunk {

namespace {

constexpr u64 history_bytes = 64;
constexpr u64 front_bytes = 128;  // of a staging buffer, before the data: history, aligned
constexpr u64 copied_bytes = 32 * mib;
constexpr u64 resident_bytes = 512 * mib;

struct Slot {
    gpu::Stream stream;
    gpu::Event done;
    cuda::ScanResult result;
    gpu::DeviceBuffer<u8> staging;
    u64 base = 0;
    u64 count = 0;  // 0: nothing queued
};

}  // namespace

class GpuChunker::Implementation {
 public:
    /// Gets candidates in order, and how far they are complete.
    using OnKnown = std::function<Errc(CandidateList& candidates, u64 known)>;

    Errc open(const Rule& rule) {
        if (gpu::device_count() == 0) return Errc::no_device;
        for (Slot& slot : slots_) {
            WARREN_TRY(slot.stream.open());
            WARREN_TRY(slot.done.open());
        }
        return rule_.open(rule, slots_[0].stream);
    }

    /// Scans after copying, through the ring or to `keep`, bytes that are at `position` in their
    /// stream; from there on `history` holds what came before them.
    Errc scan_copied(const u8* bytes, u64 count, u8* keep, u64 position, const u8* history,
                     const OnKnown& on_known) {
        keep_ = keep;
        is_copied_ = true;
        position_ = position;
        history_ = history;
        return run(bytes, count, copied_bytes, on_known);
    }

    Errc scan_resident(const u8* bytes, u64 count, const OnKnown& on_known) {
        is_copied_ = false;
        position_ = 0;
        return run(bytes, count, resident_bytes, on_known);
    }

    const Rule& rule() const { return rule_.rule(); }

    /// Lets all that follows wait for what is queued in the stream.
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

 private:
    Errc run(const u8* bytes, u64 count, u64 segment_bytes, const OnKnown& on_known) {
        size_t oldest = 0;
        size_t next = 0;
        Errc code = Errc::ok;
        for (u64 base = 0; base < count && code == Errc::ok; base += segment_bytes) {
            Slot& slot = slots_[next % slots_.size()];
            if (slot.count != 0) code = finish(slots_[oldest++ % slots_.size()], on_known);
            slot.base = base;
            slot.count = std::min(segment_bytes, count - base);
            if (code == Errc::ok) code = queue(slot, bytes + base);
            ++next;
        }
        while (oldest < next) {
            Slot& slot = slots_[oldest++ % slots_.size()];
            if (code == Errc::ok) code = finish(slot, on_known);
            // After a failure nothing of ours may still be running when the caller goes on.
            if (code != Errc::ok) static_cast<void>(slot.stream.wait());
            slot.count = 0;
        }
        return code;
    }

    Errc queue(Slot& slot, const u8* bytes) {
        const bool has_history = slot.base + position_ > 0;
        const u64 most = is_copied_ ? copied_bytes : slot.count;
        if (slot.result.bits.count() * 64 < most) WARREN_TRY(slot.result.allocate(most));
        const u8* at = bytes;
        if (is_copied_) {
            if (keep_ == nullptr && slot.staging.count() == 0)
                WARREN_TRY(slot.staging.allocate(front_bytes + copied_bytes));
            u8* const to = keep_ != nullptr ? keep_ + slot.base : slot.staging.data() + front_bytes;
            const u8* const before = slot.base > 0 ? bytes - history_bytes : history_;
            // In `keep` the slot before copies these too, with the same result.
            if (has_history)
                WARREN_TRY(slot.stream.copy(to - history_bytes, before, history_bytes));
            WARREN_TRY(slot.stream.copy(to, bytes, slot.count));
            at = to;
        }
        WARREN_TRY(cuda::queue_scan(rule_, at, slot.count, has_history, slot.result, slot.stream));
        return slot.done.record(slot.stream);
    }

    /// Waits for the slot and hands its candidates on.
    Errc finish(Slot& slot, const OnKnown& on_known) {
        WARREN_TRY(slot.done.wait());
        const u64 base = position_ + slot.base;
        const u64 known = base + slot.count;
        const u64 found = slot.result.count.data()[0];
        const u64 least = rule().method == Method::rabin ? 0 : rule().window_bytes;
        if (found <= slot.result.list.count()) {
            candidates_.assign_list({slot.result.list.data(), found}, base, least);
        } else {
            bits_.resize((slot.count + 63) / 64);
            WARREN_TRY(slot.stream.copy(bits_.data(), slot.result.bits.data(), bits_.size() * 8));
            WARREN_TRY(slot.stream.wait());
            candidates_.assign(bits_, base, slot.count, least);
        }
        slot.count = 0;
        return on_known(candidates_, known);
    }

    cuda::DeviceRule rule_;
    std::array<Slot, 3> slots_;
    CandidateList candidates_;
    std::vector<u64> bits_;
    u8* keep_ = nullptr;
    const u8* history_ = nullptr;
    u64 position_ = 0;
    bool is_copied_ = false;
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

/// Chooses cuts as candidates come.
struct Choice {
    Selector selector;
    CandidateList none;
    std::vector<u64>& ends;
    const GpuChunker::OnEnds& on_ends;

    Errc operator()(CandidateList& candidates, u64 known) {
        selector.run(candidates, none, known, {nullptr, 0}, ends);
        return on_ends ? on_ends(ends) : Errc::ok;
    }
    Errc finish(Errc code, u64 count) {
        WARREN_TRY(code);
        selector.finish(count, ends);
        return on_ends ? on_ends(ends) : Errc::ok;
    }
};

}  // namespace

Errc GpuChunker::cut(std::span<const std::byte> bytes, std::vector<u64>& ends,
                     const OnEnds& on_ends, void* keep) {
    if (reinterpret_cast<u64>(keep) % 16 != 0) return Errc::invalid;
    Choice choice{Selector(implementation_->rule()), {}, ends, on_ends};
    const Errc code =
        implementation_->scan_copied(reinterpret_cast<const u8*>(bytes.data()), bytes.size(),
                                     static_cast<u8*>(keep), 0, nullptr, std::ref(choice));
    return choice.finish(code, bytes.size());
}

Errc GpuChunker::cut_device(const void* bytes, u64 count, void* stream, std::vector<u64>& ends,
                            const OnEnds& on_ends) {
    const auto* at = static_cast<const u8*>(bytes);
    WARREN_TRY(implementation_->wait_for(static_cast<cudaStream_t>(stream)));
    Choice choice{Selector(implementation_->rule()), {}, ends, on_ends};
    const bool is_aligned = reinterpret_cast<u64>(at) % 16 == 0;
    const Errc code =
        is_aligned ? implementation_->scan_resident(at, count, std::ref(choice))
                   : implementation_->scan_copied(at, count, nullptr, 0, nullptr, std::ref(choice));
    return choice.finish(code, count);
}

Errc GpuChunker::scan(std::span<const u8> bytes, u64 position, const u8* history,
                      const std::function<Errc(CandidateList&, u64)>& on_known) {
    return implementation_->scan_copied(bytes.data(), bytes.size(), nullptr, position, history,
                                        on_known);
}

}  // namespace warren::chunk
