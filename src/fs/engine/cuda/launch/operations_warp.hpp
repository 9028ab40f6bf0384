// SPDX-License-Identifier: Apache-2.0
// The operations of the volume as a warp: the same templates that the CPU engine runs, instantiated
// for WarpTeam. A group of verbs is a .cu file of its own, so that the groups are compiled side by
// side; they meet when the device code is linked.
//
// Invariant: all lanes of a warp call with equal values, and each has a Reply of its own.
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

/// Runs a command until it has an answer that the warp cannot get past by itself: it tries again
/// after lost races and changes the structure of trees. The pointers in the command are the
/// device's. After many attempts the answer is Errc::retry.
__device__ void run_command(const WarpTeam& team, const core::Store& store,
                            const ops::Command& command, ops::Reply& reply);

}  // namespace warren::cuda_engine

#endif
