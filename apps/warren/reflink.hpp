// SPDX-License-Identifier: Apache-2.0
// Copies that share the blocks of their source, as cp(1) makes them with --reflink: by FICLONE or,
// on a mounted Warren volume, where FICLONE does not reach the daemon, by copy_file_range(2), for
// which the daemon shares whole blocks. The daemon then reports whether all blocks are shared.
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

/// Makes the reflinks of one command; usable from any number of threads.
class Reflinks {
 public:
    /// Makes `to`, a new open file, a copy of `from` that shares its blocks. If that is not
    /// possible `done` stays false; with `must` it is an error, as is any block that is not shared.
    Fault copy(int from, const Place& to, bool must, bool& done);

 private:
    Fault copy_on_mount(int from, u64 size, const Place& to, bool& done);
    Fault check_shared(const Place& file, u64 device);
    bool is_warren(u64 device);

    std::atomic<bool> may_clone_{true};  // no file system so far refused FICLONE
    std::mutex mutex_;                   // guards the maps
    std::map<u64, bool> is_warren_;      // key: device number
    std::map<u64, std::optional<fuse::ControlConnection>> daemons_;  // likewise
};

}  // namespace warren::cli
