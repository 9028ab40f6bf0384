// SPDX-License-Identifier: Apache-2.0
// What `warren doctor` finds out, and its part about the GPU.
//
// Invariant: nothing that is examined can hold the command up for longer than `doctor_patience`
// without a word.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "apps/warren/measure.hpp"

namespace warren::cli {

/// How long doctor waits for an answer of what it examines.
inline constexpr std::chrono::seconds doctor_patience{5};

enum class State : u8 { good, note, bad };

struct Finding {
    State state = State::good;
    std::string subject;
    std::string detail;
};

struct GpuExamination {
    bool is_usable = false;  // the engine `auto` is cuda
    std::vector<Finding> findings;
};

/// Examines the GPU, and measures the CUDA engine on a volume in `directory` if that is wanted. All
/// of it happens in a child process: a GPU that never answers is left to it. Requires: no other
/// thread is running, and this process has not used the GPU.
GpuExamination examine_gpu(const std::string& directory, bool measure);

/// The findings of measurements on a volume with `engine`.
std::vector<Finding> measured_findings(const std::string& directory, EngineChoice engine);

}  // namespace warren::cli
