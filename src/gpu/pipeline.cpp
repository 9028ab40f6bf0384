// SPDX-License-Identifier: Apache-2.0
// The events of a stage are recorded on its own stream, so that they measure the stage without its
// waits for other stages.
#include "gpu/pipeline.hpp"

#include "base/stopwatch.hpp"
#include "gpu/failure.hpp"

namespace warren::gpu {
namespace {

enum Stage : u32 { in = 0, compute = 2, out = 4 };

Errc add_time(const Event* events, Stage stage, double& seconds) {
    WARREN_LET(passed, events[stage + 1].milliseconds_since(events[stage]));
    seconds += double{*passed} / 1e3;
    return Errc::ok;
}

}  // namespace

MemoryKind kind_of(const void* at) {
    cudaPointerAttributes attributes;
    if (cudaPointerGetAttributes(&attributes, at) != cudaSuccess) {
        static_cast<void>(cudaGetLastError());
        return MemoryKind::pageable;
    }
    switch (attributes.type) {
        case cudaMemoryTypeHost:
            return MemoryKind::pinned;
        case cudaMemoryTypeDevice:
        case cudaMemoryTypeManaged:
            return MemoryKind::device;
        default:
            return MemoryKind::pageable;
    }
}

Errc Pipeline::open(const PipelineSettings& settings) {
    settings_ = settings;
    std::vector<Slot> slots(settings.slots);
    for (Slot& slot : slots)
        WARREN_TRY(open_slot(slot));
    if (copy_in_.get() == nullptr) {
        WARREN_TRY(copy_in_.open());
        WARREN_TRY(kernel_.open());
        WARREN_TRY(copy_out_.open());
    }
    slots_ = std::move(slots);
    return Errc::ok;
}

Errc Pipeline::open_slot(Slot& slot) {
    // Kernels may read a few bytes past the end of the data.
    constexpr u64 margin_bytes = 256;
    WARREN_TRY(slot.input.allocate(settings_.slot_bytes + margin_bytes));
    WARREN_TRY(slot.output.allocate(settings_.output_bytes));
    WARREN_TRY(slot.host_output.allocate(settings_.output_bytes));
    if (settings_.has_host_slots) WARREN_TRY(slot.host_input.allocate(settings_.slot_bytes));
    for (Event& event : slot.events)
        WARREN_TRY(event.open());
    return Errc::ok;
}

Errc Pipeline::queue(Slot& slot, PipelineWork& work) {
    const Turn& turn = slot.turn;
    WARREN_TRY(slot.events[in].record(copy_in_));
    WARREN_TRY(copy_in_.copy(slot.input.data(), turn.source, turn.bytes));
    u8* const extra = slot.input.data() + turn.extra_offset();
    WARREN_TRY(copy_in_.copy(extra, turn.extra, turn.extra_bytes));
    WARREN_TRY(slot.events[in + 1].record(copy_in_));

    WARREN_TRY(kernel_.wait_for(slot.events[in + 1]));
    WARREN_TRY(slot.events[compute].record(kernel_));
    WARREN_TRY(work.launch(turn, slot.input.data(), slot.output.data(), kernel_));
    WARREN_TRY(slot.events[compute + 1].record(kernel_));

    WARREN_TRY(copy_out_.wait_for(slot.events[compute + 1]));
    WARREN_TRY(slot.events[out].record(copy_out_));
    WARREN_TRY(copy_out_.copy(slot.host_output.data(), slot.output.data(), turn.output_bytes));
    WARREN_TRY(slot.events[out + 1].record(copy_out_));
    slot.is_busy = true;
    return Errc::ok;
}

Errc Pipeline::finish(Slot& slot, PipelineWork& work, StageSeconds& seconds) {
    if (!slot.is_busy) return Errc::ok;
    slot.is_busy = false;
    WARREN_TRY(slot.events[out + 1].wait());
    WARREN_TRY(add_time(slot.events, in, seconds.copy_in));
    WARREN_TRY(add_time(slot.events, compute, seconds.kernel));
    WARREN_TRY(add_time(slot.events, out, seconds.copy_out));
    const Stopwatch clock;
    work.drain(slot.turn, slot.host_output.data());
    seconds.finish += clock.seconds();
    return Errc::ok;
}

Errc Pipeline::run_turns(PipelineWork& work, StageSeconds& seconds) {
    u64 number = 0;
    for (;; ++number) {
        Slot& slot = slots_[number % slots_.size()];
        WARREN_TRY(finish(slot, work, seconds));
        slot.turn = {};
        slot.turn.number = number;
        const Stopwatch clock;
        if (!work.fill(slot.turn, slot.host_input.data())) break;
        const double filling = clock.seconds();
        seconds.staging += filling;
        seconds.copy_in += filling;
        WARREN_TRY(queue(slot, work));
        if (!settings_.overlaps) WARREN_TRY(finish(slot, work, seconds));
    }
    for (u64 i = 0; i < slots_.size(); ++i)
        WARREN_TRY(finish(slots_[(number + i) % slots_.size()], work, seconds));
    return Errc::ok;
}

Errc Pipeline::run(PipelineWork& work, StageSeconds& seconds) {
    const Stopwatch clock;
    const Errc code = run_turns(work, seconds);
    if (code != Errc::ok) {
        // Queued work still uses the slots.
        static_cast<void>(copy_in_.wait());
        static_cast<void>(kernel_.wait());
        static_cast<void>(copy_out_.wait());
        for (Slot& slot : slots_)
            slot.is_busy = false;
    }
    seconds.total += clock.seconds();
    return code;
}

}  // namespace warren::gpu
