// SPDX-License-Identifier: Apache-2.0
// Where does the time of Volume::remove_tree go on the GPU? The scenarios of the thesis (Deep,
// Wide, Mix) and many files, as a caller waits for them: from the call with a name to the tree
// gone, nothing done before. Beside it the parts of the kernel by the device's clock. Each volume
// holds a tree for each run; the first run, which loads the kernels, is not counted.
//
//   removal_times [--runs N] [--large N]    N runs (7); --large 1 with 1,000,000 files (default),
//                                           2 with 10,000,000 as well
#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "bench/support/places.hpp"
#include "bench/support/report.hpp"
#include "fs/disk/fault_disk.hpp"
#include "fs/disk/memory_disk.hpp"
#include "fs/engine/cuda/cuda_engine.hpp"
#include "fs/volume/make_volume.hpp"
#include "fs/volume/superblock_io.hpp"
#include "fs/volume/volume_implementation.hpp"

using namespace warren;
using namespace warren::bench;

namespace {

constexpr u32 directory_mode = 040755;
constexpr u32 file_mode = 0100644;

struct Shape {
    std::string label;
    double must_us;
    u64 size_bytes;
    u32 chain;    // directories in each other
    u32 parents;  // directories in the root, with
    u32 entries;  // entries of
    u32 mode;
    u32 trees;
};

Handle add(Volume& volume, Handle in, const std::string& name, u32 mode) {
    const auto made = volume.create({}, in, name, {.mode = mode});
    require(bool(made), "cannot create " + name);
    return made->handle;
}

void build(Volume& volume, const Shape& shape, Handle root) {
    for (u32 i = 1; i < shape.chain; ++i)
        root = add(volume, root, "down", directory_mode);
    std::vector<Handle> parents;
    for (u32 p = 0; p < shape.parents; ++p)
        parents.push_back(add(volume, root, "directory" + std::to_string(p), directory_mode));
    if (shape.entries == 0) return;
    const u32 workers = std::max(1u, std::thread::hardware_concurrency());
    std::vector<std::thread> threads;
    for (u32 w = 0; w < workers; ++w) {
        threads.emplace_back([&, w] {
            for (u32 p = w; p < parents.size(); p += workers) {
                for (u32 e = 0; e < shape.entries; ++e)
                    add(volume, parents[p], "entry" + std::to_string(e), shape.mode);
            }
        });
    }
    for (std::thread& thread : threads)
        thread.join();
}

/// A volume in memory that the CPU engine has filled and that the CUDA engine has taken over.
class DeviceVolume {
 public:
    explicit DeviceVolume(const Shape& shape) : disk_(shape.size_bytes) {
        const Failure made =
            make_volume_on(disk_, "image", shape.size_bytes, "bench",
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
        for (u32 tree = 0; tree < shape.trees; ++tree) {
            const std::string name = "tree" + std::to_string(tree);
            build(*volume_, shape, add(*volume_, volume_->root(), name, directory_mode));
        }
        require(volume_->sync() == Errc::ok, "cannot sync");
        CudaEngineOptions options;
        options.volume.load_block = [this](u64 place) {
            return implementation_->loader().load(place);
        };
        options.volume.commit = [this] { return implementation_->commit(); };
        options.volume.remove_leftovers = [this](u64 directory, u64& files) {
            return implementation_->remove_leftovers(directory, files);
        };
        std::string failure;
        auto engine = make_cuda_engine(implementation_->store(), failure, options);
        require(engine != nullptr, failure);
        implementation_->use_engine(std::move(engine));
    }

    Volume& operator*() { return *volume_; }
    CudaEngineFigures figures() { return figures_of(implementation_->engine()); }

 private:
    MemoryDisk disk_;
    VolumeImplementation* implementation_ = nullptr;
    std::unique_ptr<Volume> volume_;
};

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values.empty() ? 0 : values[values.size() / 2];
}

void measure(const Shape& shape) {
    DeviceVolume device(shape);
    std::vector<double> wall;
    std::vector<double> parts[5];
    for (u32 tree = 0; tree < shape.trees; ++tree) {
        Removal removal;
        Errc code = Errc::ok;
        const double seconds = time_of([&] {
            code =
                (*device).remove_tree({}, (*device).root(), "tree" + std::to_string(tree), removal);
        });
        require(code == Errc::ok, "remove_tree: " + std::to_string(static_cast<int>(code)));
        const u64 wanted = shape.chain + shape.parents + u64{shape.parents} * shape.entries;
        require(removal.files + removal.directories == wanted,
                "counted " + std::to_string(removal.files + removal.directories));
        if (tree == 0 && shape.trees > 1) continue;
        wall.push_back(seconds * 1e6);
        for (u32 i = 0; i < 5; ++i)
            parts[i].push_back(static_cast<double>(device.figures().removal_ns[i]) / 1e3);
    }
    const double fastest = *std::min_element(wall.begin(), wall.end());
    const double slowest = *std::max_element(wall.begin(), wall.end());
    std::printf(
        "%-18s wall %9.1f us (%.1f to %.1f) must %8.0f %s | last step: root taken %7.1f, "
        "harvested %9.1f, ended %6.1f; host: launch %5.1f, wait %9.1f us\n",
        shape.label.c_str(), median(wall), fastest, slowest, shape.must_us,
        median(wall) <= shape.must_us ? "met   " : "MISSED", median(parts[0]), median(parts[1]),
        median(parts[2]), median(parts[3]), median(parts[4]));
    std::fflush(stdout);
    require((*device).close() == Errc::ok, "cannot close");
}

}  // namespace

int main(int argument_count, char** arguments) {
    const u32 runs = static_cast<u32>(option(argument_count, arguments, "runs", 7));
    const u64 large = option(argument_count, arguments, "large", 1);
    std::vector<Shape> shapes = {
        {"one empty", 80, gib, 1, 0, 0, 0, runs + 1},
        {"ten files", 80, gib, 1, 1, 10, file_mode, runs + 1},
        {"Deep", 1500, gib, 1000, 0, 0, 0, runs + 1},
        {"Wide", 80, gib, 1, 1000, 0, 0, runs + 1},
        {"Mix", 120, gib, 1, 100, 100, directory_mode, runs + 1},
        {"100,000 files", 1500, 2 * gib, 1, 100, 1000, file_mode, 4},
    };
    if (large > 0)
        shapes.push_back({"1,000,000 files", 1500, 32 * gib, 1, 1000, 1000, file_mode, 4});
    if (large > 1)
        shapes.push_back({"10,000,000 files", 15000, 32 * gib, 1, 10'000, 1000, file_mode, 1});
    for (const Shape& shape : shapes)
        measure(shape);
    return 0;
}
