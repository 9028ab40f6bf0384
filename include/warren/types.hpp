// SPDX-License-Identifier: Apache-2.0
// The integer types of every layer. Sizes on disk and in commands are explicit, so `size_t` and
// `long` do not occur there. WARREN_HD marks functions that are compiled for both the CPU and the
// GPU.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__CUDACC__)
#define WARREN_HD __host__ __device__
#else
#define WARREN_HD
#endif

namespace warren {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using i32 = std::int32_t;
using i64 = std::int64_t;

inline constexpr u64 kib = 1024;
inline constexpr u64 mib = 1024 * kib;
inline constexpr u64 gib = 1024 * mib;
inline constexpr u64 tib = 1024 * gib;

}  // namespace warren
