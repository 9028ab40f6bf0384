// SPDX-License-Identifier: Apache-2.0
// The change time only goes forward: neither an update of the access time, nor times that the
// kernel has cached and sends late, set it back slightly.
#include <gtest/gtest.h>
#include <linux/fuse.h>

#include "tests/apps/starved_mount.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/thread_executor.hpp"

namespace warren::fuse::test::times_test {
namespace {

constexpr i64 second = 1'000'000'000;

class Times : public testing::TestWithParam<const char*> {
 protected:
    Times() {
        {
            const auto volume = Mount::open(*disk_, GetParam());
            make_base(*volume);
            EXPECT_EQ(volume->close(), Errc::ok);
        }
        mount_ = std::make_unique<Mount>(*disk_, GetParam());
    }
    ~Times() override {
        mount_->kernel.give_back();
        EXPECT_EQ(mount_->state.volume.close(), Errc::ok);
    }

    Volume& volume() { return mount_->volume(); }
    Handle file() { return volume().lookup(anybody, volume().root(), "file")->handle; }
    i64 changed() { return volume().attributes(file())->changed; }
    /// The request by which the kernel sends the times that it has cached for a file.
    Body times(i64 time) {
        fuse_setattr_in in{};
        in.valid = FATTR_MTIME | FATTR_CTIME;
        in.mtime = in.ctime = static_cast<u64>(time / second);
        in.mtimensec = in.ctimensec = static_cast<u32>(time % second);
        return Body().add(in);
    }

    std::unique_ptr<MemoryDisk> disk_ = make_memory_disk(volume_bytes);
    std::unique_ptr<Mount> mount_;
};
INSTANTIATE_TEST_SUITE_P(Engines, Times, testing::Values("cpu", "commands"),
                         [](const auto& engine) { return std::string(engine.param); });

TEST_P(Times, ofChangeAreNotSetBackByAnAccess) {
    const Seed seed;
    const Handle file = this->file();
    mount_->state.access_times = AccessTimes::always;
    std::atomic<bool> is_over{false};
    u64 changes = 0;
    const auto change = [&](Random& random) {
        const Deadline deadline(std::chrono::milliseconds(1500));
        i64 last = changed();
        while (!deadline.is_over() && !HasFailure()) {
            AttributeChange mode;
            mode.which = AttributeChange::mode | AttributeChange::changed;
            mode.new_mode = 0600 + static_cast<u32>(random.below(8));
            mode.new_changed = last + 1;  // a separate clock, which never stands still
            const Result<Attributes> done = volume().set_attributes(anybody, file, mode);
            ASSERT_TRUE(done);
            EXPECT_GE(done->changed, last);
            last = done->changed;
            for (u32 i = 0; i < 4; ++i)
                EXPECT_GE(volume().attributes(file)->changed, last) << "after change " << changes;
            ++changes;
        }
        is_over = true;
    };
    const auto access = [&](Random&) {
        fuse_read_in in{};
        in.fh = mount_->file_number;
        in.size = 4096;
        while (!is_over)
            EXPECT_EQ(mount_->kernel.ask(FUSE_READ, mount_->file, Body().add(in)).error, 0);
    };
    run_executor(seed.value(), {change, access});
    EXPECT_GT(changes, 0u);
}

TEST_P(Times, ofChangeAreNotSetBackByTimesThatComeLate) {
    const i64 before = changed();
    const Answer late = mount_->kernel.ask(FUSE_SETATTR, mount_->file, times(before - second));
    EXPECT_EQ(late.error, 0);
    EXPECT_EQ(changed(), before);
    EXPECT_EQ(volume().attributes(file())->modified, before - second) << "anybody may set this";
    // If the clock was set back by much, the change time follows.
    const i64 hour = 3600 * second;
    EXPECT_EQ(mount_->kernel.ask(FUSE_SETATTR, mount_->file, times(before - hour)).error, 0);
    EXPECT_EQ(changed(), before - hour);
    EXPECT_EQ(mount_->kernel.ask(FUSE_SETATTR, mount_->file, times(before + hour)).error, 0);
    EXPECT_EQ(changed(), before + hour);
}

TEST_P(Times, stayWhereTheSizeAloneChanges) {
    const Attributes before = *volume().attributes(file());
    fuse_setattr_in in{};
    in.valid = FATTR_SIZE;
    in.size = 10;
    EXPECT_EQ(mount_->kernel.ask(FUSE_SETATTR, mount_->file, Body().add(in)).error, 0);
    const Attributes after = *volume().attributes(file());
    EXPECT_EQ(after.size, 10u);
    EXPECT_EQ(after.modified, before.modified);
    EXPECT_EQ(after.changed, before.changed);
}

}  // namespace
}  // namespace warren::fuse::test::times_test
