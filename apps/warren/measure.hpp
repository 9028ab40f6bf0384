// SPDX-License-Identifier: Apache-2.0
// Short measurements for doctor: a few tenths of a second each, on a temporary volume, or on a
// mount that is only read.
#pragma once

#include <string>

#include "apps/fuse/control.hpp"
#include "warren/volume.hpp"

namespace warren::cli {

/// Times of operations through the library in nanoseconds; means unless stated otherwise.
struct Measured {
    u64 files = 0;
    double open_ns = 0;          // opening the volume, once
    double command_ns = 0;       // one command on a handle: the median
    double slow_command_ns = 0;  // the 99th percentile of commands
    double create_ns = 0;
    double lookup_ns = 0;
    double commit_ns = 0;  // sync() after one change
    double remove_ns = 0;  // one remove_tree(), divided by its files
};

/// Makes a volume in `directory`, measures it with `engine` and removes it.
Failure measure_volume(const std::string& directory, EngineChoice engine, Measured& measured);

struct MountMeasured {
    double lookup_ns = 0;   // of a name that is not cached anywhere
    double command_ns = 0;  // of the smallest request to the daemon
};

/// Measures round trips on a mount, without changing anything there.
Errc measure_mount(const std::string& path, fuse::ControlConnection& connection,
                   MountMeasured& measured);

/// "1.25 us", "3.4 ms".
std::string long_time(double nanoseconds);

/// "1.25 us each, 800,000 a second".
std::string rate_text(double nanoseconds);

}  // namespace warren::cli
