// SPDX-License-Identifier: Apache-2.0
// Where an invariant broke on the device. A trap ends all of the device's work and its context, so
// the device first leaves word in the host's memory, which outlives both.
//
// Invariant: the first fault of a process is kept; those that follow from it are not.
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

/// Gives the device a place for its word. To be called before kernels run; calls after the first
/// do nothing. Errc::io without a device.
Errc prepare_fault_record();

/// What the device left; null if no invariant broke there.
const FaultRecord* fault_record();
/// The same as a text for people; empty if no invariant broke.
std::string broken_invariant();

/// Breaks an invariant on the device on purpose, for tests of what follows. The device is lost
/// then.
Errc break_invariant();

}  // namespace warren::cuda_engine
