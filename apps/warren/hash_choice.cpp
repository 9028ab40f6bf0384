// SPDX-License-Identifier: Apache-2.0
// The model knows of bytes in memory. Reading files takes as long for either, so it decides
// nothing.
#include "apps/warren/hash_choice.hpp"

#include <array>
#include <cstdio>

#include "apps/warren/engine_choice.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/units.hpp"

namespace warren::cli {

namespace {

std::string seconds(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3f s", value);
    return text;
}

/// Sums over the algorithms of a list, of which --check may have several.
hash::Prediction predict(const std::vector<HashJob>& jobs) {
    std::array<u64, std::size(hash::all_algorithms)> bytes{};
    for (const HashJob& job : jobs)
        bytes[static_cast<u32>(job.algorithm)] += job.bytes;
    hash::Prediction sum;
    for (const hash::Algorithm algorithm : hash::all_algorithms) {
        const u64 own = bytes[static_cast<u32>(algorithm)];
        if (own == 0) continue;
        const hash::Prediction one = hash::predict(algorithm, own);
        sum.cpu_seconds += one.cpu_seconds;
        sum.gpu_seconds += one.gpu_seconds;
    }
    return sum;
}

void tell_work(const GpuWork& work) {
    const hash::Stages& stages = work.stages;
    remark({program(), ": the GPU hashed ", long_size(work.bytes), ": initialise ",
            seconds(stages.initialise), ", copy in ", seconds(stages.copy_in), ", kernel ",
            seconds(stages.kernel), ", copy out ", seconds(stages.copy_out), ", finish ",
            seconds(stages.finish), "; waited ", seconds(stages.total)});
}

}  // namespace

bool choose_processor(hash::Processor& processor) {
    processor = hash::Processor::automatic;
    if (chosen_engine() == EngineChoice::cpu) processor = hash::Processor::cpu;
    if (chosen_engine() != EngineChoice::cuda) return true;
    processor = hash::Processor::gpu;
    if (hash::has_gpu()) return true;
    complain(
        {"--engine=cuda: there is no GPU that this program can use; 'warren doctor' says why"});
    return false;
}

void tell_choice(u64 bytes, const hash::Prediction& prediction, hash::Processor processor) {
    const bool is_gpu = processor == hash::Processor::gpu;
    if (bytes < least_bytes_for_model) {
        remark({program(), ": ", long_size(bytes), ": the CPU, for a GPU is asked from ",
                long_size(least_bytes_for_model), " on"});
    } else if (prediction.gpu_seconds == 0) {
        remark({program(), ": ", long_size(bytes), ": the CPU, for there is no GPU"});
    } else {
        remark({program(), ": ", long_size(bytes), ": predicted ", seconds(prediction.cpu_seconds),
                " on the CPU, ", seconds(prediction.gpu_seconds), " on the GPU: the ",
                is_gpu ? "GPU" : "CPU"});
    }
}

void hash_by_choice(const std::vector<HashJob>& jobs, HashOptions options, bool is_verbose,
                    const std::function<void(const HashJob&, const HashResult&)>& done) {
    if (options.processor == hash::Processor::automatic) {
        u64 bytes = 0;
        for (const HashJob& job : jobs)
            bytes += job.bytes;
        hash::Prediction prediction;
        if (bytes >= least_bytes_for_model) prediction = predict(jobs);
        const bool is_gpu =
            prediction.gpu_seconds != 0 && prediction.gpu_seconds < prediction.cpu_seconds;
        options.processor = is_gpu ? hash::Processor::gpu : hash::Processor::cpu;
        if (is_verbose) tell_choice(bytes, prediction, options.processor);
    }
    const GpuWork work = hash_files(jobs, options, done);
    if (is_verbose && work.bytes != 0) tell_work(work);
    if (work.stages.note != nullptr && (is_verbose || options.processor == hash::Processor::gpu))
        remark({program(), ": ", work.stages.note});
}

}  // namespace warren::cli
