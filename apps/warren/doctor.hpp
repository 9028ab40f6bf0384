// SPDX-License-Identifier: Apache-2.0
// The findings of `warren doctor`, and its examination of the GPU.
//
// Invariant: no examination blocks the command for longer than `doctor_patience` without being
// reported.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "apps/warren/measure.hpp"

namespace warren::cli {

/// How long doctor waits for an answer from what it examines.
inline constexpr std::chrono::seconds doctor_patience{5};

enum class State : u8 { good, note, bad };

struct Finding {
    State state = State::good;
    std::string subject;
    std::string detail;
};

struct GpuExamination {
    bool is_usable = false;  // the engine that `auto` selects is cuda
    std::vector<Finding> findings;
};

/// Examines the GPU and, if `measure` is set, measures the CUDA engine on a volume in `directory`.
/// All of this runs in a child process, so that a GPU that never answers blocks only the child.
/// Requires: no other thread is running, and this process has not used the GPU.
GpuExamination examine_gpu(const std::string& directory, bool measure);

/// Measures `engine` on a volume in `directory`.
std::vector<Finding> measured_findings(const std::string& directory, EngineChoice engine);

}  // namespace warren::cli
