// SPDX-License-Identifier: Apache-2.0
// A mount on which each allocation of memory within a request fails in turn. It must reply, with
// ENOMEM or after doing the work; the volume is in the state before or after it, everything that
// the kernel was given can be given back, and the mount continues to work.
//
// Each request runs in a thread of its own, which has no spare memory from earlier requests.
#pragma once

#include <gtest/gtest.h>
#include <linux/fuse.h>

#include <cerrno>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "apps/fuse/late_seek.hpp"
#include "tests/apps/fake_kernel.hpp"
#include "tests/support/failing_allocations.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/test_engine.hpp"
#include "tests/support/uncounted_disk.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::fuse::test {

inline constexpr u64 volume_bytes = 16 * mib;
inline constexpr u64 never = u64{1} << 62;
inline constexpr u64 root = FUSE_ROOT_ID;
inline const std::string long_target(1000, 't');
inline const std::string note(2000, 'n');

inline void make_base(Volume& volume) {
    const Handle directory = make_directory(volume, volume.root(), "directory");
    for (int i = 0; i < 20; ++i)
        make_file(volume, directory, "file" + std::to_string(i));
    make_directory(volume, volume.root(), "empty");
    const Handle file = make_file(volume, volume.root(), "file");
    ASSERT_EQ(volume.open_file(file), Errc::ok);
    ASSERT_TRUE(volume.write(file, 0, std::vector(60'000, std::byte{'f'})));
    ASSERT_EQ(volume.release(file), Errc::ok);
    ASSERT_EQ(volume.set_attribute(anybody, file, "user.note", std::as_bytes(std::span(note))),
              Errc::ok);
    ASSERT_TRUE(
        volume.create(anybody, volume.root(), "link", {.mode = 0120777, .target = long_target}));
    for (const char* const name : {"other", "doomed"})
        ASSERT_TRUE(volume.create(anybody, volume.root(), name, {}));
}

/// Everything that a volume shows except times and contents.
inline std::string shown_by(Volume& volume, Handle directory) {
    std::string text;
    for (const auto& [name, number] : list_names(volume, directory)) {
        const auto found = volume.lookup(anybody, directory, name);
        if (!found) return text + name + " cannot be found";
        text += name + " " + std::to_string(found->mode) + " " + std::to_string(found->links) +
                " " + std::to_string(found->size) + " " +
                std::to_string(volume.list_attributes(found->handle, {}).code() == Errc::ok) + "\n";
        if (S_ISDIR(found->mode)) text += shown_by(volume, found->handle);
    }
    return text;
}

/// A mount, and a kernel that has looked up some of its names.
struct Mount {
    Mount(Disk& disk, std::string_view engine)
        : damage("image"),
          state(open(disk, engine), options(), {}, damage),
          kernel(state),
          seeker(kernel.session()) {
        state.late_seeker = &seeker;
        directory = kernel.look_up(root, "directory");
        file = kernel.look_up(root, "file");
        other = kernel.look_up(root, "other");
        link = kernel.look_up(root, "link");
        file_number = kernel.open(file, false);
        other_number = kernel.open(other, false);
        directory_number = kernel.open(directory, true);
    }
    static std::unique_ptr<Volume> open(Disk& disk, std::string_view engine) {
        Failure failure;
        auto volume =
            open_on_engine(std::make_unique<UncountedDisk>(disk), engine, {.workers = 1}, failure);
        EXPECT_TRUE(volume) << failure.message;
        return volume;
    }
    static MountOptions options() {
        MountOptions options;
        options.image = "image";
        return options;
    }
    Volume& volume() { return *state.volume.access(); }

    DamageLog damage;
    MountState state;
    FakeKernel kernel;
    LateSeeker seeker;
    u64 directory = 0, file = 0, other = 0, link = 0;  // nodes
    u64 file_number = 0, other_number = 0, directory_number = 0;
};

/// The outcome of a run, with or without a failure.
struct Outcome {
    int error = 0;
    u64 allocations = 0;
    bool has_failed = false;
    std::string shown;
    u64 inodes_left = 0;  // after all names were removed and all references given back
};

/// Gives back and removes everything: any inode that is left was leaked.
inline void finish(Mount& mount, Outcome& outcome) {
    // With memory available again, the mount works.
    EXPECT_EQ(
        mount.kernel.ask(FUSE_MKDIR, root, Body().add(fuse_mkdir_in{0755, 0}).name("later")).error,
        0);
    EXPECT_EQ(mount.kernel.ask(FUSE_RMDIR, root, Body().name("later")).error, 0);
    mount.kernel.give_back();
    EXPECT_EQ(mount.state.nodes.in_use().size(), 1u)
        << "the kernel has given back all but the root";
    Volume& volume = mount.volume();
    outcome.shown = shown_by(volume, volume.root());
    for (const auto& [name, number] : list_names(volume, volume.root())) {
        Removal removal;
        EXPECT_EQ(volume.remove_tree(anybody, volume.root(), name, removal), Errc::ok) << name;
    }
    outcome.inodes_left = volume.statistics().inodes_used;
}

class StarvedMount : public testing::TestWithParam<const char*> {
 protected:
    StarvedMount() {
        const auto volume = Mount::open(*base_, engine());
        make_base(*volume);
        EXPECT_EQ(volume->close(), Errc::ok);
    }
    std::string_view engine() const { return GetParam(); }

    /// Runs `act` on a mount while its `nth` allocation fails; it returns an errno.
    Outcome run(const std::function<std::function<int()>(Mount&)>& prepare, u64 nth) {
        const auto disk = base_->copy();
        Outcome outcome;
        {
            Mount mount(*disk, engine());
            const std::function<int()> act = prepare(mount);
            std::thread([&] {
                const FailingAllocation failing(nth);
                outcome.error = act();
                outcome.allocations = failing.count();
                outcome.has_failed = failing.has_failed();
            }).join();
            finish(mount, outcome);
            EXPECT_EQ(mount.state.volume.close(), Errc::ok);
        }
        EXPECT_TRUE(expect_clean(*disk));
        return outcome;
    }

    /// Runs what `prepare` prepares once for each allocation, or each case_step-th, which then
    /// fails. `is_whole`: it is one transaction, done completely or not at all.
    void fail_each(const char* name, bool is_whole,
                   const std::function<std::function<int()>(Mount&)>& prepare) {
        SCOPED_TRACE(name);
        const Outcome nothing = run([](Mount&) { return [] { return 0; }; }, never);
        const Outcome whole = run(prepare, never);
        // ENODEV: there is no GPU whose memory can be released.
        EXPECT_TRUE(whole.error == 0 || whole.error == ENOSYS || whole.error == ENODEV)
            << whole.error;
        bool has_failed = true;
        for (u64 nth = 1; has_failed && !HasFailure(); nth += case_step) {
            SCOPED_TRACE(testing::Message() << "allocation " << nth << " fails");
            const Outcome outcome = run(prepare, nth);
            has_failed = outcome.has_failed;
            EXPECT_EQ(outcome.inodes_left, nothing.inodes_left);
            if (!has_failed) break;
            ++failures_;
            const bool is_done = outcome.error == whole.error;
            EXPECT_TRUE(is_done || outcome.error == ENOMEM) << outcome.error;
            if (!is_whole) continue;
            EXPECT_TRUE(outcome.shown == whole.shown ||
                        (!is_done && outcome.shown == nothing.shown))
                << outcome.shown;
        }
    }

    u64 failures_ = 0;

 private:
    std::unique_ptr<MemoryDisk> base_ = make_memory_disk(volume_bytes);
};

}  // namespace warren::fuse::test
