// SPDX-License-Identifier: Apache-2.0
// Two volumes that get the same items: the volume under test many in a call, the other one by one,
// on the CPU engine. After each call every item must have got the same answer.
//
// Invariant: an index into directories() names the same directory of both.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "tests/support/memory_volume.hpp"

namespace warren {

inline const Caller root_user{};
inline const Caller somebody{.user = 1000, .group = 1000, .umask = 027};

struct BatchItem {
    u32 from = 0;
    u32 to = 0;
    std::string name;
    std::string new_name;
    u32 mode = 0100644;
};

/// The volume under test and one on the CPU engine that gets the same items one after the other.
/// `Many` holds the former, as MemoryVolume does.
template <class Many>
class BatchTwinsOf {
 public:
    explicit BatchTwinsOf(u64 size_bytes, u64 hash_mask = ~u64{0})
        : many_(size_bytes, {.workers = 2}, hash_mask),
          single_(size_bytes, {.workers = 2, .engine = EngineChoice::cpu}) {
        directories_.push_back({many_->root(), single_->root()});
        twin_of_[many_->root().inode] = single_->root().inode;
    }

    using Item = BatchItem;

    Many& many() { return many_; }
    /// Whether the engine of the volume under test executes many items at once.
    bool makes_batches() { return many_->engine() != name_of(EngineChoice::cpu); }
    u32 directories() const { return static_cast<u32>(directories_.size()); }

    /// Creates a directory below another; returns its index.
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
            if (is_directory(item)) directories_.push_back({results[i]->handle, wanted->handle});
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

    /// Removes the names in `from`; items with the mode of a directory as rmdir does.
    void remove(const Caller& caller, const std::vector<Item>& items) {
        std::vector<Unlink> names;
        for (const Item& item : items)
            names.push_back({directories_[item.from].many, item.name, is_directory(item)});
        std::vector<Errc> results(items.size(), Errc::io);
        many_->remove_many(caller, names, results);
        for (std::size_t i = 0; i < items.size(); ++i) {
            const Item& item = items[i];
            const Handle in = directories_[item.from].single;
            const Errc wanted = is_directory(item)
                                    ? single_->remove_directory(caller, in, item.name)
                                    : single_->unlink(caller, in, item.name);
            ASSERT_EQ(results[i], wanted) << i << " " << item.name;
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

    /// Compares all names and the inodes behind them.
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

    /// The number of blocks of a directory's tree.
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

    static bool is_directory(const Item& item) { return (item.mode & 0170000) == 040000; }

    static std::map<std::string, u64> entries(Volume& volume, Handle directory) {
        std::map<std::string, u64> all;
        const Errc read = volume.read_directory(directory, 0, [&](const DirectoryEntry& entry) {
            all.emplace(entry.name, entry.inode);
            return true;
        });
        EXPECT_TRUE(read == Errc::ok || read == Errc::stale);
        return all;
    }

    Many many_;
    MemoryVolume single_;
    std::vector<Pair> directories_;
    std::map<u64, u64> twin_of_;  // from the one volume's inodes to the other's
};

using BatchTwins = BatchTwinsOf<MemoryVolume>;

/// Files `first` to `end` of a directory, to be moved to other directories in turn.
inline std::vector<BatchTwins::Item> files_to(u32 from, u32 first_target, u32 targets, u32 first,
                                              u32 end) {
    std::vector<BatchTwins::Item> items(end - first);
    for (u32 i = 0; i < items.size(); ++i) {
        items[i].from = from;
        items[i].to = first_target + i % targets;
        items[i].name = "file" + std::to_string(first + i);
        items[i].new_name = items[i].name;
    }
    return items;
}

inline std::string random_name(Random& random, u64 names) {
    const u64 kind = random.below(60);
    if (kind == 0) return random.one_in(2) ? "." : "..";
    if (kind == 1) return random.one_in(2) ? "" : "a/b";
    if (kind == 2) return std::string(random.one_in(2) ? 255 : 256, 'x');
    std::string name = "n" + std::to_string(random.below(names));
    if (kind < 10) name += std::string(name.size() * 97 % 240, 'y');
    return name;
}

/// Random items of any kind, many of which meet the same names.
template <class Twins>
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
        std::vector<BatchItem> items(1 + random.below(random.one_in(3) ? items_max : 60));
        const bool spreads = random.one_in(3);
        for (BatchItem& item : items) {
            item.from = spreads ? static_cast<u32>(random.below(twins.directories())) : open;
            item.to = static_cast<u32>(random.below(spreads ? twins.directories() : 4));
            item.name = random_name(random, names);
            item.new_name = random.one_in(3) ? random_name(random, names) : item.name;
            if (random.one_in(random.one_in(2) ? 30 : 2000)) item.mode = 040755;
            if (random.one_in(50)) item.mode = 0102755;
        }
        const u64 what = random.below(7);
        if (what < 2) twins.create(caller, items);
        if (what == 2 || what == 3) twins.move(caller, items);
        if (what == 4) twins.look_up(caller, items);
        if (what > 4) twins.remove(caller, items);
        if (random.one_in(6)) twins.compare();
        if (random.one_in(8)) twins.sync();
    }
    if (!testing::Test::HasFatalFailure()) twins.end();
}

}  // namespace warren
