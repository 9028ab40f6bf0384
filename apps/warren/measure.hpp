// SPDX-License-Identifier: Apache-2.0
// Short measurements for doctor: a few tenths of a second each, on a volume that is thrown away or
// on a mount that is only read.
#pragma once

#include <string>

#include "apps/fuse/control.hpp"
#include "warren/volume.hpp"

namespace warren::cli {

/// Times of operations through the library, in nanoseconds; means but where it says otherwise.
struct Measured {
    u64 files = 0;
    double open_ns = 0;          // opening the volume, once
    double command_ns = 0;       // one command, by handle: the median
    double slow_command_ns = 0;  // of a hundred commands the slowest takes longer than this
    double create_ns = 0;
    double lookup_ns = 0;
    double commit_ns = 0;  // sync() after one change
    double remove_ns = 0;  // a file's share of one remove_tree()
};

/// Makes a volume in `directory`, measures with `engine` and removes it.
Failure measure_volume(const std::string& directory, EngineChoice engine, Measured& measured);

struct MountMeasured {
    double lookup_ns = 0;   // of a name that nobody has cached
    double command_ns = 0;  // of the smallest request to the daemon
};

/// Measures round trips on a mount; changes nothing there.
Errc measure_mount(const std::string& path, fuse::ControlConnection& connection,
                   MountMeasured& measured);

/// "1.25 us", "3.4 ms".
std::string long_time(double nanoseconds);

/// "1.25 us each, 800,000 a second".
std::string rate_text(double nanoseconds);

}  // namespace warren::cli
