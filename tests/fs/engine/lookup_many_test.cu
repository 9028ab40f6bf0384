// SPDX-License-Identifier: Apache-2.0
// Look-ups of names on the device: each is answered as Volume::lookup answers it, or left to it.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "fs/engine/cuda/launch/lookup_many.hpp"
#include "fs/engine/cuda/store/device_store.hpp"
#include "tests/fs/bulk/scan_answers.hpp"
#include "tests/fs/engine/device_volume.cuh"
#include "tests/support/lookup_questions.hpp"

namespace warren::lookup_many_test {
namespace {

struct LookupAnswers {
    std::vector<Errc> codes;
    std::vector<Attributes> attributes;
};

LookupAnswers look_up(const core::Store& store, const core::Credentials& caller,
                      const std::vector<Asked>& asked) {
    std::vector<u64> words;
    std::vector<ops::BatchOperand> operands;
    for (const Asked& one : asked) {
        operands.push_back({one.directory.inode | one.name.size() << 48, one.directory.generation,
                            static_cast<u32>(words.size())});
        words.resize(words.size() + (one.name.size() + 7) / 8);
        std::memcpy(words.data() + operands.back().name, one.name.data(), one.name.size());
    }
    words.push_back(0);  // or there might be none
    const DeviceArray<u64> names(words);
    const DeviceArray<ops::BatchOperand> device_operands(operands);
    const DeviceArray<Attributes> attributes(asked.size());
    const DeviceArray<Errc> codes(std::vector<Errc>(asked.size(), Errc::io));
    EXPECT_EQ(cuda_engine::launch_lookups(store, caller, device_operands.data(), names.data(),
                                          static_cast<u32>(operands.size()), attributes.data(),
                                          codes.data(), nullptr),
              Errc::ok);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    return {codes.read(), attributes.read()};
}

/// Compares with the CPU engine; returns how many regular look-ups are left to it.
u64 expect_answers(Volume& volume, const Caller& caller, const std::vector<Asked>& asked,
                   const LookupAnswers& answers) {
    u64 left = 0;
    for (std::size_t i = 0; i < asked.size(); ++i) {
        SCOPED_TRACE(asked[i].name + " in " + std::to_string(asked[i].directory.inode));
        if (answers.codes[i] == Errc::retry) {
            left += asked[i].is_plain ? 1 : 0;
            continue;
        }
        const Result<Attributes> expected =
            volume.lookup(caller, asked[i].directory, asked[i].name);
        EXPECT_EQ(answers.codes[i], expected.code());
        if (expected && answers.codes[i] == Errc::ok) {
            EXPECT_EQ(words_of(answers.attributes[i]), words_of(*expected));
        }
    }
    return left;
}

void expect_lookups(const TreeRecipe& recipe) {
    SCOPED_TRACE(recipe.label);
    const auto disk = make_memory_disk(recipe.size_bytes);
    {
        const auto volume = open_on(*disk, {.engine = EngineChoice::cpu});
        recipe.build(*volume);
        ASSERT_EQ(volume->close(), Errc::ok);
    }
    InsideVolume volume(*disk);
    // This loads all blocks that the device shall have.
    const std::vector<Asked> asked = questions_about(*volume);
    cuda_engine::DeviceStore device;
    ASSERT_EQ(device.open(volume.inside().store()), Errc::ok);
    const DeviceArray<u32> groups(std::vector<u32>{7, 1000});
    const std::vector<u32> host_groups = {7, 1000};
    const LookupAnswers all = look_up(device.store(), {.check = false}, asked);
    const u64 left = expect_answers(*volume, anybody, asked, all);
    EXPECT_LE(left, asked.size() / 20);
    const core::Credentials stranger{1000, 1000, groups.data(), 2, 022, true};
    expect_answers(*volume, {1000, 1000, host_groups, 022, true}, asked,
                   look_up(device.store(), stranger, asked));
    EXPECT_EQ(volume->close(), Errc::ok);
}

class LookupManyTest : public testing::Test {
 protected:
    void SetUp() override {
        if (!has_device()) GTEST_SKIP() << "there is no GPU";
    }
};

TEST_F(LookupManyTest, AnswersAsTheCpuEngineOrLeavesTheName) {
    std::vector<TreeRecipe> recipes = small_trees();
    recipes.push_back(
        {"one", 256 * mib, [](Volume& volume) { return build_flat(volume, 1, 20'000, false); }});
    for (u64 seed = 1; seed <= 6; ++seed) {
        recipes.push_back({"random " + std::to_string(seed), 64 * mib,
                           [seed](Volume& volume) { return build_random(volume, seed, 1500); }});
    }
    for (const TreeRecipe& recipe : recipes) {
        expect_lookups(recipe);
        if (HasFailure()) return;
    }
}

}  // namespace
}  // namespace warren::lookup_many_test
