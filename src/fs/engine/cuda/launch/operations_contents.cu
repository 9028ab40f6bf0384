// SPDX-License-Identifier: Apache-2.0
// Verbs for contents of files: mapping, allocating and freeing blocks. The host reads and writes
// the data themselves; the reply says what must be written. One of the groups of
// fs/engine/cuda/launch/operations_warp.hpp.
//
// Invariant: this file only instantiates templates; the verbs are implemented in fs/ops/.
#include "fs/engine/cuda/launch/operations_warp.hpp"
#include "fs/ops/execute.hpp"

namespace warren::cuda_engine {

__device__ Errc attempt_contents(WarpOperation& op, const ops::Command& command,
                                 ops::Reply& reply) {
    return ops::execute_one_of<ops::content_verbs>(op, command, reply, ops::PieceRecorder{reply});
}

}  // namespace warren::cuda_engine
