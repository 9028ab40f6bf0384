// SPDX-License-Identifier: Apache-2.0
// A volume on one GPU, called by a thread that has selected another one: everything works, and the
// thread still has its own afterwards. With one GPU, only that this one stays selected.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "gpu/device.hpp"
#include "tests/fs/volume/batch_names.hpp"
#include "tests/support/lookup_questions.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::device_choice_test {
namespace {

class DeviceChoiceTest : public testing::TestWithParam<EngineChoice> {};

void use_all_of(Volume& volume, const std::function<void(const char*)>& check) {
    constexpr u64 count = 5000;
    const Handle one = make_directory(volume, volume.root(), "one");
    check("a single call");
    Names files(one, count);
    EXPECT_EQ(files.create(volume), count);
    check("create_many");
    std::vector<Asked> asked;
    for (const std::string& name : files.names)
        asked.push_back({one, name, true});
    expect_lookups(volume, anybody, asked);
    check("lookup_many");
    std::atomic<u64> found{0};
    const auto visit = [&](const Scanned&) {
        ++found;
        return true;
    };
    EXPECT_EQ(volume.scan(anybody, one, visit), Errc::ok);
    EXPECT_EQ(found, count + 1);
    check("scan");
    std::vector<DirectoryUsage> usage;
    EXPECT_EQ(volume.usage(anybody, one, {}, usage), Errc::ok);
    EXPECT_EQ(usage[0].entries, count + 1);
    check("usage");
    Rebuilt rebuilt;
    EXPECT_EQ(volume.rebuild(anybody, one, rebuilt), Errc::ok);
    check("rebuild");
    const Handle two = make_directory(volume, volume.root(), "two");
    files.move(volume, two);
    check("move_many");
    EXPECT_EQ(volume.sync(), Errc::ok);
    check("sync");
    Removal removal;
    EXPECT_EQ(volume.remove_tree(anybody, volume.root(), "two", removal), Errc::ok);
    EXPECT_EQ(removal.files, count);
    check("remove_tree");
    EXPECT_EQ(volume.close(), Errc::ok);
    check("close");
}

TEST_P(DeviceChoiceTest, leavesTheCallersDeviceSelected) {
    const int devices = gpu::device_count();
    if (devices == 0) GTEST_SKIP() << "there is no GPU";
    for (int own = 0; own < std::min(devices, 2); ++own) {
        SCOPED_TRACE("the caller's GPU: " + std::to_string(own));
        ASSERT_EQ(cudaSetDevice(own), cudaSuccess);
        const auto disk = make_memory_disk(256 * mib);
        OpenOptions options{.workers = 4, .engine = GetParam()};
        options.device = devices == 1 ? 0 : static_cast<u32>(1 - own);
        if (GetParam() == EngineChoice::automatic) options.device_memory_bytes = 2 * gib;
        const auto volume = open_on(*disk, options);
        use_all_of(*volume,
                   [&](const char* what) { EXPECT_EQ(gpu::current_device(), own) << what; });
        EXPECT_TRUE(expect_clean(*disk));
    }
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
}

INSTANTIATE_TEST_SUITE_P(Engines, DeviceChoiceTest,
                         testing::Values(EngineChoice::automatic, EngineChoice::cuda),
                         [](const auto& one) { return std::string(name_of(one.param)); });

}  // namespace
}  // namespace warren::device_choice_test
