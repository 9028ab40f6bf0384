// SPDX-License-Identifier: Apache-2.0
// Processes data larger than one copy: a ring of slots passes through copy in, kernel and copy out,
// each stage on a stream of its own, so that all three run at once. The caller supplies the
// computation.
//
// Invariant: turns are filled, launched and drained in order. From its fill to its drain a slot's
// memory is used by that turn alone.
#pragma once

#include <vector>

#include "gpu/buffer.hpp"
#include "gpu/stream.hpp"
#include "warren/result.hpp"
#include "warren/types.hpp"

namespace warren::gpu {

/// Where memory is, as far as it matters for copies.
enum class MemoryKind : u8 { pageable, pinned, device };
MemoryKind kind_of(const void* at);

/// Seconds that each stage was busy, summed over the turns; `total` is the elapsed time.
struct StageSeconds {
    double initialise = 0;  // allocating buffers and streams, once
    double copy_in = 0;     // includes filling the slots if data are staged
    double staging = 0;     // the filling alone
    double kernel = 0;
    double copy_out = 0;
    double finish = 0;  // draining
    double total = 0;
};

struct PipelineSettings {
    u64 slot_bytes = 32 * mib;   // of input, on the device and on the host
    u64 output_bytes = 4 * mib;  // of results
    u32 slots = 3;
    bool has_host_slots = true;  // false: all input is read from the caller's own memory
    bool overlaps = true;        // false: one turn after the other, for comparisons
};

/// The work of one slot.
struct Turn {
    const void* source = nullptr;  // the slot's host memory, or any other
    u64 bytes = 0;
    const void* extra = nullptr;  // copied after the data, at the next multiple of 256
    u64 extra_bytes = 0;
    u64 output_bytes = 0;
    u64 number = 0;

    u64 extra_offset() const { return (bytes + 255) / 256 * 256; }
};

/// The computation of a pipeline.
class PipelineWork {
 public:
    virtual ~PipelineWork() = default;
    /// Sets what the next turn copies in; it may put data into `slot`, which is null without host
    /// slots. Returns false if there is no more work.
    virtual bool fill(Turn& turn, u8* slot) = 0;
    /// Queues the turn's kernels. `input` and `output` are in device memory.
    virtual Errc launch(const Turn& turn, const u8* input, u8* output, const Stream& stream) = 0;
    /// Receives the turn's results, in host memory.
    virtual void drain(const Turn& turn, const u8* output) = 0;
};

class Pipeline {
 public:
    /// Allocates memory and streams. Errc::no_memory: there is too little; the caller may try
    /// smaller slots.
    Errc open(const PipelineSettings& settings);
    bool is_open() const { return !slots_.empty(); }
    const PipelineSettings& settings() const { return settings_; }
    /// Runs all turns. After an error it returns once no queued work is left.
    Errc run(PipelineWork& work, StageSeconds& seconds);

 private:
    struct Slot {
        Turn turn;
        bool is_busy = false;
        PinnedBuffer<u8> host_input;
        PinnedBuffer<u8> host_output;
        DeviceBuffer<u8> input;
        DeviceBuffer<u8> output;
        Event events[6];  // begin and end of each stage
    };

    Errc open_slot(Slot& slot);
    Errc queue(Slot& slot, PipelineWork& work);
    Errc finish(Slot& slot, PipelineWork& work, StageSeconds& seconds);
    Errc run_turns(PipelineWork& work, StageSeconds& seconds);

    PipelineSettings settings_;
    std::vector<Slot> slots_;
    Stream copy_in_;
    Stream kernel_;
    Stream copy_out_;
};

}  // namespace warren::gpu
