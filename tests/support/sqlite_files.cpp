// SPDX-License-Identifier: Apache-2.0
// File names arrive as they were opened: paths are not resolved. A short read is filled with zeros
// and reported, as SQLite requires.
#include "tests/support/sqlite_files.hpp"

#include <gtest/gtest.h>

#if defined(WARREN_TEST_SQLITE)

#include <sqlite3.h>

#include <cstring>
#include <new>

#include "tests/support/volume_walk.hpp"

namespace warren {
namespace {

constexpr const char* system_name = "warren";

/// The directory that contains all names.
struct Folder {
    Volume* volume;
    Handle directory;
};

struct OpenFile {
    sqlite3_file base;  // must be first: SQLite knows only this member
    Volume* volume;
    Handle handle;
    Folder folder;
    std::string* removed_at_close;
};

OpenFile& of(sqlite3_file* file) {
    return *reinterpret_cast<OpenFile*>(file);
}
Folder& of(sqlite3_vfs* system) {
    return *static_cast<Folder*>(system->pAppData);
}

int answer(Errc code, int failure) {
    if (code == Errc::ok) return SQLITE_OK;
    return code == Errc::no_space ? SQLITE_FULL : failure;
}

int remove_name(const Folder& folder, const char* name) {
    const Errc code = folder.volume->unlink(anybody, folder.directory, name);
    return code == Errc::no_entry ? SQLITE_IOERR_DELETE_NOENT : answer(code, SQLITE_IOERR_DELETE);
}

int close_file(sqlite3_file* base) {
    OpenFile& file = of(base);
    const Errc released = file.volume->release(file.handle);
    if (file.removed_at_close != nullptr) {
        static_cast<void>(remove_name(file.folder, file.removed_at_close->c_str()));
        delete file.removed_at_close;
    }
    return answer(released, SQLITE_IOERR_CLOSE);
}

int read_file(sqlite3_file* base, void* target, int length, sqlite3_int64 offset) {
    const std::span bytes(static_cast<std::byte*>(target), static_cast<u64>(length));
    const Result<u64> got = of(base).volume->read(of(base).handle, static_cast<u64>(offset), bytes);
    if (!got) return SQLITE_IOERR_READ;
    if (*got == bytes.size()) return SQLITE_OK;
    std::memset(bytes.data() + *got, 0, bytes.size() - *got);
    return SQLITE_IOERR_SHORT_READ;
}

int write_file(sqlite3_file* base, const void* source, int length, sqlite3_int64 offset) {
    std::span bytes(static_cast<const std::byte*>(source), static_cast<u64>(length));
    while (!bytes.empty()) {
        const Result<u64> done =
            of(base).volume->write(of(base).handle, static_cast<u64>(offset), bytes);
        if (!done) return answer(done.code(), SQLITE_IOERR_WRITE);
        bytes = bytes.subspan(*done);
        offset += static_cast<sqlite3_int64>(*done);
    }
    return SQLITE_OK;
}

int truncate_file(sqlite3_file* base, sqlite3_int64 size) {
    AttributeChange change;
    change.which = AttributeChange::size;
    change.new_size = static_cast<u64>(size);
    const auto set = of(base).volume->set_attributes(anybody, of(base).handle, change);
    return answer(set.code(), SQLITE_IOERR_TRUNCATE);
}

int sync_file(sqlite3_file* base, int /*flags*/) {
    return answer(of(base).volume->sync_file(of(base).handle), SQLITE_IOERR_FSYNC);
}

int tell_size(sqlite3_file* base, sqlite3_int64* size) {
    const Result<Attributes> found = of(base).volume->attributes(of(base).handle);
    if (!found) return SQLITE_IOERR_FSTAT;
    *size = static_cast<sqlite3_int64>(found->size);
    return SQLITE_OK;
}

int take_lock(sqlite3_file*, int) {
    return SQLITE_OK;
}
int look_for_lock(sqlite3_file*, int* is_taken) {
    *is_taken = 0;
    return SQLITE_OK;
}
int control_file(sqlite3_file*, int, void*) {
    return SQLITE_NOTFOUND;
}
/// The unit that a power cut writes completely or not at all; device characteristics of 0 promise
/// nothing else.
int sector_bytes(sqlite3_file*) {
    return 512;
}
int characteristics(sqlite3_file*) {
    return 0;
}

sqlite3_io_methods make_methods() {
    sqlite3_io_methods methods{};
    methods.iVersion = 1;
    methods.xClose = close_file;
    methods.xRead = read_file;
    methods.xWrite = write_file;
    methods.xTruncate = truncate_file;
    methods.xSync = sync_file;
    methods.xFileSize = tell_size;
    methods.xLock = take_lock;
    methods.xUnlock = take_lock;
    methods.xCheckReservedLock = look_for_lock;
    methods.xFileControl = control_file;
    methods.xSectorSize = sector_bytes;
    methods.xDeviceCharacteristics = characteristics;
    return methods;
}
const sqlite3_io_methods methods = make_methods();

int open_name(sqlite3_vfs* system, const char* name, sqlite3_file* base, int flags,
              int* flags_out) {
    const Folder& folder = of(system);
    const std::string wanted = name == nullptr ? "unnamed" : name;
    Result<Attributes> found = folder.volume->lookup(anybody, folder.directory, wanted);
    if (found.code() == Errc::no_entry && (flags & SQLITE_OPEN_CREATE) != 0)
        found = folder.volume->create(anybody, folder.directory, wanted, {});
    base->pMethods = nullptr;
    if (!found) return answer(found.code(), SQLITE_CANTOPEN);
    if (folder.volume->open_file(found->handle) != Errc::ok) return SQLITE_CANTOPEN;
    const bool is_removed = (flags & SQLITE_OPEN_DELETEONCLOSE) != 0;
    new (base) OpenFile{{&methods},
                        folder.volume,
                        found->handle,
                        folder,
                        is_removed ? new std::string(wanted) : nullptr};
    if (flags_out != nullptr) *flags_out = flags;
    return SQLITE_OK;
}

int remove_file(sqlite3_vfs* system, const char* name, int syncs) {
    const int removed = remove_name(of(system), name);
    if (removed != SQLITE_OK || syncs == 0) return removed;
    return answer(of(system).volume->sync_file(of(system).directory), SQLITE_IOERR_DIR_FSYNC);
}

int look_at_file(sqlite3_vfs* system, const char* name, int /*flags*/, int* is_there) {
    const Folder& folder = of(system);
    const auto found = folder.volume->lookup(anybody, folder.directory, name);
    *is_there = found ? 1 : 0;
    // An empty file counts as missing, else SQLite would read the header of an empty journal.
    if (found && found->size == 0) *is_there = 0;
    return found || found.code() == Errc::no_entry ? SQLITE_OK : SQLITE_IOERR_ACCESS;
}

int complete_name(sqlite3_vfs*, const char* name, int room, char* whole) {
    sqlite3_snprintf(room, whole, "%s", name);
    return SQLITE_OK;
}

}  // namespace

struct SqliteFiles::System {
    Folder folder;
    sqlite3_vfs system;
};

bool has_sqlite() {
    return true;
}

SqliteFiles::SqliteFiles(Volume& volume, Handle directory) : system_(new System) {
    system_->folder = {&volume, directory};
    // Time, sleep and randomness come from the default VFS.
    system_->system = *sqlite3_vfs_find(nullptr);
    sqlite3_vfs& system = system_->system;
    system.iVersion = 1;
    system.szOsFile = sizeof(OpenFile);
    system.pNext = nullptr;
    system.zName = system_name;
    system.pAppData = &system_->folder;
    system.xOpen = open_name;
    system.xDelete = remove_file;
    system.xAccess = look_at_file;
    system.xFullPathname = complete_name;
    EXPECT_EQ(sqlite3_vfs_register(&system, 0), SQLITE_OK);
}

SqliteFiles::~SqliteFiles() {
    sqlite3_vfs_unregister(&system_->system);
}

sqlite3* SqliteFiles::open(const std::string& name) {
    sqlite3* database = nullptr;
    const int code = sqlite3_open_v2(name.c_str(), &database,
                                     SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, system_name);
    EXPECT_EQ(code, SQLITE_OK) << sqlite3_errstr(code);
    if (code == SQLITE_OK) return database;
    sqlite3_close(database);
    return nullptr;
}

std::string SqliteFiles::run(sqlite3* database, const std::string& sql, std::string* answer) {
    char* message = nullptr;
    const auto take = [](void* target, int columns, char** values, char**) {
        if (target != nullptr && columns > 0 && values[0] != nullptr)
            *static_cast<std::string*>(target) = values[0];
        return 0;
    };
    if (sqlite3_exec(database, sql.c_str(), take, answer, &message) == SQLITE_OK) return {};
    const std::string text = message == nullptr ? "an error without a message" : message;
    sqlite3_free(message);
    return text;
}

u64 SqliteFiles::digest(sqlite3* database, const std::string& query) {
    sqlite3_stmt* statement = nullptr;
    const int prepared = sqlite3_prepare_v2(database, query.c_str(), -1, &statement, nullptr);
    EXPECT_EQ(prepared, SQLITE_OK) << sqlite3_errmsg(database);
    u64 digest = 0xcbf29ce484222325u;  // FNV-1a
    const auto add = [&](const void* bytes, u64 length) {
        for (u64 i = 0; i < length; ++i)
            digest = (digest ^ static_cast<const u8*>(bytes)[i]) * 0x100000001b3u;
    };
    int step = SQLITE_DONE;
    while (prepared == SQLITE_OK && (step = sqlite3_step(statement)) == SQLITE_ROW) {
        for (int i = 0; i < sqlite3_column_count(statement); ++i) {
            const void* const bytes = sqlite3_column_blob(statement, i);
            const int length = sqlite3_column_bytes(statement, i);
            add(&length, sizeof length);
            add(bytes, static_cast<u64>(length));
        }
    }
    EXPECT_EQ(step, SQLITE_DONE) << sqlite3_errmsg(database);
    sqlite3_finalize(statement);
    return digest;
}

void SqliteFiles::close(sqlite3* database) {
    EXPECT_EQ(sqlite3_close(database), SQLITE_OK);
}

}  // namespace warren

#else

namespace warren {

struct SqliteFiles::System {};

bool has_sqlite() {
    return false;
}
SqliteFiles::SqliteFiles(Volume&, Handle) {}
SqliteFiles::~SqliteFiles() = default;
sqlite3* SqliteFiles::open(const std::string&) {
    return nullptr;
}
std::string SqliteFiles::run(sqlite3*, const std::string&, std::string*) {
    return "built without SQLite";
}
u64 SqliteFiles::digest(sqlite3*, const std::string&) {
    return 0;
}
void SqliteFiles::close(sqlite3*) {}

}  // namespace warren

#endif
