// SPDX-License-Identifier: Apache-2.0
// The equation's terms by their names in the paper: initialise is T_GPUInit and T_MemAlloc, staging
// T_PreProc, copy_in T_DataHtoG, kernel the sum over DataSize / (N * SMSize), copy_out T_DataGtoH,
// finish T_PostProc.
#include "hash/model.hpp"

#include <algorithm>

namespace warren::hash {
namespace {

double time_of(u64 bytes, double rate) {
    return rate == 0 ? 0 : static_cast<double>(bytes) / rate;
}

}  // namespace

double predict_device(const Rates& rates, const Load& load) {
    const double turns = std::max(1.0, static_cast<double>(load.input_bytes) /
                                           static_cast<double>(std::max<u64>(load.slot_bytes, 1)));
    const double stages[] = {
        load.is_staged ? time_of(load.input_bytes, rates.staging) : 0,
        time_of(load.input_bytes, rates.copy_in),
        time_of(load.work_bytes, load.are_windows ? rates.windows : rates.kernel),
        time_of(load.output_bytes, rates.copy_out),
        time_of(load.output_bytes, rates.finish),
    };
    double sum = 0;
    double longest = 0;
    for (const double stage : stages) {
        sum += stage;
        longest = std::max(longest, stage);
    }
    const double fixed = rates.initialise_seconds + rates.turn_seconds;
    if (!load.overlaps) return fixed + sum + (turns - 1) * rates.turn_seconds;
    // The first slot passes through every stage before the longest one is all that counts.
    return fixed + longest + (sum - longest) / turns;
}

double predict_cpu(const Rates& rates, const Load& load) {
    return time_of(load.work_bytes, rates.cpu);
}

}  // namespace warren::hash
