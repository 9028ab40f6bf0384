// SPDX-License-Identifier: Apache-2.0
// The library's interface to the GPU. In a build without CUDA, and on a machine without a GPU, it
// reports that there is none.
#pragma once

#include "hash/model.hpp"
#include "hash/pieces.hpp"
#include "hash/windows.hpp"

namespace warren::hash {

/// Optimizations that a benchmark can switch off to measure their effect.
struct DeviceSettings {
    u64 slot_bytes = 32 * mib;
    bool overlaps = true;            // copies and kernels of several slots run at once
    bool stages_pageable = true;     // copy pageable memory through pinned slots
    bool uses_shared_memory = true;  // the windows of a block are copied there first
};

/// Sets the settings of all calls in this process that begin later.
Errc set_device_settings(const DeviceSettings& settings);

/// Whether this program can use a GPU on this machine. The driver is queried once.
bool has_device();

/// Whether the GPU copies from this address at full speed.
bool is_pinned(const void* at);

/// Like hash_on_cpu(), on the GPU. The CPU hashes pieces too long for a slot of the pipeline, and a
/// single piece, unless it is a BLAKE3 tree larger than a slot; `stages` then has a note.
/// Errc::no_memory if the device has too little memory.
Errc hash_on_device(Algorithm algorithm, const Pieces& pieces, const Beginning& beginning,
                    u8* digests, const Options& options, Stages& stages);

/// Hashes all windows of `data` on the GPU. Requires: MD5, SHA-1 or SHA-256, and at least one
/// window.
Errc hash_windows_on_device(const Windows& windows, Bytes data, const WindowOutput& output,
                            Stages& stages);

/// The assumed seconds that the first use of a GPU takes; 0 once this process uses it, and in a
/// build without CUDA. Does not call the driver.
double startup_left_seconds();

/// Measures the rates of the GPU.
Errc measure_device(Algorithm algorithm, Rates& rates);

}  // namespace warren::hash
