// SPDX-License-Identifier: Apache-2.0
// A disk on which discarded blocks keep their bytes, as on many real ones: a file that exposes a
// block that it never wrote shows data of another file.
#pragma once

#include "tests/support/passing_disk.hpp"

namespace warren {

class KeepingDisk final : public PassingDisk {
 public:
    using PassingDisk::PassingDisk;
    Errc discard(u64, u64) override { return Errc::ok; }
};

}  // namespace warren
