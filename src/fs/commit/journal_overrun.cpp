// SPDX-License-Identifier: Apache-2.0
// The operation has made the volume read-only already; this writes the reason to the log.
#include "fs/commit/journal_overrun.hpp"

#include <string>

#include "base/notice.hpp"
#include "base/out_of_memory.hpp"

namespace warren {

Errc refuse_overrun(const ops::CutCounters& counters) {
    if (counters.overrun_blocks == 0) return Errc::ok;
    static_cast<void>(or_no_memory([&] {
        notice("an operation dirtied more metadata blocks (" +
               std::to_string(counters.overrun_blocks) + ") than it had reserved in the journal (" +
               std::to_string(counters.overrun_credits) +
               "); the volume is read-only and keeps what was last committed; this is a bug in "
               "Warren, please report it");
    }));
    return Errc::io;
}

}  // namespace warren
