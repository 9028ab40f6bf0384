// SPDX-License-Identifier: Apache-2.0
// A disk whose discards leave the bytes there, as many do: what a file shows of a block that it
// never wrote is then somebody else's.
#pragma once

#include "tests/support/passing_disk.hpp"

namespace warren {

class KeepingDisk final : public PassingDisk {
 public:
    using PassingDisk::PassingDisk;
    Errc discard(u64, u64) override { return Errc::ok; }
};

}  // namespace warren
