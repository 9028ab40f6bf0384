// SPDX-License-Identifier: Apache-2.0
// Contents of files: where data are, and blocks that come and go. The data themselves are the
// host's: what must be written stands in the reply.
// One of the groups of fs/engine/cuda/launch/operations_warp.hpp.
//
// Invariant: nothing here but the instantiation; what a verb does is in fs/ops/.
#include "fs/engine/cuda/launch/operations_warp.hpp"
#include "fs/ops/execute.hpp"

namespace warren::cuda_engine {

__device__ Errc attempt_contents(WarpOperation& op, const ops::Command& command,
                                 ops::Reply& reply) {
    return ops::execute_contents(op, command, reply, ops::PieceRecorder{reply});
}

}  // namespace warren::cuda_engine
