// SPDX-License-Identifier: Apache-2.0
// The next write of contents gets all the space that statistics() calls available, and none is
// available once a write has been refused. Removed space comes back completely, for contents and
// for inodes, whatever used it before.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.hpp"
#include "fs/format/layout.hpp"
#include "tests/support/cut_recording.hpp"
#include "tests/support/keeping_disk.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::space_test {
namespace {

// The blocks that a file takes besides its contents: leaves of its directory, its extent tree.
constexpr u64 metadata_blocks_max = 8;

class Space : public testing::TestWithParam<u64> {
 protected:
    static constexpr u64 size_bytes = is_sanitized ? 16 * mib : 32 * mib;

    /// Available space after a commit: an engine with memory of its own updates it only then.
    Statistics settled() {
        EXPECT_EQ(volume_->sync(), Errc::ok);
        EXPECT_EQ(volume_->sync(), Errc::ok);
        return volume_->statistics();
    }
    /// Writes a file in pieces of `piece` bytes, then of a block, until there is no space. Returns
    /// how many blocks of it were written.
    u64 write_until_full(const std::string& name, u64 piece) {
        const auto made = volume_->create(anybody, volume_->root(), name, {.open = true});
        if (!made) return 0;
        const std::vector<std::byte> bytes(piece, std::byte{0x5a});
        u64 size = 0;
        for (const u64 length : {piece, u64{4096}}) {
            for (;;) {
                const auto wrote =
                    volume_->write(made->handle, size, std::span(bytes).first(length));
                if (!wrote) {
                    EXPECT_EQ(wrote.code(), Errc::no_space);
                    break;
                }
                size += *wrote;
            }
        }
        EXPECT_EQ(volume_->release(made->handle), Errc::ok);
        return size / 4096;
    }
    /// Creates files of `length` bytes, or of up to so many if there is a Random, until one is
    /// refused; returns how many.
    u64 make_until_full(u64 length, Random* random = nullptr) {
        const std::vector<std::byte> bytes(length, std::byte{0x5a});
        for (u64 count = 0;; ++count) {
            const auto made =
                volume_->create(anybody, volume_->root(), std::to_string(count), {.open = true});
            Errc code = made.code();
            if (made) {
                const u64 wanted = random == nullptr ? length : random->below(length + 1);
                for (u64 done = 0; done < wanted && code == Errc::ok;) {
                    const auto wrote = volume_->write(
                        made->handle, done, std::span(bytes).subspan(done, wanted - done));
                    code = wrote.code();
                    if (wrote) done += *wrote;
                }
                EXPECT_EQ(volume_->release(made->handle), Errc::ok);
            }
            if (code == Errc::ok) continue;
            EXPECT_EQ(code, Errc::no_space);
            return count;
        }
    }
    void remove_all() {
        for (const auto& [name, inode] : list_names(*volume_, volume_->root()))
            EXPECT_EQ(volume_->unlink(anybody, volume_->root(), name), Errc::ok) << name;
    }
    /// All of the initial space is available again, on this volume and after the next open.
    void expect_all_back(const Statistics& first) {
        for (const bool is_open_again : {false, true}) {
            if (is_open_again) volume_.close_and_check();
            if (is_open_again) volume_.open();
            const Statistics now = settled();
            EXPECT_EQ(now.blocks_free, first.blocks_free) << "open again: " << is_open_again;
            EXPECT_EQ(now.blocks_available, first.blocks_available);
            EXPECT_EQ(now.inodes_used, first.inodes_used);
            EXPECT_EQ(now.inodes_free, first.inodes_free);
        }
    }

    MemoryVolume volume_{size_bytes, {.workers = 2, .meta_buffer_bytes = GetParam()}};
};
INSTANTIATE_TEST_SUITE_P(BlockMaps, Space, testing::ValuesIn(block_maps));

TEST_P(Space, aLargeFileGetsAllThatIsAvailable) {
    const Statistics first = settled();
    u64 before = 0;
    for (u32 round = 0; round < 3; ++round) {
        SCOPED_TRACE(testing::Message() << "round " << round);
        const u64 written = write_until_full("large", 128 * kib);
        EXPECT_LE(written, first.blocks_available);
        EXPECT_GE(written + metadata_blocks_max, first.blocks_available);
        EXPECT_GE(written, before);
        before = written;
        EXPECT_EQ(settled().blocks_available, 0u);
        remove_all();
        expect_all_back(first);
    }
}

TEST_P(Space, nothingIsAvailableWhenFilesOfAnySizeAreRefused) {
    const Seed seed;
    Random random(seed.value());
    const Statistics first = settled();
    for (const u64 length : {4096, 20'000, 300'000}) {
        SCOPED_TRACE(testing::Message() << "files of up to " << length << " bytes");
        make_until_full(length, &random);
        write_until_full("rest", 4096);
        EXPECT_LE(settled().blocks_available, metadata_blocks_max);
        remove_all();
        expect_all_back(first);
    }
}

TEST_P(Space, directoriesWhoseTreesHaveGoneHaveNoBlocks) {
    // More than may wait for a commit, and a file whose tree has several leaves.
    std::vector<Handle> parents;
    const auto add = [&](const Handle& parent, const std::string& name) {
        make_file(*volume_, make_directory(*volume_, parent, name), "inside");
    };
    for (u64 i = 0; i < 40; ++i) {
        parents.push_back(make_directory(*volume_, volume_->root(), "parent" + std::to_string(i)));
        add(parents.back(), "tree");
    }
    const Handle large = make_directory(*volume_, volume_->root(), "large");
    for (u64 i = 0; i < 300; ++i)
        add(large, std::to_string(i));
    Removal removal;
    for (const Handle& parent : parents)
        ASSERT_EQ(volume_->remove_tree(anybody, parent, "tree", removal), Errc::ok);
    for (u64 i = 0; i < 300; ++i)
        ASSERT_EQ(volume_->remove_tree(anybody, large, std::to_string(i), removal), Errc::ok);
    EXPECT_EQ(removal.files, 340u);
    ASSERT_EQ(volume_->sync(), Errc::ok);
    for (const Handle& parent : parents)
        EXPECT_EQ(volume_->attributes(parent)->blocks, 0u);
    EXPECT_EQ(volume_->attributes(large)->blocks, 0u);
}

TEST_P(Space, whatInodesHadGoesToContents) {
    const Statistics first = settled();
    make_until_full(0);
    EXPECT_LE(settled().blocks_available, metadata_blocks_max);
    remove_all();
    // No commit in between: an operation that finds no space commits by itself.
    const u64 written = write_until_full("large", 128 * kib);
    EXPECT_GE(written + format::blocks_per_frame + metadata_blocks_max, first.blocks_available);
    remove_all();
    expect_all_back(first);
}

TEST_P(Space, whatContentsHadBetweenTwoCommitsGoesToInodes) {
    const u64 inodes = make_until_full(0);
    remove_all();
    const Statistics first = settled();
    write_until_full("large", 128 * kib);
    remove_all();
    const u64 again = make_until_full(0);
    EXPECT_GE(again + again / 50, inodes);
    remove_all();
    expect_all_back(first);
    // The space reserved for contents at close belongs to no one at the next open.
    write_until_full("large", 128 * kib);
    EXPECT_EQ(volume_->sync(), Errc::ok);
    remove_all();
    volume_.close_and_check();
    volume_.open();
    const u64 opened = make_until_full(0);
    EXPECT_GE(opened + opened / 50, inodes);
}

constexpr u64 cut_files = 9000;  // more than a frame of inodes

void make_files(Volume& volume, const std::string& name) {
    const Handle directory = make_directory(volume, volume.root(), name);
    for (u64 i = 0; i < cut_files; ++i)
        make_file(volume, directory, std::to_string(i));
}

/// Fills the file of one letter until there is no space; returns its size.
u64 write_letters(Volume& volume) {
    const Handle file = volume.lookup(anybody, volume.root(), "letters")->handle;
    EXPECT_EQ(volume.open_file(file), Errc::ok);
    const std::vector<std::byte> piece(256 * kib, std::byte{'n'});
    u64 size = 0;
    for (;;) {
        const auto wrote = volume.write(file, size, piece);
        if (!wrote) break;
        size += *wrote;
    }
    EXPECT_EQ(volume.release(file), Errc::ok);
    return size;
}

/// The size of the letter file, which holds nothing else; 0 if it does not exist.
u64 letters_in(Volume& volume) {
    const auto found = volume.lookup(anybody, volume.root(), "letters");
    if (!found) return 0;
    std::vector<std::byte> bytes(found->size);
    EXPECT_EQ(volume.open_file(found->handle), Errc::ok);
    EXPECT_TRUE(volume.read(found->handle, 0, bytes));
    EXPECT_EQ(volume.release(found->handle), Errc::ok);
    EXPECT_EQ(std::ranges::count(bytes, std::byte{'n'}), static_cast<i64>(bytes.size()))
        << "something was written over contents";
    return found->size;
}

/// A block group of inodes becomes one of contents within a few commits, and the reverse: no replay
/// may restore its earlier contents.
TEST(SpaceCuts, framesThatChangeHandsLoseNothing) {
    const Seed seed;
    CutRecording recording;
    recording.log = make_memory_disk(16 * mib);
    KeepingDisk keeping(recording.disk());
    const auto volume = open_on(keeping, {.workers = 1});
    ASSERT_NE(volume, nullptr);
    // Its inode lies in the first block group: the others lose all of theirs.
    make_file(*volume, volume->root(), "letters");
    make_files(*volume, "first");
    ASSERT_EQ(volume->sync(), Errc::ok);
    recording.disk().start_recording();
    recording.note_state();
    recording.note_sync();
    const auto remove = [&](const std::string& name) {
        Removal removal;
        ASSERT_EQ(volume->remove_tree(anybody, volume->root(), name, removal), Errc::ok);
    };
    const auto end_stage = [&] {
        ASSERT_EQ(volume->sync(), Errc::ok);
        recording.note_state();
        recording.note_sync();
    };
    remove("first");
    const u64 size = write_letters(*volume);
    end_stage();
    ASSERT_GT(size, 6 * mib) << "what inodes had was not given to contents";
    ASSERT_EQ(volume->unlink(anybody, volume->root(), "letters"), Errc::ok);
    make_files(*volume, "second");
    end_stage();
    recording.disk().stop_recording();
    Random random(seed.value());
    const u64 stride = recording.disk().event_count() * volume_step / (40 * test_load()) + 1;
    for (u64 event = 0; event <= recording.disk().event_count() && !HasFailure();
         event += 1 + random.below(stride)) {
        const Cut cut{random.one_in(2), random.one_in(2), random.one_in(2), random.next()};
        SCOPED_TRACE(testing::Message() << "cut after event " << event << ", " << cut.seed);
        const auto image = recording.disk().image_after(event, cut);
        const auto after = open_on(*image, {.workers = 1});
        ASSERT_TRUE(after);
        const u64 found = letters_in(*after);
        const u64 first = recording.first_state(event);
        if (first == 1 && recording.last_state(event) == 1) {
            EXPECT_EQ(found, size);
        }
        if (first == 2) {
            EXPECT_EQ(after->statistics().inodes_used, cut_files + 3);
        }
        ASSERT_EQ(after->close(), Errc::ok);
        ASSERT_TRUE(expect_clean(*image));
    }
}

}  // namespace
}  // namespace warren::space_test
