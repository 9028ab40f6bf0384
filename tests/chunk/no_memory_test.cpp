// SPDX-License-Identifier: Apache-2.0
// Rabin's C interface while memory runs out: each allocation fails once. No exception escapes, a
// lost stream returns an error until it is reset, and each answer is right.
#include <gtest/gtest.h>

#include "tests/chunk/random_cases.hpp"
#include "tests/support/failing_allocations.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/seed.hpp"
#include "warren/chunk.h"

namespace warren::chunk::no_memory_test {
namespace {

using Cut = size_t (*)(rabinpoly_t*, const void*, size_t, size_t*);

class NoMemory : public testing::Test {
 protected:
    void SetUp() override {
        Random random(seed.value());
        // Enough to wake all threads.
        bytes = random_bytes(random, 3 * mib);
        expected = cut_serial(*preset("lbfs"), bytes);
        markers.resize(bytes.size() / (2 * kib) + 1);
    }

    /// The chunks that a call found, with the open chunk at the end.
    std::vector<u64> found(size_t count) const {
        std::vector<u64> ends(markers.begin(),
                              markers.begin() + static_cast<std::ptrdiff_t>(count));
        if (ends.empty() || ends.back() != bytes.size()) ends.push_back(bytes.size());
        return ends;
    }

    /// Makes the nth allocation in opening and cutting fail; false if there were fewer.
    bool fail(u64 nth, Cut cut) {
        size_t count = RABIN_NO_MEMORY;
        rabinpoly_t* rabin = nullptr;
        bool has_failed = false;
        {
            const FailingAllocation failing(nth);
            rabin = rabin_init(48, 8, 2, 64);
            if (rabin != nullptr) count = cut(rabin, bytes.data(), bytes.size(), markers.data());
            has_failed = failing.has_failed();
        }
        if (rabin == nullptr) {
            EXPECT_TRUE(has_failed);
            return true;
        }
        if (count == RABIN_NO_MEMORY) {
            EXPECT_TRUE(has_failed);
            int is_new = 0;
            EXPECT_EQ(cut(rabin, bytes.data(), 1, markers.data()), RABIN_NO_MEMORY);
            EXPECT_EQ(rabin_segment_next(rabin, "a", 1, &is_new), -1);
            rabin_reset(rabin);
            count = cut(rabin, bytes.data(), bytes.size(), markers.data());
        }
        EXPECT_EQ(found(count), expected) << "allocation " << nth;
        rabin_free(rabin);
        return has_failed;
    }

    const Seed seed;
    std::vector<std::byte> bytes;
    std::vector<u64> expected;
    std::vector<size_t> markers;
};

TEST_F(NoMemory, EveryCallOfRabinAnswersIt) {
    for (const Cut cut :
         {compute_rabin_segments_serial, compute_rabin_segments_cpu, compute_rabin_segments_gpu}) {
        u64 nth = 1;
        while (fail(nth, cut))
            nth += case_step;
        EXPECT_GT(nth, 3u);
    }
}

}  // namespace
}  // namespace warren::chunk::no_memory_test
