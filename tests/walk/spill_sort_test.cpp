// SPDX-License-Identifier: Apache-2.0
// Lists that spill, against std::stable_sort: whatever the limit, the same records in the same
// order; and wherever the temporary file fails, an error and never an incomplete list.
#include "walk/spill_sort.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/random.hpp"
#include "base/temporary_file.hpp"
#include "support/seed.hpp"
#include "tests/support/folder.hpp"
#include "walk/failing_store.hpp"

namespace warren::walk::spill_sort_test {

namespace {

using Record = std::pair<std::string, std::string>;

/// Any bytes; few keys, so that some are equal, and sometimes a record larger than any buffer.
std::vector<Record> random_records(Random& random, u64 count) {
    std::vector<Record> records;
    for (u64 at = 0; at < count; ++at) {
        std::string key;
        while (!random.one_in(4))
            key += static_cast<char>(random.one_in(2) ? random.below(256) : 'a');
        std::string value(random.one_in(200) ? random.below(20000) : random.below(30), 'v');
        if (random.one_in(300)) key.append(random.below(9000), 'k');
        value += std::to_string(at);
        records.emplace_back(std::move(key), std::move(value));
    }
    return records;
}

std::vector<Record> sorted(std::vector<Record> records) {
    std::stable_sort(records.begin(), records.end(),
                     [](const Record& one, const Record& two) { return one.first < two.first; });
    return records;
}

void add_all(SpillSort& sort, const std::vector<Record>& records) {
    for (const auto& [key, value] : records)
        ASSERT_EQ(sort.add(key, value), Errc::ok);
}

std::vector<Record> read_all(SpillSort& sort) {
    std::vector<Record> read;
    std::string_view key;
    std::string_view value;
    while (sort.next(key, value))
        read.emplace_back(key, value);
    return read;
}

}  // namespace

TEST(SpillSort, GivesTheRecordsInOrderWhateverTheLimit) {
    const Seed seed;
    Random random(seed.value());
    for (const u64 count : {0, 1, 2, 3000}) {
        const std::vector<Record> records = random_records(random, count);
        const std::vector<Record> expected = sorted(records);
        for (const u64 limit : {u64{1}, u64{5000}, u64{40000}, SpillSort::usual_memory_bytes}) {
            SpillSort sort(limit);
            add_all(sort, records);
            EXPECT_EQ(sort.count(), count);
            EXPECT_EQ(read_all(sort), expected) << "limit " << limit;
            EXPECT_EQ(sort.error(), Errc::ok);
            if (count == 3000) {
                EXPECT_EQ(sort.runs() > 0, limit < 50000);
            }
            std::string_view none;
            EXPECT_FALSE(sort.next(none, none));
        }
    }
}

TEST(SpillSort, ConcurrentAddsLoseNothing) {
    const Seed seed;
    Random random(seed.value());
    std::vector<Record> records = random_records(random, 800);
    SpillSort sort(20000);
    std::vector<std::jthread> threads;
    for (u64 part = 0; part < 4; ++part) {
        threads.emplace_back([&, part] {
            for (size_t at = part; at < records.size(); at += 4)
                EXPECT_EQ(sort.add(records[at].first, records[at].second), Errc::ok);
        });
    }
    threads.clear();
    std::vector<Record> read = read_all(sort);
    EXPECT_TRUE(std::is_sorted(read.begin(), read.end(), [](const Record& one, const Record& two) {
        return one.first < two.first;
    }));
    std::sort(read.begin(), read.end());
    std::sort(records.begin(), records.end());
    EXPECT_EQ(read, records);
}

TEST(SpillSort, EveryFailureOfItsFileIsAnError) {
    const Seed seed;
    Random random(seed.value());
    const std::vector<Record> records = random_records(random, 400);
    const std::vector<Record> expected = sorted(records);
    for (u64 failing = 1;; ++failing) {
        u64 calls = 0;
        SpillSort sort(3000, std::make_unique<FailingStore>(calls, failing));
        bool was_told = false;
        for (const auto& [key, value] : records)
            was_told = sort.add(key, value) != Errc::ok || was_told;
        const std::vector<Record> read = read_all(sort);
        if (calls < failing) {  // the first that meets no failure is the last
            EXPECT_EQ(read, expected);
            EXPECT_EQ(sort.error(), Errc::ok);
            EXPECT_GT(failing, 10u);
            break;
        }
        EXPECT_NE(sort.error(), Errc::ok) << "call " << failing;
        EXPECT_LT(read.size(), expected.size());
        EXPECT_TRUE(std::equal(read.begin(), read.end(), expected.begin()));
        EXPECT_TRUE(read.empty() || !was_told);
    }
}

TEST(SpillSort, LeavesNoNameAndNamesWhyThereIsNoFile) {
    const Folder folder;
    const char* const before = std::getenv("TMPDIR");
    const std::string kept = before == nullptr ? "" : before;
    ASSERT_EQ(::setenv("TMPDIR", folder.path().c_str(), 1), 0);
    {
        SpillSort sort(1);
        ASSERT_EQ(sort.add("a", "1"), Errc::ok);
        ASSERT_EQ(sort.add("b", "2"), Errc::ok);
        EXPECT_EQ(sort.runs(), 1u);
        EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
        EXPECT_EQ(read_all(sort).size(), 2u);
    }
    ASSERT_EQ(::setenv("TMPDIR", (folder / "not there").c_str(), 1), 0);
    SpillSort sort(1);
    ASSERT_EQ(sort.add("a", "1"), Errc::ok);
    EXPECT_EQ(sort.add("b", "2"), Errc::no_entry);
    EXPECT_EQ(sort.add("c", "3"), Errc::no_entry);
    EXPECT_TRUE(read_all(sort).empty());
    EXPECT_EQ(sort.error(), Errc::no_entry);
    ASSERT_EQ(::unsetenv("TMPDIR"), 0);
    EXPECT_EQ(temporary_folder(), "/tmp");
    ASSERT_EQ(::setenv("TMPDIR", kept.c_str(), 1), 0);  // empty is as if it were not set
    EXPECT_EQ(temporary_folder(), kept.empty() ? "/tmp" : kept);
}

}  // namespace warren::walk::spill_sort_test
