// SPDX-License-Identifier: Apache-2.0
// A scan holds a version of the replica while its kernels run, and not while visitors run. Whatever
// goes wrong before the first visitor is called is left to the CPU: visitors are called last.
//
// Invariant: after an error of the device, or if its memory is used up, the replica is given up for
// as long as the volume is open.
#include "fs/engine/cuda/replica/device_replica.hpp"

#include <atomic>
#include <vector>

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
    ScanHost(const ScanCall& call, std::shared_lock<FairLock>& hold, bool& has_visited)
        : call_(call), hold_(hold), has_visited_(has_visited) {}

    Errc bring(const std::vector<u64>& /*places*/) override { return Errc::not_supported; }
    Errc commit() override { return Errc::not_supported; }
    bool visits_last() const override { return true; }
    Errc let_go(const std::function<Errc()>& call) override {
        if (call_.visit != nullptr) {
            has_visited_ = true;
            hold_.unlock();
        }
        return call();
    }

 private:
    const ScanCall& call_;
    std::shared_lock<FairLock>& hold_;
    bool& has_visited_;
};

class DeviceReplica final : public ReplicaScans {
 public:
    explicit DeviceReplica(const ReplicaOptions& options) : options_(options) {}

    Errc open(const core::Store& store, std::string& failure);

    Errc scan(const ScanCall& call) override;
    std::string name() const override { return info_.name; }
    ReplicaScanCounts counts() const override {
        return {answered_.load(std::memory_order_relaxed), left_.load(std::memory_order_relaxed)};
    }

 private:
    Errc open_on_device(const core::Store& store);
    Errc scan_image(const ScanCall& call);
    void give_up();

    const ReplicaOptions options_;
    gpu::DeviceInfo info_;
    std::unique_ptr<Replica> replica_;
    cuda_engine::TreeReading reading_;
    std::atomic<bool> is_given_up_{false};
    std::atomic<u64> answered_{0};
    std::atomic<u64> left_{0};
};

Errc DeviceReplica::open_on_device(const core::Store& store) {
    WARREN_TRY(gpu::describe_device(0, info_));
    if (!info_.has_virtual_memory) {
        return gpu::fail(Errc::not_supported, info_.name + " has no virtual memory management");
    }
    WARREN_TRY(cuda_engine::prepare_fault_record());
    auto image = std::make_unique<DeviceImage>();
    WARREN_TRY(image->open(store, info_.index, options_.device_bytes));
    const Errc prepared = options_.prepare();
    if (prepared != Errc::ok) return gpu::fail(prepared, "there is not enough memory");
    replica_ =
        std::make_unique<Replica>(store, std::move(image), options_.freeze, options_.for_each);
    return replica_->refresh();
}

Errc DeviceReplica::open(const core::Store& store, std::string& failure) {
    if (gpu::device_count() == 0) {
        failure = "this machine has no GPU that CUDA can use";
        return Errc::no_device;
    }
    const Errc opened = or_no_memory([&] { return open_on_device(store); });
    if (opened != Errc::ok) failure = reason_of_failure();
    return opened;
}

void DeviceReplica::give_up() {
    if (is_given_up_.exchange(true, std::memory_order_relaxed)) return;
    options_.report("the GPU beside the CPU engine is not used any more (" + reason_of_failure() +
                    "); the CPU does all work");
}

Errc DeviceReplica::scan(const ScanCall& call) {
    const Errc code = scan_image(call);
    (code == Errc::not_supported ? left_ : answered_).fetch_add(1, std::memory_order_relaxed);
    return code;
}

Errc DeviceReplica::scan_image(const ScanCall& call) {
    if (is_given_up_.load(std::memory_order_relaxed)) return Errc::not_supported;
    bool has_visited = false;
    std::vector<DirectoryUsage> before;
    if (call.usage != nullptr) before = *call.usage;
    const Errc code = or_no_memory([&] {
        return replica_->read([&](const core::Store& image, std::shared_lock<FairLock>& hold) {
            WARREN_TRY(gpu::use_device(info_.index));
            ScanHost host(call, hold, has_visited);
            return reading_.scan(image, host, call);
        });
    });
    if (code == Errc::ok || has_visited) return code;
    if (code == Errc::io || code == Errc::no_memory || !reading_.is_sound()) give_up();
    if (call.usage != nullptr) call.usage->swap(before);
    return Errc::not_supported;
}

}  // namespace

std::unique_ptr<ReplicaScans> make_device_replica(const core::Store& store,
                                                  const ReplicaOptions& options,
                                                  std::string& failure) {
    auto replica = std::make_unique<DeviceReplica>(options);
    if (replica->open(store, failure) != Errc::ok) return nullptr;
    return replica;
}

}  // namespace warren
