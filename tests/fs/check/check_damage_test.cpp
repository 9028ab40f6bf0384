// SPDX-License-Identifier: Apache-2.0
// Random damage of every kind: no changed byte of the metadata makes a check crash, hang or
// read outside of the disk, and a repair brings every volume that it can open to a clean
// state.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "base/random.hpp"
#include "fs/check/check.hpp"
#include "fs/format/check_block.hpp"
#include "fs/format/frame.hpp"
#include "tests/support/bounded_disk.hpp"
#include "tests/support/image_builder.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/two_looks.hpp"

namespace warren::check_damage_test {
namespace {

using format::Block;
using format::block_size;
using format::BlockHeader;
using format::Inode;
using test::ImageBuilder;
using test::ImageEditor;

/// Addresses of metadata blocks in use.
std::vector<u64> metadata_places(ImageBuilder& image) {
    ImageEditor editor(image.disk());
    const format::Superblock& superblock = image.superblock();
    std::vector<u64> places{0, format::superblock_copy_offset, superblock.frame_table_offset};
    const u64 first = superblock.root_inode / format::inodes_per_frame * format::frame_size;
    const u64 end = superblock.metadata_frames_end * format::frame_size;
    for (u64 place = first; place < end; place += block_size) {
        const Block block = editor.read(place);
        const bool is_in_use = std::ranges::any_of(block.words, [](u64 w) { return w != 0; });
        if (is_in_use) places.push_back(place);
    }
    return places;
}

/// A GPU runs the quick check only where volumes are few: its start takes longer than the check.
CheckResult expect_survives(Disk& disk, bool repair, Failure& failure,
                            EngineChoice engine = EngineChoice::cpu) {
    BoundedDisk bounded(disk);
    CheckOptions options;
    options.repair = repair;
    options.engine = engine;
    options.report = [](const std::string& line) { EXPECT_FALSE(line.empty()); };
    CheckResult result;
    failure = check_disk(bounded, "image", options, result);
    if (repair || failure.code != Errc::ok) return result;
    // The quick check calls a volume sound exactly if it has no problem.
    EXPECT_EQ(result.was_full, result.problems > 0);
    if (result.was_full) return result;
    options.is_full = true;
    CheckResult closer;
    EXPECT_EQ(check_disk(bounded, "image", options, closer).code, Errc::ok);
    EXPECT_EQ(closer.problems, 0u);
    return result;
}

/// Repairs a copy of the disk, which must be clean afterwards if it can be opened at all.
void expect_repairable(MemoryDisk& disk, const std::string& what) {
    const auto copy = disk.copy();
    Failure failure;
    const CheckResult result = expect_survives(*copy, true, failure);
    if (failure.code != Errc::ok) return;
    EXPECT_EQ(result.repaired, result.problems) << what;
    std::string lines;
    CheckOptions options;
    options.report = [&](const std::string& line) { lines += line + "\n"; };
    CheckResult again;
    EXPECT_EQ(check_disk(*copy, "image", options, again).code, Errc::ok) << what;
    EXPECT_EQ(again.problems, 0u) << what << "\n" << lines;
}

/// Whether a CRC covers the byte: true except in inode slots that are not in use.
bool is_guarded(const ImageBuilder& image, const Block& block, u64 place, u64 at) {
    const u64 frame = image.root() / format::inodes_per_frame;
    if (place / format::frame_size != frame || place % format::frame_size == 0) return true;
    const auto& inode = reinterpret_cast<const Inode*>(&block)[at / format::inode_size];
    const u64 field = at % format::inode_size;
    const bool is_reference = field >= offsetof(Inode, references) &&
                              field < offsetof(Inode, references) + sizeof inode.references;
    return inode.generation != 0 && !is_reference;
}

/// Flips a bit in each `step`th byte of the metadata, checks, repairs each `repair_step`th.
void flip_all(ImageBuilder& image, u64 step, u64 repair_step) {
    ImageEditor editor(image.disk());
    u64 count = 0;
    for (const u64 place : metadata_places(image)) {
        const Block block = editor.read(place);
        for (u64 at = place % step; at < block_size; at += step) {
            const u8 mask = static_cast<u8>(1u << (at + place / block_size) % 8);
            editor.flip(place + at, mask);
            Failure failure;
            const CheckResult result = expect_survives(image.disk(), false, failure);
            if (failure.code == Errc::ok && is_guarded(image, block, place, at)) {
                EXPECT_GT(result.problems, 0u) << place << " + " << at;
            }
            if (count++ % repair_step == 0) {
                expect_repairable(image.disk(), std::to_string(place) + " + " + std::to_string(at));
            }
            editor.flip(place + at, mask);
            ASSERT_FALSE(testing::Test::HasFailure()) << place << " + " << at;
        }
    }
}

TEST(CheckDamage, EveryByteOfASmallVolume) {
    ImageBuilder image(16 * mib);
    test::build_one_of_everything(image, 3, 14);
    flip_all(image, case_step, 61);
}

TEST(CheckDamage, EveryThirdByteRepairedLong) {
    ImageBuilder image(16 * mib);
    test::build_one_of_everything(image, 30, 14);
    flip_all(image, 3, 1);
}

TEST(CheckDamage, TruncatedDisk) {
    ImageBuilder image(16 * mib);
    test::build_one_of_everything(image, 3, 14);
    for (const u64 size : {u64{0}, u64{100}, u64{4096}, 2 * mib, 16 * mib - 4096}) {
        MemoryDisk shorter(size);
        std::vector<std::byte> bytes(size);
        ASSERT_EQ(image.disk().read(0, bytes), Errc::ok);
        ASSERT_EQ(shorter.write(0, bytes), Errc::ok);
        Failure failure;
        expect_survives(shorter, false, failure);
        EXPECT_NE(failure.code, Errc::ok);
        EXPECT_NE(failure.message.find("image"), std::string::npos);
    }
}

/// Changes some words of one metadata block to plausible values and recomputes its checksum.
void forge(ImageBuilder& image, Random& random, const std::vector<u64>& places) {
    ImageEditor editor(image.disk());
    const u64 inodes = image.root() / format::inodes_per_frame * format::frame_size;
    const u64 place = places[random.below(places.size())];
    Block block = editor.read(place);
    const Block other = editor.read(places[random.below(places.size())]);
    const bool has_header = reinterpret_cast<const BlockHeader&>(block).place == place;
    const u64 first = has_header ? sizeof(BlockHeader) / 8 : 0;
    for (u64 changes = 1 + random.below(4); changes > 0; --changes) {
        u64 at = first + random.below(32);
        // Mostly words that have a meaning.
        for (int tries = 0; tries < 6 && (block.words[at] == 0 || tries == 0); ++tries) {
            at = first + random.below(std::size(block.words) - first);
        }
        switch (random.below(6)) {
            case 0:
                block.words[at] ^= u64{1} << random.below(64);
                break;
            case 1:
                block.words[at] = random.next();
                break;
            case 2:
                block.words[at] = random.below(4);
                break;
            case 3:
                block.words[at] = other.words[at];
                break;
            case 4:
                block.words[at] = format::BlockPointer::to(places[random.below(places.size())]).raw;
                break;
            default:
                block.words[at] = block.words[first + random.below(64)];
                break;
        }
    }
    if (place < 2 * mib && place != image.superblock().frame_table_offset) return;
    if (has_header) {
        editor.write(place, block);
    } else if (place > inodes) {
        for (u64 i = 0; i < format::inodes_per_block; ++i) {
            const Inode& inode = reinterpret_cast<const Inode*>(&block)[i];
            if (inode.generation != 0) editor.set_inode(place / format::inode_size + i, inode);
        }
    }
}

void forge_many(u64 rounds, u64 seed) {
    ImageBuilder image(16 * mib);
    test::build_one_of_everything(image, 20, 14);
    const std::vector<u64> places = metadata_places(image);
    const auto pristine = image.disk().copy();
    Random random(seed);
    for (u64 i = 0; i < rounds; ++i) {
        for (u64 count = 1 + random.below(3); count > 0; --count)
            forge(image, random, places);
        Failure failure;
        expect_survives(image.disk(), false, failure, test::looking_engine());
        expect_repairable(image.disk(), "round " + std::to_string(i));
        ASSERT_FALSE(testing::Test::HasFailure()) << "round " << i;
        for (const u64 place : places) {
            Block block;
            ASSERT_EQ(pristine->read(place, std::as_writable_bytes(std::span(&block, 1))),
                      Errc::ok);
            ASSERT_EQ(image.disk().write(place, std::as_bytes(std::span(&block, 1))), Errc::ok);
        }
    }
}

TEST(CheckDamage, ForgedBlocks) {
    const Seed seed;
    forge_many(1500 / volume_step, seed.value());
}

TEST(CheckDamage, ForgedBlocksLong) {
    const Seed seed;
    for (u64 i = 0; i < 40 && !HasFailure(); ++i)
        forge_many(2500, seed.part(i));
}

}  // namespace
}  // namespace warren::check_damage_test
