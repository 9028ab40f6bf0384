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
#include <vector>

#include "bench/support/memory_volume.hpp"
#include "bench/support/places.hpp"
#include "bench/support/report.hpp"
#include "fs/engine/cuda/cuda_engine.hpp"
#include "fs/volume/volume_implementation.hpp"

using namespace warren;
using namespace warren::bench;

namespace {

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

/// A volume in memory that the CPU engine has filled and that the CUDA engine has taken over.
class DeviceVolume {
 public:
    explicit DeviceVolume(const Shape& shape) : volume_(shape.size_bytes) {
        for (u32 tree = 0; tree < shape.trees; ++tree) {
            const std::string name = "tree" + std::to_string(tree);
            const Handle top = add_entry(*volume_, volume_->root(), name, directory_mode);
            const Handle root = build_deep(*volume_, top, shape.chain);
            build_flat(*volume_, root, shape.parents, shape.entries, shape.mode);
        }
        require(volume_->sync() == Errc::ok, "cannot sync");
        CudaEngineOptions options;
        options.volume.load_block = [this](u64 place) {
            return volume_.inside().loader().load(place);
        };
        options.volume.commit = [this] { return volume_.inside().commit(); };
        options.volume.remove_leftovers = [this](u64 directory, u64& files) {
            return volume_.inside().remove_leftovers(directory, files);
        };
        std::string failure;
        auto engine = make_cuda_engine(volume_.store(), failure, options);
        require(engine != nullptr, failure);
        volume_.inside().use_engine(std::move(engine));
    }

    Volume& operator*() { return *volume_; }
    CudaEngineFigures figures() { return figures_of(volume_.inside().engine()); }

 private:
    MemoryVolume volume_;
};

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values.empty() ? 0 : values[values.size() / 2];
}

void measure(const Shape& shape) {
    DeviceVolume device(shape);
    const Handle root = (*device).root();  // a command of its own
    std::vector<double> wall;
    std::vector<double> parts[5];
    for (u32 tree = 0; tree < shape.trees; ++tree) {
        Removal removal;
        Errc code = Errc::ok;
        const double seconds = time_of([&] {
            code = (*device).remove_tree({}, root, "tree" + std::to_string(tree), removal);
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
        shapes.push_back({"10,000,000 files", 15000, 32 * gib, 1, 10'000, 1000, file_mode, 3});
    for (const Shape& shape : shapes)
        measure(shape);
    return 0;
}
