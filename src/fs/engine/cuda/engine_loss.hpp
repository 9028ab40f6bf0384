// SPDX-License-Identifier: Apache-2.0
// Whether the device of a CUDA engine is lost: who finds that out tells people why, once, and from
// then on every caller gets Errc::io.
//
// Invariant: once lost, lost for good.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "base/out_of_memory.hpp"
#include "gpu/device.hpp"

namespace warren::cuda_engine {

class EngineLoss {
 public:
    /// `report` gets the message; without one it goes to the standard error stream. `server_loss`
    /// says why the server has stopped, if it has.
    EngineLoss(std::function<void(const std::string&)> report,
               std::function<std::string()> server_loss)
        : report_(std::move(report)), server_loss_(std::move(server_loss)) {}

    void set_device(int index) { device_ = index; }
    bool is_lost() const { return is_lost_.load(std::memory_order_relaxed); }
    /// Lets the calling thread use the device, unless that is lost.
    Errc enter_device() const { return is_lost() ? Errc::io : gpu::use_device(device_); }
    /// What `body()` answers; Errc::io once the device is lost, Errc::no_memory where the host's
    /// memory runs out.
    template <class Body>
    Errc unless_lost(const Body& body) const {
        return is_lost() ? Errc::io : or_no_memory(body);
    }
    /// The answer for a caller whose work on the device ended with `code`: what is neither a
    /// retry_reason nor want of room means that the device is lost. By any thread.
    Errc answer(Errc code);

 private:
    const std::function<void(const std::string&)> report_;
    const std::function<std::string()> server_loss_;
    int device_ = 0;
    std::atomic<bool> is_lost_{false};
};

}  // namespace warren::cuda_engine
