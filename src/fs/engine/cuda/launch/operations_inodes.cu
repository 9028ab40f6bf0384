// SPDX-License-Identifier: Apache-2.0
// Verbs for inodes: attributes, permissions, references.
// One of the groups of fs/engine/cuda/launch/operations_warp.hpp.
//
// Invariant: this file only instantiates templates; the verbs are implemented in fs/ops/.
#include "fs/engine/cuda/launch/operations_warp.hpp"
#include "fs/ops/execute.hpp"

namespace warren::cuda_engine {

__device__ Errc attempt_inodes(WarpOperation& op, const ops::Command& command, ops::Reply& reply) {
    return ops::execute_one_of<ops::inode_verbs>(op, command, reply);
}

}  // namespace warren::cuda_engine
