// SPDX-License-Identifier: Apache-2.0
// An index with a limit keeps to it from the first chunk to the saved file and back, whatever its
// size; and whichever system call fails, the file is the old index or the new one.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

#include "base/random.hpp"
#include "dedup/failing_calls.hpp"
#include "tests/support/failing_allocations.hpp"
#include "tests/support/seed.hpp"
#include "warren/dedup.hpp"

namespace warren::dedup::index_bounds_test {
namespace {

constexpr u64 limit = 1 * mib;
constexpr u64 beyond_limit = 30'000;  // entries, more than the table has in that

class IndexBounds : public testing::Test {
 protected:
    IndexBounds() {
        char name[] = "/tmp/warren-index-XXXXXX";
        folder_ = ::mkdtemp(name);
        path_ = folder_ + "/index";
        options_.memory_bytes = limit;
        options_.spill_folder = folder_;
    }
    ~IndexBounds() override { std::filesystem::remove_all(folder_); }

    /// Adds chunks with the next keys of `random`.
    static void add(Index& index, Random& random, u64 chunks) {
        u64 place = index.add_source("some", chunks);
        for (const u64 end = place + chunks; place < end; ++place) {
            const Chunk chunk{{random.next(), random.next()}, place, 1};
            Entry found;
            ASSERT_EQ(index.add({&chunk, 1}, {&found, 1}), Errc::ok);
        }
    }

    std::vector<Entry> entries_of_file() const {
        Index index;
        EXPECT_EQ(index.load(path_, {}), Errc::ok);
        return index.sorted();
    }

    u64 files_there() const {
        return static_cast<u64>(std::distance(std::filesystem::directory_iterator(folder_), {}));
    }

    const Seed seed_;
    std::string folder_;
    std::string path_;
    Index::Options options_;
};

TEST_F(IndexBounds, HoldAllTheWay) {
    constexpr u64 rest = 32 * kib;  // of memory: names, lists of runs
    for (const u64 memory_bytes : {1 * mib, 3 * mib / 2, 2 * mib}) {
        options_.memory_bytes = memory_bytes;
        Random random(seed_.part(memory_bytes));
        const PeakMemory memory;
        for (int round = 0; round < 3; ++round) {
            Index index;
            if (round == 0) {
                ASSERT_EQ(index.open(options_), Errc::ok);
            } else {
                ASSERT_EQ(index.load(path_, options_), Errc::ok);
            }
            add(index, random, 100'000);
            EXPECT_LE(memory.bytes(), memory_bytes + rest) << "added, round " << round;
            ASSERT_EQ(index.save(path_), Errc::ok);
            EXPECT_LE(memory.bytes(), memory_bytes + rest) << "saved, round " << round;
            EXPECT_EQ(index.entries(), 100'000u * static_cast<u64>(round + 1));
        }
        EXPECT_GT(memory.bytes(), memory_bytes / 2);
    }
    EXPECT_EQ(files_there(), 1u);
}

/// What was loaded beyond the limit counts on.
TEST_F(IndexBounds, ALoadedIndexGoesOn) {
    Random random(seed_.value());
    std::map<Key, Entry> model;
    for (int round = 0; round < 4; ++round) {
        Index index;
        if (round == 0) {
            ASSERT_EQ(index.open(options_), Errc::ok);
        } else {
            ASSERT_EQ(index.load(path_, options_), Errc::ok);
        }
        u64 place = index.add_source("some", beyond_limit);
        for (u64 i = 0; i < beyond_limit; ++i, ++place) {
            Random of_kind(random.below(60'000));
            const Chunk chunk{{of_kind.next(), of_kind.next()}, place, 1};
            Entry found;
            ASSERT_EQ(index.add({&chunk, 1}, {&found, 1}), Errc::ok);
            Entry& entry =
                model.try_emplace(chunk.key, Entry{chunk.key, place, 1, 0}).first->second;
            ++entry.count;
            ASSERT_EQ(found, entry);
        }
        ASSERT_EQ(index.save(path_), Errc::ok);
        std::vector<Entry> expected;
        for (const auto& [key, entry] : model)
            expected.push_back(entry);
        ASSERT_EQ(entries_of_file(), expected);
    }
}

TEST_F(IndexBounds, AFailedSaveLeavesTheOldOrTheNew) {
    Random random(seed_.value());
    Index old;
    ASSERT_EQ(old.open(options_), Errc::ok);
    add(old, random, 100);
    Index index;
    ASSERT_EQ(index.open(options_), Errc::ok);
    add(index, random, beyond_limit);
    bool has_failed = true;
    u64 kept = 0;
    for (u64 nth = 1; has_failed; ++nth) {
        ASSERT_EQ(old.save(path_), Errc::ok);
        Errc code = Errc::ok;
        {
            const FailingCall failing(nth);
            code = index.save(path_);
            has_failed = failing.has_failed();
        }
        EXPECT_EQ(code, has_failed ? Errc::io : Errc::ok) << "call " << nth;
        EXPECT_EQ(files_there(), 1u) << "call " << nth;
        const std::vector<Entry> entries = entries_of_file();
        kept += entries == old.sorted() ? 1 : 0;
        EXPECT_TRUE(entries == old.sorted() || entries == index.sorted()) << "call " << nth;
    }
    EXPECT_GT(kept, 2 * beyond_limit / 4096);
    EXPECT_EQ(entries_of_file(), index.sorted());
}

TEST_F(IndexBounds, AFailedLoadLeavesNothing) {
    Random random(seed_.value());
    Index index;
    ASSERT_EQ(index.open(options_), Errc::ok);
    add(index, random, beyond_limit);
    ASSERT_EQ(index.save(path_), Errc::ok);
    for (const u64 memory_bytes : {limit, u64{0}}) {
        options_.memory_bytes = memory_bytes;
        u64 nth = 1;
        for (bool has_failed = true; has_failed; ++nth) {
            Index loaded;
            Errc code = Errc::ok;
            {
                const FailingCall failing(nth);
                code = loaded.load(path_, options_);
                has_failed = failing.has_failed();
            }
            ASSERT_EQ(code, has_failed ? Errc::io : Errc::ok) << "call " << nth;
            if (!has_failed) {
                EXPECT_EQ(loaded.sorted(), index.sorted());
                break;
            }
            EXPECT_EQ(loaded.entries(), 0u);
            EXPECT_TRUE(loaded.sources().empty());
            add(loaded, random, 10);
            EXPECT_EQ(loaded.sorted().size(), 10u);
        }
        EXPECT_GT(nth, 2 * beyond_limit / 4096);
    }
}

/// Damage in every part of a file of several groups, and intact groups at a wrong
/// position.
TEST_F(IndexBounds, DamageInAnyGroupIsFound) {
    Random random(seed_.value());
    Index index;
    ASSERT_EQ(index.open(options_), Errc::ok);
    add(index, random, beyond_limit);
    ASSERT_EQ(index.save(path_), Errc::ok);
    std::ifstream file(path_, std::ios::binary);
    const std::string good((std::istreambuf_iterator<char>(file)), {});
    constexpr u64 group = 4096 * sizeof(Entry);
    constexpr u64 groups = (beyond_limit + 4095) / 4096;
    const u64 checksums = good.size() - groups * 4;
    const u64 entries = checksums - beyond_limit * sizeof(Entry);
    const auto load = [&](const std::string& bytes) {
        std::ofstream(path_, std::ios::binary) << bytes;
        Index loaded;
        const Errc code = loaded.load(path_, options_);
        EXPECT_TRUE(code == Errc::ok || loaded.entries() == 0);
        return code;
    };
    ASSERT_EQ(load(good), Errc::ok);
    const auto flip = [&](u64 at) {
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ 1);
        EXPECT_EQ(load(bad), Errc::corrupt) << "byte " << at;
    };
    for (u64 number = 0; number < groups; ++number) {
        const u64 size = std::min(group, checksums - entries - number * group);
        flip(entries + number * group);
        flip(entries + number * group + random.below(size));
        flip(entries + number * group + size - 1);
        flip(checksums + number * 4);
        EXPECT_EQ(load(good.substr(0, entries + number * group)), Errc::corrupt);
    }
    std::string swapped = good;
    std::swap_ranges(swapped.begin() + static_cast<i64>(entries),
                     swapped.begin() + static_cast<i64>(entries + group),
                     swapped.begin() + static_cast<i64>(entries + group));
    std::swap_ranges(swapped.begin() + static_cast<i64>(checksums),
                     swapped.begin() + static_cast<i64>(checksums + 4),
                     swapped.begin() + static_cast<i64>(checksums + 4));
    EXPECT_EQ(load(swapped), Errc::corrupt);
}

}  // namespace
}  // namespace warren::dedup::index_bounds_test
