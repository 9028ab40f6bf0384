// SPDX-License-Identifier: Apache-2.0
// Records which WARREN_CHECK failed on the device. The trap that follows destroys the CUDA context,
// so the device first writes the record to host memory, which survives it.
//
// Invariant: only the first fault on a device is recorded, not its consequences.
#pragma once

#include <string>

#include "warren/result.hpp"

namespace warren::cuda_engine {

struct FaultRecord {
    u32 is_set = 0;
    i32 line = 0;
    char what[116] = {};
    char file[116] = {};
};

/// Allocates the record of the current device and tells the device where it is. Call before kernels
/// run; calls after the first do nothing. After an error see gpu::last_failure().
Errc prepare_fault_record();

/// The record of the current device; null if no check has failed there.
const FaultRecord* fault_record();
/// Why the current device is lost, as far as this thread knows: a failed check, which makes later
/// calls fail, or else the message of gpu::last_failure().
std::string loss_reason();

/// Fails a check on the device on purpose, for tests. The device is lost afterwards.
Errc break_invariant();

}  // namespace warren::cuda_engine
