// SPDX-License-Identifier: Apache-2.0
// Sliding windows on the CPU. Threads take ranges of windows that are multiples of 64, so that no
// two of them write the same word of a bitmap. BLAKE3 and XXH3 have no lanes for windows and hash
// each window as a message.
#include "hash/windows.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/stopwatch.hpp"
#include "base/workers.hpp"
#include "hash/choice.hpp"
#include "hash/device.hpp"
#include "hash/pieces.hpp"
#include "hash/word.hpp"

namespace warren::hash {
namespace {

constexpr u64 block_bytes = 64;
constexpr u64 share_windows = 4096;  // a multiple of 64

bool has_lanes(Algorithm algorithm) {
    return algorithm <= Algorithm::sha256;
}

/// Sets the plan's masks for the last blocks of a message: the window's bits and the padding.
void plan_padding(WindowPlan& plan, bool is_big_endian) {
    const u64 blocks = plan.blocks - plan.full_blocks;
    const u64 rest_bytes = plan.window_bytes % block_bytes;
    u8 keep[2 * block_bytes] = {};
    u8 pad[2 * block_bytes] = {};
    std::fill_n(keep, rest_bytes, u8{0xff});
    pad[rest_bytes] = 0x80;
    for (u32 i = 0; i < 8; ++i) {
        const u32 place = is_big_endian ? 7 - i : i;
        pad[blocks * block_bytes - 8 + place] = static_cast<u8>(plan.window_bytes * 8 >> (8 * i));
    }
    std::memcpy(plan.keep, keep, sizeof keep);
    std::memcpy(plan.pad, pad, sizeof pad);
    if (!is_big_endian) return;
    for (u32 i = 0; i < 16; ++i) {
        for (u32 block = 0; block < 2; ++block) {
            plan.keep[block][i] = byte_swap(plan.keep[block][i]);
            plan.pad[block][i] = byte_swap(plan.pad[block][i]);
        }
    }
}

/// Hashes windows [first, last) as messages.
void hash_as_messages(const Windows& windows, Bytes data, u64 first, u64 last,
                      const WindowOutput& output) {
    const u32 size = digest_bytes(windows.algorithm);
    std::vector<Bytes> messages;
    for (u64 i = first; i < last; ++i)
        messages.push_back(data.subspan(i * windows.stride_bytes, windows.window_bytes));
    std::vector<u8> digests(messages.size() * size);
    hash_on_cpu(windows.algorithm, Pieces(messages), {}, digests.data(), {.threads = 1});
    if (output.kept_bytes == 0) {
        std::fill_n(output.bitmap + first / 64, (last - first + 63) / 64, u64{0});
    }
    for (u64 i = first; i < last; ++i) {
        const u8* digest = digests.data() + (i - first) * size;
        if (output.kept_bytes != 0) {
            std::copy_n(digest, output.kept_bytes, output.digests + i * output.kept_bytes);
            continue;
        }
        u32 end;
        std::memcpy(&end, digest + size - 4, 4);
        const bool is_match = (byte_swap(end) & output.match_mask) == 0;
        output.bitmap[i / 64] |= u64{is_match} << i % 64;
    }
}

void run_on_cpu(const Windows& windows, Bytes data, const WindowOutput& output,
                const Options& options) {
    const u64 count = window_count(windows, data.size());
    WindowPlan plan;
    if (has_lanes(windows.algorithm)) plan = plan_windows(windows, data.size());
    // Hashing a window costs as much as its padded blocks.
    const u64 work_bytes = count * (windows.window_bytes / block_bytes + 1) * block_bytes;
    Counter counter(count, share_windows);
    run_once(threads_for(options, work_bytes), [&](u32) {
        for (u64 first = 0, last = 0; counter.take(first, last);) {
            if (!has_lanes(windows.algorithm)) {
                hash_as_messages(windows, data, first, last, output);
                continue;
            }
            widest_lanes().windows[static_cast<u32>(windows.algorithm)](
                plan, reinterpret_cast<const u8*>(data.data()), first, last - first, output);
        }
    });
}

Errc run_windows(const Windows& windows, Bytes data, const WindowOutput& output,
                 const Options& options, Stages* stages) {
    Stages taken;
    const u64 count = window_count(windows, data.size());
    if (count != 0) {
        const u64 output_bytes = output.kept_bytes == 0 ? count / 8 : count * output.kept_bytes;
        const Choice choice = choose(windows, data, output_bytes, options);
        WARREN_TRY(choice.code);
        Errc code = Errc::ok;
        if (choice.processor == Processor::gpu) {
            code = hash_windows_on_device(windows, data, output, taken);
        }
        if (choice.processor == Processor::cpu || code == Errc::no_memory ||
            code == Errc::not_supported) {
            const Stopwatch clock;
            run_on_cpu(windows, data, output, options);
            taken = {};
            taken.kernel = taken.total = clock.seconds();
            if (code == Errc::no_memory) {
                taken.note = "the GPU has too little memory: the CPU did the work";
            } else if (code == Errc::not_supported) {
                taken.note = "such long windows or strides are the CPU's: they fit no slot";
            }
            code = Errc::ok;
        }
        WARREN_TRY(code);
        taken.predicted = choice.predicted;
    }
    if (stages != nullptr) *stages = taken;
    return Errc::ok;
}

}  // namespace

WindowPlan plan_windows(const Windows& windows, u64 data_bytes) {
    WindowPlan plan;
    plan.data_bytes = data_bytes;
    plan.window_bytes = windows.window_bytes;
    plan.stride_bytes = windows.stride_bytes;
    plan.full_blocks = windows.window_bytes / block_bytes;
    plan.blocks = (windows.window_bytes + 8) / block_bytes + 1;
    plan_padding(plan, windows.algorithm != Algorithm::md5);
    return plan;
}

Errc hash_windows(const Windows& windows, Bytes data, u32 kept_bytes, std::span<u8> output,
                  const Options& options, Stages* stages) {
    if (windows.window_bytes == 0 || windows.stride_bytes == 0) return Errc::invalid;
    if (kept_bytes == 0 || kept_bytes > digest_bytes(windows.algorithm)) return Errc::invalid;
    const u64 count = window_count(windows, data.size());
    if (output.size() / kept_bytes != count || output.size() % kept_bytes != 0) {
        return Errc::invalid;
    }
    return run_windows(windows, data, {.digests = output.data(), .kept_bytes = kept_bytes}, options,
                       stages);
}

Errc match_windows(const Windows& windows, Bytes data, u32 zero_bits, std::span<u64> bitmap,
                   const Options& options, Stages* stages) {
    if (windows.window_bytes == 0 || windows.stride_bytes == 0) return Errc::invalid;
    if (zero_bits == 0 || zero_bits > 32) return Errc::invalid;
    const u64 count = window_count(windows, data.size());
    if (bitmap.size() != (count + 63) / 64) return Errc::invalid;
    return run_windows(windows, data,
                       {.bitmap = bitmap.data(), .match_mask = ~u32{0} >> (32 - zero_bits)},
                       options, stages);
}

}  // namespace warren::hash
