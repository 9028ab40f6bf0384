// SPDX-License-Identifier: Apache-2.0
// Two implementations with the same result; the first call decides which of them runs.
#include "base/crc32c.hpp"

#include <cstring>

#include "base/crc32c_parts.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace warren {
namespace {

constexpr std::array<u32, 256> table = crc_parts::make_table();

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) u32 crc32c_by_instruction(std::span<const std::byte> bytes,
                                                            u32 previous) {
    u64 crc = ~previous;
    const std::byte* at = bytes.data();
    std::size_t left = bytes.size();
    for (; left >= 8; left -= 8, at += 8) {
        u64 word;
        std::memcpy(&word, at, 8);
        crc = _mm_crc32_u64(crc, word);
    }
    u32 tail = static_cast<u32>(crc);
    for (; left > 0; --left, ++at)
        tail = _mm_crc32_u8(tail, static_cast<u8>(*at));
    return ~tail;
}
#endif

}  // namespace

u32 crc32c_by_table(std::span<const std::byte> bytes, u32 previous) {
    u32 crc = ~previous;
    for (std::byte byte : bytes)
        crc = (crc >> 8) ^ table[(crc ^ static_cast<u8>(byte)) & 0xff];
    return ~crc;
}

u32 crc32c(std::span<const std::byte> bytes, u32 previous) {
#if defined(__x86_64__)
    static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
    if (has_instruction) return crc32c_by_instruction(bytes, previous);
#endif
    return crc32c_by_table(bytes, previous);
}

}  // namespace warren
