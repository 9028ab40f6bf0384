// SPDX-License-Identifier: Apache-2.0
// Trees that hang on the orphan directory of a volume in memory, ready to be freed by kernels or by
// the CPU's tasks: what programs share that measure the removal itself.
//
// Invariant: the tree of a scenario is the same in every volume and for every run.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/support/places.hpp"
#include "bench/support/report.hpp"
#include "fs/disk/fault_disk.hpp"
#include "fs/disk/memory_disk.hpp"
#include "fs/engine/cuda/device_store.hpp"
#include "fs/engine/cuda/tree_removal.hpp"
#include "fs/ops/remove_tree.hpp"
#include "fs/volume/make_volume.hpp"
#include "fs/volume/superblock_io.hpp"
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

inline Handle add_entry(Volume& volume, Handle in, const std::string& name, u32 mode) {
    const auto made = volume.create({}, in, name, {.mode = mode});
    require(bool(made), "cannot create " + name);
    return made->handle;
}

inline constexpr u32 directory_mode = 040755;
inline constexpr u32 file_mode = 0100644;

inline void build_deep(Volume& volume, Handle root, u32 levels) {
    for (u32 i = 1; i < levels; ++i)
        root = add_entry(volume, root, "down", directory_mode);
}

/// Directories with entries, made by all cores.
inline void build_flat(Volume& volume, Handle root, u32 parents, u32 entries, u32 mode) {
    std::vector<Handle> directories;
    for (u32 p = 0; p < parents; ++p)
        directories.push_back(
            add_entry(volume, root, "directory" + std::to_string(p), directory_mode));
    const u32 workers = std::max(1u, std::thread::hardware_concurrency());
    std::vector<std::thread> threads;
    for (u32 w = 0; w < workers; ++w) {
        threads.emplace_back([&, w] {
            for (u32 p = w; p < parents; p += workers) {
                for (u32 e = 0; e < entries; ++e)
                    add_entry(volume, directories[p], "entry" + std::to_string(e), mode);
            }
        });
    }
    for (std::thread& thread : threads)
        thread.join();
}

/// Nothing that a step could ask for happens here: all is resident, and there is room.
class IdleHost : public cuda_engine::RemovalHost {
 public:
    Errc bring(const std::vector<u64>& /*places*/) override { return Errc::io; }
    Errc commit() override { return Errc::io; }
    Errc remove_leftovers(u64 /*directory*/, u64& /*files*/) override { return Errc::io; }
};

/// A volume in memory whose tree hangs on the orphan directory.
class DetachedTree {
 public:
    DetachedTree(const RemovalScenario& scenario, u64 trees) : disk_(scenario.size_bytes) {
        const Failure made =
            make_volume_on(disk_, "image", scenario.size_bytes, "bench",
                           [&](u64 at, u64 length) { return disk_.discard(at, length); });
        require(made.code == Errc::ok, made.message);
        format::Superblock superblock;
        require(read_superblock(disk_, "image", superblock).code == Errc::ok, "no superblock");
        auto implementation =
            std::make_unique<VolumeImplementation>(std::make_unique<FaultDisk>(disk_), superblock,
                                                   OpenOptions{.engine = EngineChoice::cpu});
        implementation_ = implementation.get();
        require(implementation_->start() == Errc::ok, "cannot open the volume");
        volume_ = std::make_unique<Volume>(std::move(implementation));
        for (u64 tree = 0; tree < trees; ++tree)
            add_tree(scenario, "tree" + std::to_string(tree));
        require(volume_->sync() == Errc::ok, "cannot sync");
    }

    const core::Store& store() { return implementation_->store(); }
    u64 root(u64 tree) const { return roots_[tree % roots_.size()]; }
    u64 count() const { return roots_.size(); }

    double remove_by_cpu(u64 tree) {
        Removal removal;
        return time_of([&] {
            require(TreeRemover(*implementation_).remove(root(tree), removal) == Errc::ok,
                    "the CPU engine failed");
        });
    }

 private:
    void add_tree(const RemovalScenario& scenario, const std::string& name) {
        scenario.build(*volume_, add_entry(*volume_, volume_->root(), name, directory_mode));
        const core::Credentials anyone{.check = false};
        const Result<Handle> detached = implementation_->run([&](CpuOperation& op) {
            return ops::detach_tree(op, anyone, volume_->root(), name.data(),
                                    static_cast<u32>(name.size()), now_nanoseconds());
        });
        require(bool(detached), "cannot detach the tree");
        roots_.push_back(detached->inode);
    }

    MemoryDisk disk_;
    VolumeImplementation* implementation_ = nullptr;
    std::unique_ptr<Volume> volume_;
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
    times.kernels = static_cast<double>(removal.kernel_ms()) / 1000;
    times.end = static_cast<double>(removal.end_ms()) / 1000;
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
