// SPDX-License-Identifier: Apache-2.0
// create_many(), move_many() and lookup_many() against the same items one by one on another volume:
// items that depend on each other, directories that the caller may not change, names that are none,
// trees of every height, volumes that get full and journals that are too small for a batch.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/seed.hpp"

namespace warren {
namespace {

const Caller root_user{};
const Caller somebody{.user = 1000, .group = 1000, .umask = 027};

/// The volume under test and one on the CPU engine that gets the same items one after the other.
class Twins {
 public:
    explicit Twins(u64 size_bytes, u64 hash_mask = ~u64{0})
        : many_(size_bytes, {.workers = 2}, hash_mask),
          single_(size_bytes, {.workers = 2, .engine = EngineChoice::cpu}) {
        directories_.push_back({many_->root(), single_->root()});
        twin_of_[many_->root().inode] = single_->root().inode;
    }

    struct Item {
        u32 from = 0;
        u32 to = 0;
        std::string name;
        std::string new_name;
        u32 mode = 0100644;
    };

    u32 directories() const { return static_cast<u32>(directories_.size()); }

    /// A directory below another; its number.
    u32 add_directory(u32 in, const std::string& name, u32 mode, const Caller& caller) {
        create(caller, {Item{in, 0, name, "", 040000 | mode}});
        return directories() - 1;
    }

    void create(const Caller& caller, const std::vector<Item>& items) {
        std::vector<Creation> creations;
        for (const Item& item : items)
            creations.push_back({directories_[item.from].many, item.name, {.mode = item.mode}});
        std::vector<Result<Attributes>> results(items.size(), Errc::io);
        many_->create_many(caller, creations, results);
        for (std::size_t i = 0; i < items.size(); ++i) {
            const Item& item = items[i];
            const Handle in = directories_[item.from].single;
            const auto wanted = single_->create(caller, in, item.name, {.mode = item.mode});
            ASSERT_EQ(results[i].code(), wanted.code()) << i << " " << item.name;
            if (!wanted) continue;
            ASSERT_EQ(results[i]->mode, wanted->mode) << i;
            ASSERT_EQ(results[i]->user, wanted->user) << i;
            ASSERT_EQ(results[i]->group, wanted->group) << i;
            ASSERT_EQ(results[i]->blocks, wanted->blocks) << i;
            twin_of_[results[i]->handle.inode] = wanted->handle.inode;
            if ((item.mode & 0170000) == 040000)
                directories_.push_back({results[i]->handle, wanted->handle});
        }
    }

    void move(const Caller& caller, const std::vector<Item>& items) {
        std::vector<Move> moves;
        for (const Item& item : items) {
            moves.push_back({directories_[item.from].many, item.name, directories_[item.to].many,
                             item.new_name});
        }
        std::vector<Errc> results(items.size(), Errc::io);
        many_->move_many(caller, moves, results);
        for (std::size_t i = 0; i < items.size(); ++i) {
            const Item& item = items[i];
            const Errc wanted = single_->rename(caller, directories_[item.from].single, item.name,
                                                directories_[item.to].single, item.new_name);
            ASSERT_EQ(results[i], wanted) << i << " " << item.name << " to " << item.new_name;
        }
    }

    void look_up(const Caller& caller, const std::vector<Item>& items) {
        std::vector<Lookup> lookups;
        for (const Item& item : items)
            lookups.push_back({directories_[item.from].many, item.name});
        std::vector<Result<Attributes>> results(items.size(), Errc::io);
        many_->lookup_many(caller, lookups, results);
        for (std::size_t i = 0; i < items.size(); ++i) {
            const auto wanted =
                single_->lookup(caller, directories_[items[i].from].single, items[i].name);
            ASSERT_EQ(results[i].code(), wanted.code()) << i << " " << items[i].name;
            if (!wanted) continue;
            ASSERT_EQ(twin_of_.at(results[i]->handle.inode), wanted->handle.inode) << i;
            ASSERT_EQ(results[i]->mode, wanted->mode) << i;
            ASSERT_EQ(results[i]->links, wanted->links) << i;
        }
    }

    /// Compares all names and what they lead to.
    void compare() {
        for (const Pair& pair : directories_) {
            const auto found = entries(*many_, pair.many);
            const auto wanted = entries(*single_, pair.single);
            ASSERT_EQ(found.size(), wanted.size());
            for (const auto& [name, inode] : wanted) {
                const auto same = found.find(name);
                ASSERT_NE(same, found.end()) << name;
                ASSERT_EQ(twin_of_.at(same->second), inode) << name;
            }
            const auto attributes = many_->attributes(pair.many);
            const auto other = single_->attributes(pair.single);
            ASSERT_EQ(attributes.code(), other.code());
            if (!other) continue;
            ASSERT_EQ(attributes->links, other->links);
            ASSERT_EQ(attributes->size, attributes->blocks * 4096);
        }
        ASSERT_EQ(many_->statistics().inodes_used, single_->statistics().inodes_used);
    }

    /// How many blocks the tree of a directory takes.
    u64 blocks(u32 directory) {
        const auto attributes = many_->attributes(directories_[directory].many);
        EXPECT_TRUE(attributes);
        return attributes ? attributes->blocks : 0;
    }

    void sync() {
        ASSERT_EQ(many_->sync(), Errc::ok);
        ASSERT_EQ(single_->sync(), Errc::ok);
    }
    void end() {
        compare();
        many_.close_and_check();
        single_.close_and_check();
        many_.open();
        single_.open();
        compare();
    }

 private:
    struct Pair {
        Handle many;
        Handle single;
    };

    static std::map<std::string, u64> entries(Volume& volume, Handle directory) {
        std::map<std::string, u64> all;
        const Errc read = volume.read_directory(directory, 0, [&](const DirectoryEntry& entry) {
            all.emplace(entry.name, entry.inode);
            return true;
        });
        EXPECT_TRUE(read == Errc::ok || read == Errc::stale);
        return all;
    }

    MemoryVolume many_;
    MemoryVolume single_;
    std::vector<Pair> directories_;
    std::map<u64, u64> twin_of_;  // from the one volume's inodes to the other's
};

std::string random_name(Random& random, u64 names) {
    const u64 kind = random.below(60);
    if (kind == 0) return random.one_in(2) ? "." : "..";
    if (kind == 1) return random.one_in(2) ? "" : "a/b";
    if (kind == 2) return std::string(random.one_in(2) ? 255 : 256, 'x');
    std::string name = "n" + std::to_string(random.below(names));
    if (kind < 10) name += std::string(name.size() * 97 % 240, 'y');
    return name;
}

void run_random(Twins& twins, u64 seed, u64 rounds, u64 names, u64 items_max) {
    Random random(seed);
    twins.add_directory(0, "mine", 0755, root_user);
    twins.add_directory(0, "open", 0777, root_user);
    twins.add_directory(0, "sticky", 01777, root_user);
    twins.add_directory(0, "group", 02777, root_user);
    twins.add_directory(0, "closed", 0700, root_user);
    const u32 open = 2;
    for (u64 round = 0; round < rounds && !testing::Test::HasFatalFailure(); ++round) {
        const Caller& caller = random.one_in(3) ? somebody : root_user;
        std::vector<Twins::Item> items(1 + random.below(random.one_in(3) ? items_max : 60));
        const bool spreads = random.one_in(3);
        for (Twins::Item& item : items) {
            item.from = spreads ? static_cast<u32>(random.below(twins.directories())) : open;
            item.to = static_cast<u32>(random.below(spreads ? twins.directories() : 4));
            item.name = random_name(random, names);
            item.new_name = random.one_in(3) ? random_name(random, names) : item.name;
            if (random.one_in(random.one_in(2) ? 30 : 2000)) item.mode = 040755;
            if (random.one_in(50)) item.mode = 0102755;
        }
        const u64 what = random.below(5);
        if (what < 2) twins.create(caller, items);
        if (what == 2 || what == 3) twins.move(caller, items);
        if (what == 4) twins.look_up(caller, items);
        if (random.one_in(6)) twins.compare();
        if (random.one_in(8)) twins.sync();
    }
    if (!testing::Test::HasFatalFailure()) twins.end();
}

TEST(Batches, DoWhatTheirItemsDoOneByOne) {
    const Seed seed;
    Twins twins(512 * mib);
    run_random(twins, seed.value(), 60, 400, 600);
}

TEST(Batches, DoSoWithManyItems) {
    const Seed seed;
    Twins twins(512 * mib);
    run_random(twins, seed.value(), 12, 100'000, 8'000);
}

TEST(Batches, DoSoWhenHashesCollide) {
    const Seed seed;
    constexpr u64 few_bits = u64{0xff} << 47 | u64{1};
    Twins twins(512 * mib, few_bits);
    run_random(twins, seed.value(), 30, 300, 200);
}

TEST(Batches, DoSoWithASmallJournal) {
    const Seed seed;
    Twins twins(64 * mib);
    run_random(twins, seed.value(), 12, 20'000, 5'000);
}

/// So many files go into one directory, to another, and back in two halves.
void fill_and_move(u64 count) {
    SCOPED_TRACE(count);
    Twins twins(512 * mib);
    twins.add_directory(0, "one", 0755, root_user);
    twins.add_directory(0, "two", 0755, root_user);
    std::vector<Twins::Item> items(count);
    for (u64 i = 0; i < count; ++i) {
        items[i].from = 1;
        items[i].to = 2;
        items[i].name = "file" + std::to_string(i);
        items[i].new_name = items[i].name;
    }
    twins.create(root_user, items);
    twins.look_up(root_user, items);
    twins.move(root_user, items);
    twins.compare();
    for (Twins::Item& item : items)
        std::swap(item.from, item.to);
    const auto half = items.begin() + static_cast<std::ptrdiff_t>(count / 2);
    twins.move(root_user, {items.begin(), half});
    twins.compare();
    twins.move(root_user, {half, items.end()});
    twins.end();
}

TEST(Batches, MakeTreesOfAllHeights) {
    for (const u64 count : {16u, 77u, 78u, 700u, 20'000u})
        fill_and_move(count);
}

/// Files `first` to `end` of a directory, to be moved to other ones in turn.
std::vector<Twins::Item> files_to(u32 from, u32 first_target, u32 targets, u32 first, u32 end) {
    std::vector<Twins::Item> items(end - first);
    for (u32 i = 0; i < items.size(); ++i) {
        items[i].from = from;
        items[i].to = first_target + i % targets;
        items[i].name = "file" + std::to_string(first + i);
        items[i].new_name = items[i].name;
    }
    return items;
}

void move_there_and_back(Twins& twins, std::vector<Twins::Item> items) {
    for (u32 round = 0; round < 4; ++round) {
        twins.move(root_user, items);
        twins.compare();
        if (round == 1) twins.sync();
        for (Twins::Item& item : items)
            std::swap(item.from, item.to);
    }
}

TEST(Batches, MoveFewFilesWhereTheyLie) {
    constexpr u32 directories = 30;
    constexpr u32 files = 2000;
    Twins twins(512 * mib);
    for (u32 i = 0; i <= directories; ++i)
        twins.add_directory(0, "directory" + std::to_string(i), 0755, root_user);
    twins.create(root_user, files_to(1, 1, 1, 0, files));
    const u64 blocks = twins.blocks(1);
    ASSERT_GT(blocks, 20u);
    // Each into a directory that has no leaf, or has one from the time before.
    move_there_and_back(twins, files_to(1, 2, directories, 0, directories));
    EXPECT_EQ(twins.blocks(2), 0u);
    twins.move(root_user, files_to(1, 2, directories, 0, directories));
    move_there_and_back(twins, files_to(1, 2, directories, directories, 3 * directories));
    EXPECT_EQ(twins.blocks(2), 1u);
    // Into one, so many that its leaf holds them.
    move_there_and_back(twins, files_to(1, 2, 1, 500, 530));
    // The large directory was not written anew.
    EXPECT_EQ(twins.blocks(1), blocks);
    // Other names within one directory.
    std::vector<Twins::Item> items = files_to(1, 1, 1, 600, 630);
    for (Twins::Item& item : items)
        item.new_name += "new";
    twins.move(root_user, items);
    // Where a new name's hash falls is chance (the key is): a full leaf there is split.
    EXPECT_GE(twins.blocks(1), blocks);
    EXPECT_LE(twins.blocks(1), blocks + items.size());
    twins.end();
}

TEST(Batches, MoveMoreThanLeavesHold) {
    Twins twins(512 * mib);
    twins.add_directory(0, "many", 0755, root_user);
    twins.add_directory(0, "few", 0755, root_user);
    twins.create(root_user, files_to(1, 1, 1, 0, 600));
    // Into an empty directory; more than the leaf holds then; more than is looked at; then all out.
    twins.move(root_user, files_to(1, 2, 1, 0, 60));
    twins.compare();
    EXPECT_EQ(twins.blocks(2), 1u);
    twins.move(root_user, files_to(1, 2, 1, 60, 120));
    twins.compare();
    EXPECT_GT(twins.blocks(2), 1u);
    twins.move(root_user, files_to(1, 2, 1, 120, 330));
    twins.move(root_user, files_to(2, 1, 1, 0, 330));
    EXPECT_EQ(twins.blocks(2), 0u);
    std::vector<Twins::Item> items = files_to(1, 2, 1, 0, 20);
    for (Twins::Item& item : items)
        item.new_name = std::string(230, 'x') + item.name;
    twins.move(root_user, items);
    twins.end();
}

TEST(Batches, EndWhereTheVolumeIsFull) {
    MemoryVolume volume(16 * mib, {.workers = 2});
    const u64 inodes_before = volume->statistics().inodes_used;
    std::vector<std::string> names;
    for (u64 i = 0; i < 40'000; ++i)
        names.push_back(std::string(200, 'n') + std::to_string(i));
    std::vector<Creation> creations;
    for (const std::string& name : names)
        creations.push_back({volume->root(), name, {}});
    std::vector<Result<Attributes>> results(names.size(), Errc::io);
    volume->create_many(root_user, creations, results);
    u64 made = 0;
    for (const Result<Attributes>& result : results) {
        made += result ? 1 : 0;
        ASSERT_TRUE(result || result.code() == Errc::no_space);
    }
    EXPECT_GT(made, 1000u);
    EXPECT_LT(made, names.size());
    EXPECT_EQ(volume->statistics().inodes_used, inodes_before + made);
    volume.close_and_check();
}

}  // namespace
}  // namespace warren
