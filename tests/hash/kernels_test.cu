// SPDX-License-Identifier: Apache-2.0
// The kernels against the CPU: every algorithm, every length around a padding boundary, any
// alignment, many pieces, one long message by its tree, sliding windows with and without staging.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random.hpp"
#include "gpu/buffer.hpp"
#include "gpu/device.hpp"
#include "gpu/failure.hpp"
#include "gpu/stream.hpp"
#include "hash/cuda/kernels.hpp"
#include "tests/hash/messages.hpp"
#include "tests/support/seed.hpp"
#include "warren/hash.hpp"

namespace warren::hash::cuda::kernels_test {
namespace {

constexpr Options on_cpu = {0, Processor::cpu};

class HashKernels : public testing::Test {
 protected:
    void SetUp() override {
        if (gpu::device_count() == 0) GTEST_SKIP() << "there is no GPU";
        ASSERT_EQ(stream.open(), Errc::ok) << gpu::last_failure().message;
    }

    /// Copies `data` into device memory, `shift` bytes behind an aligned address.
    const u8* put(Bytes data, u64 shift) {
        EXPECT_EQ(input.allocate(data.size() + 64), Errc::ok);
        EXPECT_EQ(stream.copy(input.data() + shift, data.data(), data.size()), Errc::ok);
        return input.data() + shift;
    }

    template <class T>
    std::vector<T> get(const gpu::DeviceBuffer<T>& from, u64 count) {
        std::vector<T> values(count);
        EXPECT_EQ(stream.copy(values.data(), from.data(), count * sizeof(T)), Errc::ok);
        EXPECT_EQ(stream.wait(), Errc::ok) << gpu::last_failure().message;
        return values;
    }

    /// The digests of the given pieces of `data`.
    std::vector<u8> digests_of(Algorithm algorithm, Bytes data, u64 shift,
                               const std::vector<u64>& at, const std::vector<u64>& lengths) {
        gpu::DeviceBuffer<u64> places;
        const u64 count = at.size();
        const u32 size = digest_bytes(algorithm);
        EXPECT_EQ(places.allocate(2 * count), Errc::ok);
        EXPECT_EQ(output.allocate(count * size), Errc::ok);
        DevicePieces pieces;
        pieces.data = put(data, shift);
        pieces.data_bytes = data.size();
        pieces.offsets = places.data();
        pieces.lengths = places.data() + count;
        pieces.count = count;
        EXPECT_EQ(stream.copy(places.data(), at.data(), count * 8), Errc::ok);
        EXPECT_EQ(stream.copy(places.data() + count, lengths.data(), count * 8), Errc::ok);
        EXPECT_EQ(hash_pieces(algorithm, pieces, {}, output.data(), stream.get()), Errc::ok)
            << gpu::last_failure().message;
        return get(output, count * size);
    }

    gpu::Stream stream;
    gpu::DeviceBuffer<u8> input;
    gpu::DeviceBuffer<u8> output;
};

TEST_F(HashKernels, AgreeForAllLengths) {
    const std::vector<std::byte> data = pattern_message(1200);
    for (const Algorithm algorithm : all_algorithms) {
        std::vector<Bytes> messages;
        std::vector<u64> at(1200, 0);
        std::vector<u64> lengths;
        for (u64 length = 0; length < 1200; ++length) {
            messages.push_back(Bytes(data).first(length));
            lengths.push_back(length);
        }
        std::vector<u8> expected(messages.size() * digest_bytes(algorithm));
        ASSERT_EQ(hash_many(algorithm, messages, expected, on_cpu), Errc::ok);
        for (const u64 shift : {0, 1, 7, 13}) {
            EXPECT_EQ(digests_of(algorithm, data, shift, at, lengths), expected)
                << name(algorithm) << " " << shift << " bytes behind an aligned place";
        }
    }
}

TEST_F(HashKernels, AgreeForRandomPieces) {
    const Seed seed;
    Random random(seed.value());
    const std::vector<std::byte> data = random_message(random, 4 * mib);
    for (const Algorithm algorithm : all_algorithms) {
        const std::vector<Bytes> pieces = random_pieces(random, data, 5000, 20'000);
        std::vector<u64> at;
        std::vector<u64> lengths;
        for (const Bytes& piece : pieces) {
            at.push_back(static_cast<u64>(piece.data() - data.data()));
            lengths.push_back(piece.size());
        }
        std::vector<u8> expected(pieces.size() * digest_bytes(algorithm));
        ASSERT_EQ(hash_many(algorithm, pieces, expected, on_cpu), Errc::ok);
        EXPECT_EQ(digests_of(algorithm, data, random.below(16), at, lengths), expected)
            << name(algorithm);
    }
}

TEST_F(HashKernels, AgreeForEqualPieces) {
    const Seed seed;
    Random random(seed.value());
    const std::vector<std::byte> data = random_message(random, 3 * mib + 777);
    for (const Algorithm algorithm : all_algorithms) {
        const u32 size = digest_bytes(algorithm);
        for (const u64 piece_bytes : {64, 240, 1000, 1024, 4096, 65536, 999'999}) {
            for (const u64 shift : {0, 5}) {
                DevicePieces pieces;
                pieces.data = put(data, shift);
                pieces.data_bytes = data.size();
                pieces.piece_bytes = piece_bytes;
                pieces.count = (data.size() + piece_bytes - 1) / piece_bytes;
                std::vector<u8> expected(pieces.count * size);
                ASSERT_EQ(hash::hash_pieces(algorithm, data, piece_bytes, expected, on_cpu),
                          Errc::ok);
                ASSERT_EQ(output.allocate(pieces.count * size), Errc::ok);
                ASSERT_EQ(hash_pieces(algorithm, pieces, {}, output.data(), stream.get()),
                          Errc::ok);
                EXPECT_EQ(get(output, pieces.count * size), expected)
                    << name(algorithm) << " of " << piece_bytes << ", shift " << shift;
            }
        }
    }
}

TEST_F(HashKernels, AgreeOnOneTree) {
    const Seed seed;
    Random random(seed.value());
    const std::vector<std::byte> data = random_message(random, 20 * mib);
    ASSERT_EQ(output.allocate(32), Errc::ok);
    for (const u64 length : {u64{0}, u64{1}, u64{4096}, u64{4097}, u64{10'000}, 4 * mib,
                             4 * mib + 1, 8 * mib + 4096, 20 * mib, random.below(20 * mib)}) {
        const Bytes message = Bytes(data).first(length);
        std::vector<u8> expected(32);
        ASSERT_EQ(hash_one(Algorithm::blake3, message, expected, on_cpu), Errc::ok);
        gpu::DeviceBuffer<u32> words;
        ASSERT_EQ(words.allocate(tree_words(length)), Errc::ok);
        for (const u64 shift : {0, 3}) {
            ASSERT_EQ(hash_tree(put(message, shift), length, 0, true, words.data(), output.data(),
                                stream.get()),
                      Errc::ok);
            EXPECT_EQ(get(output, 32), expected) << length;
        }
    }
}

TEST_F(HashKernels, AgreeOnWindows) {
    const Seed seed;
    Random random(seed.value());
    const std::vector<std::byte> data = random_message(random, 100'003);
    const u64 sizes[][2] = {{20, 4},    {52, 4},    {56, 4}, {20, 20}, {52, 52},
                            {56, 56},   {48, 1},    {55, 3}, {64, 7},  {120, 1},
                            {300, 100}, {5000, 13}, {1, 1},  {63, 64}, {48, 200'000}};
    for (const auto& [window, stride] : sizes) {
        for (const Algorithm algorithm : {Algorithm::md5, Algorithm::sha1, Algorithm::sha256}) {
            const Windows windows = {algorithm, window, stride};
            const u64 count = window_count(windows, data.size());
            const u64 words = (count + 63) / 64;
            const u32 kept = 1 + static_cast<u32>(random.below(digest_bytes(algorithm)));
            std::vector<u8> digests(count * kept);
            std::vector<u64> bitmap(words);
            ASSERT_EQ(hash::hash_windows(windows, data, kept, digests, on_cpu), Errc::ok);
            ASSERT_EQ(match_windows(windows, data, 4, bitmap, on_cpu), Errc::ok);
            gpu::DeviceBuffer<u64> bits;
            ASSERT_EQ(bits.allocate(words), Errc::ok);
            ASSERT_EQ(output.allocate(count * kept), Errc::ok);
            for (const bool is_staged : {true, false}) {
                const u8* at = put(data, random.below(16));
                const WindowPlan plan = plan_windows(windows, data.size());
                ASSERT_EQ(hash_windows(algorithm, plan, at, count,
                                       {.digests = output.data(), .kept_bytes = kept}, is_staged,
                                       stream.get()),
                          Errc::ok);
                EXPECT_EQ(get(output, count * kept), digests)
                    << name(algorithm) << " " << window << "/" << stride << " kept " << kept;
                ASSERT_EQ(hash_windows(algorithm, plan, at, count,
                                       {.bitmap = bits.data(), .match_mask = 15}, is_staged,
                                       stream.get()),
                          Errc::ok);
                EXPECT_EQ(get(bits, words), bitmap)
                    << name(algorithm) << " " << window << "/" << stride;
            }
        }
    }
}

}  // namespace
}  // namespace warren::hash::cuda::kernels_test
