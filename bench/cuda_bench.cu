// SPDX-License-Identifier: Apache-2.0
// How long does the GPU take to remove a tree? The scenarios of the thesis (Deep, Wide, Mix) and
// many files, from the host's call to the names gone: launches and the host's wait are in it, the
// detaching of the root (one small command) is not. Beside it the time of the kernels by the
// device's clock, and the CPU engine with all cores on the same trees. A volume holds a tree for
// each run; they are removed one after the other, as other programs' are in remove_bench. The first
// is not counted. Only of 10,000,000 files there is one tree, uploaded again for each run.
//
//   cuda_bench [--runs N] [--large N] [--sweep 1]    N runs (5); --large 2 with 10,000,000 files;
//                                                    a sweep of blocks and warps as CSV lines
#include <cstdio>
#include <functional>
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

using namespace warren;
using namespace warren::bench;

namespace {

const char* const by_gpu = "Warren CUDA, names gone";
const char* const by_kernels = "Warren CUDA, kernels alone";
const char* const by_last_kernel = "of these the last (orphan directory, gate)";
const char* const by_cpu = "Warren CPU engine, all cores";

struct Scenario {
    std::string label;
    double items;
    double must_ms;
    u64 size_bytes;
    std::function<void(Volume&, Handle)> build;
    bool has_one_tree = false;
};

Handle add(Volume& volume, Handle in, const std::string& name, u32 mode) {
    const auto made = volume.create({}, in, name, {.mode = mode});
    require(bool(made), "cannot create " + name);
    return made->handle;
}

constexpr u32 directory_mode = 040755;
constexpr u32 file_mode = 0100644;

void build_deep(Volume& volume, Handle root, u32 levels) {
    for (u32 i = 1; i < levels; ++i)
        root = add(volume, root, "down", directory_mode);
}

/// Directories with entries, made by all cores.
void build_flat(Volume& volume, Handle root, u32 parents, u32 entries, u32 mode) {
    std::vector<Handle> directories;
    for (u32 p = 0; p < parents; ++p)
        directories.push_back(add(volume, root, "directory" + std::to_string(p), directory_mode));
    const u32 workers = std::max(1u, std::thread::hardware_concurrency());
    std::vector<std::thread> threads;
    for (u32 w = 0; w < workers; ++w) {
        threads.emplace_back([&, w] {
            for (u32 p = w; p < parents; p += workers) {
                for (u32 e = 0; e < entries; ++e)
                    add(volume, directories[p], "entry" + std::to_string(e), mode);
            }
        });
    }
    for (std::thread& thread : threads)
        thread.join();
}

/// Nothing that a step could ask for happens here: all is resident, and there is room.
class Host : public cuda_engine::RemovalHost {
 public:
    Errc bring(const std::vector<u64>& /*places*/) override { return Errc::io; }
    Errc commit() override { return Errc::io; }
    Errc remove_leftovers(u64 /*directory*/) override { return Errc::io; }
};

/// A volume in memory whose tree hangs on the orphan directory.
class DetachedTree {
 public:
    DetachedTree(const Scenario& scenario, u64 trees) : disk_(scenario.size_bytes) {
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
    void add_tree(const Scenario& scenario, const std::string& name) {
        scenario.build(*volume_, add(*volume_, volume_->root(), name, directory_mode));
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

struct Times {
    double host = 0;
    double kernels = 0;
    double end = 0;
};

Times remove_by_gpu(const cuda_engine::DeviceStore& device, u64 root,
                    cuda_engine::TreeRemoval& removal, double items) {
    Host host;
    Removal removed;
    Times times;
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

void upload(DetachedTree& trees, std::unique_ptr<cuda_engine::DeviceStore>& device) {
    device = nullptr;
    device = std::make_unique<cuda_engine::DeviceStore>();
    require(device->open(trees.store()) == Errc::ok,
            "cannot upload: " + gpu::last_failure().message);
}

void measure(const Scenario& scenario, u64 runs, Report& report) {
    DetachedTree trees(scenario, scenario.has_one_tree ? 1 : runs + 1);
    cuda_engine::TreeRemoval removal;
    require(removal.open() == Errc::ok, "no GPU: " + gpu::last_failure().message);
    std::unique_ptr<cuda_engine::DeviceStore> device;
    for (u64 run = 0; run < runs + 1; ++run) {
        if (run % trees.count() == 0) upload(trees, device);
        const Times times = remove_by_gpu(*device, trees.root(run), removal, scenario.items);
        if (run == 0) continue;  // the first run loads the kernels
        report.add(scenario.label, by_gpu, times.host, scenario.items);
        report.add(scenario.label, by_kernels, times.kernels, scenario.items);
        report.add(scenario.label, by_last_kernel, times.end, scenario.items);
    }
    for (u64 tree = 0; tree < trees.count(); ++tree) {
        const double seconds = trees.remove_by_cpu(tree);
        if (tree > 0 || scenario.has_one_tree) {
            report.add(scenario.label, by_cpu, seconds, scenario.items);
        }
    }
    report.set_reference(scenario.label, by_gpu);
    report.must(scenario.label + ": must over measured",
                scenario.must_ms / 1000 / report.median(scenario.label, by_gpu), 1);
}

void sweep(const Scenario& scenario) {
    constexpr u32 runs = 4;
    DetachedTree trees(scenario, runs);
    std::unique_ptr<cuda_engine::DeviceStore> device;
    for (const u32 warps : {1u, 2u, 4u, 8u}) {
        for (const u32 blocks : {1u, 2u, 4u, 8u, 16u, 23u, 24u, 32u, 48u, 66u, 100u, 132u, 264u}) {
            cuda_engine::TreeRemoval removal;
            require(removal.open({blocks, warps}) == Errc::ok, "no GPU");
            upload(trees, device);
            Sample sample;
            for (u32 run = 0; run < runs; ++run) {
                const Times times =
                    remove_by_gpu(*device, trees.root(run), removal, scenario.items);
                if (run > 0) sample.add(times.kernels);
            }
            std::printf("sweep,%s,%u,%u,%.4f\n", scenario.label.c_str(), blocks, warps,
                        sample.median() * 1000);
        }
    }
}

}  // namespace

int main(int argument_count, char** arguments) {
    const u64 runs = option(argument_count, arguments, "runs", 5);
    const u64 large = option(argument_count, arguments, "large", 1);
    const auto flat = [](u32 parents, u32 entries, u32 mode) {
        return
            [=](Volume& volume, Handle root) { build_flat(volume, root, parents, entries, mode); };
    };
    std::vector<Scenario> scenarios = {
        {"Deep", 1000, 1.5, 1 * gib,
         [](Volume& volume, Handle root) { build_deep(volume, root, 1000); }},
        {"Wide", 1001, 0.08, 1 * gib, flat(1000, 0, directory_mode)},
        {"Mix", 10'101, 0.12, 1 * gib, flat(100, 100, directory_mode)},
        {"100,000 files", 100'101, 1.5, 2 * gib, flat(100, 1000, file_mode)},
    };
    if (large > 0) {
        scenarios.push_back(
            {"1,000,000 files", 1'001'001, 1.5, 64 * gib, flat(1000, 1000, file_mode)});
    }
    if (large > 1) {
        scenarios.push_back(
            {"10,000,000 files", 10'010'001, 15, 64 * gib, flat(10'000, 1000, file_mode), true});
    }
    if (option(argument_count, arguments, "sweep", 0) != 0) {
        sweep(scenarios[1]);
        sweep(scenarios[2]);
        sweep(scenarios[3]);
        return 0;
    }
    Report report("cuda_bench", argument_count, arguments);
    for (const Scenario& scenario : scenarios)
        measure(scenario, runs, report);
    return report.finish();
}
