// SPDX-License-Identifier: Apache-2.0
// How the time of a removal depends on its shape: blocks and warps, over trees of several forms.
//
// Invariant: the device's clock is asked, so that the host's launches do not blur the picture.
#pragma once

#include "bench/support/detached_tree.cuh"

namespace warren::bench {

inline const std::string kernels_label = "kernels of TreeRemoval";

inline void measure_shapes_of(const RemovalScenario& scenario, u64 runs, Report& report) {
    DetachedTree trees(scenario, runs + 1);
    std::unique_ptr<cuda_engine::DeviceStore> device;
    for (const u32 warps : {1u, 2u, 4u, 8u}) {
        for (const u32 blocks :
             {1u, 2u, 4u, 8u, 12u, 16u, 20u, 23u, 24u, 25u, 32u, 48u, 66u, 100u, 132u, 264u}) {
            cuda_engine::TreeRemoval removal;
            require(removal.open({blocks, warps}) == Errc::ok, "cannot prepare a removal");
            upload(trees, device);
            const std::string label = scenario.label + ", " + std::to_string(blocks) +
                                      " blocks x " + std::to_string(warps) + " warps";
            for (u64 run = 0; run <= runs; ++run) {
                const RemovalTimes times =
                    remove_by_gpu(*device, trees.root(run), removal, scenario.items);
                if (run > 0) report.add(label, kernels_label, times.kernels, scenario.items);
            }
        }
    }
}

/// Deep, Wide, Mix and many files, in volumes whose journal has room for the largest shape.
inline void measure_shapes(Report& report) {
    constexpr u64 runs = 3;
    const auto flat = [](u32 parents, u32 entries, u32 mode) {
        return
            [=](Volume& volume, Handle root) { build_flat(volume, root, parents, entries, mode); };
    };
    const std::vector<RemovalScenario> scenarios = {
        {"Deep", 1000, 0, 4 * gib,
         [](Volume& volume, Handle root) { build_deep(volume, root, 1000); }},
        {"Wide", 1001, 0, 4 * gib, flat(1000, 0, directory_mode)},
        {"Mix", 10'101, 0, 4 * gib, flat(100, 100, directory_mode)},
        {"100,000 files", 100'101, 0, 4 * gib, flat(100, 1000, file_mode)},
    };
    for (const RemovalScenario& scenario : scenarios)
        measure_shapes_of(scenario, runs, report);
}

}  // namespace warren::bench
