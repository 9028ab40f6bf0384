// SPDX-License-Identifier: Apache-2.0
// SQLite on files of a volume, without a mount: what it reads, writes and makes durable goes to a
// Volume by the calls that its documentation of virtual file systems lists. So the whole of a real
// program's crash safety can be held against every place at which the power may be cut.
//
// Locks are not kept: one connection at a time. There is no shared memory: for journal_mode=wal a
// connection must set locking_mode=exclusive first.
#pragma once

#include <memory>
#include <string>

#include "warren/volume.hpp"

struct sqlite3;

namespace warren {

/// Whether the tests were built with SQLite.
bool has_sqlite();

/// SQLite's way to the files of one directory, for as long as this lives.
class SqliteFiles {
 public:
    /// Requires: `volume` outlives this, has_sqlite(), and no other one lives.
    SqliteFiles(Volume& volume, Handle directory);
    ~SqliteFiles();
    SqliteFiles(const SqliteFiles&) = delete;
    SqliteFiles& operator=(const SqliteFiles&) = delete;

    /// Opens or makes a database. Null, and a failed test, if that is not possible.
    sqlite3* open(const std::string& name);
    /// Runs statements; the error's text, or the first column of the last row if it is asked for.
    static std::string run(sqlite3* database, const std::string& sql,
                           std::string* answer = nullptr);
    /// A number made of all rows of a query.
    static u64 digest(sqlite3* database, const std::string& query);
    static void close(sqlite3* database);

 private:
    struct System;
    std::unique_ptr<System> system_;
};

}  // namespace warren
