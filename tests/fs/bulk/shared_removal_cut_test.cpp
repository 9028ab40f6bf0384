// SPDX-License-Identifier: Apache-2.0
// The power is cut after every write of the removal of a tree of which files share blocks with each
// other and with files that stay. Afterwards the tree is there or gone, what stays has its
// contents, and a check counts the references.
#include <gtest/gtest.h>

#include "tests/support/cut_recording.hpp"
#include "tests/support/keeping_disk.hpp"
#include "tests/support/script.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/test_engine.hpp"

namespace warren::shared_removal_cut_test {
namespace {

constexpr u64 volume_bytes = 16 * mib;  // with the smallest journal

/// Files of one and two blocks, clones of them in the tree and outside of it, and files that were
/// changed behind that. The removal takes several transactions.
Script make_base() {
    Script script;
    add_create(script, "/tree", 040755);
    add_create(script, "/tree/in", 040755);
    for (int f = 0; f < 16; ++f) {
        const std::string path = "/tree/in/f" + std::to_string(f);
        add_create(script, path);
        add_write(script, path, 0, 4096 * (1 + f % 2), 'a' + f);
    }
    add_clone(script, "/tree/in", "/kept");
    add_clone(script, "/tree/in", "/tree/more");
    for (int f = 0; f < 16; f += 3) {
        const std::string name = "/f" + std::to_string(f);
        add_write(script, "/tree/in" + name, 8192, 4096, 'A' + f);
        if (f % 2 == 0) add_write(script, "/kept" + name, 0, 100, 'x');
    }
    add_unlink(script, "/kept/f1");
    // The first of two names that goes dirties an inode block: too many for one commit.
    for (int l = 0; l < 1000; ++l) {
        const std::string name = "/l" + std::to_string(l);
        add_create(script, "/tree/in" + name);
        add_link(script, "/tree/in" + name, "/tree/more" + name);
    }
    return script;
}

TEST(SharedRemovalCuts, LeaveAllOrNothing) {
    const Seed seed;
    CutRecording recording;
    recording.log = make_memory_disk(volume_bytes);
    KeepingDisk keeping(recording.disk());
    Failure failure;
    // Engines with memory of their own remove all of it in one transaction.
    const auto volume =
        open_on_engine(std::make_unique<FaultDisk>(keeping), "cpu", {.workers = 8}, failure);
    ASSERT_TRUE(volume) << failure.message;
    leave_foreign_bytes(*volume);
    Script last;
    add_remove_tree(last, "/tree");
    expect_all_or_nothing(*volume, recording, make_base(), last, seed.value());
}

}  // namespace
}  // namespace warren::shared_removal_cut_test
