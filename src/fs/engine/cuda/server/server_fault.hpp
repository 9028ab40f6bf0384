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
/// run; calls after the first do nothing. Errc::io without a device.
Errc prepare_fault_record();

/// The record of the current device; null if no check has failed there.
const FaultRecord* fault_record();
/// The record as a message; empty if no check has failed.
std::string broken_invariant();

/// Fails a check on the device on purpose, for tests. The device is lost afterwards.
Errc break_invariant();

}  // namespace warren::cuda_engine
