// SPDX-License-Identifier: Apache-2.0
// A full volume returns errors and loses nothing; its contents can be read, removed and then
// created again. And a directory with as many colliding names as it can hold.
#include <gtest/gtest.h>

#include "tests/support/memory_volume.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/thread_executor.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::full_volume_test {
namespace {

class FullVolume : public testing::TestWithParam<u64> {
 protected:
    OpenOptions options() const { return {.workers = 2, .meta_buffer_bytes = GetParam()}; }
};
INSTANTIATE_TEST_SUITE_P(BlockMaps, FullVolume, testing::ValuesIn(block_maps));

/// The bytes that file `index` shall hold.
std::vector<std::byte> bytes_of(u64 index, u64 length) {
    std::vector<std::byte> bytes(length);
    Random random(index);
    for (std::byte& byte : bytes)
        byte = static_cast<std::byte>(random.next());
    return bytes;
}

/// What was written to a volume until it was full.
struct Filling {
    struct File {
        std::string name;
        u64 index;
        u64 length;  // that write() took
    };
    std::vector<File> files;
    Errc end = Errc::ok;
};

/// Creates files of `length` bytes, in directories of 500, until the volume refuses one.
Filling fill(Volume& volume, u64 length) {
    Filling filling;
    Handle directory;
    std::string path;
    for (u64 i = 0; filling.end == Errc::ok; ++i) {
        if (i % 500 == 0) {
            path = "d" + std::to_string(i / 500);
            const auto made = volume.create(anybody, volume.root(), path, {.mode = 040755});
            filling.end = made.code();
            if (!made) break;
            directory = made->handle;
        }
        const std::string name = "f" + std::to_string(i);
        const auto made = volume.create(anybody, directory, name, {.open = true});
        filling.end = made.code();
        if (!made) break;
        filling.files.push_back({"/" + path + "/" + name, i, 0});
        u64& done = filling.files.back().length;
        const auto bytes = bytes_of(i, length);
        while (done < length && filling.end == Errc::ok) {
            const auto wrote = volume.write(made->handle, done, std::span(bytes).subspan(done));
            filling.end = wrote.code();
            if (wrote) done += *wrote;
        }
        EXPECT_EQ(volume.release(made->handle), Errc::ok);
    }
    return filling;
}

void expect_all_there(Volume& volume, const Filling& filling, u64 length) {
    for (const Filling::File& file : filling.files) {
        const auto found = resolve(volume, anybody, file.name);
        ASSERT_TRUE(found) << file.name;
        ASSERT_EQ(found->size, file.length) << file.name;
        ASSERT_EQ(volume.open_file(found->handle), Errc::ok);
        std::vector<std::byte> got(file.length);
        ASSERT_EQ(*volume.read(found->handle, 0, got), file.length);
        auto wanted = bytes_of(file.index, length);
        wanted.resize(file.length);
        ASSERT_TRUE(got == wanted) << file.name;
        ASSERT_EQ(volume.release(found->handle), Errc::ok);
    }
}

void remove_all(Volume& volume) {
    for (const auto& [name, inode] : list_names(volume, volume.root())) {
        Removal removal;
        ASSERT_EQ(volume.remove_tree(anybody, volume.root(), name, removal), Errc::ok) << name;
    }
}

TEST_P(FullVolume, losesNothingAndCanBeEmptiedAndFilledAgain) {
    for (const u64 length : {u64{0}, u64{100}, u64{5000}, u64{300'000}}) {
        if (is_sanitized && length < 5000) continue;  // ten thousand files
        SCOPED_TRACE(testing::Message() << "files of " << length << " bytes");
        MemoryVolume volume(16 * mib, options());
        std::vector<std::size_t> counts;
        for (u32 round = 0; round < 3 && !HasFailure(); ++round) {
            SCOPED_TRACE(testing::Message() << "round " << round);
            const Filling filling = fill(*volume, length);
            EXPECT_EQ(filling.end, Errc::no_space);
            counts.push_back(filling.files.size());
            EXPECT_EQ(volume->sync(), Errc::ok);
            expect_all_there(*volume, filling, length);
            volume.close_and_check();
            volume.open();
            expect_all_there(*volume, filling, length);
            // Removal one by one needs no more room than removal of trees.
            for (u64 i = 0; i < filling.files.size() && i < 20; ++i) {
                const std::string& path = filling.files[i].name;
                const auto directory = resolve(*volume, anybody, path.substr(0, path.rfind('/')));
                ASSERT_TRUE(directory);
                ASSERT_EQ(
                    volume->unlink(anybody, directory->handle, path.substr(path.rfind('/') + 1)),
                    Errc::ok);
            }
            remove_all(*volume);
            EXPECT_EQ(volume->statistics().inodes_used, 2u);
            EXPECT_EQ(volume->sync(), Errc::ok);
        }
        ASSERT_EQ(counts.size(), 3u);
        // Of the eight block groups of such a volume at least four can be filled with data.
        EXPECT_GE(counts[0], 4 * 2 * mib / 300'000);
        EXPECT_GE(counts[1] + counts[0] / 20 + 5, counts[0]) << "space has been lost";
        EXPECT_GE(counts[2] + counts[0] / 20 + 5, counts[0]) << "space has been lost";
        volume.close_and_check();
    }
}

TEST_P(FullVolume, refusesEachKindOfGrowthAndTakesEachKindOfRemoval) {
    MemoryVolume volume(16 * mib, options());
    const Handle open = make_file(*volume, volume->root(), "open");
    ASSERT_EQ(volume->open_file(open), Errc::ok);
    const Handle removed = make_file(*volume, volume->root(), "removed");
    ASSERT_EQ(volume->open_file(removed), Errc::ok);
    const std::vector<std::byte> data(200'000, std::byte{3});
    ASSERT_EQ(*volume->write(removed, 0, data), data.size());
    const Handle moved = make_directory(*volume, volume->root(), "moved");
    const Handle target = make_directory(*volume, volume->root(), "target");
    const Filling large = fill(*volume, 300'000);
    EXPECT_EQ(large.end, Errc::no_space);
    EXPECT_EQ(volume->write(open, 0, data).code(), Errc::no_space);
    EXPECT_EQ(volume->allocate(open, Allocate::reserve, 0, 100'000), Errc::no_space);
    EXPECT_EQ(volume->attributes(open)->size, 0u);

    EXPECT_EQ(volume->rename(anybody, volume->root(), "moved", target, "moved"), Errc::ok);
    EXPECT_EQ(volume->unlink(anybody, volume->root(), "removed"), Errc::ok);
    EXPECT_EQ(volume->release(removed), Errc::ok);
    EXPECT_EQ(volume->attributes(moved)->parent, target.inode);
    // Freed space can be used: the volume commits by itself before it refuses a write.
    EXPECT_TRUE(volume->write(open, 0, std::span(data).first(100'000)));
    AttributeChange change;
    change.which = AttributeChange::size;
    EXPECT_TRUE(volume->set_attributes(anybody, open, change));
    EXPECT_EQ(volume->release(open), Errc::ok);
    volume.close_and_check();
}

/// The space that data leave free cannot be used for names: the tree must go without a block for
/// the names that its directories get between two steps.
TEST_P(FullVolume, removesATreeWhereNamesFindNoBlock) {
    MemoryVolume volume(64 * mib, options());
    const u64 inodes_before = volume->statistics().inodes_used;
    const Handle tree = make_directory(*volume, volume->root(), "tree");
    constexpr u64 width = 2500;
    for (u64 i = 0; i < width; ++i) {
        const Handle inner = make_directory(*volume, tree, std::to_string(i));
        make_file(*volume, inner, "f");
    }
    // The orphan directory needs a leaf, or no tree could be detached.
    const Handle open = make_file(*volume, volume->root(), "open");
    ASSERT_EQ(volume->open_file(open), Errc::ok);
    ASSERT_EQ(volume->unlink(anybody, volume->root(), "open"), Errc::ok);

    const Handle data = make_file(*volume, volume->root(), "data");
    ASSERT_EQ(volume->open_file(data), Errc::ok);
    const std::vector<std::byte> bytes(128 * kib, std::byte{7});
    u64 size = 0;
    while (volume->write(data, size, bytes))
        size += bytes.size();
    for (u64 hole = 0; hole < 600; ++hole)
        ASSERT_EQ(volume->allocate(data, Allocate::punch_hole, hole * 8192, 4096), Errc::ok);
    ASSERT_EQ(volume->release(data), Errc::ok);
    const Handle names = make_directory(*volume, volume->root(), "names");
    Errc end = Errc::ok;
    u64 kept = 0;
    for (; end == Errc::ok; ++kept) {
        const std::string name = std::to_string(kept);
        const auto made = volume->create(anybody, names, name, {.mode = 040755});
        end = made.code();
        if (made) end = volume->create(anybody, made->handle, "f", {}).code();
    }
    ASSERT_EQ(end, Errc::no_space);
    ASSERT_GT(kept, 100u);

    Removal removal;
    EXPECT_EQ(volume->remove_tree(anybody, volume->root(), "tree", removal), Errc::ok);
    EXPECT_EQ(removal.files, width);
    EXPECT_EQ(removal.directories, width + 1);
    EXPECT_EQ(volume->release(open), Errc::ok);
    expect_counts_agree(*volume);
    volume.close_and_check();
    volume.open();
    expect_counts_agree(*volume);
    EXPECT_EQ(volume->unlink(anybody, volume->root(), "data"), Errc::ok);
    EXPECT_EQ(volume->remove_tree(anybody, volume->root(), "names", removal), Errc::ok);
    EXPECT_EQ(volume->statistics().inodes_used, inodes_before);
    volume.close_and_check();
}

TEST_P(FullVolume, isFilledAndEmptiedByManyThreads) {
    const Seed seed;
    MemoryVolume volume(32 * mib, options());
    const Deadline deadline(std::chrono::milliseconds(1500 * test_load()));
    std::atomic<u64> refusals{0};
    std::vector<std::function<void(Random&)>> bodies;
    for (u32 t = 0; t < 8; ++t) {
        const Handle own = make_directory(*volume, volume->root(), std::to_string(t));
        bodies.push_back([&, own](Random& random) {
            const std::vector<std::byte> data(100'000, std::byte{1});
            while (!deadline.is_over()) {
                Errc code = Errc::ok;
                u64 count = 0;
                for (; code == Errc::ok; ++count) {
                    const auto made =
                        volume->create(anybody, own, std::to_string(count), {.open = true});
                    code = made.code();
                    if (!made) break;
                    const auto wrote = volume->write(
                        made->handle, 0, std::span(data).first(1 + random.below(data.size())));
                    code = wrote.code();
                    EXPECT_EQ(volume->release(made->handle), Errc::ok);
                }
                EXPECT_EQ(code, Errc::no_space);
                ++refusals;
                for (const auto& [name, inode] : list_names(*volume, own)) {
                    EXPECT_EQ(volume->unlink(anybody, own, name), Errc::ok);
                }
            }
        });
    }
    run_executor(seed.value(), bodies);
    EXPECT_GT(refusals, 0u);
    expect_counts_agree(*volume);
    volume.close_and_check();
}

TEST(CollidingNames, areKeptApart) {
    const Seed seed;
    for (const u64 map : block_maps) {
        SCOPED_TRACE(map);
        constexpr u64 one_bit = u64{1} << 40;
        MemoryVolume volume(64 * mib, {.workers = 2, .meta_buffer_bytes = map}, one_bit);
        Random random(seed.value());
        std::map<std::string, u64> made;
        for (u64 i = 0; i < 300; ++i) {
            // Long names leave room for few in a leaf: one hash extends over many leaves.
            const std::string name =
                std::to_string(i) + std::string(random.below(i % 7 == 0 ? 240 : 20), 'n');
            const auto file = volume->create(anybody, volume->root(), name, {});
            ASSERT_TRUE(file) << i << " " << static_cast<int>(file.code());
            made[name] = file->handle.inode;
        }
        EXPECT_EQ(list_names(*volume, volume->root()), made);
        while (made.size() > 50) {
            auto victim = made.begin();
            std::advance(victim, static_cast<i64>(random.below(made.size())));
            ASSERT_EQ(volume->unlink(anybody, volume->root(), victim->first), Errc::ok);
            made.erase(victim);
            if (made.size() % 50 != 0) continue;
            EXPECT_EQ(list_names(*volume, volume->root()), made);
            for (const auto& [name, inode] : made) {
                const auto found = volume->lookup(anybody, volume->root(), name);
                ASSERT_TRUE(found) << name;
                EXPECT_EQ(found->handle.inode, inode);
            }
            Rebuilt rebuilt;
            EXPECT_EQ(volume->rebuild(anybody, volume->root(), rebuilt), Errc::ok);
        }
        volume.close_and_check();
    }
}

TEST(CollidingNames, ofOneHashEndAt256) {
    MemoryVolume volume(64 * mib, {}, 0);
    for (u64 i = 0; i < 256; ++i) {
        ASSERT_TRUE(volume->create(anybody, volume->root(), std::to_string(i), {})) << i;
    }
    EXPECT_EQ(volume->create(anybody, volume->root(), "one more", {}).code(), Errc::no_space);
    EXPECT_EQ(volume->lookup(anybody, volume->root(), "one more").code(), Errc::no_entry);
    EXPECT_EQ(volume->unlink(anybody, volume->root(), "77"), Errc::ok);
    EXPECT_TRUE(volume->create(anybody, volume->root(), "one more", {}));
    EXPECT_EQ(list_names(*volume, volume->root()).size(), 256u);
    volume.close_and_check();
}

}  // namespace
}  // namespace warren::full_volume_test
