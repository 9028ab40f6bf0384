// SPDX-License-Identifier: Apache-2.0
// Sizes are chosen so that a warm trace takes tenths of a second, of which programs that compute
// (sort, sha) take most.
#include "bench/support/traces.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/random.hpp"
#include "bench/support/places.hpp"
#include "bench/support/report.hpp"
#include "bench/support/walk_trees.hpp"

#ifdef HAS_LEVELDB
#include <leveldb/db.h>
#endif

namespace warren::bench {

namespace {

constexpr u64 tree_files = 6'000;
constexpr u64 packed_files = 160;
constexpr u64 packed_bytes_max = 512 * kib;
constexpr u64 large_bytes = 40 * mib;
constexpr u64 text_lines = 250'000;
constexpr u64 database_rows = 50'000;

void write_random(const std::string& path, u64 bytes, Random& random) {
    std::ofstream file(path, std::ios::binary);
    std::string part(std::min<u64>(bytes, mib), '\0');
    for (u64 left = bytes; left > 0; left -= std::min<u64>(left, part.size())) {
        for (u64 i = 0; i + sizeof(u64) <= part.size(); i += sizeof(u64)) {
            const u64 word = random.next();
            part.replace(i, sizeof word, reinterpret_cast<const char*>(&word), sizeof word);
        }
        file.write(part.data(), static_cast<std::streamsize>(std::min<u64>(left, part.size())));
    }
    require(file.good(), "cannot write " + path);
}

void write_text(const std::string& path, Random& random) {
    std::ofstream file(path);
    for (u64 i = 0; i < text_lines; ++i)
        file << random.next() << " a line of a text that is to be sorted " << i << '\n';
    require(file.good(), "cannot write " + path);
}

/// Rows that are found by an index, so that a look-up reads a few pages here and there; and what
/// the trace does with them: look-ups, a scan, and transactions that are synced.
void make_database(const std::string& folder) {
    std::ofstream make(folder + "/make.sql");
    make << "pragma journal_mode=off; begin;"
            "create table facts(number integer primary key, name text, words text);"
            "with recursive n(i) as (select 0 union all select i + 1 from n where i + 1 < "
         << database_rows << ") insert into facts select i, 'name ' || (i * 7919 % "
         << database_rows
         << "), hex(zeroblob(100)) from n;"
            "create index names on facts(name); commit;";
    make.close();
    run_or_die({"sqlite3", folder + "/base.db", ".read " + folder + "/make.sql"});
    std::ofstream trace(folder + "/trace.sql");
    for (u64 i = 0; i < 2'500; ++i) {
        trace << "select length(words) from facts where name = 'name "
              << (i * 104729) % database_rows << "';\n";
    }
    trace << "select count(*), sum(length(words)) from facts;\n";
    for (u64 i = 0; i < 10; ++i) {
        trace << "begin; update facts set words = 'changed' || number where number % 600 = " << i
              << "; commit;\n";
    }
}

void make_packed(const std::string& folder, Random& random) {
    std::filesystem::create_directories(folder + "/tree");
    for (u64 i = 0; i < packed_files; ++i) {
        const u64 bytes = random.below(packed_bytes_max / 4096) * 4096 + random.below(4096);
        write_random(folder + "/tree/file" + std::to_string(i), bytes, random);
    }
    run_or_die({"tar", "-cf", folder + "/in.tar", "-C", folder, "tree"});
}

}  // namespace

std::vector<Trace> traces_in(const std::string& folder, std::string& absent) {
    const std::string own = std::filesystem::read_symlink("/proc/self/exe").string();
    std::vector<Trace> all;
    all.push_back({"find",
                   {"find", folder + "/find", "-type", "f", "-size", "+1"},
                   {"find", "--version"},
                   ""});
    if (is_installed("sqlite3")) {
        // Its changes are the same in each run, and so is what it finds.
        all.push_back(
            {"sqlite",
             {"sqlite3", folder + "/sqlite/base.db", ".read " + folder + "/sqlite/trace.sql"},
             {"sqlite3", "--version"},
             ""});
    } else {
        absent += " sqlite (the program sqlite3)";
    }
    const std::string sorted = folder + "/sort/out";
    all.push_back({"sort",
                   {"sort", "--parallel=1", "-S", "8M", "-T", folder + "/sort", "-o", sorted,
                    folder + "/sort/text"},
                   {"sort", "--version"},
                   sorted});
    all.push_back({"tar",
                   {"tar", "-cf", folder + "/tar/out.tar", "-C", folder + "/tar", "tree"},
                   {"tar", "--version"},
                   folder + "/tar/out.tar"});
    all.push_back({"untar",
                   {"tar", "-xf", folder + "/tar/in.tar", "--one-top-level=" + folder + "/out"},
                   {"tar", "--version"},
                   folder + "/out"});
    all.push_back({"sha", {"sha256sum", folder + "/sha/large"}, {"sha256sum", "--version"}, ""});
#ifdef HAS_LEVELDB
    all.push_back({"leveldb", {own, "--leveldb", folder + "/leveldb"}, {own, "--nothing"}, ""});
#else
    absent += " leveldb (libleveldb-dev, when this was built)";
#endif
    return all;
}

void make_trace_inputs(const std::string& folder) {
    Random random(5);
    for (const char* part : {"sqlite", "sort", "tar", "sha"})
        std::filesystem::create_directories(folder + "/" + part);
    make_mixed_tree(folder + "/find", tree_files);
    if (is_installed("sqlite3")) make_database(folder + "/sqlite");
    write_text(folder + "/sort/text", random);
    make_packed(folder + "/tar", random);
    write_random(folder + "/sha/large", large_bytes, random);
#ifdef HAS_LEVELDB
    require(run_leveldb(folder + "/leveldb") == 0, "leveldb failed");
#endif
}

void remove_output(const Trace& trace) {
    if (!trace.writes.empty()) std::filesystem::remove_all(trace.writes);
}

#ifdef HAS_LEVELDB

int run_leveldb(const std::string& folder) {
    constexpr u64 records = 20'000;
    leveldb::Options options;
    options.create_if_missing = true;
    options.write_buffer_size = 1 * mib;
    options.compression = leveldb::kNoCompression;
    leveldb::DB* opened = nullptr;
    if (!leveldb::DB::Open(options, folder, &opened).ok()) return 1;
    const std::unique_ptr<leveldb::DB> database(opened);
    Random random(7);
    for (u64 i = 0; i < records; ++i) {
        leveldb::WriteOptions how;
        how.sync = i % (records / 4) == 0;
        const std::string key = "key" + std::to_string(random.below(records));
        if (!database->Put(how, key, std::string(200, static_cast<char>('a' + i % 26))).ok())
            return 1;
    }
    std::string value;
    u64 found = 0;
    for (u64 i = 0; i < records / 2; ++i) {
        const std::string key = "key" + std::to_string(random.below(records));
        found += database->Get({}, key, &value).ok();
    }
    const std::unique_ptr<leveldb::Iterator> all(database->NewIterator({}));
    u64 listed = 0;
    for (all->SeekToFirst(); all->Valid(); all->Next())
        ++listed;
    return found > records / 4 && listed > records / 2 ? 0 : 1;
}

#else

int run_leveldb(const std::string&) {
    return 1;
}

#endif

}  // namespace warren::bench
