// SPDX-License-Identifier: Apache-2.0
// Each of some twenty objects is created by a step of its own, in an order that depends on the
// seed. Names and contents differ in each life, so that data of another life are recognised.
#include "tests/support/reused_blocks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "fs/commit/superblock_io.hpp"
#include "tests/support/image_builder.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren {
namespace {

constexpr u64 block = 4 * kib;

class Life {
 public:
    /// Lives of the same `order` create the same objects in the same order.
    Life(Volume& volume, u32 number, u64 order)
        : volume_(volume), mark_("life" + std::to_string(number)), random_(order) {}

    /// Creates everything below a new directory "all".
    void begin() {
        all_ = make_directory(volume_, volume_.root(), "all");
        std::vector<std::function<void()>> steps;
        for (u32 i = 0; i < 8; ++i) {
            const std::string number = std::to_string(i);
            steps.push_back([this, number] { make_small_directory("dir-" + number); });
            steps.push_back([this, number] { make_pieces("map-" + number, 8, false); });
            steps.push_back([this, number] { make_attributes("note-" + number); });
            steps.push_back([this, number] { make_link("link-" + number); });
            steps.push_back([this, number] { make_clone("clone-" + number, "model-" + number); });
        }
        steps.push_back([this] { make_large_directory("wide", 100); });
        steps.push_back([this] { make_large_directory("wider", 140); });
        steps.push_back([this] { make_pieces("deep", 700, true); });
        steps.push_back([this] { make_pieces("deeper", 800, true); });
        for (u64 left = steps.size(); left > 0; --left) {
            std::swap(steps[left - 1], steps[random_.below(left)]);
            steps[left - 1]();
        }
    }

    /// Changes some of it, so that owners also have earlier contents of their own.
    void go_on() {
        for (u32 i = 0; i < 8; i += 2) {
            const std::string number = std::to_string(i);
            const Handle in = find(all_, "dir-" + number);
            EXPECT_EQ(volume_.unlink(anybody, in, mark_ + "-1"), Errc::ok);
            make_file(volume_, in, mark_ + "-later");
            set_note(find(all_, "note-" + number), "later");
            write_piece(find(all_, "map-" + number), 40);
            write_piece(find(all_, "clone-" + number), 2);
        }
        const Handle wide = find(all_, "wide");
        for (u32 i = 0; i < 100; i += 3)
            EXPECT_EQ(volume_.unlink(anybody, wide, long_name(i)), Errc::ok);
        write_piece(find(all_, "deep"), 2000);
    }

    void end() {
        Removal removal;
        EXPECT_EQ(volume_.remove_tree(anybody, volume_.root(), "all", removal), Errc::ok);
    }

 private:
    Handle find(Handle in, const std::string& name) {
        const auto found = volume_.lookup(anybody, in, name);
        EXPECT_TRUE(found) << name;
        return found ? found->handle : Handle{};
    }
    std::string long_name(u32 i) const {
        return mark_ + "-" + std::to_string(i) + std::string(200, 'n');
    }

    void make_small_directory(const std::string& name) {
        const Handle made = make_directory(volume_, all_, name);
        for (u32 i = 0; i < 4; ++i)
            make_file(volume_, made, mark_ + "-" + std::to_string(i));
        make_file(volume_, make_directory(volume_, made, "below"), mark_);
    }
    void make_large_directory(const std::string& name, u32 count) {
        const Handle made = make_directory(volume_, all_, name);
        for (u32 i = 0; i < count; ++i)
            make_file(volume_, made, long_name(i));
    }

    void write_piece(Handle file, u64 at) {
        EXPECT_EQ(volume_.open_file(file), Errc::ok);
        std::vector<std::byte> bytes;
        for (u64 i = 0; i < block; ++i)
            bytes.push_back(static_cast<std::byte>(mark_[i % mark_.size()]));
        EXPECT_TRUE(volume_.write(file, at * block, bytes));
        EXPECT_EQ(volume_.release(file), Errc::ok);
    }
    /// A file of blocks separated by holes. Written backwards, leaves are left half full, so there
    /// are more of them; all blocks but the first are then only allocated.
    void make_pieces(const std::string& name, u64 count, bool is_backwards) {
        const Handle made = make_file(volume_, all_, name);
        for (u64 i = count; is_backwards && i-- > 1;) {
            EXPECT_EQ(volume_.allocate(made, Allocate::reserve, 2 * i * block, block), Errc::ok);
        }
        for (u64 i = 0; i < (is_backwards ? 1 : count); ++i)
            write_piece(made, 2 * i);
    }

    /// Two files that share their blocks, so that the blocks have reference counts.
    void make_clone(const std::string& name, const std::string& model) {
        make_pieces(model, 4, false);
        const Handle made = make_file(volume_, all_, name);
        EXPECT_TRUE(volume_.share_range(find(all_, model), 0, made, 0, 7 * block));
    }

    void set_note(Handle file, const std::string& text) {
        const std::string value = mark_ + text + std::string(100, 'v');
        EXPECT_EQ(
            volume_.set_attribute(anybody, file, "user.note", std::as_bytes(std::span(value))),
            Errc::ok);
    }
    void make_attributes(const std::string& name) {
        const Handle made = random_.one_in(2) ? make_file(volume_, all_, name)
                                              : make_directory(volume_, all_, name);
        set_note(made, name);
    }
    void make_link(const std::string& name) {
        const std::string target = mark_ + name + std::string(300, 't');
        EXPECT_TRUE(
            volume_.create(anybody, all_, name, {.mode = 0120777, .target = target}).code() ==
            Errc::ok);
    }

    Volume& volume_;
    const std::string mark_;
    Random random_;
    Handle all_;
};

/// Creates more files than a block group of inodes has room for.
void fill_frames(Volume& volume) {
    const Handle executor = make_directory(volume, volume.root(), "executor");
    std::vector<std::string> names;
    for (u32 i = 0; i < 9000; ++i)
        names.push_back("file" + std::to_string(i));
    std::vector<Creation> creations;
    for (const std::string& name : names)
        creations.push_back({executor, name, {}});
    std::vector<Result<Attributes>> results(creations.size(), Errc::ok);
    volume.create_many(anybody, creations, results);
    EXPECT_TRUE(results.back());
}

/// Makes the hash keys of names deterministic. Requires: the volume is empty.
void fix_hash_key(MemoryDisk& disk, u64 seed) {
    format::Superblock superblock = test::ImageEditor(disk).superblock();
    std::ranges::fill(superblock.hash_key, seed);
    EXPECT_EQ(write_superblock(disk, superblock, superblock.header.transaction), Errc::ok);
}

}  // namespace

std::unique_ptr<MemoryDisk> record_reused_blocks(u64 seed) {
    auto disk = make_memory_disk(32 * mib);
    fix_hash_key(*disk, seed);
    disk->start_recording();
    const auto volume = open_on(*disk, {.workers = 1, .engine = EngineChoice::cpu});
    const auto sync = [&] { EXPECT_EQ(volume->sync(), Errc::ok); };
    fill_frames(*volume);
    sync();
    Removal removal;
    EXPECT_EQ(volume->remove_tree(anybody, volume->root(), "executor", removal), Errc::ok);
    constexpr u32 lives = 4;
    for (u32 i = 0; i < lives; ++i) {
        // Blocks that a commit frees can be reused after it.
        sync();
        sync();
        Life life(*volume, i, seed + i / 2);
        life.begin();
        sync();
        life.go_on();
        sync();
        if (i + 1 < lives) life.end();
    }
    EXPECT_EQ(volume->close(), Errc::ok);
    disk->stop_recording();
    return disk;
}

}  // namespace warren
