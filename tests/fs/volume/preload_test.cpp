// SPDX-License-Identifier: Apache-2.0
// Metadata loaded ahead block group by block group: afterwards nothing is loaded on demand; a
// damaged block is reported to the operation that needs it and harms nothing else.
#include <gtest/gtest.h>

#include <string>

#include "fs/format/superblock.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/open_inside.hpp"

namespace warren::preload_test {
namespace {

const Caller anybody{.check = false};
constexpr u32 directories = 20;
constexpr u32 files = 300;

/// A volume with some directories full of files, every third of them removed. Closed.
std::unique_ptr<MemoryDisk> make_filled_disk() {
    auto disk = make_memory_disk(256 * mib);
    auto volume = open_on(*disk, {.workers = 2, .engine = EngineChoice::cpu});
    for (u32 d = 0; d < directories; ++d) {
        const auto in =
            volume->create(anybody, volume->root(), "d" + std::to_string(d), {.mode = 040755});
        EXPECT_TRUE(in);
        for (u32 f = 0; f < files; ++f)
            EXPECT_TRUE(volume->create(anybody, in->handle, "f" + std::to_string(f), {}));
        for (u32 f = 0; f < files; f += 3)
            EXPECT_EQ(volume->unlink(anybody, in->handle, "f" + std::to_string(f)), Errc::ok);
    }
    EXPECT_EQ(volume->close(), Errc::ok);
    return disk;
}

/// An open volume whose loader a test can use before any other thread does.
struct Started {
    VolumeImplementation* implementation = nullptr;
    std::unique_ptr<Volume> volume;

    explicit Started(Disk& disk) {
        auto made = open_inside(disk, {.workers = 2});
        implementation = made.get();
        volume = std::make_unique<Volume>(std::move(made));
    }

    void load_all() {
        const u64 frames = implementation->store().state->metadata_frames_end;
        for (u64 frame = 0; frame < frames; ++frame)
            implementation->loader().load_frame(frame);
    }
    /// The number of existing names.
    u64 look_up_all() {
        u64 found = 0;
        for (u32 d = 0; d < directories; ++d) {
            const auto in = volume->lookup(anybody, volume->root(), "d" + std::to_string(d));
            for (u32 f = 0; in && f < files; ++f)
                found += volume->lookup(anybody, in->handle, "f" + std::to_string(f)) ? 1 : 0;
        }
        return found;
    }
};

constexpr u64 names_left = u64{directories} * files * 2 / 3;

TEST(Preload, LeavesNothingToLoad) {
    const auto disk = make_filled_disk();
    Started started(*disk);
    started.load_all();
    const u64 loads = started.implementation->loader().loads();
    EXPECT_EQ(started.look_up_all(), names_left);
    const auto in = started.volume->lookup(anybody, started.volume->root(), "d0");
    ASSERT_TRUE(in);
    for (u32 f = 0; f < 1000; ++f) {
        ASSERT_TRUE(started.volume->create(anybody, in->handle, "new" + std::to_string(f), {}));
    }
    EXPECT_EQ(started.implementation->loader().loads(), loads);
    EXPECT_EQ(started.volume->close(), Errc::ok);
    EXPECT_TRUE(expect_clean(*disk));
}

TEST(Preload, LeavesWhatIsDamagedToWhoeverWantsIt) {
    const auto disk = make_filled_disk();
    // A block of names of the directory created last: a flipped byte in its heap.
    u64 damaged = 0;
    u64 last_owner = 0;
    for (u64 place = 0; place < disk->size_bytes(); place += format::block_size) {
        format::BlockHeader header;
        ASSERT_EQ(disk->read(place, std::as_writable_bytes(std::span(&header, 1))), Errc::ok);
        const bool is_leaf = header.place == place &&
                             header.kind == static_cast<u16>(format::BlockKind::directory_leaf);
        if (!is_leaf || header.owner <= last_owner) continue;
        damaged = place;
        last_owner = header.owner;
    }
    ASSERT_NE(damaged, 0u);
    std::byte byte{};
    ASSERT_EQ(disk->read(damaged + 4000, std::span(&byte, 1)), Errc::ok);
    byte ^= std::byte{1};
    ASSERT_EQ(disk->write(damaged + 4000, std::span(&byte, 1)), Errc::ok);
    Started started(*disk);
    started.load_all();
    const u64 found = started.look_up_all();
    EXPECT_LT(found, names_left);
    EXPECT_GE(found, names_left - u64{files} * directories / 2);
}

}  // namespace
}  // namespace warren::preload_test
