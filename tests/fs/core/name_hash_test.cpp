// SPDX-License-Identifier: Apache-2.0
// The name hash is part of the format: a volume made today must be readable by every later version.
// So it is compared with published values of SipHash-1-3, not with values computed by this code.
#include "fs/core/name_hash.hpp"

#include <gtest/gtest.h>

#include <string>

namespace warren::name_hash_test {
namespace {

constexpr u64 zero_key[2] = {0, 0};
constexpr u64 counting_key[2] = {0x0706050403020100u, 0x0f0e0d0c0b0a0908u};

std::string counting(u32 length) {
    std::string bytes(length, '\0');
    for (u32 i = 0; i < length; ++i)
        bytes[i] = static_cast<char>(i);
    return bytes;
}

u64 hash_of(const u64 key[2], const std::string& bytes) {
    return siphash_1_3(key, bytes.data(), static_cast<u32>(bytes.size()));
}

// With a key of zeros CPython's hash() of bytes is SipHash-1-3 (PYTHONHASHSEED=0, 3.11 and later).
TEST(NameHash, AgreesWithCPython) {
    EXPECT_EQ(hash_of(zero_key, "a"), 0x407448d2b89b1813u);
    EXPECT_EQ(hash_of(zero_key, "1234567"), 0xa33d651594fdae81u);
    EXPECT_EQ(hash_of(zero_key, "12345678"), 0x3489982430560a87u);
    EXPECT_EQ(hash_of(zero_key, "hello world.txt"), 0xb1f5acfc864ea855u);
    EXPECT_EQ(hash_of(zero_key, "n\xc3\xa4me"), 0x85f789996684a6b3u);
    EXPECT_EQ(hash_of(zero_key, counting(255)), 0x5dc1f93ea135eb43u);
    EXPECT_EQ(hash_of(zero_key, std::string(255, 'x')), 0x4bd34c40ef7d284bu);
}

// Values that other implementations of SipHash-1-3 publish.
TEST(NameHash, AgreesWithPublishedValues) {
    EXPECT_EQ(hash_of(zero_key, ""), 0xd1fba762150c532cu);
    EXPECT_EQ(hash_of(counting_key, ""), 0xabac0158050fc4dcu);
}

TEST(NameHash, IsTheTopOfTheHash) {
    EXPECT_EQ(name_hash(zero_key, "a", 1), 0x407448d2b89b1813u >> 9);
    EXPECT_EQ(name_hash(zero_key, "12345678", 8), 0x3489982430560a87u >> 9);
}

TEST(NameHash, LeavesRoomForCookies) {
    constexpr u64 greatest_key = (name_hash_reserved - 1) << 8 | 255;
    static_assert(greatest_key + 3 < u64{1} << 63);
    EXPECT_LT(name_hash(counting_key, "name", 4), name_hash_reserved);
}

TEST(NameHash, DependsOnBothHalvesOfTheKey) {
    const u64 first[2] = {1, 0};
    const u64 second[2] = {0, 1};
    EXPECT_NE(name_hash(first, "name", 4), name_hash(zero_key, "name", 4));
    EXPECT_NE(name_hash(second, "name", 4), name_hash(zero_key, "name", 4));
    EXPECT_NE(name_hash(first, "name", 4), name_hash(second, "name", 4));
}

}  // namespace
}  // namespace warren::name_hash_test
