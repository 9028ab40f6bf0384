// SPDX-License-Identifier: Apache-2.0
// Options of opening or mounting a volume, with the names that users write for them: the engine,
// the access to the disk, what a power failure may do to contents, what happens after a refused
// write.
#pragma once

#include <string_view>

#include "warren/types.hpp"

namespace warren {

/// Where operations run. `automatic`: on the CPU, with a GPU beside it once that pays; see
/// OpenOptions::device_memory_bytes. check_volume() takes the CPU for it.
enum class EngineChoice : u8 { automatic, cpu, cuda };

/// The names of engines in options.
inline constexpr std::string_view engine_names[] = {"auto", "cpu", "cuda"};
constexpr std::string_view name_of(EngineChoice engine) {
    return engine_names[static_cast<u8>(engine)];
}
/// Finds the engine with this name. Returns false if there is none.
constexpr bool find_engine(std::string_view name, EngineChoice& engine) {
    for (const EngineChoice one :
         {EngineChoice::automatic, EngineChoice::cpu, EngineChoice::cuda}) {
        if (name != name_of(one)) continue;
        engine = one;
        return true;
    }
    return false;
}

/// How a volume accesses its file or device. `plain`: pread(2) and pwrite(2), one request at a time
/// for each calling thread. `ring`: io_uring(7), many requests at once. `direct`: like `ring`,
/// bypassing the page cache (O_DIRECT). `automatic`: the one that is fastest when the volume is
/// opened.
enum class DiskAccess : u8 { automatic, plain, ring, direct };

/// The names of access methods in options.
inline constexpr std::string_view disk_access_names[] = {"auto", "plain", "ring", "direct"};
constexpr std::string_view name_of(DiskAccess access) {
    return disk_access_names[static_cast<u8>(access)];
}
/// Finds the access method with this name. Returns false if there is none.
constexpr bool find_disk_access(std::string_view name, DiskAccess& access) {
    for (const DiskAccess one :
         {DiskAccess::automatic, DiskAccess::plain, DiskAccess::ring, DiskAccess::direct}) {
        if (name != name_of(one)) continue;
        access = one;
        return true;
    }
    return false;
}

/// What a power failure may do to file contents written since the last commit. `ordered`: a file
/// has the new contents or the old. `journal`: all contents are those of one commit, like names and
/// sizes. `writeback`: a new part of a file may have earlier contents of the disk. In every mode
/// contents are durable after fsync or sync.
enum class DataMode : u8 { ordered, journal, writeback };

/// The names of modes in options, which are those of ext4.
inline constexpr std::string_view data_mode_names[] = {"ordered", "journal", "writeback"};
constexpr std::string_view name_of(DataMode mode) {
    return data_mode_names[static_cast<u8>(mode)];
}
/// Finds the mode with this name. Returns false if there is none.
constexpr bool find_data_mode(std::string_view name, DataMode& mode) {
    for (const DataMode one : {DataMode::ordered, DataMode::journal, DataMode::writeback}) {
        if (name != name_of(one)) continue;
        mode = one;
        return true;
    }
    return false;
}

/// What happens after the disk refuses a write. `remount_ro`: the volume becomes read-only.
/// `go_on`: the writer of the refused contents gets an error, and the volume stays writable. It
/// still becomes read-only when a commit fails, when the disk is found to have become smaller, and
/// after any refused write on an engine with memory of its own.
enum class ErrorMode : u8 { remount_ro, go_on };

/// The names of these modes in options, which are those of ext4.
inline constexpr std::string_view error_mode_names[] = {"remount-ro", "continue"};
constexpr std::string_view name_of(ErrorMode mode) {
    return error_mode_names[static_cast<u8>(mode)];
}
/// Finds the mode with this name. Returns false if there is none.
constexpr bool find_error_mode(std::string_view name, ErrorMode& mode) {
    for (const ErrorMode one : {ErrorMode::remount_ro, ErrorMode::go_on}) {
        if (name != name_of(one)) continue;
        mode = one;
        return true;
    }
    return false;
}

/// Whether a write of bytes that a file of the volume already contains shares the blocks of that
/// file. `as_made`: as FormatOptions::dedup specified.
enum class Dedup : u8 { as_made, off, on };

}  // namespace warren
