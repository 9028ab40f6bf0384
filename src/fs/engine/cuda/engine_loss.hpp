// SPDX-License-Identifier: Apache-2.0
// Whether the device of a CUDA engine, or of a replica's lookups, is lost. The first thread that
// notices reports the reason; from then on every caller gets Errc::io.
//
// Invariant: a lost engine never works again.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "base/out_of_memory.hpp"
#include "gpu/device.hpp"

namespace warren::cuda_engine {

class EngineLoss {
 public:
    /// `report` receives the reason. `server_loss` returns why the server has stopped, or an empty
    /// string.
    EngineLoss(std::function<void(const std::string&)> report,
               std::function<std::string()> server_loss)
        : report_(std::move(report)), server_loss_(std::move(server_loss)) {}

    void set_device(int index) { device_ = index; }
    bool is_lost() const { return is_lost_.load(std::memory_order_relaxed); }
    /// Selects the device for the calling thread. Errc::io if the device is lost.
    gpu::DeviceScope enter_device() const {
        return is_lost() ? gpu::DeviceScope(Errc::io) : gpu::DeviceScope(device_);
    }
    /// Returns the result of `body()`, called with the device selected; Errc::io if the device is
    /// lost, Errc::no_memory if host memory runs out.
    template <class Body>
    Errc unless_lost(const Body& body) const {
        const gpu::DeviceScope device = enter_device();
        return device.code() == Errc::ok ? or_no_memory(body) : device.code();
    }
    /// As unless_lost(), and answer() for its result.
    template <class Body>
    Errc on_device(const Body& body) {
        return answer(unless_lost(body));
    }
    /// The result for a caller whose work on the device ended with `code`. A code that is neither
    /// ok, a retry reason, no_memory nor no_space means that the device is lost. Thread-safe.
    Errc answer(Errc code);

 private:
    const std::function<void(const std::string&)> report_;
    const std::function<std::string()> server_loss_;
    int device_ = 0;
    std::atomic<bool> is_lost_{false};
};

}  // namespace warren::cuda_engine
