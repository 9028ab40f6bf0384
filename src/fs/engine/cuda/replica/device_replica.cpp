// SPDX-License-Identifier: Apache-2.0
// The scans of a replica, by kernels. A scan is left to the CPU if metadata are missing on the
// device, if its results do not fit in one run, or if other scans have taken the memory.
//
// Invariant: the image and the memory of all scans are within one budget.
#include "fs/engine/cuda/replica/device_replica.hpp"

#include <utility>

#include "base/memory_budget.hpp"
#include "base/out_of_memory.hpp"
#include "fs/engine/cuda/launch/tree_reading.hpp"
#include "fs/engine/cuda/replica/device_image.hpp"
#include "fs/engine/cuda/server/server_fault.hpp"
#include "gpu/device.hpp"
#include "gpu/failure.hpp"

namespace warren {
namespace {

using cuda_engine::DeviceImage;

std::string reason_of_failure() {
    const std::string broken = cuda_engine::broken_invariant();
    return broken.empty() ? gpu::last_failure().message : broken;
}

/// What a scan asks of its engine. The metadata on the device are complete, or the CPU must scan.
class ScanHost final : public cuda_engine::BulkHost {
 public:
    ScanHost(const ScanCall& call, const std::function<void()>& begin_visits)
        : call_(call), begin_visits_(begin_visits) {}

    Errc bring(const std::vector<u64>& /*places*/) override { return Errc::not_supported; }
    Errc commit() override { return Errc::not_supported; }
    bool visits_last() const override { return true; }
    Errc let_go(const std::function<Errc()>& call) override {
        if (call_.visit != nullptr) begin_visits_();
        return call();
    }

 private:
    const ScanCall& call_;
    const std::function<void()>& begin_visits_;
};

class DeviceScanner final : public ImageScanner {
 public:
    explicit DeviceScanner(u64 device_bytes) : budget_(device_bytes) {
        budget_.on_shortage([this] { reading_.drop_idle(); });
    }

    Errc open() {
        WARREN_TRY(gpu::describe_device(0, info_));
        if (!info_.has_virtual_memory) {
            return gpu::fail(Errc::not_supported, info_.name + " has no virtual memory management");
        }
        return cuda_engine::prepare_fault_record();
    }
    int device() const { return info_.index; }
    /// For the image, too.
    MemoryBudget& budget() { return budget_; }

    Errc scan(const core::Store& image, const ScanCall& call,
              const std::function<void()>& begin_visits) override {
        WARREN_TRY(gpu::use_device(info_.index));
        ScanHost host(call, begin_visits);
        const Errc code = reading_.scan(image, host, call);
        return code == Errc::ok || reading_.is_sound() ? code : Errc::io;
    }
    std::string name() const override { return info_.name; }
    std::string failure() const override { return reason_of_failure(); }

 private:
    gpu::DeviceInfo info_;
    MemoryBudget budget_;
    cuda_engine::TreeReading reading_{cuda_engine::ScanShape{.budget = &budget_}};
};

Errc open_on_device(const core::Store& store, const ReplicaOptions& options,
                    std::unique_ptr<ReplicaScans>& replica) {
    auto scanner = std::make_unique<DeviceScanner>(options.device_bytes);
    WARREN_TRY(scanner->open());
    auto image = std::make_unique<DeviceImage>();
    WARREN_TRY(image->open(store, scanner->device(), &scanner->budget()));
    const Errc prepared = options.prepare();
    if (prepared != Errc::ok) return gpu::fail(prepared, "there is not enough memory");
    auto made =
        std::make_unique<ReplicaScans>(store, std::move(image), std::move(scanner), options);
    WARREN_TRY(made->load());
    replica = std::move(made);
    return Errc::ok;
}

}  // namespace

std::unique_ptr<ReplicaScans> make_device_replica(const core::Store& store,
                                                  const ReplicaOptions& options,
                                                  std::string& failure) {
    if (gpu::device_count() == 0) {
        failure = "this machine has no GPU that CUDA can use";
        return nullptr;
    }
    std::unique_ptr<ReplicaScans> replica;
    const Errc opened = or_no_memory([&] { return open_on_device(store, options, replica); });
    if (opened != Errc::ok) failure = reason_of_failure();
    return replica;
}

}  // namespace warren
