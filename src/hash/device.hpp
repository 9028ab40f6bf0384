// SPDX-License-Identifier: Apache-2.0
// The library's interface to the GPU. In a build without CUDA, or on a machine without a GPU, it
// reports that there is none.
#pragma once

#include "hash/model.hpp"
#include "hash/pieces.hpp"
#include "hash/windows.hpp"

namespace warren::hash {

/// Optimisations that a benchmark can switch off to measure them.
struct DeviceSettings {
    u64 slot_bytes = 32 * mib;
    bool overlaps = true;            // copies and kernels of several slots at once
    bool stages_pageable = true;     // pageable memory goes through pinned slots, not the driver's
    bool uses_shared_memory = true;  // windows of a block are copied there first
};

/// Applies to all calls that begin afterwards, in the whole process.
Errc set_device_settings(const DeviceSettings& settings);

/// Whether this program can use a GPU here. Asked of the driver once.
bool has_device();

/// Whether the GPU copies from this address at full speed.
bool is_pinned(const void* at);

/// As hash_on_cpu(), on the GPU. Pieces too long for a slot of the pipeline are the CPU's work, and
/// so is one piece alone, but for BLAKE3's tree over more than a slot; `stages` has a note of it.
/// Errc::no_memory if the device has too little.
Errc hash_on_device(Algorithm algorithm, const Pieces& pieces, const Beginning& beginning,
                    u8* digests, const Options& options, Stages& stages);

/// All windows of `data`, on the GPU. Requires: MD5, SHA-1 or SHA-256, and there are windows.
Errc hash_windows_on_device(const Windows& windows, Bytes data, const WindowOutput& output,
                            Stages& stages);

/// Seconds that the first use of a GPU takes, as assumed; 0 once this process uses it, and in a
/// build without CUDA. Asks no driver.
double startup_left_seconds();

/// Measures what the GPU can do.
Errc measure_device(Algorithm algorithm, Rates& rates);

}  // namespace warren::hash
