// SPDX-License-Identifier: Apache-2.0
// Where does the time of Volume::remove_tree go on the GPU? The scenarios of the thesis, Deep
// beside many other directories, and many files, as a caller waits for them: from the call with a
// name to the tree gone. Beside it the parts of the last step's kernel by the device's clock. The
// first tree of each volume, which loads the kernels, is not counted, and the first half second
// behind an opening is waited out, in which the engine takes memory ahead.
//
//   removal_times [--runs N]  N runs (7) of everything; writes removal_times.csv
//       [--behind-creation N] before each removal N directories (0) are made in another, and all is
//                             committed: then caches and processors hold other things
//       [--among N]           Deep among N other directories, in thousands (1,000,000); 0: not
//       [--large N]           1 (default): also 1,000,000 files; 2: also 10,000,000, each tree 3.2
//       GB
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "bench/support/memory_volume.hpp"
#include "bench/support/places.hpp"
#include "bench/support/report.hpp"
#include "bench/support/rows.hpp"
#include "bench/support/trees.hpp"
#include "fs/engine/cuda/cuda_engine.hpp"
#include "fs/volume/volume_implementation.hpp"

using namespace warren;
using namespace warren::bench;

namespace {

const std::string whole = "remove_tree";
const std::string parts[] = {"last step: root taken", "last step: reclaimed", "last step: ended"};
constexpr u32 others_each = 999;  // so that they are a thousand with the one that they lie in

struct Shape {
    std::string label;
    double must_us;
    u64 size_bytes;
    u32 chain;    // directories in each other
    u32 parents;  // directories in the root, with
    u32 entries;  // entries of
    u32 mode;
    u32 others = 0;  // thousands of directories elsewhere in the volume
};

/// A volume in memory that the CPU engine has filled and that the CUDA engine has taken over.
class DeviceVolume {
 public:
    DeviceVolume(const Shape& shape, u64 trees) : volume_(shape.size_bytes) {
        const Handle others = add_entry(*volume_, volume_->root(), "others", directory_mode);
        build_flat(*volume_, others, shape.others, others_each, directory_mode);
        for (u64 tree = 0; tree < trees; ++tree) {
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
        // The driver serves one thread at a time.
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
    }

    Volume& operator*() { return *volume_; }
    CudaEngineFigures figures() { return figures_of(volume_.inside().engine()); }

    /// Creates a directory of `count` directories, outside of the measurement, and commits.
    void create(u32 count) {
        const std::string name = "made" + std::to_string(made_++);
        make_in_volume(*volume_, volume_->root(), flat_tree(name, count, 0, false));
        require(volume_->sync() == Errc::ok, "cannot sync");
    }

 private:
    u64 made_ = 0;
    MemoryVolume volume_;
};

/// `runs` removals behind the first one, each behind the creation of `created` directories.
void measure(const Shape& shape, u64 runs, u32 created, Report& report) {
    DeviceVolume device(shape, runs + 1);
    const Handle root = (*device).root();  // a command of its own
    const u64 wanted = shape.chain + shape.parents + u64{shape.parents} * shape.entries;
    const double items = static_cast<double>(wanted);
    for (u64 run = 0; run <= runs; ++run) {
        Removal removal;
        Errc code = Errc::ok;
        if (created > 0) device.create(created);
        const double seconds = time_of(
            [&] { code = (*device).remove_tree({}, root, "tree" + std::to_string(run), removal); });
        require(code == Errc::ok, "remove_tree: " + std::to_string(static_cast<int>(code)));
        require(removal.files + removal.directories == wanted,
                "counted " + std::to_string(removal.files + removal.directories));
        if (run == 0) continue;
        report.add(shape.label, whole, seconds, items);
        const CudaEngineFigures figures = device.figures();
        for (u32 i = 0; i < std::size(parts); ++i) {
            const double part = static_cast<double>(figures.removal_ns[i]) * 1e-9;
            report.add(shape.label, parts[i], part, items);
        }
    }
    report.must(shape.label + ": must over remove_tree",
                shape.must_us * 1e-6 / report.median(shape.label, whole), 1);
    require((*device).close() == Errc::ok, "cannot close");
}

}  // namespace

int main(int argument_count, char** arguments) {
    const u64 runs = option(argument_count, arguments, "runs", 7);
    const u32 created = static_cast<u32>(option(argument_count, arguments, "behind-creation", 0));
    const u64 among = option(argument_count, arguments, "among", 1'000'000);
    const u64 large = option(argument_count, arguments, "large", 1);
    std::vector<Shape> shapes = {
        {"one empty", 80, gib, 1, 0, 0, 0},
        {"ten files", 80, gib, 1, 1, 10, file_mode},
        {"Deep", 1500, gib, 1000, 0, 0, 0},
        {"Wide", 80, gib, 1, 1000, 0, 0},
        {"Mix", 120, gib, 1, 100, 100, directory_mode},
        {"100,000 files", 1500, 2 * gib, 1, 100, 1000, file_mode},
    };
    if (among > 0) {
        const std::string label = "Deep among " + with_commas(among) + " other directories";
        shapes.push_back({label, 1500, 4 * gib, 1000, 0, 0, 0, static_cast<u32>(among / 1000)});
    }
    if (large > 0) shapes.push_back({"1,000,000 files", 1500, 32 * gib, 1, 1000, 1000, file_mode});
    if (large > 1) {
        shapes.push_back({"10,000,000 files", 15000, 64 * gib, 1, 10'000, 1000, file_mode});
    }
    Report report("removal_times", argument_count, arguments);
    for (const Shape& shape : shapes)
        measure(shape, runs, created, report);
    return report.finish();
}
