// SPDX-License-Identifier: Apache-2.0
// The constants with which other programs define their chunks.
#pragma once

#include <array>

#include "warren/types.hpp"

namespace warren::chunk {

/// The bytes that a gear hash depends on: it has 64 bits and shifts by one for each byte.
inline constexpr u64 gear_window = 64;
/// One entry per byte value: the table of the gearhash crate, which Xet uses.
extern const std::array<u64, 256> gear_table;
/// The table of FastCDC 2020 as in fastcdc-rs and pyfastcdc.
extern const std::array<u64, 256> fastcdc_table;
/// The masks of FastCDC 2020 by the logarithm of the size; those below 5 are not used.
extern const std::array<u64, 26> fastcdc_masks;
/// The table of borg, without a seed.
extern const std::array<u32, 256> buzhash_table;

}  // namespace warren::chunk
