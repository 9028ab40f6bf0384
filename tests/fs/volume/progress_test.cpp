// SPDX-License-Identifier: Apache-2.0
// Bulk operations tell how far they are, and end when they are told to, with the volume sound.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "tests/fs/bulk/removal_trees.hpp"
#include "tests/support/memory_volume.hpp"

namespace warren::progress_test {
namespace {

constexpr u32 directories = 3;
constexpr u32 files = 2000;  // in each: several leaves
constexpr u64 names = directories * (files + 1);

class BulkProgress : public testing::TestWithParam<u32> {
 protected:
    void SetUp() override {
        disk_ = make_memory_disk(64 * mib);
        volume_ = open_on(*disk_, {.workers = GetParam(), .engine = EngineChoice::cpu});
        TreeBuilder builder(*volume_);
        for (u32 i = 0; i < directories; ++i) {
            const Handle in = builder.add_directory(builder.root(), "d" + std::to_string(i));
            for (u32 file = 0; file < files; ++file)
                builder.add_file(in, "file" + std::to_string(file));
        }
        tree_ = builder.root();
        const Result<Attributes> first = volume_->lookup(anybody, tree_, "d0");
        ASSERT_TRUE(first);
        directory_ = first->handle;
    }
    void TearDown() override {
        EXPECT_EQ(volume_->close(), Errc::ok);
        volume_.reset();
        EXPECT_TRUE(expect_clean(*disk_));
    }
    /// Goes on as often as `calls` says, and notes what it is told.
    ProgressCallback after(u64 calls) {
        return [this, calls](u64 done) {
            EXPECT_EQ(std::this_thread::get_id(), caller_);
            told_.push_back(done);
            return told_.size() <= calls;
        };
    }
    u64 names_in(Handle directory) {
        u64 count = 0;
        EXPECT_EQ(volume_->read_directory(directory, 0,
                                          [&](const DirectoryEntry&) { return ++count > 0; }),
                  Errc::ok);
        return count;
    }
    void expect_told(u64 least, u64 most) {
        ASSERT_FALSE(told_.empty());
        EXPECT_GE(told_.back(), least);
        EXPECT_LE(told_.back(), most);
        EXPECT_TRUE(std::ranges::is_sorted(told_));
    }

    const std::thread::id caller_ = std::this_thread::get_id();
    std::unique_ptr<MemoryDisk> disk_;
    std::unique_ptr<Volume> volume_;
    std::vector<u64> told_;
    Handle tree_;
    Handle directory_;
};
INSTANTIATE_TEST_SUITE_P(Workers, BulkProgress, testing::Values(1u, 2u));

TEST_P(BulkProgress, usageTellsAndEnds) {
    std::vector<DirectoryUsage> usage;
    UsageOptions options{.depth_max = 1, .progress = after(~u64{0})};
    ASSERT_EQ(volume_->usage(anybody, tree_, options, usage), Errc::ok);
    EXPECT_EQ(usage[0].entries, names + 1);
    if (GetParam() > 1 && told_.empty()) return;  // the other worker has done all
    expect_told(1, names);
    told_.clear();
    options.progress = after(0);
    const Errc ended = volume_->usage(anybody, tree_, options, usage);
    if (GetParam() == 1 || !told_.empty()) {
        EXPECT_EQ(ended, Errc::canceled);
        EXPECT_EQ(told_.size(), 1u);
    }
    told_.clear();
    EXPECT_EQ(volume_->usage(anybody, tree_, {}, usage), Errc::ok);
    EXPECT_EQ(usage[0].entries, names + 1);
}

TEST_P(BulkProgress, rebuildTellsAndEnds) {
    Rebuilt rebuilt;
    EXPECT_EQ(volume_->rebuild(anybody, directory_, rebuilt, after(0)), Errc::canceled);
    expect_told(1, files);
    EXPECT_EQ(told_.size(), 1u);
    EXPECT_EQ(names_in(directory_), files);
    told_.clear();
    EXPECT_EQ(volume_->rebuild(anybody, directory_, rebuilt, after(~u64{0})), Errc::ok);
    expect_told(1, files);
    EXPECT_EQ(rebuilt.entries, files);
    EXPECT_EQ(names_in(directory_), files);
}

TEST_P(BulkProgress, removalTellsAndGoesOn) {
    Removal removal;
    // A step that ends by its time may have freed nothing yet.
    const ProgressCallback until_some = [tell = after(~u64{0})](u64 done) {
        return tell(done) && done == 0;
    };
    EXPECT_EQ(volume_->remove_tree(anybody, volume_->root(), "doomed", removal, until_some),
              Errc::ok);
    expect_told(1, names + 1);
    EXPECT_EQ(removal.files + removal.directories, names + 1);
    EXPECT_EQ(names_in(volume_->root()), 0u);
}

TEST_P(BulkProgress, removalNameByNameTells) {
    // What belongs to others stays, so the caller's names go one by one.
    const Caller stranger{.user = 7, .group = 7};
    AttributeChange open_to_all;
    open_to_all.which = AttributeChange::mode;
    open_to_all.new_mode = 0777;
    for (const Handle directory : {tree_, directory_})
        ASSERT_TRUE(volume_->set_attributes(anybody, directory, open_to_all));
    Removal removal;
    EXPECT_EQ(volume_->remove_tree(stranger, tree_, "d0", removal, after(0)), Errc::ok);
    expect_told(0, files + 1);
    EXPECT_EQ(removal.files + removal.directories, files + 1);
}

}  // namespace
}  // namespace warren::progress_test
