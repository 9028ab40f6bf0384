// SPDX-License-Identifier: Apache-2.0
// Many more inodes are referred to, by a kernel or by open files, than the smallest meta buffer has
// room for: each keeps its references, its number and its contents, whatever is evicted meanwhile.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren {
namespace {

constexpr u64 file_count = 12'000;  // their inodes alone take three times the buffer

std::string name_of(u64 number) {
    return "file-with-a-name-" + std::to_string(number);
}

struct Held {
    Handle handle;
    bool is_open = false;
    bool is_removed = false;
};

class SmallMetaBuffer : public testing::Test {
 protected:
    void make_files() {
        Handle directory;
        for (u64 i = 0; i < file_count; ++i) {
            if (i % 1000 == 0) {
                directory = make_directory(*volume_, volume_->root(), "d" + std::to_string(i));
                directories_.push_back(directory);
            }
            CreateOptions options;
            options.hold = Hold::yes;
            options.open = i % 50 == 0;
            const Result<Attributes> made =
                volume_->create(anybody, directory, name_of(i), options);
            ASSERT_TRUE(made) << i;
            held_.push_back({made->handle, options.open});
            if (!options.open) continue;
            ASSERT_TRUE(volume_->write(made->handle, 0, contents_of(i)));
        }
    }
    static std::vector<std::byte> contents_of(u64 number) {
        return std::vector<std::byte>(300, static_cast<std::byte>(number));
    }
    void remove_some() {
        for (u64 i = 0; i < file_count; i += 25) {  // half of them are open
            ASSERT_EQ(volume_->unlink(anybody, directories_[i / 1000], name_of(i)), Errc::ok);
            held_[i].is_removed = true;
        }
    }
    void expect_all() {
        for (u64 i = 0; i < file_count && !HasFailure(); ++i) {
            const Result<Attributes> found = volume_->attributes(held_[i].handle);
            const bool lives = held_[i].is_open || !held_[i].is_removed;
            ASSERT_EQ(found.code(), lives ? Errc::ok : Errc::stale) << i;
            if (!held_[i].is_open) continue;
            std::vector<std::byte> bytes(300);
            ASSERT_TRUE(volume_->read(held_[i].handle, 0, bytes));
            ASSERT_EQ(bytes, contents_of(i)) << i;
        }
    }

    MemoryVolume volume_{128 * mib, {.workers = 1, .meta_buffer_bytes = small_meta_buffer}};
    std::vector<Handle> directories_;
    std::vector<Held> held_;
};

TEST_F(SmallMetaBuffer, keepsEveryReference) {
    const Seed seed;
    Random random(seed.value());
    make_files();
    expect_all();
    remove_some();
    expect_all();
    // A number that is held is nobody else's, although its inode is gone.
    for (u64 i = 0; i < 2000; ++i) {
        const Handle fresh = make_file(*volume_, volume_->root(), "fresh" + std::to_string(i));
        for (const Held& one : held_)
            ASSERT_NE(one.handle.inode, fresh.inode);
    }
    expect_all();
    const u64 used = volume_->statistics().inodes_used;
    for (u64 i = held_.size(); i > 1; --i)
        std::swap(held_[i - 1], held_[random.below(i)]);
    u64 gone = 0;
    for (const Held& one : held_) {
        if (one.is_open) {
            ASSERT_EQ(volume_->release(one.handle), Errc::ok);
            gone += one.is_removed;
        }
        volume_->forget(one.handle, 1);
        const Errc now = volume_->attributes(one.handle).code();
        ASSERT_EQ(now, one.is_removed ? Errc::stale : Errc::ok);
    }
    EXPECT_EQ(volume_->statistics().inodes_used, used - gone);
    EXPECT_EQ(volume_->release(held_[0].handle) != Errc::ok, true) << "nothing is open any more";
    expect_counts_agree(*volume_);
    volume_.close_and_check();
}

}  // namespace
}  // namespace warren
