// SPDX-License-Identifier: Apache-2.0
// Options of opening or mounting a volume, with the names that people write for them: the engine,
// the access to the disk, what a power cut may do to contents, what follows a refused write.
#pragma once

#include <string_view>

#include "warren/types.hpp"

namespace warren {

/// What runs the operations. `automatic`: a GPU if there is one and this build can use it.
enum class EngineChoice : u8 { automatic, cpu, cuda };

/// The names that people write for engines.
inline constexpr std::string_view engine_names[] = {"auto", "cpu", "cuda"};
constexpr std::string_view name_of(EngineChoice engine) {
    return engine_names[static_cast<u8>(engine)];
}
/// Finds the engine of a name. False if there is none.
constexpr bool find_engine(std::string_view name, EngineChoice& engine) {
    for (const EngineChoice one :
         {EngineChoice::automatic, EngineChoice::cpu, EngineChoice::cuda}) {
        if (name != name_of(one)) continue;
        engine = one;
        return true;
    }
    return false;
}

/// How a volume reaches its file or device. `plain`: read(2) and write(2), one at a time for each
/// caller. `ring`: io_uring(7), many requests at once. `direct`: the same, bypassing the system's
/// page cache (O_DIRECT). `automatic`: whichever is fastest when the volume is opened.
enum class DiskAccess : u8 { automatic, plain, ring, direct };

/// The names that people write for ways to a disk.
inline constexpr std::string_view disk_access_names[] = {"auto", "plain", "ring", "direct"};
constexpr std::string_view name_of(DiskAccess access) {
    return disk_access_names[static_cast<u8>(access)];
}
/// Finds the way of a name. False if there is none.
constexpr bool find_disk_access(std::string_view name, DiskAccess& access) {
    for (const DiskAccess one :
         {DiskAccess::automatic, DiskAccess::plain, DiskAccess::ring, DiskAccess::direct}) {
        if (name != name_of(one)) continue;
        access = one;
        return true;
    }
    return false;
}

/// What a power cut may do to file contents that were written since the last commit. `ordered`: a
/// file shows the new contents or the old. `journal`: all contents are those of one commit, as
/// names and sizes are. `writeback`: a new part of a file may show earlier contents of the disk.
/// After fsync or sync they are durable in each mode.
enum class DataMode : u8 { ordered, journal, writeback };

/// The names that people write for modes; ext4 has the same.
inline constexpr std::string_view data_mode_names[] = {"ordered", "journal", "writeback"};
constexpr std::string_view name_of(DataMode mode) {
    return data_mode_names[static_cast<u8>(mode)];
}
/// Finds the mode of a name. False if there is none.
constexpr bool find_data_mode(std::string_view name, DataMode& mode) {
    for (const DataMode one : {DataMode::ordered, DataMode::journal, DataMode::writeback}) {
        if (name != name_of(one)) continue;
        mode = one;
        return true;
    }
    return false;
}

/// What follows a write that the disk refuses. `remount_ro`: the volume becomes read-only. `go_on`:
/// the writer of refused contents gets an error, and the volume stays writable; but it becomes
/// read-only after a commit that fails, when the disk is found to have become smaller, and after
/// any refusal on an engine with memory of its own.
enum class ErrorMode : u8 { remount_ro, go_on };

/// The names that people write for it; ext4 has the same.
inline constexpr std::string_view error_mode_names[] = {"remount-ro", "continue"};
constexpr std::string_view name_of(ErrorMode mode) {
    return error_mode_names[static_cast<u8>(mode)];
}
/// Finds the mode of a name. False if there is none.
constexpr bool find_error_mode(std::string_view name, ErrorMode& mode) {
    for (const ErrorMode one : {ErrorMode::remount_ro, ErrorMode::go_on}) {
        if (name != name_of(one)) continue;
        mode = one;
        return true;
    }
    return false;
}

/// Whether writes of bytes that a file of the volume has already share its blocks. `as_made`: as
/// FormatOptions::dedup said.
enum class Dedup : u8 { as_made, off, on };

}  // namespace warren
