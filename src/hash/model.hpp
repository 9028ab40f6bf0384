// SPDX-License-Identifier: Apache-2.0
// StoreGPU's equation 1 as a predictor: the time of a call is the sum of the times of its stages,
// or with overlap that of the longest stage plus one slot's time in the others. Rates are measured
// on this machine. The prediction chooses between CPU and GPU, and is printed beside the measured
// time.
#pragma once

#include "warren/hash.hpp"

namespace warren::hash {

/// Bytes per second: of input for staging and copy_in, of hashed bytes for kernel, windows and cpu,
/// of output for copy_out and finish. 0: not measured.
struct Rates {
    double startup_seconds = 0;     // by which the process's first call exceeds a later one
    double initialise_seconds = 0;  // of the initialisation that is still to be done
    double turn_seconds = 0;        // per slot, whatever it contains
    double waking_seconds = 0;      // until the threads that fill slots run, per call
    double staging = 0;             // copying pageable memory to pinned slots
    double gathering = 0;           // the same for a list of pieces of some KiB
    double copy_in = 0;
    double copy_in_beside = 0;  // while slots are being filled, which uses the same memory
    double kernel = 0;
    double windows = 0;  // of the kernel for sliding windows, which use a GPU better
    double copy_out = 0;
    double finish = 0;              // copying output to the caller's memory
    double cpu = 0;                 // all threads
    double cpu_waking_seconds = 0;  // until those threads run, per call
};

struct Load {
    u64 input_bytes = 0;
    u64 work_bytes = 0;  // hashed bytes: more than the input for sliding windows
    u64 output_bytes = 0;
    u64 slot_bytes = 0;
    bool are_windows = false;
    bool is_staged = false;    // the input is in pageable memory
    bool is_gathered = false;  // the input is a list of pieces in any memory
    bool overlaps = true;
};

/// A measured call: its size, and how long each stage was busy.
struct Sample {
    u64 input_bytes = 0;
    u64 output_bytes = 0;
    Stages stages;
};

/// The measurements on one machine from which the rates are computed.
struct Calibration {
    double first_seconds = 0;  // of the very first call, which is as small as `small`
    Sample small;
    Sample pinned;
    Sample pageable;
    Sample shorter;  // of pageable memory too
    Sample list;
    Sample outputs;  // windows with digests: as much output as input
};

/// Computes the rates from the measurements, except `windows` and the rates of the CPU.
Rates fit_rates(const Calibration& calibration);

/// The predicted seconds on the GPU.
double predict_device(const Rates& rates, const Load& load);

/// The predicted seconds on the CPU.
double predict_cpu(const Rates& rates, const Load& load);

}  // namespace warren::hash
