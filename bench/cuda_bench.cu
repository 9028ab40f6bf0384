// SPDX-License-Identifier: Apache-2.0
// How long does the GPU take to remove a tree? The scenarios of the thesis (Deep, Wide, Mix) and
// many files, from the host's call to the names gone: launches and the host's wait are in it, the
// detaching of the root (one small command) is not. Beside it the time of the kernels by the
// device's clock, and the CPU engine with all cores on the same trees. A volume holds a tree for
// each run; they are removed one after the other, as other programs' are in remove_bench. The first
// is not counted. Only of 10,000,000 files there is one tree, uploaded again for each run.
//
//   cuda_bench [--runs N] [--large N]    N runs (5); --large 2 with 10,000,000 files
#include "bench/support/detached_tree.cuh"

using namespace warren;
using namespace warren::bench;

namespace {

const char* const by_gpu = "Warren CUDA, names gone";
const char* const by_kernels = "Warren CUDA, kernels alone";
const char* const by_last_kernel = "of these the last (orphan directory, gate)";
const char* const by_cpu = "Warren CPU engine, all cores";

void measure(const RemovalScenario& scenario, u64 runs, Report& report) {
    DetachedTree trees(scenario, scenario.has_one_tree ? 1 : runs + 1);
    cuda_engine::TreeRemoval removal;
    require(removal.open() == Errc::ok, "no GPU: " + gpu::last_failure().message);
    std::unique_ptr<cuda_engine::DeviceStore> device;
    for (u64 run = 0; run < runs + 1; ++run) {
        if (run % trees.count() == 0) upload(trees, device);
        const RemovalTimes times = remove_by_gpu(*device, trees.root(run), removal, scenario.items);
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

}  // namespace

int main(int argument_count, char** arguments) {
    const u64 runs = option(argument_count, arguments, "runs", 5);
    const u64 large = option(argument_count, arguments, "large", 1);
    const auto flat = [](u32 parents, u32 entries, u32 mode) {
        return
            [=](Volume& volume, Handle root) { build_flat(volume, root, parents, entries, mode); };
    };
    std::vector<RemovalScenario> scenarios = {
        {"Deep", 1000, 1.5, 2 * gib,
         [](Volume& volume, Handle root) { build_deep(volume, root, 1000); }},
        {"Wide", 1001, 0.08, 2 * gib, flat(1000, 0, directory_mode)},
        {"Mix", 10'101, 0.12, 2 * gib, flat(100, 100, directory_mode)},
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
    Report report("cuda_bench", argument_count, arguments);
    for (const RemovalScenario& scenario : scenarios)
        measure(scenario, runs, report);
    return report.finish();
}
