// SPDX-License-Identifier: Apache-2.0
// The C interface. The three implementations share one chunker, so any of them can take the next
// bytes of a stream.
//
// Invariant: no exception leaves a function. The only one that can occur is std::bad_alloc; after
// it all calls return errors until the stream is reset.
#include <bit>
#include <memory>
#include <new>

#include "warren/chunk.h"
#include "warren/chunk.hpp"
#include "warren/chunk_gpu.hpp"

using warren::u64;

struct rabinpoly {
    warren::chunk::Rule rule;
    warren::chunk::Chunker chunker;
    std::vector<u64> ends;
    warren::chunk::GpuChunker gpu;
    bool has_gpu = false;
    bool asked_for_gpu = false;
    bool is_lost = false;
};

namespace {

std::span<const std::byte> as_bytes(const void* buffer, size_t bytes) {
    return {static_cast<const std::byte*>(buffer), bytes};
}

size_t write_markers(const std::vector<u64>& ends, u64 begin, size_t* markers) {
    for (size_t index = 0; index < ends.size(); ++index)
        markers[index] = static_cast<size_t>(ends[index] - begin);
    return ends.size();
}

/// Returns the result of `work`, or RABIN_NO_MEMORY.
template <class Work>
size_t guarded(rabinpoly_t* rabin, const Work& work) {
    if (rabin->is_lost) return RABIN_NO_MEMORY;
    try {
        return work();
    } catch (const std::bad_alloc&) {
        rabin->is_lost = true;
        return RABIN_NO_MEMORY;
    }
}

size_t cut_on_cpu(rabinpoly_t* rabin, std::span<const std::byte> bytes, size_t* markers) {
    const u64 begin = rabin->chunker.position();
    rabin->ends.clear();
    rabin->chunker.feed(bytes, rabin->ends);
    return write_markers(rabin->ends, begin, markers);
}

size_t cut_on_gpu(rabinpoly_t* rabin, std::span<const std::byte> bytes, size_t* markers) {
    if (!rabin->asked_for_gpu) {
        rabin->asked_for_gpu = true;
        rabin->has_gpu = rabin->gpu.open(rabin->rule) == warren::Errc::ok;
    }
    if (!rabin->has_gpu) return cut_on_cpu(rabin, bytes, markers);
    const u64 begin = rabin->chunker.position();
    rabin->ends.clear();
    // If the GPU fails, the CPU completes the call, and processes all later ones.
    rabin->has_gpu = false;
    rabin->has_gpu = rabin->chunker.feed_by_gpu(rabin->gpu, bytes, rabin->ends) == warren::Errc::ok;
    return write_markers(rabin->ends, begin, markers);
}

std::unique_ptr<rabinpoly> make_rabin(const warren::chunk::Rule& rule) {
    try {
        auto rabin = std::make_unique<rabinpoly>();
        rabin->rule = rule;
        if (rabin->chunker.open(rule) == warren::Errc::ok) return rabin;
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
    return nullptr;
}

}  // namespace

rabinpoly_t* rabin_init(unsigned int window_bytes, unsigned int average_segment_kb,
                        unsigned int minimum_segment_kb, unsigned int maximum_segment_kb) {
    if (!std::has_single_bit(average_segment_kb)) return nullptr;
    warren::chunk::Rule rule = *warren::chunk::preset("lbfs");
    rule.window_bytes = window_bytes;
    rule.mask = average_segment_kb * warren::kib - 1;
    rule.minimum_bytes = minimum_segment_kb * warren::kib;
    rule.maximum_bytes = maximum_segment_kb * warren::kib;
    return make_rabin(rule).release();
}

int rabin_segment_next(rabinpoly_t* rabin, const char* buffer, unsigned int bytes,
                       int* is_new_segment) {
    bool is_end = false;
    const size_t taken =
        guarded(rabin, [&] { return rabin->chunker.feed_to_end(as_bytes(buffer, bytes), is_end); });
    *is_new_segment = is_end ? 1 : 0;
    return taken == RABIN_NO_MEMORY ? -1 : static_cast<int>(taken);
}

size_t rabin_marker_limit(const rabinpoly_t* rabin, size_t bytes) {
    return bytes / rabin->rule.minimum_bytes + 1;
}

size_t compute_rabin_segments_serial(rabinpoly_t* rabin, const void* buffer, size_t bytes,
                                     size_t* markers) {
    return guarded(rabin, [&] {
        size_t count = 0;
        size_t done = 0;
        while (done < bytes) {
            bool is_end = false;
            done += rabin->chunker.feed_to_end(as_bytes(buffer, bytes).subspan(done), is_end);
            if (is_end) markers[count++] = done;
        }
        return count;
    });
}

size_t compute_rabin_segments_cpu(rabinpoly_t* rabin, const void* buffer, size_t bytes,
                                  size_t* markers) {
    return guarded(rabin, [&] { return cut_on_cpu(rabin, as_bytes(buffer, bytes), markers); });
}

size_t compute_rabin_segments_gpu(rabinpoly_t* rabin, const void* buffer, size_t bytes,
                                  size_t* markers) {
    return guarded(rabin, [&] { return cut_on_gpu(rabin, as_bytes(buffer, bytes), markers); });
}

void rabin_reset(rabinpoly_t* rabin) {
    rabin->chunker.reset();
    rabin->is_lost = false;
}

void rabin_free(rabinpoly_t* rabin) {
    delete rabin;
}
