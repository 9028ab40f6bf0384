// SPDX-License-Identifier: Apache-2.0
// The scans, lookups, batches and rebuilds of a replica, by kernels. A scan is left to the CPU if
// metadata are missing on the device, if its results do not fit in one run, or if other readers
// have taken the memory; all else is if others have taken the memory.
//
// Invariant: the image and the memory of all its readers are within one budget.
#include "fs/engine/cuda/replica/device_replica.hpp"

#include <mutex>
#include <utility>

#include "base/idle_list.hpp"
#include "base/memory_budget.hpp"
#include "fs/engine/cuda/launch/lookup_slots.hpp"
#include "fs/engine/cuda/launch/tree_reading.hpp"
#include "fs/engine/cuda/replica/device_batch.hpp"
#include "fs/engine/cuda/replica/device_image.hpp"
#include "fs/engine/cuda/replica/device_rebuild.hpp"
#include "fs/engine/cuda/server/server_fault.hpp"
#include "gpu/device.hpp"
#include "gpu/failure.hpp"

namespace warren {
namespace {

using cuda_engine::DeviceBatch;
using cuda_engine::DeviceImage;
using cuda_engine::DeviceRebuild;

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

/// The stream of lookups, what it takes of the budget, and why the device has failed it.
struct DeviceLookups {
    explicit DeviceLookups(MemoryBudget& budget) : share(&budget) {}

    MemoryShare share;
    std::string failure;
    cuda_engine::EngineLoss loss{[this](const std::string& reason) { failure = reason; },
                                 [] { return std::string(); }};
    cuda_engine::LookupSlots slots{loss};
};

class DeviceReader final : public ImageReader {
 public:
    /// `device_bytes`: see ReplicaOptions.
    DeviceReader(u32 device, u64 device_bytes)
        : wanted_(device),
          budget_(device_bytes),
          batches_{{budget_, info_.index}, {budget_, info_.index}},
          rebuild_(budget_, info_.index) {
        budget_.on_shortage([this] { drop_idle(); });
    }

    Errc open() override {
        WARREN_TRY(gpu::choose_device(wanted_, info_));
        if (budget_.left() == 0) budget_.set(info_.memory_free_bytes / parts_of_free);
        return cuda_engine::prepare_fault_record();
    }
    int device() const { return info_.index; }
    /// For the image, too.
    MemoryBudget& budget() { return budget_; }

    Errc scan(const core::Store& image, const ScanCall& call,
              const std::function<void()>& begin_visits) override {
        const gpu::DeviceScope device(info_.index);
        WARREN_TRY(device.code());
        ScanHost host(call, begin_visits);
        const Errc code = reading_.scan(image, host, call);
        return code == Errc::ok || reading_.is_sound() ? code : Errc::io;
    }
    Errc look_up(const core::Credentials& caller, const WithImage& with_image,
                 const UseStream& use) override {
        const std::lock_guard turn(lookups_turn_);
        const gpu::DeviceScope device(info_.index);
        WARREN_TRY(device.code());
        std::unique_ptr<DeviceLookups> lookups;
        WARREN_TRY(take_lookups(lookups));
        const Errc code = with_image([&](const core::Store& image) {
            WARREN_TRY(lookups->slots.open(image, caller));
            use(lookups->slots);
            return lookups->loss.is_lost() ? gpu::fail(Errc::io, lookups->failure) : Errc::ok;
        });
        if (code == Errc::ok) idle_lookups_.keep(std::move(lookups));
        return code;
    }
    ImageBatch& batch(u32 number) override { return batches_[number]; }
    ImageRebuild& rebuild() override { return rebuild_; }
    std::string name() const override { return info_.name; }
    std::string failure() const override { return cuda_engine::loss_reason(); }
    void drop_idle() override {
        const gpu::DeviceScope device(info_.index);
        reading_.drop_idle();
        idle_lookups_.drop();
        for (DeviceBatch& batch : batches_)
            batch.drop_idle();
        rebuild_.drop_idle();
    }

 private:
    static constexpr u64 parts_of_free = 4;  // of which one is taken if nothing else was asked for

    Errc take_lookups(std::unique_ptr<DeviceLookups>& lookups) {
        lookups = idle_lookups_.take();
        if (lookups != nullptr) return Errc::ok;
        lookups = std::make_unique<DeviceLookups>(budget_);
        if (!lookups->share.grow(cuda_engine::LookupSlots::device_bytes())) {
            return gpu::fail(Errc::no_space,
                             "lookups find no room beside the copy of the metadata");
        }
        lookups->loss.set_device(info_.index);
        return lookups->slots.make_ready();
    }

    const u32 wanted_;
    gpu::DeviceInfo info_;
    MemoryBudget budget_;
    DeviceBatch batches_[2];
    DeviceRebuild rebuild_;
    std::mutex lookups_turn_;  // held while lookups run
    IdleList<DeviceLookups> idle_lookups_;
    cuda_engine::TreeReading reading_{cuda_engine::ScanShape{.budget = &budget_}};
};

}  // namespace

std::unique_ptr<ReplicaQueries> make_device_replica(const core::Store& store,
                                                    const ReplicaOptions& options) {
    auto reader = std::make_unique<DeviceReader>(options.device, options.device_bytes);
    ReplicaOptions on_device = options;
    on_device.make_memory = [&store, from = reader.get()](std::unique_ptr<ReplicaMemory>& memory) {
        auto image = std::make_unique<DeviceImage>();
        WARREN_TRY(image->open(store, from->device(), &from->budget()));
        memory = std::move(image);
        return Errc::ok;
    };
    return std::make_unique<ReplicaQueries>(store, std::move(reader), on_device);
}

}  // namespace warren
