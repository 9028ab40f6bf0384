// SPDX-License-Identifier: Apache-2.0
// Sliding windows against the digest of each window as a message of its own: the paper's sizes,
// those around padding boundaries, any stride, digests truncated to any length, bitmaps of matches.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random.hpp"
#include "hash/lanes.hpp"
#include "tests/hash/messages.hpp"
#include "tests/support/seed.hpp"
#include "warren/hash.hpp"

namespace warren::hash::windows_test {
namespace {

/// Whole digests of all windows, each hashed as a message.
std::vector<u8> expected_digests(const Windows& windows, Bytes data) {
    std::vector<Bytes> messages;
    for (u64 i = 0; i < window_count(windows, data.size()); ++i)
        messages.push_back(data.subspan(i * windows.stride_bytes, windows.window_bytes));
    std::vector<u8> digests(messages.size() * digest_bytes(windows.algorithm));
    EXPECT_EQ(hash_many(windows.algorithm, messages, digests, {1, Processor::cpu}), Errc::ok);
    return digests;
}

/// Whether the low bits of a printed digest are zero, computed digit by digit.
bool ends_in_zero_bits(const std::string& digits, u32 bits) {
    for (u32 i = 0; i < bits; ++i) {
        const char digit = digits[digits.size() - 1 - i / 4];
        const int value = digit <= '9' ? digit - '0' : digit - 'a' + 10;
        if ((value >> i % 4 & 1) != 0) return false;
    }
    return true;
}

void expect_as_messages(const Windows& windows, Bytes data, u32 kept_bytes, u32 zero_bits,
                        const Options& options) {
    const std::vector<u8> whole = expected_digests(windows, data);
    const u32 size = digest_bytes(windows.algorithm);
    const u64 count = window_count(windows, data.size());
    SCOPED_TRACE(std::string(name(windows.algorithm)) + " of " +
                 std::to_string(windows.window_bytes) + "/" + std::to_string(windows.stride_bytes) +
                 " over " + std::to_string(data.size()) + ", kept " + std::to_string(kept_bytes));
    std::vector<u8> cut(count * kept_bytes);
    ASSERT_EQ(hash_windows(windows, data, kept_bytes, cut, options), Errc::ok);
    std::vector<u64> bitmap((count + 63) / 64, ~u64{0});
    ASSERT_EQ(match_windows(windows, data, zero_bits, bitmap, options), Errc::ok);
    for (u64 i = 0; i < count; ++i) {
        const auto digest = std::span(whole).subspan(i * size, size);
        ASSERT_TRUE(
            std::equal(digest.begin(), digest.begin() + kept_bytes, cut.data() + i * kept_bytes))
            << "window " << i;
        ASSERT_EQ((bitmap[i / 64] >> i % 64 & 1) != 0, ends_in_zero_bits(hex(digest), zero_bits))
            << "window " << i << " " << hex(digest);
    }
    if (count % 64 != 0) {
        EXPECT_EQ(bitmap.back() >> count % 64, 0u);
    }
}

TEST(HashWindows, OfThePaper) {
    const Seed seed;
    Random random(seed.value());
    const std::vector<std::byte> data = random_message(random, 20'000);
    const u64 sizes[][2] = {{20, 4},  {52, 4},  {56, 4}, {20, 20},
                            {52, 52}, {56, 56}, {20, 1}, {48, 1}};
    for (const auto& [window, stride] : sizes) {
        for (const Algorithm algorithm : {Algorithm::md5, Algorithm::sha1}) {
            expect_as_messages({algorithm, window, stride}, data, digest_bytes(algorithm), 5,
                               {1, Processor::cpu});
        }
    }
}

TEST(HashWindows, OfEveryLengthAroundThePadding) {
    const Seed seed;
    Random random(seed.value());
    const std::vector<std::byte> data = random_message(random, 700);
    for (const u64 window : {1, 3, 4, 54, 55, 57, 63, 64, 65, 119, 120, 127, 128, 129, 200}) {
        for (const Algorithm algorithm : all_algorithms) {
            expect_as_messages({algorithm, window, 1 + random.below(9)}, data, 4, 3,
                               {1, Processor::cpu});
        }
    }
}

TEST(HashWindows, OfAnySizesAndThreads) {
    const Seed seed;
    Random random(seed.value());
    for (int round = 0; round < 60; ++round) {
        const Algorithm algorithm = all_algorithms[random.below(3)];
        const Windows windows = {algorithm, 1 + random.below(150), 1 + random.below(40)};
        const std::vector<std::byte> data = random_message(random, random.below(9000));
        expect_as_messages(windows, data, 1 + static_cast<u32>(random.below(16)),
                           1 + static_cast<u32>(random.below(9)),
                           {1 + static_cast<u32>(random.below(4)), Processor::cpu});
    }
}

TEST(HashWindows, ThreadsTakeAllOfManyWindows) {
    const std::vector<std::byte> data = pattern_message(300'000);
    const Windows windows = {Algorithm::md5, 48, 1};
    const u64 words = (window_count(windows, data.size()) + 63) / 64;
    std::vector<u64> one(words);
    std::vector<u64> many(words, ~u64{0});
    ASSERT_EQ(match_windows(windows, data, 6, one, {1, Processor::cpu}), Errc::ok);
    ASSERT_EQ(match_windows(windows, data, 6, many, {4, Processor::cpu}), Errc::ok);
    EXPECT_EQ(one, many);
}

TEST(HashWindows, EveryWidthOfVectorsAgrees) {
    const std::vector<std::byte> data = pattern_message(5000);
    for (const Algorithm algorithm : {Algorithm::md5, Algorithm::sha1, Algorithm::sha256}) {
        const Windows windows = {algorithm, 60, 3};
        const std::vector<u8> expected = expected_digests(windows, data);
        const WindowPlan plan = plan_windows(windows, data.size());
        const u32 size = digest_bytes(algorithm);
        for (const LaneSet* lanes : lane_sets()) {
            std::vector<u8> digests(expected.size());
            lanes->windows[static_cast<u32>(algorithm)](
                plan, reinterpret_cast<const u8*>(data.data()), 0, expected.size() / size,
                {.digests = digests.data(), .kept_bytes = size});
            EXPECT_EQ(digests, expected) << name(algorithm) << " in " << lanes->name;
        }
    }
}

TEST(HashWindows, ThatDoNotFitAreNone) {
    EXPECT_EQ(window_count({Algorithm::md5, 20, 4}, 19), 0u);
    EXPECT_EQ(window_count({Algorithm::md5, 20, 4}, 20), 1u);
    EXPECT_EQ(window_count({Algorithm::md5, 20, 4}, 23), 1u);
    EXPECT_EQ(window_count({Algorithm::md5, 20, 4}, 24), 2u);
    EXPECT_EQ(window_count({Algorithm::md5, 0, 4}, 24), 0u);
    const std::vector<std::byte> data = pattern_message(19);
    EXPECT_EQ(hash_windows({Algorithm::md5, 20, 4}, data, 16, {}), Errc::ok);
    EXPECT_EQ(match_windows({Algorithm::md5, 20, 4}, data, 20, {}), Errc::ok);
}

TEST(HashWindows, SayWhatCannotBe) {
    const std::vector<std::byte> data = pattern_message(100);
    std::vector<u8> output(1000);
    std::vector<u64> bitmap(2);
    EXPECT_EQ(hash_windows({Algorithm::md5, 0, 1}, data, 4, output), Errc::invalid);
    EXPECT_EQ(hash_windows({Algorithm::md5, 20, 0}, data, 4, output), Errc::invalid);
    EXPECT_EQ(hash_windows({Algorithm::md5, 20, 4}, data, 0, output), Errc::invalid);
    EXPECT_EQ(hash_windows({Algorithm::md5, 20, 4}, data, 17, output), Errc::invalid);
    EXPECT_EQ(hash_windows({Algorithm::md5, 20, 4}, data, 4, output), Errc::invalid);
    EXPECT_EQ(match_windows({Algorithm::md5, 20, 1}, data, 0, bitmap), Errc::invalid);
    EXPECT_EQ(match_windows({Algorithm::md5, 20, 1}, data, 33, bitmap), Errc::invalid);
    EXPECT_EQ(match_windows({Algorithm::md5, 20, 4}, data, 20, bitmap), Errc::invalid);
}

}  // namespace
}  // namespace warren::hash::windows_test
