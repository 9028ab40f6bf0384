// SPDX-License-Identifier: Apache-2.0
// For data larger than one copy: a ring of slots goes through copy in, kernel and copy out, each
// stage on a stream of its own, so that all three run at once. The caller supplies the computation.
//
// Invariant: turns are filled, launched and drained in order; a slot's memory is the caller's from
// its fill to its drain and nobody else's.
#pragma once

#include <vector>

#include "gpu/buffer.hpp"
#include "gpu/stream.hpp"
#include "warren/result.hpp"
#include "warren/types.hpp"

namespace warren::gpu {

/// Where memory is, as far as copies care.
enum class MemoryKind : u8 { pageable, pinned, device };
MemoryKind kind_of(const void* at);

/// Seconds that each stage was busy, summed over the turns; `total` is how long the caller waited.
struct StageSeconds {
    double initialise = 0;  // buffers and streams, once
    double copy_in = 0;     // filling the slots included, where data are staged
    double staging = 0;     // that filling alone
    double kernel = 0;
    double copy_out = 0;
    double finish = 0;  // draining
    double total = 0;
};

struct PipelineSettings {
    u64 slot_bytes = 32 * mib;   // of input, on the device and on the host
    u64 output_bytes = 4 * mib;  // of results
    u32 slots = 3;
    bool has_host_slots = true;  // false: all input comes from the caller's own memory
    bool overlaps = true;        // false: one turn after the other, for comparisons
};

/// One slot's worth of work.
struct Turn {
    const void* source = nullptr;  // in the slot's host memory, or anywhere
    u64 bytes = 0;
    const void* extra = nullptr;  // goes behind the data, at the next multiple of 256
    u64 extra_bytes = 0;
    u64 output_bytes = 0;
    u64 number = 0;

    u64 extra_offset() const { return (bytes + 255) / 256 * 256; }
};

/// The computation of a pipeline.
class PipelineWork {
 public:
    virtual ~PipelineWork() = default;
    /// Says what the next turn copies in, which may be put into `slot` (null without host slots);
    /// false if there is no more.
    virtual bool fill(Turn& turn, u8* slot) = 0;
    /// Queues the turn's kernels. `input` and `output` are in device memory.
    virtual Errc launch(const Turn& turn, const u8* input, u8* output, const Stream& stream) = 0;
    /// Takes the turn's results, in host memory.
    virtual void drain(const Turn& turn, const u8* output) = 0;
};

class Pipeline {
 public:
    /// Gets memory and streams. Errc::no_memory if there is too little: try smaller slots.
    Errc open(const PipelineSettings& settings);
    bool is_open() const { return !slots_.empty(); }
    const PipelineSettings& settings() const { return settings_; }
    /// Does all turns. The first error ends it, when nothing is under way any more.
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
