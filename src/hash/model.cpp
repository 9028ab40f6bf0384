// SPDX-License-Identifier: Apache-2.0
// The terms of the equation by their names in the paper: initialise is T_GPUInit and T_MemAlloc,
// staging T_PreProc, copy_in T_DataHtoG, kernel the sum over DataSize / (N * SMSize), copy_out
// T_DataGtoH, finish T_PostProc.
#include "hash/model.hpp"

#include <algorithm>

namespace warren::hash {
namespace {

double time_of(u64 bytes, double rate) {
    return rate == 0 ? 0 : static_cast<double>(bytes) / rate;
}

/// Returns 0 if nothing was measured; time_of() then returns no time.
double rate_of(u64 bytes, double seconds) {
    return seconds > 0 ? static_cast<double>(bytes) / seconds : 0;
}

/// Fits the rate and the start-up time of filling slots to two measurements.
void fit_staging(const Sample& shorter, const Sample& longer, Rates& rates) {
    rates.staging = rate_of(longer.input_bytes, longer.stages.staging);
    if (shorter.input_bytes == 0 || shorter.input_bytes >= longer.input_bytes) return;
    const double slope = rate_of(longer.input_bytes - shorter.input_bytes,
                                 longer.stages.staging - shorter.stages.staging);
    const double start = longer.stages.staging - time_of(longer.input_bytes, slope);
    // A negative start-up time means that both measurements were too short.
    if (slope == 0 || start < 0) return;
    rates.staging = slope;
    rates.waking_seconds = start;
}

}  // namespace

double predict_device(const Rates& rates, const Load& load) {
    const double turns = std::max(1.0, static_cast<double>(load.input_bytes) /
                                           static_cast<double>(std::max<u64>(load.slot_bytes, 1)));
    double filling = load.is_staged ? rates.staging : 0;
    if (load.is_gathered) filling = rates.gathering != 0 ? rates.gathering : rates.staging;
    const double stages[] = {
        // Both run on the calling thread, so they never overlap.
        time_of(load.input_bytes, filling) + time_of(load.output_bytes, rates.finish) +
            (filling != 0 ? rates.waking_seconds : 0),
        time_of(load.input_bytes,
                filling != 0 && rates.copy_in_beside != 0 ? rates.copy_in_beside : rates.copy_in),
        time_of(load.work_bytes, load.are_windows ? rates.windows : rates.kernel),
        time_of(load.output_bytes, rates.copy_out),
    };
    double sum = 0;
    double longest = 0;
    for (const double stage : stages) {
        sum += stage;
        longest = std::max(longest, stage);
    }
    const double fixed = rates.initialise_seconds + rates.turn_seconds;
    if (!load.overlaps) return fixed + sum + (turns - 1) * rates.turn_seconds;
    // The first slot passes through every stage; after that only the longest stage matters.
    return fixed + longest + (sum - longest) / turns;
}

Rates fit_rates(const Calibration& calibration) {
    const Sample& pinned = calibration.pinned;
    const Sample& outputs = calibration.outputs.output_bytes != 0 ? calibration.outputs : pinned;
    Rates rates;
    rates.turn_seconds = calibration.small.stages.total;
    rates.startup_seconds = std::max(0.0, calibration.first_seconds - rates.turn_seconds);
    rates.copy_in = rate_of(pinned.input_bytes, pinned.stages.copy_in);
    rates.kernel = rate_of(pinned.input_bytes, pinned.stages.kernel);
    rates.copy_out = rate_of(outputs.output_bytes, outputs.stages.copy_out);
    rates.finish = rate_of(outputs.output_bytes, outputs.stages.finish);
    const Sample& pageable = calibration.pageable;
    fit_staging(calibration.shorter, pageable, rates);
    rates.copy_in_beside =
        rate_of(pageable.input_bytes, pageable.stages.copy_in - pageable.stages.staging);
    rates.gathering = rate_of(calibration.list.input_bytes,
                              calibration.list.stages.staging - rates.waking_seconds);
    return rates;
}

double predict_cpu(const Rates& rates, const Load& load) {
    return rates.cpu_waking_seconds + time_of(load.work_bytes, rates.cpu);
}

}  // namespace warren::hash
