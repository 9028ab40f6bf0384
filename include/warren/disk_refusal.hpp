// SPDX-License-Identifier: Apache-2.0
// What a volume reports of its disk.
#pragma once

#include <string>

#include "warren/result.hpp"
#include "warren/types.hpp"

namespace warren {

/// A write or flush that the volume's disk refused, or a write that was not made because the disk
/// had become smaller.
struct DiskRefusal {
    Errc code = Errc::ok;
    u64 offset = 0;         // of the first byte
    u64 bytes = 0;          // in total; 0: a flush
    u64 places = 1;         // ranges written at once, at least one of which was refused
    u64 found_size = 0;     // current size of the disk
    u64 expected_size = 0;  // the size that it should have

    bool has_shrunk() const { return found_size < expected_size; }
    /// Describes for the user what was refused and why.
    std::string text() const;
    /// Tells the user what can be done about it.
    std::string remedy() const;
};

}  // namespace warren
