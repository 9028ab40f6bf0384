// SPDX-License-Identifier: Apache-2.0
// Trees that hang on the orphan directory of a volume in memory, ready to be freed by kernels or by
// the CPU's tasks: what programs share that measure the removal itself.
//
// Invariant: the tree of a scenario is the same in every volume and for every run.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/support/memory_volume.hpp"
#include "bench/support/places.hpp"
#include "bench/support/report.hpp"
#include "fs/engine/cuda/launch/tree_removal.hpp"
#include "fs/engine/cuda/store/device_store.hpp"
#include "fs/ops/remove_tree.hpp"
#include "fs/volume/tree_remover.hpp"
#include "fs/volume/volume_implementation.hpp"
#include "gpu/failure.hpp"

namespace warren::bench {

struct RemovalScenario {
    std::string label;
    double items;
    double must_ms;
    u64 size_bytes;
    std::function<void(Volume&, Handle)> build;
    bool has_one_tree = false;
};

/// No request of a step is served here: all is resident, and there is room.
class IdleHost : public cuda_engine::BulkHost {
 public:
    Errc bring(const std::vector<u64>& /*places*/) override { return Errc::io; }
    Errc commit() override { return Errc::io; }
};

/// A volume in memory whose tree is linked in the orphan directory.
class DetachedTree {
 public:
    DetachedTree(const RemovalScenario& scenario, u64 trees) : volume_(scenario.size_bytes) {
        for (u64 tree = 0; tree < trees; ++tree)
            add_tree(scenario, "tree" + std::to_string(tree));
        require(volume_->sync() == Errc::ok, "cannot sync");
    }

    const core::Store& store() const { return volume_.store(); }
    u64 root(u64 tree) const { return roots_[tree % roots_.size()]; }
    u64 count() const { return roots_.size(); }

    double remove_by_cpu(u64 tree) {
        Removal removal;
        return time_of([&] {
            require(TreeRemover(volume_.inside(), {}).remove(root(tree), removal) == Errc::ok,
                    "the CPU engine failed");
        });
    }

 private:
    void add_tree(const RemovalScenario& scenario, const std::string& name) {
        scenario.build(*volume_, add_entry(*volume_, volume_->root(), name, directory_mode));
        const core::Credentials anyone{.check = false};
        const Result<Handle> detached = volume_.inside().run([&](CpuOperation& op) {
            return ops::detach_tree(op, anyone, volume_->root(), name.data(),
                                    static_cast<u32>(name.size()), now_nanoseconds());
        });
        require(bool(detached), "cannot detach the tree");
        roots_.push_back(detached->inode);
    }

    MemoryVolume volume_;
    std::vector<u64> roots_;
};

struct RemovalTimes {
    double host = 0;
    double kernels = 0;
    double end = 0;
};

inline RemovalTimes remove_by_gpu(const cuda_engine::DeviceStore& device, u64 root,
                                  cuda_engine::TreeRemoval& removal, double items) {
    IdleHost host;
    Removal removed;
    RemovalTimes times;
    Errc code = Errc::ok;
    times.host = time_of([&] { code = removal.remove(device.store(), root, host, removed); });
    require(code == Errc::ok, "removal failed: " + std::to_string(static_cast<int>(code)) + " " +
                                  gpu::last_failure().message);
    const cuda_engine::RemovalTimes& moments = removal.times();
    times.kernels = static_cast<double>(moments.ended - moments.begun) * 1e-9;
    times.end = static_cast<double>(moments.ended - moments.reclaimed) * 1e-9;
    const double gone = static_cast<double>(removed.files + removed.directories);
    require(gone == items, "counted " + std::to_string(gone));
    return times;
}

inline void upload(DetachedTree& trees, std::unique_ptr<cuda_engine::DeviceStore>& device) {
    device = nullptr;
    device = std::make_unique<cuda_engine::DeviceStore>();
    require(device->open(trees.store()) == Errc::ok,
            "cannot upload: " + gpu::last_failure().message);
}

}  // namespace warren::bench
