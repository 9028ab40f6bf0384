// SPDX-License-Identifier: Apache-2.0
// CRC32C (Castagnoli, reflected polynomial 0x82f63b78): detects torn, misplaced and flipped
// metadata. Uses the CPU's instruction if it has one; the table is the reference and the fallback.
#pragma once

#include <span>

#include "warren/types.hpp"

namespace warren {

/// The CRC32C of `bytes`, continued from `previous` (0 to start).
u32 crc32c(std::span<const std::byte> bytes, u32 previous = 0);

/// The same computed by table, for tests and for processors without the instruction.
u32 crc32c_by_table(std::span<const std::byte> bytes, u32 previous = 0);

}  // namespace warren
