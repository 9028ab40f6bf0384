// SPDX-License-Identifier: Apache-2.0
// StoreGPU's equation 1 as a predictor: the time of a call is the sum of its stages' times, or with
// overlap the longest stage's and one slot's way through the others. Rates are measured on this
// machine; the prediction chooses between CPU and GPU and is printed beside what was measured.
#pragma once

#include "warren/hash.hpp"

namespace warren::hash {

/// Bytes a second: of input for staging and copy_in, of what the digest takes in for kernel,
/// windows and cpu, of output for copy_out and finish. 0: not measured.
struct Rates {
    double startup_seconds = 0;  // that the process's first call took beyond what a later one does
    double initialise_seconds = 0;  // of what is still to be done
    double turn_seconds = 0;        // of a slot, whatever it holds
    double waking_seconds = 0;      // until the threads that fill slots are at it, once a call
    double staging = 0;             // pageable memory to pinned slots
    double gathering = 0;           // the same of a list of pieces of some KiB
    double copy_in = 0;
    double copy_in_beside = 0;  // while slots are filled, which takes from the same memory
    double kernel = 0;
    double windows = 0;  // the kernel's for sliding windows, which keep a GPU busier
    double copy_out = 0;
    double finish = 0;              // of output, into the caller's memory
    double cpu = 0;                 // all threads
    double cpu_waking_seconds = 0;  // until those threads are at it, once a call
};

struct Load {
    u64 input_bytes = 0;
    u64 work_bytes = 0;  // that the digest takes in: more than the input for sliding windows
    u64 output_bytes = 0;
    u64 slot_bytes = 0;
    bool are_windows = false;
    bool is_staged = false;    // the input is in pageable memory
    bool is_gathered = false;  // the input is a list of pieces, wherever they are
    bool overlaps = true;
};

/// A call that was measured: how much it was, and how long each stage was busy.
struct Sample {
    u64 input_bytes = 0;
    u64 output_bytes = 0;
    Stages stages;
};

/// The measurements on one machine from which the rates are computed.
struct Calibration {
    double first_seconds = 0;  // of the very first call, as small as `small`
    Sample small;
    Sample pinned;
    Sample pageable;
    Sample shorter;  // of pageable memory too
    Sample list;
    Sample outputs;  // windows with digests: as much output as input
};

/// The rates that fit the measurements; without those of `windows` and of the CPU.
Rates fit_rates(const Calibration& calibration);

/// Seconds on the GPU.
double predict_device(const Rates& rates, const Load& load);

/// Seconds on the CPU.
double predict_cpu(const Rates& rates, const Load& load);

}  // namespace warren::hash
