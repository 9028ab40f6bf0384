// SPDX-License-Identifier: Apache-2.0
// The power is cut at each write of SQLite. Each time the database opens, SQLite's own check finds
// nothing, and it holds exactly the rows after some transaction: the last one whose commit had
// returned, or a later one.
//
// In journal_mode=delete a transaction is durable once the removal of the journal's name is, which
// SQLite ensures with synchronous=extra only; in journal_mode=wal with synchronous=full.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "tests/support/cut_recording.hpp"
#include "tests/support/keeping_disk.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/sqlite_files.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::sqlite_cut_test {
namespace {

constexpr u64 volume_bytes = 16 * mib;
const std::string all_rows = "select a, b from t order by a";

struct Mode {
    const char* name;
    std::string pragmas;
    /// Transactions whose commit has returned and that a power cut may undo all the same.
    u64 undone_max;
};
const Mode modes[] = {
    {"Delete", "pragma journal_mode=delete; pragma synchronous=extra", 0},
    {"DeleteFull", "pragma journal_mode=delete; pragma synchronous=full", 1},
    {"Wal", "pragma locking_mode=exclusive; pragma journal_mode=wal; pragma synchronous=full", 0}};

/// The database at the end of each transaction.
struct Recording {
    CutRecording cuts;
    std::vector<u64> digests;
};

/// One transaction: some rows are added, changed and removed; pages are allocated and freed.
std::string transaction(Random& random, u64 number) {
    std::string sql = "begin;";
    for (u64 i = 0; i < 1 + random.below(4); ++i) {
        const std::string key = std::to_string(random.below(40));
        const std::string bytes =
            "randomblob(" + std::to_string(random.one_in(4) ? 4000 : 10 + random.below(300)) + ")";
        sql += random.one_in(5) ? "delete from t where a=" + key + ";"
                                : "insert or replace into t values(" + key + "," + bytes + ");";
    }
    // No two transactions leave the same rows.
    return sql + "insert or replace into t values(-1," + std::to_string(number) + "); commit";
}

void run_transactions(Volume& volume, SqliteFiles& files, const Mode& mode, Random& random,
                      u64 count, Recording& out) {
    sqlite3* const database = files.open("database");
    ASSERT_NE(database, nullptr);
    const auto note = [&] {
        out.digests.push_back(SqliteFiles::digest(database, all_rows));
        out.cuts.note_state();
        out.cuts.note_sync();
    };
    // Small, so that transactions are larger than SQLite's page cache.
    ASSERT_EQ(SqliteFiles::run(database, "pragma page_size=1024; pragma cache_size=5"), "");
    ASSERT_EQ(SqliteFiles::run(database, mode.pragmas + "; pragma wal_autocheckpoint=20"), "");
    std::string chosen;
    ASSERT_EQ(SqliteFiles::run(database, "pragma journal_mode", &chosen), "");
    ASSERT_NE(mode.pragmas.find("journal_mode=" + chosen), std::string::npos) << chosen;
    ASSERT_EQ(SqliteFiles::run(database, "create table t(a integer primary key, b blob)"), "");
    ASSERT_EQ(SqliteFiles::run(database, transaction(random, 0)), "");
    ASSERT_EQ(volume.sync(), Errc::ok);
    out.cuts.disk().start_recording();
    note();
    for (u64 i = 1; i <= count; ++i) {
        ASSERT_EQ(SqliteFiles::run(database, transaction(random, i)), "");
        note();
    }
    out.cuts.disk().stop_recording();
    ASSERT_GT(out.cuts.disk().event_count(), count) << "nothing was recorded";
    SqliteFiles::close(database);
}

void expect_whole_database(Volume& volume, const Mode& mode, const Recording& recording,
                           u64 event) {
    SqliteFiles files(volume, volume.root());
    sqlite3* const database = files.open("database");
    ASSERT_NE(database, nullptr);
    EXPECT_EQ(SqliteFiles::run(database, "pragma locking_mode=exclusive"), "");
    std::string sound;
    EXPECT_EQ(SqliteFiles::run(database, "pragma integrity_check", &sound), "");
    EXPECT_EQ(sound, "ok");
    const u64 found = SqliteFiles::digest(database, all_rows);
    const u64 promised = recording.cuts.first_state(event);
    const auto first = recording.digests.begin() +
                       static_cast<i64>(promised - std::min(promised, mode.undone_max));
    const auto last =
        recording.digests.begin() + static_cast<i64>(recording.cuts.last_state(event)) + 1;
    EXPECT_NE(std::find(first, last, found), last)
        << "is not what a transaction left from number " << promised << " on";
    SqliteFiles::close(database);
}

void cut_everywhere(const Mode& mode, u64 seed, u64 transactions, const CutBounds& bounds) {
    if (!has_sqlite()) GTEST_SKIP() << "built without SQLite";
    Random random(seed);
    Recording recording;
    recording.cuts.log = make_memory_disk(volume_bytes);
    KeepingDisk keeping(recording.cuts.disk());
    const auto volume = open_on(keeping, {.workers = 1});
    {
        SqliteFiles files(*volume, volume->root());
        run_transactions(*volume, files, mode, random, transactions, recording);
    }
    if (testing::Test::HasFatalFailure()) return;
    const CutFigures figures =
        for_each_cut(recording.cuts, bounds, random.next(), [&](MemoryDisk& image, u64 event) {
            const auto after = open_on(image, {.workers = 1});
            ASSERT_TRUE(after);
            expect_whole_database(*after, mode, recording, event);
            ASSERT_EQ(after->close(), Errc::ok);
            ASSERT_TRUE(expect_clean(image));
        });
    std::printf("%s: %llu transactions, %llu cuts, %llu states\n", mode.name,
                static_cast<unsigned long long>(transactions),
                static_cast<unsigned long long>(figures.cuts),
                static_cast<unsigned long long>(figures.states));
}

class SqliteCuts : public testing::TestWithParam<Mode> {};
INSTANTIATE_TEST_SUITE_P(Modes, SqliteCuts, testing::ValuesIn(modes),
                         [](const auto& mode) { return std::string(mode.param.name); });

TEST_P(SqliteCuts, leaveWhatATransactionLeft) {
    const Seed seed;
    cut_everywhere(GetParam(), seed.value(), 4 * test_load(), {.subsets_of_max = 1, .samples = 1});
}

class SqliteCutsLong : public testing::TestWithParam<Mode> {};
INSTANTIATE_TEST_SUITE_P(Modes, SqliteCutsLong, testing::ValuesIn(modes),
                         [](const auto& mode) { return std::string(mode.param.name); });

TEST_P(SqliteCutsLong, leaveWhatATransactionLeft) {
    const Seed seed;
    cut_everywhere(GetParam(), seed.value(), 100, {.subsets_of_max = 5, .samples = 8});
}

}  // namespace
}  // namespace warren::sqlite_cut_test
