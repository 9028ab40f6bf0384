// SPDX-License-Identifier: Apache-2.0
// The model predicts the time for bytes in memory. Reading the files takes either processor the
// same time, so it does not affect the choice.
#include "apps/warren/hash_choice.hpp"

#include <algorithm>
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

/// Totals for the files of one algorithm.
struct Share {
    u64 bytes = 0;
    u64 gathered_bytes = 0;  // of files that a GPU gets in batches
    u64 whole_bytes = 0;     // of files that a GPU gets one at a time
    u64 whole_files = 0;

    u64 batches() const { return (gathered_bytes + batch_bytes_for_gpu - 1) / batch_bytes_for_gpu; }
    /// Of sequential streams, which only the CPU can hash.
    u64 other_bytes() const { return bytes - gathered_bytes - whole_bytes; }
};

using Shares = std::array<Share, std::size(hash::all_algorithms)>;

/// The totals for each algorithm; --check may have several.
Shares share_out(const HashJobs& jobs, const HashOptions& options) {
    Shares shares;
    for (const hash::Algorithm algorithm : hash::all_algorithms) {
        const HashShare& listed = jobs.share(algorithm);
        const bool is_whole = options.direct_piece_bytes != 0;
        shares[static_cast<u32>(algorithm)] = {
            .bytes = listed.bytes,
            .gathered_bytes = is_whole ? 0 : listed.small_bytes,
            .whole_bytes = is_whole ? listed.bytes : listed.tree_bytes,
            .whole_files = is_whole ? listed.files : listed.tree_files,
        };
    }
    return shares;
}

hash::Prediction predict(const Shares& shares) {
    hash::Prediction sum;
    for (const hash::Algorithm algorithm : hash::all_algorithms) {
        const Share& share = shares[static_cast<u32>(algorithm)];
        if (share.bytes != 0) sum.cpu_seconds += hash::predict_on_cpu(algorithm, share.bytes);
    }
    if (!hash::is_worth_a_gpu(sum.cpu_seconds) || !hash::has_gpu()) return sum;
    for (const hash::Algorithm algorithm : hash::all_algorithms) {
        const Share& share = shares[static_cast<u32>(algorithm)];
        if (share.bytes == 0) continue;
        const hash::Prediction many =
            hash::predict(algorithm, share.gathered_bytes, share.batches());
        const hash::Prediction whole =
            hash::predict(algorithm, share.whole_bytes, share.whole_files, false);
        sum.gpu_seconds += many.gpu_seconds + whole.gpu_seconds +
                           hash::predict_on_cpu(algorithm, share.other_bytes());
        sum.startup_seconds = std::max(many.startup_seconds, whole.startup_seconds);
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

std::vector<std::string_view> algorithm_choices() {
    std::vector<std::string_view> names;
    for (const hash::Algorithm algorithm : hash::all_algorithms)
        names.push_back(hash::name(algorithm));
    return names;
}

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
        remark({program(), ": ", long_size(bytes), ": the CPU, since a GPU is considered from ",
                long_size(least_bytes_for_model), " on"});
    } else if (prediction.gpu_seconds == 0 && !hash::is_worth_a_gpu(prediction.cpu_seconds)) {
        remark({program(), ": ", long_size(bytes), ": predicted ", seconds(prediction.cpu_seconds),
                " on the CPU, less than the start of a GPU takes: the CPU"});
    } else if (prediction.gpu_seconds == 0) {
        remark({program(), ": ", long_size(bytes), ": the CPU, since there is no GPU"});
    } else {
        remark({program(), ": ", long_size(bytes), ": predicted ", seconds(prediction.cpu_seconds),
                " on the CPU, ", seconds(prediction.gpu_seconds), " on the GPU, which took ",
                seconds(prediction.startup_seconds), " to start: the ", is_gpu ? "GPU" : "CPU"});
    }
}

Errc hash_by_choice(HashJobs& jobs, HashOptions options, bool is_verbose, const HashDone& done) {
    if (options.processor == hash::Processor::automatic) {
        u64 bytes = 0;
        for (const hash::Algorithm algorithm : hash::all_algorithms)
            bytes += jobs.share(algorithm).bytes;
        hash::Prediction prediction;
        if (bytes >= least_bytes_for_model) prediction = predict(share_out(jobs, options));
        const bool is_gpu =
            prediction.gpu_seconds != 0 && prediction.gpu_seconds < prediction.cpu_seconds;
        options.processor = is_gpu ? hash::Processor::gpu : hash::Processor::cpu;
        if (is_verbose) tell_choice(bytes, prediction, options.processor);
    }
    GpuWork work;
    const Errc code = hash_files(jobs, options, done, work);
    if (is_verbose && work.bytes != 0) tell_work(work);
    if (work.stages.note != nullptr && (is_verbose || options.processor == hash::Processor::gpu))
        remark({program(), ": ", work.stages.note});
    return code;
}

}  // namespace warren::cli
