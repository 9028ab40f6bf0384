// SPDX-License-Identifier: Apache-2.0
// The power is cut after every write of a clone that takes several transactions: afterwards the
// volume has either no clone or all of it, and the remains of an interrupted clone are freed.
// (Sequences of a small clone and another operation: sequence_cut_test.cpp.)
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/support/cut_recording.hpp"
#include "tests/support/keeping_disk.hpp"
#include "tests/support/script.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/test_engine.hpp"

namespace warren::clone_cut_test {
namespace {

constexpr u64 volume_bytes = 16 * mib;  // with the smallest journal

/// The tree has more inodes than one transaction holds blocks of.
Script make_base() {
    Script script;
    add_create(script, "/tree", 040755);
    for (int d = 0; d < 4; ++d) {
        const std::string directory = "/tree/d" + std::to_string(d);
        add_create(script, directory, 040755);
        for (int f = 0; f < 12; ++f) {
            const std::string path = directory + "/f" + std::to_string(f);
            add_create(script, path);
            add_write(script, path, 0, f % 3 == 0 ? 50 : 5000, 'a' + f);
            if (f % 4 == 0) add_attribute(script, path, 100);
        }
        for (int l = 0; l < 60; ++l)
            add_symlink(script, directory + "/l" + std::to_string(l), 1000);
    }
    return script;
}

class CloneCuts : public testing::TestWithParam<std::string> {};

TEST_P(CloneCuts, LeaveAllOrNothing) {
    const Seed seed;
    CutRecording recording;
    recording.log = make_memory_disk(volume_bytes);
    KeepingDisk keeping(recording.disk());
    Failure failure;
    const auto volume =
        open_on_engine(std::make_unique<FaultDisk>(keeping), GetParam(), {.workers = 1}, failure);
    ASSERT_TRUE(volume) << failure.message;
    leave_foreign_bytes(*volume);
    Script last;
    add_clone(last, "/tree", "/copy");
    expect_all_or_nothing(*volume, recording, make_base(), last, seed.value());
}

// By operations, and by batches.
INSTANTIATE_TEST_SUITE_P(Engines, CloneCuts,
                         testing::Values(std::string("cpu"), engine_of_its_own()),
                         [](const auto& way) { return way.param; });

}  // namespace
}  // namespace warren::clone_cut_test
