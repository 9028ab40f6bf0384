// SPDX-License-Identifier: Apache-2.0
// The limits of a volume: a million names in a directory, ten thousand nested directories,
// files of terabytes, the smallest and the largest volume, a full one, names that all
// collide.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <unordered_set>

#include "fs/admin/make_volume.hpp"
#include "fs/format/inode.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/thread_executor.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::limits_test {
namespace {

std::string number_name(u64 index) {
    return "entry number " + std::to_string(index);
}

/// Creates entries in batches, as fast as a volume accepts them.
void make_many(Volume& volume, Handle directory, u64 begin, u64 end) {
    constexpr u64 batch = 10'000;
    for (u64 at = begin; at < end; at += batch) {
        const u64 count = std::min(batch, end - at);
        std::vector<std::string> names;
        std::vector<Creation> creations;
        for (u64 i = 0; i < count; ++i)
            names.push_back(number_name(at + i));
        for (const std::string& name : names)
            creations.push_back({directory, name, {}});
        std::vector<Result<Attributes>> made(count);
        volume.create_many(anybody, creations, made);
        for (u64 i = 0; i < count; ++i)
            ASSERT_TRUE(made[i]) << names[i];
    }
}

/// The number of names listed; fails the test if one is listed twice.
u64 count_names(Volume& volume, Handle directory) {
    std::unordered_set<u64> inodes;
    u64 count = 0;
    u64 cookie = 0;
    EXPECT_EQ(volume.read_directory(directory, 0,
                                    [&](const DirectoryEntry& entry) {
                                        EXPECT_TRUE(inodes.insert(entry.inode).second);
                                        EXPECT_GT(entry.cookie, cookie);
                                        cookie = entry.cookie;
                                        ++count;
                                        return true;
                                    }),
              Errc::ok);
    return count;
}

void fill_a_directory(u64 entries, u64 meta_buffer_bytes, u64 volume_bytes) {
    MemoryVolume volume(volume_bytes, {.workers = 2, .meta_buffer_bytes = meta_buffer_bytes});
    const Handle directory = make_directory(*volume, volume->root(), "d");
    make_many(*volume, directory, 0, entries);
    EXPECT_EQ(count_names(*volume, directory), entries);
    for (u64 i = 0; i < entries; ++i) {
        ASSERT_TRUE(volume->lookup(anybody, directory, number_name(i))) << i;
    }
    EXPECT_EQ(volume->lookup(anybody, directory, number_name(entries)).code(), Errc::no_entry);
    for (u64 i = 0; i < entries; ++i) {
        if (i % 4 == 0) continue;
        ASSERT_EQ(volume->unlink(anybody, directory, number_name(i)), Errc::ok) << i;
    }
    Rebuilt rebuilt;
    EXPECT_EQ(volume->rebuild(anybody, directory, rebuilt), Errc::ok);
    EXPECT_EQ(rebuilt.entries, (entries + 3) / 4);
    EXPECT_LT(rebuilt.blocks_after, rebuilt.blocks_before);
    // A leaf holds 84 short names after packing, and a node some 250 leaves.
    EXPECT_LT(rebuilt.blocks_after, rebuilt.entries / 40 + 10);
    volume.close();
    volume.open();
    EXPECT_EQ(count_names(*volume, directory), (entries + 3) / 4);
    for (u64 i = 0; i < entries; ++i) {
        const auto found = volume->lookup(anybody, directory, number_name(i));
        ASSERT_EQ(found.code(), i % 4 == 0 ? Errc::ok : Errc::no_entry) << i;
    }
    Removal removal;
    EXPECT_EQ(volume->remove_tree(anybody, volume->root(), "d", removal), Errc::ok);
    EXPECT_EQ(removal.files, (entries + 3) / 4);
    EXPECT_EQ(volume->statistics().inodes_used, 2u);
    volume.close_and_check();
}

TEST(Limits, aDirectoryOf50000) {
    for (const u64 map : block_maps) {
        SCOPED_TRACE(map);
        fill_a_directory(50'000 / size_step, map, 512 * mib);
    }
}

TEST(LimitsLong, aDirectoryOfAMillion) {
    for (const u64 map : {u64{0}, 8 * mib}) {
        SCOPED_TRACE(map);
        fill_a_directory(1'000'000, map, 4 * gib);
    }
}

TEST(Limits, tenThousandDirectoriesInEachOther) {
    constexpr u64 depth = 10'000 / size_step;
    for (const u64 map : block_maps) {
        SCOPED_TRACE(map);
        MemoryVolume volume(512 * mib, {.workers = 2, .meta_buffer_bytes = map});
        std::string path;
        Handle at = volume->root();
        Handle middle;
        for (u64 i = 0; i < depth; ++i) {
            at = make_directory(*volume, at, "d");
            if (i == depth / 2) middle = at;
            path += "/d";
        }
        make_file(*volume, at, "bottom");
        const auto found = resolve(*volume, anybody, path + "/bottom");
        ASSERT_TRUE(found);
        EXPECT_EQ(volume->rename(anybody, volume->root(), "d", at, "circle"), Errc::invalid);
        EXPECT_EQ(volume->rename(anybody, middle, "d", volume->root(), "half"), Errc::ok);
        EXPECT_EQ(volume->rename(anybody, volume->root(), "half", middle, "d"), Errc::ok);
        std::atomic<u64> visited{0};
        std::atomic<u32> deepest{0};
        EXPECT_EQ(volume->scan(anybody, volume->root(),
                               [&](const Scanned& one) {
                                   ++visited;
                                   u32 old = deepest;
                                   while (old < one.depth &&
                                          !deepest.compare_exchange_weak(old, one.depth)) {
                                   }
                                   return true;
                               }),
                  Errc::ok);
        EXPECT_EQ(visited, depth + 2);
        EXPECT_EQ(deepest, depth + 1);
        volume.close_and_check();
        volume.open();
        Removal removal;
        EXPECT_EQ(volume->remove_tree(anybody, volume->root(), "d", removal), Errc::ok);
        EXPECT_EQ(removal.directories, depth);
        EXPECT_EQ(removal.files, 1u);
        volume.close_and_check();
    }
}

TEST(Limits, namesOfAnyBytesAndAnyLength) {
    MemoryVolume volume(256 * mib);
    std::set<std::string> names;
    const auto add = [&](std::string name) {
        if (name.find('/') != std::string::npos || name.find('\0') != std::string::npos) return;
        if (name.empty() || name == "." || name == ".." || !names.insert(name).second) return;
        ASSERT_TRUE(volume->create(anybody, volume->root(), name, {}));
    };
    for (int byte = 1; byte < 256; ++byte) {
        for (const u64 length : {1, 2, 7, 8, 9, 254, 255}) {
            add(std::string(length, static_cast<char>(byte)));
        }
        add("..." + std::string(1, static_cast<char>(byte)));
    }
    for (u64 length = 1; length <= 255; ++length)
        add(std::string(length, 'z'));
    const Seed seed;
    Random random(seed.value());
    for (u64 i = 0; i < 1000; ++i) {
        std::string name(1 + random.below(255), 'x');
        for (char& c : name)
            c = static_cast<char>(1 + random.below(255));
        std::erase(name, '/');
        add(name);
    }
    std::set<std::string> listed;
    EXPECT_EQ(volume->read_directory(volume->root(), 0,
                                     [&](const DirectoryEntry& entry) {
                                         listed.emplace(entry.name);
                                         return true;
                                     }),
              Errc::ok);
    EXPECT_EQ(listed, names);
    const std::string too_long(256, 'z');
    EXPECT_EQ(volume->create(anybody, volume->root(), too_long, {}).code(), Errc::name_too_long);
    EXPECT_EQ(volume->lookup(anybody, volume->root(), too_long).code(), Errc::name_too_long);
    volume.close();
    volume.open();
    for (const std::string& name : names) {
        ASSERT_TRUE(volume->lookup(anybody, volume->root(), name));
        ASSERT_EQ(volume->unlink(anybody, volume->root(), name), Errc::ok);
    }
    volume.close_and_check();
}

TEST(Limits, targetsOfLinksHaveNoNul) {
    MemoryVolume volume(64 * mib);
    // In the inode, and beyond what it holds of a long target.
    for (const u64 length : {1, 2, 100, 200, 1000, 4000}) {
        for (const u64 nul : {u64{0}, length / 2, length - 1}) {
            std::string target(length, 't');
            const auto make = [&] {
                return volume->create(anybody, volume->root(), "link",
                                      {.mode = 0120777, .target = target});
            };
            target[nul] = '\0';
            EXPECT_EQ(make().code(), Errc::invalid) << length << " " << nul;
            target[nul] = 'u';
            const Result<Attributes> made = make();
            ASSERT_TRUE(made) << length;
            EXPECT_EQ(*volume->read_link(made->handle), target);
            ASSERT_EQ(volume->unlink(anybody, volume->root(), "link"), Errc::ok);
        }
    }
    volume.close_and_check();
}

TEST(Limits, aSparseFileOfATebibyte) {
    for (const u64 map : block_maps) {
        SCOPED_TRACE(map);
        MemoryVolume volume(64 * mib, {.meta_buffer_bytes = map});
        const Handle file = make_file(*volume, volume->root(), "f");
        ASSERT_EQ(volume->open_file(file), Errc::ok);
        const std::vector<std::byte> data(5000, std::byte{7});
        const u64 places[] = {0, 1 * gib + 1, 3 * gib - 2500, 500 * gib + 77, tib - 5000};
        for (const u64 place : places) {
            ASSERT_EQ(*volume->write(file, place, data), data.size());
        }
        EXPECT_EQ(volume->attributes(file)->size, tib);
        EXPECT_LE(volume->attributes(file)->blocks, 20u);
        u64 at = 0;
        for (const u64 place : places) {
            const auto start = volume->seek(file, at, Seek::data);
            ASSERT_TRUE(start);
            EXPECT_LE(*start, place);
            EXPECT_GT(*start + 4096, place);
            std::vector<std::byte> got(data.size());
            ASSERT_EQ(*volume->read(file, place, got), data.size());
            EXPECT_EQ(got, data);
            at = *volume->seek(file, *start, Seek::hole);
            EXPECT_GE(at, place + data.size());
        }
        EXPECT_EQ(volume->allocate(file, Allocate::punch_hole, 4096, tib - 8192), Errc::ok);
        EXPECT_EQ(*volume->seek(file, 8192, Seek::data), tib - 4096);
        AttributeChange change;
        change.which = AttributeChange::size;
        change.new_size = u64{1} << 60;
        EXPECT_TRUE(volume->set_attributes(anybody, file, change));
        change.new_size = (u64{1} << 60) + 1;
        EXPECT_EQ(volume->set_attributes(anybody, file, change).code(), Errc::file_too_big);
        EXPECT_EQ(volume->write(file, u64{1} << 60, data).code(), Errc::file_too_big);
        EXPECT_EQ(volume->release(file), Errc::ok);
        volume.close_and_check();
    }
}

/// A file with every second block of `bytes` in use. Reserved blocks cost no data on the disk.
void make_comb(u64 bytes, u64 volume_bytes, u64 meta_buffer_bytes) {
    MemoryVolume volume(volume_bytes, {.workers = 2, .meta_buffer_bytes = meta_buffer_bytes});
    const u64 free_before = volume->statistics().blocks_free;
    const Handle file = make_file(*volume, volume->root(), "comb");
    ASSERT_EQ(volume->open_file(file), Errc::ok);
    for (u64 at = 0; at < bytes; at += 8192) {
        ASSERT_EQ(volume->allocate(file, Allocate::reserve, at, 4096), Errc::ok) << at;
    }
    const u64 teeth = bytes / 8192;
    EXPECT_GE(volume->attributes(file)->blocks, teeth);
    EXPECT_LE(volume->attributes(file)->blocks, teeth + teeth / 80 + 10);
    const std::vector<std::byte> data(100, std::byte{9});
    for (u64 i = 0; i < 50; ++i) {
        const u64 place = bytes / 50 * i / 4096 * 4096 + 50;
        ASSERT_EQ(*volume->write(file, place, data), data.size());
        std::byte got[200];
        ASSERT_TRUE(volume->read(file, place - 50, got));
        EXPECT_EQ(got[49], std::byte{0});
        EXPECT_EQ(got[50], std::byte{9});
        EXPECT_EQ(got[150], std::byte{0});
    }
    // From the front, so that leaves and nodes before others are freed; then back where they were.
    EXPECT_EQ(volume->allocate(file, Allocate::punch_hole, 0, bytes / 8 * 5), Errc::ok);
    EXPECT_LE(volume->attributes(file)->blocks, teeth / 8 * 3 + teeth / 80 + 10);
    EXPECT_EQ(volume->release(file), Errc::ok);
    volume.close_and_check();
    volume.open();
    ASSERT_EQ(volume->open_file(file), Errc::ok);
    for (u64 at = 0; at < bytes / 8; at += 8192)
        ASSERT_EQ(volume->allocate(file, Allocate::reserve, at, 4096), Errc::ok) << at;
    EXPECT_GE(volume->attributes(file)->blocks, teeth / 8 * 4);
    EXPECT_EQ(volume->release(file), Errc::ok);
    volume.close_and_check();
    volume.open();
    EXPECT_EQ(volume->unlink(anybody, volume->root(), "comb"), Errc::ok);
    EXPECT_EQ(volume->statistics().blocks_free, free_before);
    volume.close_and_check();
}

TEST(Limits, aFileOf4GibibytesWithEverySecondBlock) {
    for (const u64 map : block_maps) {
        SCOPED_TRACE(map);
        make_comb(4 * gib / size_step, 4 * gib, map);
    }
}

TEST(LimitsLong, aFileOf64GibibytesWithEverySecondBlock) {
    make_comb(64 * gib, 64 * gib, 0);
}

/// Creates a volume of this size, with a few files, and reads back what was written.
void try_size(u64 size) {
    SCOPED_TRACE(testing::Message() << size << " bytes");
    MemoryVolume volume(size, {.workers = 1});
    const Handle file = make_file(*volume, volume->root(), "f");
    ASSERT_EQ(volume->open_file(file), Errc::ok);
    const std::vector<std::byte> data(300'000, std::byte{5});
    EXPECT_EQ(*volume->write(file, 1000, data), data.size());
    EXPECT_EQ(volume->release(file), Errc::ok);
    for (u64 i = 0; i < 200; ++i)
        make_file(*volume, volume->root(), number_name(i));
    EXPECT_EQ(volume->statistics().blocks, size / (2 * mib) * 512);
    volume.close_and_check();
    volume.open();
    std::vector<std::byte> got(data.size());
    ASSERT_EQ(volume->open_file(file), Errc::ok);
    EXPECT_EQ(*volume->read(file, 1000, got), data.size());
    EXPECT_EQ(got, data);
    EXPECT_EQ(count_names(*volume, volume->root()), 201u);
    EXPECT_EQ(volume->release(file), Errc::ok);
    volume.close_and_check();
    EXPECT_LT(volume.disk().resident_bytes(), 8 * mib);
}

TEST(Limits, volumesOfAllSizes) {
    for (const u64 size :
         {16 * mib, 18 * mib, 62 * mib, 64 * mib, 1 * gib, 16 * gib, 100 * gib, 1 * tib})
        try_size(size);
}

TEST(Limits, aVolumeOf16Tebibytes) {
    try_size(16 * tib);
}

TEST(Limits, smallestRoomForACommitTakesTheRemovalOfATree) {
    // The smallest possible journal, and contents may use half of it.
    MemoryVolume volume(16 * mib, {.workers = 2, .data = DataMode::journal});
    const u64 inodes = volume->statistics().inodes_used;
    const Handle tree = make_directory(*volume, volume->root(), "tree");
    for (u64 i = 0; i < 40; ++i) {
        const Handle below = make_directory(*volume, tree, std::to_string(i));
        make_directory(*volume, below, "directory");
        make_many(*volume, below, 0, 100);
    }
    Removal removal;
    EXPECT_EQ(volume->remove_tree(anybody, volume->root(), "tree", removal), Errc::ok);
    EXPECT_EQ(removal.files, 4000u);
    EXPECT_EQ(removal.directories, 81u);
    EXPECT_EQ(volume->statistics().inodes_used, inodes);
    volume.close_and_check();
}

TEST(Limits, aVolumeThatHasGrownIsEmptiedThoughItsJournalIsSmall) {
    auto disk = std::make_unique<MemoryDisk>(1 * gib);
    ASSERT_EQ(make_volume_on(*disk, "image", 16 * mib, "").code, Errc::ok);
    ASSERT_EQ(grow_volume_on(*disk, "image", 1 * gib).code, Errc::ok);
    MemoryVolume volume(std::move(disk), {.workers = 2});
    // Names in few leaves, whose inodes have more bitmaps than a commit holds blocks.
    constexpr u64 frames = 140 / size_step;
    constexpr u64 in_frame = format::inodes_per_frame - format::inodes_per_block;
    const Handle tree = make_directory(*volume, volume->root(), "tree");
    std::vector<Handle> others;
    for (u64 i = 0; i < frames; ++i) {
        const std::string name = std::to_string(i);
        const Handle directory = make_directory(*volume, volume->root(), name);
        make_many(*volume, directory, 0, in_frame);
        ASSERT_EQ(volume->rename(anybody, directory, number_name(0), tree, name), Errc::ok);
        others.push_back(directory);
    }
    ASSERT_EQ(volume->sync(), Errc::ok);
    // Much of the next commit is already full.
    AttributeChange change{.which = AttributeChange::mode, .new_mode = 0700};
    for (u64 i = 0; i < std::min<u64>(frames, 80); ++i)
        ASSERT_TRUE(volume->set_attributes(anybody, others[i], change));
    Removal removal;
    EXPECT_EQ(volume->remove_tree(anybody, volume->root(), "tree", removal), Errc::ok);
    EXPECT_EQ(removal.files, frames);
    EXPECT_EQ(volume->sync(), Errc::ok);
    volume.close_and_check();
}

/// `upper` directories with as many directories each, with a file in each of these, while much of
/// the next commit is already full.
void remove_wide_tree(u64 size_bytes, u64 upper, u32 workers) {
    SCOPED_TRACE(workers);
    MemoryVolume volume(size_bytes, {.workers = workers});
    const u64 inodes = volume->statistics().inodes_used;
    const Handle tree = make_directory(*volume, volume->root(), "tree");
    std::vector<Handle> uppers;
    for (u64 i = 0; i < upper; ++i) {
        const Handle above = make_directory(*volume, tree, std::to_string(i));
        uppers.push_back(above);
        for (u64 k = 0; k < upper; ++k)
            make_file(*volume, make_directory(*volume, above, std::to_string(k)), "file");
    }
    ASSERT_EQ(volume->sync(), Errc::ok);
    const AttributeChange change{.which = AttributeChange::mode, .new_mode = 0700};
    for (u64 i = 0; i < 55; ++i)
        ASSERT_TRUE(volume->set_attributes(anybody, uppers[i], change));
    Removal removal;
    EXPECT_EQ(volume->remove_tree(anybody, volume->root(), "tree", removal), Errc::ok);
    EXPECT_EQ(removal.directories, upper * (upper + 1) + 1);
    EXPECT_EQ(volume->sync(), Errc::ok);
    EXPECT_EQ(volume->statistics().inodes_used, inodes);
    volume.close_and_check();
}

/// If workers detached the lower directories of all upper ones at once, the orphan directory would
/// get more leaves than a commit holds; likewise if they freed all of them in one step.
TEST(Limits, aWideTreeIsRemovedThoughTheJournalIsSmall) {
    for (const u32 workers : {2, 16, 64}) {
        if (is_sanitized && workers != 16) continue;
        remove_wide_tree(62 * mib, 90, workers);
        remove_wide_tree(66 * mib, 110, workers);
    }
    remove_wide_tree(256 * mib, 110, 64);
}

/// Each name that is removed changes a file that stays, and many are removed at once.
TEST(Limits, aTreeOfLinksIsRemovedThoughTheJournalIsSmall) {
    MemoryVolume volume(66 * mib, {.workers = 16});
    const Handle kept = make_directory(*volume, volume->root(), "kept");
    const Handle tree = make_directory(*volume, volume->root(), "tree");
    constexpr u64 directories = 64;
    constexpr u64 links = 80;
    std::vector<Handle> files;
    for (u64 i = 0; i < directories * links; ++i)
        files.push_back(make_file(*volume, kept, number_name(i)));
    for (u64 i = 0; i < directories; ++i) {
        const Handle directory = make_directory(*volume, tree, std::to_string(i));
        // The files linked in one directory lie far from each other.
        for (u64 k = 0; k < links; ++k)
            ASSERT_TRUE(
                volume->link(anybody, files[k * directories + i], directory, std::to_string(k)));
    }
    ASSERT_EQ(volume->sync(), Errc::ok);
    Removal removal;
    EXPECT_EQ(volume->remove_tree(anybody, volume->root(), "tree", removal), Errc::ok);
    EXPECT_EQ(removal.files, files.size());
    EXPECT_EQ(volume->sync(), Errc::ok);
    for (const Handle file : files)
        ASSERT_EQ(volume->attributes(file)->links, 1u);
    volume.close_and_check();
}

/// A bulk step keeps lists of up to a million directories.
TEST(LimitsLong, aTreeOfMoreDirectoriesThanAListHolds) {
    constexpr u64 upper = 1100;
    MemoryVolume volume(16 * gib, {.workers = 4});
    const u64 inodes = volume->statistics().inodes_used;
    const Handle tree = make_directory(*volume, volume->root(), "tree");
    std::vector<std::string> names;
    for (u64 i = 0; i < upper; ++i)
        names.push_back(number_name(i));
    std::vector<Creation> directories;
    std::vector<Creation> files;
    std::vector<Result<Attributes>> made(upper, Errc::io);
    const auto make_all = [&](const std::vector<Creation>& wanted) {
        volume->create_many(anybody, wanted, made);
        for (const Result<Attributes>& one : made)
            ASSERT_TRUE(one);
    };
    for (u64 i = 0; i < upper; ++i) {
        directories.clear();
        files.clear();
        const Handle above = make_directory(*volume, tree, names[i]);
        for (const std::string& name : names)
            directories.push_back({above, name, {.mode = 040755}});
        make_all(directories);
        for (u64 k = 0; k < upper; ++k)
            files.push_back({made[k]->handle, "file", {.mode = 0100644}});
        make_all(files);
        if (HasFatalFailure()) return;
    }
    ASSERT_EQ(volume->sync(), Errc::ok);
    Removal removal;
    EXPECT_EQ(volume->remove_tree(anybody, volume->root(), "tree", removal), Errc::ok);
    EXPECT_EQ(removal.directories, upper * (upper + 1) + 1);
    EXPECT_EQ(removal.files, upper * upper);
    EXPECT_EQ(volume->sync(), Errc::ok);
    EXPECT_EQ(volume->statistics().inodes_used, inodes);
    volume.close_and_check();
}

}  // namespace
}  // namespace warren::limits_test
