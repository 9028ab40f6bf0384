// SPDX-License-Identifier: Apache-2.0
// An error that this thread has seen is reported rather than the one that stopped the server.
#include "fs/engine/cuda/engine_loss.hpp"

#include "fs/engine/cuda/server/server_fault.hpp"

namespace warren::cuda_engine {

Errc EngineLoss::answer(Errc code) {
    if (code == Errc::ok || code == Errc::no_memory || code == Errc::no_space) return code;
    if (!is_final(code)) return code;  // a retry reason
    if (is_lost_.exchange(true, std::memory_order_relaxed)) return Errc::io;
    std::string reason = loss_reason();
    if (reason.empty()) reason = server_loss_();
    report_(reason);
    return Errc::io;
}

}  // namespace warren::cuda_engine
