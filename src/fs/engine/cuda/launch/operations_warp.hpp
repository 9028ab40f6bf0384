// SPDX-License-Identifier: Apache-2.0
// The operations of the volume for a warp: the same templates that the CPU engine runs,
// instantiated for WarpTeam. Each group of verbs is a .cu file of its own, so that the groups are
// compiled in parallel; the device linker combines them.
//
// Invariant: all lanes of a warp make these calls with equal values, and each has its own Reply.
#pragma once

#include "fs/core/operation.hpp"
#include "fs/ops/command.hpp"
#include "team/warp_team.hpp"

#if defined(__CUDACC__)

namespace warren::cuda_engine {

using WarpOperation = core::Operation<WarpTeam>;

// One attempt of a command of one group: see ops::execute().
__device__ Errc attempt_names(WarpOperation& op, const ops::Command& command, ops::Reply& reply);
__device__ Errc attempt_inodes(WarpOperation& op, const ops::Command& command, ops::Reply& reply);
__device__ Errc attempt_contents(WarpOperation& op, const ops::Command& command, ops::Reply& reply);
__device__ Errc attempt_parts(WarpOperation& op, const ops::Command& command, ops::Reply& reply);

/// Runs a command until it has a result or a retry reason that the warp cannot serve: the warp
/// itself tries again after lost races and splits or prunes trees. The pointers in the command are
/// device pointers. After many attempts the reply is Errc::retry.
__device__ void run_command(const WarpTeam& team, const core::Store& store,
                            const ops::Command& command, ops::Reply& reply);

}  // namespace warren::cuda_engine

#endif
