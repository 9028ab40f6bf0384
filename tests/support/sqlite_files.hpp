// SPDX-License-Identifier: Apache-2.0
// SQLite on files of a volume, without a mount: a VFS that maps SQLite's reads, writes and syncs to
// calls of Volume, as SQLite's documentation specifies. So the crash safety of a real program can
// be tested with a power cut at each point.
//
// Locks are not implemented: use one connection at a time. There is no shared memory: for
// journal_mode=wal a connection must first set locking_mode=exclusive.
#pragma once

#include <memory>
#include <string>

#include "warren/volume.hpp"

struct sqlite3;

namespace warren {

/// Whether the tests were built with SQLite.
bool has_sqlite();

/// SQLite's access to the files of one directory while this object exists.
class SqliteFiles {
 public:
    /// Requires: `volume` outlives this object, has_sqlite(), and no other object of this class
    /// exists.
    SqliteFiles(Volume& volume, Handle directory);
    ~SqliteFiles();
    SqliteFiles(const SqliteFiles&) = delete;
    SqliteFiles& operator=(const SqliteFiles&) = delete;

    /// Opens or creates a database. Null, after failing the test, on failure.
    sqlite3* open(const std::string& name);
    /// Runs statements; returns the error text. `answer` receives the first column of the last row.
    static std::string run(sqlite3* database, const std::string& sql,
                           std::string* answer = nullptr);
    /// A hash of all rows of a query.
    static u64 digest(sqlite3* database, const std::string& query);
    static void close(sqlite3* database);

 private:
    struct System;
    std::unique_ptr<System> system_;
};

}  // namespace warren
