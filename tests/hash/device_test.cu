// SPDX-License-Identifier: Apache-2.0
// The library's interface with a GPU behind it: host data through the pipeline, pinned and not, and
// device data in place; all digests equal the CPU's. Data that do not fit in memory are processed
// in smaller pieces or by the CPU, and the result says so.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "gpu/buffer.hpp"
#include "gpu/failure.hpp"
#include "gpu/pipeline.hpp"
#include "hash/choice.hpp"
#include "hash/device.hpp"
#include "tests/hash/messages.hpp"
#include "tests/support/seed.hpp"
#include "warren/hash_device.hpp"

namespace warren::hash::device_test {
namespace {

constexpr Options on_cpu = {0, Processor::cpu};
constexpr Options on_gpu = {0, Processor::gpu};

class HashDevice : public testing::Test {
 protected:
    void SetUp() override {
        if (!has_device()) GTEST_SKIP() << "there is no GPU";
    }
};

TEST_F(HashDevice, TakesPinnedAndPageableMemory) {
    const Seed seed;
    Random random(seed.value());
    gpu::PinnedBuffer<std::byte> pinned;
    constexpr u64 bytes = 130 * mib + 4321;
    ASSERT_EQ(pinned.allocate(bytes), Errc::ok);
    const std::vector<std::byte> data = random_message(random, bytes);
    std::memcpy(pinned.data(), data.data(), bytes);
    for (const Algorithm algorithm : all_algorithms) {
        for (const u64 piece_bytes : {4096, 10'007, 300'000}) {
            const u64 count = (bytes + piece_bytes - 1) / piece_bytes;
            std::vector<u8> expected(count * digest_bytes(algorithm));
            std::vector<u8> digests(expected.size());
            ASSERT_EQ(hash_pieces(algorithm, data, piece_bytes, expected, on_cpu), Errc::ok);
            for (const Bytes input : {Bytes(data), Bytes(pinned.data(), bytes)}) {
                Stages stages;
                std::fill(digests.begin(), digests.end(), u8{0});
                ASSERT_EQ(hash_pieces(algorithm, input, piece_bytes, digests, on_gpu, &stages),
                          Errc::ok)
                    << gpu::last_failure().message;
                EXPECT_EQ(digests, expected) << name(algorithm) << " of " << piece_bytes;
                EXPECT_EQ(stages.processor, Processor::gpu);
                EXPECT_GT(stages.copy_in, 0);
                EXPECT_GT(stages.kernel, 0);
            }
        }
    }
}

TEST_F(HashDevice, TakesListsOfPieces) {
    const Seed seed;
    Random random(seed.value());
    const std::vector<std::byte> data = random_message(random, 64 * mib);
    for (const Algorithm algorithm : all_algorithms) {
        std::vector<Bytes> pieces = random_pieces(random, data, 20'000, 10'000);
        pieces.push_back(Bytes(data).subspan(3, 40 * mib));
        pieces.push_back({});
        std::vector<u8> expected(pieces.size() * digest_bytes(algorithm));
        std::vector<u8> digests(expected.size());
        ASSERT_EQ(hash_many(algorithm, pieces, expected, on_cpu), Errc::ok);
        Stages stages;
        ASSERT_EQ(hash_many(algorithm, pieces, digests, on_gpu, &stages), Errc::ok)
            << gpu::last_failure().message;
        EXPECT_EQ(digests, expected) << name(algorithm);
        // The long piece is hashed as a tree or by the CPU.
        EXPECT_EQ(stages.note != nullptr, algorithm != Algorithm::blake3);
    }
}

TEST_F(HashDevice, LeavesOneStreamToTheCpuAndSaysSo) {
    const std::vector<std::byte> data = pattern_message(9 * mib);
    for (const Algorithm algorithm : all_algorithms) {
        std::vector<u8> expected(digest_bytes(algorithm));
        std::vector<u8> digest(expected.size());
        for (const u64 bytes : {u64{0}, u64{1}, 3 * mib, 8 * mib, 9 * mib}) {
            const Bytes message = Bytes(data).first(bytes);
            ASSERT_EQ(hash_one(algorithm, message, expected, on_cpu), Errc::ok);
            Stages stages;
            ASSERT_EQ(hash_one(algorithm, message, digest, on_gpu, &stages), Errc::ok);
            EXPECT_EQ(digest, expected) << name(algorithm) << " of " << bytes;
            EXPECT_EQ(stages.processor, Processor::cpu) << name(algorithm) << " of " << bytes;
            ASSERT_NE(stages.note, nullptr) << name(algorithm) << " of " << bytes;
            if (bytes == 0) continue;
            ASSERT_EQ(hash_pieces(algorithm, message, bytes, digest, on_gpu, &stages), Errc::ok);
            EXPECT_EQ(digest, expected) << name(algorithm) << " of " << bytes;
            EXPECT_NE(stages.note, nullptr) << "one piece of a buffer is a stream too";
        }
    }
}

TEST_F(HashDevice, TakesOneLargeTreeAndADirectHash) {
    const Seed seed;
    Random random(seed.value());
    const std::vector<std::byte> data = random_message(random, 100 * mib + 5000);
    std::vector<u8> expected(32);
    std::vector<u8> digest(32);
    ASSERT_EQ(hash_one(Algorithm::blake3, data, expected, on_cpu), Errc::ok);
    ASSERT_EQ(hash_one(Algorithm::blake3, data, digest, on_gpu), Errc::ok);
    EXPECT_EQ(digest, expected);
    for (const Algorithm algorithm : {Algorithm::md5, Algorithm::sha1, Algorithm::sha256}) {
        expected.resize(digest_bytes(algorithm));
        digest.resize(digest_bytes(algorithm));
        ASSERT_EQ(hash_direct(algorithm, data, expected, 4096, on_cpu), Errc::ok);
        ASSERT_EQ(hash_direct(algorithm, data, digest, 4096, on_gpu), Errc::ok);
        EXPECT_EQ(digest, expected) << name(algorithm);
    }
}

TEST_F(HashDevice, TakesWindows) {
    const Seed seed;
    Random random(seed.value());
    const std::vector<std::byte> data = random_message(random, 70 * mib + 77);
    for (const Algorithm algorithm : {Algorithm::md5, Algorithm::sha1}) {
        for (const Windows& windows :
             {Windows{algorithm, 48, 1}, Windows{algorithm, 20, 4}, Windows{algorithm, 56, 56}}) {
            const u64 count = window_count(windows, data.size());
            std::vector<u64> expected((count + 63) / 64);
            std::vector<u64> bitmap(expected.size(), ~u64{0});
            ASSERT_EQ(match_windows(windows, data, 13, expected, on_cpu), Errc::ok);
            ASSERT_EQ(match_windows(windows, data, 13, bitmap, on_gpu), Errc::ok);
            EXPECT_EQ(bitmap, expected) << windows.window_bytes << "/" << windows.stride_bytes;
            std::vector<u8> cut(count * 5);
            std::vector<u8> expected_cut(count * 5);
            ASSERT_EQ(hash_windows(windows, data, 5, expected_cut, on_cpu), Errc::ok);
            ASSERT_EQ(hash_windows(windows, data, 5, cut, on_gpu), Errc::ok);
            EXPECT_EQ(cut, expected_cut);
        }
    }
    // A window longer than a slot.
    const Windows huge = {Algorithm::md5, 40 * mib, 10 * mib};
    std::vector<u8> expected(4 * 16);
    std::vector<u8> digests(4 * 16);
    Stages stages;
    ASSERT_EQ(window_count(huge, data.size()), 4u);
    ASSERT_EQ(hash_windows(huge, data, 16, expected, on_cpu), Errc::ok);
    ASSERT_EQ(hash_windows(huge, data, 16, digests, on_gpu, &stages), Errc::ok);
    EXPECT_EQ(digests, expected);
    EXPECT_NE(stages.note, nullptr);
}

TEST_F(HashDevice, TakesDataOfTheDeviceInPlace) {
    const Seed seed;
    Random random(seed.value());
    const std::vector<std::byte> data = random_message(random, 3 * mib + 11);
    gpu::Stream stream;
    gpu::DeviceBuffer<std::byte> input;
    gpu::DeviceBuffer<u8> output;
    ASSERT_EQ(stream.open(), Errc::ok);
    ASSERT_EQ(input.allocate(data.size()), Errc::ok);
    ASSERT_EQ(output.allocate(1 * mib), Errc::ok);
    ASSERT_EQ(stream.copy(input.data(), data.data(), data.size()), Errc::ok);
    for (const Algorithm algorithm : all_algorithms) {
        std::vector<u8> expected((data.size() + 4095) / 4096 * digest_bytes(algorithm));
        ASSERT_EQ(hash_pieces(algorithm, data, 4096, expected, on_cpu), Errc::ok);
        std::vector<u8> digests(expected.size());
        ASSERT_EQ(device::hash_pieces(algorithm, input.data(), data.size(), 4096, digests.data(),
                                      stream.get()),
                  Errc::ok);
        ASSERT_EQ(stream.wait(), Errc::ok);
        EXPECT_EQ(digests, expected) << name(algorithm) << ", results on the host";
        ASSERT_EQ(device::hash_pieces(algorithm, input.data(), data.size(), 4096, output.data(),
                                      stream.get()),
                  Errc::ok);
        std::fill(digests.begin(), digests.end(), u8{0});
        ASSERT_EQ(stream.copy(digests.data(), output.data(), digests.size()), Errc::ok);
        ASSERT_EQ(stream.wait(), Errc::ok);
        EXPECT_EQ(digests, expected) << name(algorithm) << ", results on the device";
    }
    std::vector<u8> expected(32);
    std::vector<u8> digest(32);
    ASSERT_EQ(hash_one(Algorithm::blake3, data, expected, on_cpu), Errc::ok);
    ASSERT_EQ(device::hash_one(input.data(), data.size(), digest.data(), stream.get()), Errc::ok);
    ASSERT_EQ(stream.wait(), Errc::ok);
    EXPECT_EQ(digest, expected);
    const Windows windows = {Algorithm::sha1, 48, 1};
    std::vector<u64> bits((window_count(windows, data.size()) + 63) / 64);
    std::vector<u64> expected_bits(bits.size());
    ASSERT_EQ(match_windows(windows, data, 10, expected_bits, on_cpu), Errc::ok);
    ASSERT_EQ(
        device::match_windows(windows, input.data(), data.size(), 10, bits.data(), stream.get()),
        Errc::ok);
    ASSERT_EQ(stream.wait(), Errc::ok);
    EXPECT_EQ(bits, expected_bits);
}

TEST_F(HashDevice, PipelinesSayThatMemoryIsShort) {
    gpu::Pipeline pipeline;
    gpu::PipelineSettings settings;
    settings.slot_bytes = tib;
    settings.has_host_slots = false;
    EXPECT_EQ(pipeline.open(settings), Errc::no_memory);
    EXPECT_FALSE(pipeline.is_open());
}

/// Allocates all available device memory, in ever smaller parts.
void take_memory(std::vector<gpu::DeviceBuffer<u8>>& taken) {
    for (u64 part = 16 * gib; part >= 64 * kib; part /= 2) {
        while (true) {
            gpu::DeviceBuffer<u8> buffer;
            if (buffer.allocate(part) != Errc::ok) break;
            taken.push_back(std::move(buffer));
        }
    }
}

TEST_F(HashDevice, LittleMemoryMeansSmallerPiecesThenTheCpu) {
    const std::vector<std::byte> data = pattern_message(64 * mib);
    std::vector<u8> expected(data.size() / 4096 * 20);
    std::vector<u8> digests(expected.size());
    ASSERT_EQ(hash_pieces(Algorithm::sha1, data, 4096, expected, on_cpu), Errc::ok);
    Stages stages;
    const auto hash_again = [&] {
        std::fill(digests.begin(), digests.end(), u8{0});
        return hash_pieces(Algorithm::sha1, data, 4096, digests, on_gpu, &stages);
    };
    // Kernels are loaded, then the pipeline's memory is freed.
    ASSERT_EQ(hash_again(), Errc::ok) << gpu::last_failure().message;
    EXPECT_EQ(stages.note, nullptr);
    ASSERT_EQ(set_device_settings({}), Errc::ok);
    gpu::DeviceBuffer<u8> left;
    ASSERT_EQ(left.allocate(48 * mib), Errc::ok);
    std::vector<gpu::DeviceBuffer<u8>> taken;
    take_memory(taken);
    left.clear();
    ASSERT_EQ(hash_again(), Errc::ok) << gpu::last_failure().message;
    EXPECT_EQ(digests, expected);
    EXPECT_EQ(stages.processor, Processor::gpu);
    EXPECT_STREQ(stages.note, "the GPU has little memory: it worked in smaller pieces");
    ASSERT_EQ(set_device_settings({}), Errc::ok);
    take_memory(taken);
    ASSERT_EQ(hash_again(), Errc::ok);
    EXPECT_EQ(digests, expected);
    EXPECT_EQ(stages.processor, Processor::cpu);
    EXPECT_STREQ(stages.note, "the GPU has too little memory: the CPU did the work");
    taken.clear();
    ASSERT_EQ(set_device_settings({}), Errc::ok);
}

TEST_F(HashDevice, TheModelPredictsWhatIsMeasured) {
    gpu::PinnedBuffer<std::byte> pinned;
    constexpr u64 bytes = 512 * mib;
    ASSERT_EQ(pinned.allocate(bytes), Errc::ok);
    std::memset(pinned.data(), 7, bytes);
    for (const Algorithm algorithm : all_algorithms) {
        std::vector<u8> digests(bytes / 4096 * digest_bytes(algorithm));
        Stages stages;
        for (int round = 0; round < 3; ++round) {
            ASSERT_EQ(
                hash_pieces(algorithm, Bytes(pinned.data(), bytes), 4096, digests, {}, &stages),
                Errc::ok);
        }
        std::printf("%-9s by the %s: predicted %.2f ms, measured %.2f ms\n",
                    std::string(name(algorithm)).c_str(),
                    stages.processor == Processor::gpu ? "GPU" : "CPU", stages.predicted * 1e3,
                    stages.total * 1e3);
        EXPECT_GT(stages.predicted, stages.total / 4);
        EXPECT_LT(stages.predicted, stages.total * 4);
    }
}

}  // namespace
}  // namespace warren::hash::device_test
