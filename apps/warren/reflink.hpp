// SPDX-License-Identifier: Apache-2.0
// Copies that share the blocks of their source, as cp(1) makes them with --reflink: by FICLONE; on
// a mounted Warren volume, which that call does not reach, by copy_file_range(2), with which the
// daemon shares whole blocks. Whether it has shared them all, the daemon tells.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <optional>

#include "apps/fuse/control.hpp"
#include "apps/warren/file_contents.hpp"
#include "apps/warren/place.hpp"

namespace warren::cli {

enum class Reflink : u8 { automatic, always, never };

/// The reflinks of one command; for any number of threads.
class Reflinks {
 public:
    /// Makes `to`, a new file that is open, a copy of `from` that shares its blocks. Where that
    /// cannot be, `done` stays false; with `must` it is a fault, also if one block is not shared.
    Fault copy(int from, const Place& to, bool must, bool& done);

 private:
    Fault copy_on_mount(int from, u64 size, const Place& to, bool& done);
    Fault check_shared(const Place& file, u64 device);
    bool is_warren(u64 device);

    std::atomic<bool> may_clone_{true};  // the file systems so far know FICLONE
    std::mutex mutex_;                   // the maps
    std::map<u64, bool> is_warren_;      // by device
    std::map<u64, std::optional<fuse::ControlConnection>> daemons_;  // likewise
};

}  // namespace warren::cli
