// SPDX-License-Identifier: Apache-2.0
// The C interface while memory runs out: each allocation fails once. No exception escapes, and each
// answer is right or ENOMEM.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

#include "tests/hash/messages.hpp"
#include "tests/support/failing_allocations.hpp"
#include "warren/hash.h"

namespace warren::hash::no_memory_test {
namespace {

/// A call that writes its digests to `digests`, and its return value.
using Call = std::function<int(std::vector<u8>& digests)>;

/// Makes every allocation of the call fail once.
void fail_each(const Call& call, size_t digests_bytes, const char* name) {
    std::vector<u8> expected(digests_bytes);
    ASSERT_EQ(call(expected), 0) << name;
    bool has_failed = true;
    for (u64 nth = 1; has_failed; ++nth) {
        std::vector<u8> digests(digests_bytes);
        int code = 0;
        {
            const FailingAllocation failing(nth);
            code = call(digests);
            has_failed = failing.has_failed();
        }
        if (code == ENOMEM) {
            EXPECT_TRUE(has_failed) << name;
        } else {
            EXPECT_EQ(code, 0) << name << ", allocation " << nth;
            EXPECT_EQ(digests, expected) << name << ", allocation " << nth;
        }
    }
}

/// For a call that returns memory of malloc(), or null.
Call of_new(const std::function<char*()>& make) {
    return [make](std::vector<u8>& digests) {
        const std::unique_ptr<char, decltype(&std::free)> made(make(), std::free);
        if (made == nullptr) return ENOMEM;
        std::copy_n(made.get(), digests.size(), digests.begin());
        return 0;
    };
}

TEST(HashNoMemory, EveryCallAnswersIt) {
    // Enough for several threads, and pieces whose lengths have to be sorted.
    const std::vector<std::byte> data = pattern_message(3 * mib);
    std::vector<const void*> pieces;
    std::vector<size_t> lengths;
    for (size_t at = 0; at + 20'000 < data.size(); at += 20'000) {
        pieces.push_back(&data[at]);
        lengths.push_back(5'000 + at % 15'000);
    }
    for (const warren_hash_algorithm algorithm :
         {WARREN_HASH_MD5, WARREN_HASH_SHA1, WARREN_HASH_SHA256, WARREN_HASH_BLAKE3,
          WARREN_HASH_XXH3_128}) {
        const auto many = [&](std::vector<u8>& digests) {
            return warren_hash_many(algorithm, pieces.data(), lengths.data(), pieces.size(),
                                    digests.data(), digests.size());
        };
        fail_each(many, pieces.size() * warren_hash_digest_bytes(algorithm), "warren_hash_many");
    }
    const void* const at = data.data();
    const size_t bytes = data.size();
    fail_each([&](std::vector<u8>& to) { return storegpu_sha(at, bytes, to.data(), 20); }, 20,
              "storegpu_sha");
    fail_each([&](std::vector<u8>& to) { return storegpu_md5(at, bytes, to.data(), 16); }, 16,
              "storegpu_md5");
    fail_each(of_new([&] { return storegpu_new_sha(at, bytes); }), 20, "storegpu_new_sha");
    fail_each(of_new([&] { return storegpu_new_md5(at, bytes); }), 16, "storegpu_new_md5");
    const size_t windows = storegpu_window_count(bytes, 48, 16);
    fail_each(
        [&](std::vector<u8>& to) {
            return storegpu_sha_windows(at, bytes, 48, 16, 4, to.data(), to.size());
        },
        windows * 4, "storegpu_sha_windows");
    fail_each(
        [&](std::vector<u8>& to) {
            return storegpu_md5_windows(at, bytes, 48, 16, 4, to.data(), to.size());
        },
        windows * 4, "storegpu_md5_windows");
    fail_each(of_new([&] { return storegpu_new_sha_windows(at, bytes, 48, 16); }), windows * 20,
              "storegpu_new_sha_windows");
    fail_each(of_new([&] { return storegpu_new_md5_windows(at, bytes, 48, 16); }), windows * 16,
              "storegpu_new_md5_windows");
}

}  // namespace
}  // namespace warren::hash::no_memory_test
