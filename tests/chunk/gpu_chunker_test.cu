// SPDX-License-Identifier: Apache-2.0
// The GPU's cuts are compared with the serial rule: small random cases by the thousand, inputs that
// reach every warp, and the extremes for lists: a candidate at every byte, and none.
#include <gtest/gtest.h>

#include <optional>

#include "chunk/cuda/chunk_digests.hpp"
#include "chunk/tables.hpp"
#include "gpu/buffer.hpp"
#include "gpu/device.hpp"
#include "gpu/failure.hpp"
#include "gpu/stream.hpp"
#include "tests/chunk/random_cases.hpp"
#include "tests/support/seed.hpp"
#include "warren/chunk.h"
#include "warren/chunk_gpu.hpp"

namespace warren::chunk::gpu_chunker_test {
namespace {

class GpuCuts : public testing::Test {
 protected:
    void SetUp() override {
        if (gpu::device_count() == 0) GTEST_SKIP() << "there is no GPU";
        ASSERT_EQ(stream.open(), Errc::ok) << gpu::last_failure().message;
    }

    /// The cuts from host memory, and in place on the device, `shift` bytes behind an aligned one.
    void expect_serial(GpuChunker& chunker, const Rule& rule, std::span<const std::byte> bytes,
                       u64 shift) {
        const std::vector<u64> expected = cut_serial(rule, bytes);
        std::vector<u64> ends;
        ASSERT_EQ(chunker.cut(bytes, ends), Errc::ok) << gpu::last_failure().message;
        ASSERT_EQ(ends, expected) << "from the host, " << bytes.size() << " bytes";
        ASSERT_EQ(device.reserve(bytes.size() + shift + 1), Errc::ok);
        ASSERT_EQ(stream.copy(device.data() + shift, bytes.data(), bytes.size()), Errc::ok);
        ends.clear();
        ASSERT_EQ(chunker.cut_device(device.data() + shift, bytes.size(), stream.get(), ends),
                  Errc::ok)
            << gpu::last_failure().message;
        ASSERT_EQ(ends, expected) << "on the device, " << bytes.size() << " bytes";
    }

    gpu::Stream stream;
    gpu::DeviceBuffer<u8> device;
};

/// The ends are left in device memory, and the memory behind them is not touched.
TEST_F(GpuCuts, EndsInDeviceMemoryEqualThoseOfTheHost) {
    const Seed seed;
    Random random(seed.value());
    const std::vector<std::byte> bytes = random_bytes(random, 5 * mib + 3);
    ASSERT_EQ(device.allocate(bytes.size()), Errc::ok);
    ASSERT_EQ(stream.copy(device.data(), bytes.data(), bytes.size()), Errc::ok);
    for (std::string_view name : {"lbfs", "fastcdc", "borg"}) {
        const Rule rule = *preset(name);
        const std::vector<u64> expected = cut_serial(rule, bytes);
        GpuChunker chunker;
        ASSERT_EQ(chunker.open(rule), Errc::ok) << gpu::last_failure().message;
        gpu::DeviceBuffer<u64> ends;
        ASSERT_EQ(ends.allocate(expected.size() + 1), Errc::ok);
        ASSERT_EQ(stream.fill(ends.data(), 0xff, ends.count() * sizeof(u64)), Errc::ok);
        u64 found = 0;
        const auto cut_into = [&](u64 room) {
            return chunker.cut_device(device.data(), bytes.size(), stream.get(), ends.data(), room,
                                      found);
        };
        const auto on_the_host = [&] {
            std::vector<u64> copy(ends.count());
            EXPECT_EQ(stream.copy(copy.data(), ends.data(), copy.size() * sizeof(u64)), Errc::ok);
            EXPECT_EQ(stream.wait(), Errc::ok);
            return copy;
        };
        EXPECT_EQ(cut_into(expected.size() - 1), Errc::no_space);
        EXPECT_EQ(found, expected.size());
        EXPECT_EQ(on_the_host(), std::vector<u64>(ends.count(), ~u64{0})) << name;
        ASSERT_EQ(cut_into(expected.size()), Errc::ok) << gpu::last_failure().message;
        EXPECT_EQ(found, expected.size());
        std::vector<u64> untouched = expected;
        untouched.push_back(~u64{0});
        EXPECT_EQ(on_the_host(), untouched) << name;
    }
}

/// A random rule that the GPU has kernels for.
Rule random_device_rule(Random& random, Rule rule) {
    for (;; rule = random_rule(random)) {
        if (rule.method == Method::rabin) {
            rule.window_bytes = random.one_in(2) ? 48 : 64;
            if (random.one_in(3)) rule.polynomial = 0x3da3358b4dc173;
            if (random.one_in(3)) rule.value = rule.mask = 0xff00000000;
            if (rule.polynomial >> 40 == 0) continue;
            rule.value &= rule.mask;
        }
        if (rule.method == Method::fastcdc && random.one_in(2)) {
            rule.mask = low_bits(8 + random.below(5)) << random.below(40);
            rule.early_mask = random.one_in(2) ? rule.mask | u64{1} << random.below(60)
                                               : rule.mask & ~(u64{1} << random.below(60));
        }
        // Chunks of some tens of bytes are too many to be chosen on the device.
        if (random.one_in(2)) {
            const u64 scale = 1 + random.below(60);
            rule.minimum_bytes *= scale;
            rule.average_bytes *= scale;
            rule.maximum_bytes *= scale * (1 + random.below(5));
        }
        if (GpuChunker::has_kernel(rule) && describe_problem(rule).empty()) return rule;
    }
}

Rule random_device_rule(Random& random) {
    return random_device_rule(random, random_rule(random));
}

Rule preset_for_test(std::string_view name) {
    Rule rule = *preset(name);
    if (name == "restic") rule.polynomial = 0x3da3358b4dc173;
    return rule;
}

TEST_F(GpuCuts, RandomCasesEqualTheSerialRule) {
    const Seed seed;
    for (u64 index = 0; index < 60; ++index) {
        Random random(seed.part(index));
        const Rule rule = random_device_rule(random);
        GpuChunker chunker;
        ASSERT_EQ(chunker.open(rule), Errc::ok) << gpu::last_failure().message;
        for (u64 round = 0; round < 15; ++round) {
            const u64 most = random.one_in(8) ? 3'000'000 : 3'000;
            const std::vector<std::byte> bytes = random_bytes(random, random.below(most));
            expect_serial(chunker, rule, bytes, random.one_in(3) ? random.below(40) : 0);
            if (HasFatalFailure()) FAIL() << "rule " << index << " round " << round;
        }
    }
}

/// The cuts of a case by a stream that a GPU scans, divided into the case's calls.
std::vector<u64> cut_by_gpu(GpuChunker& gpu, const Case& test) {
    std::vector<u64> ends;
    Chunker chunker;
    EXPECT_EQ(chunker.open(test.rule, 1), Errc::ok);
    std::span<const std::byte> rest = test.bytes;
    const auto feed = [&](size_t size) {
        EXPECT_EQ(chunker.feed_by_gpu(gpu, rest.first(size), ends), Errc::ok)
            << gpu::last_failure().message;
        rest = rest.subspan(size);
    };
    for (size_t call : test.calls)
        feed(std::min(call, rest.size()));
    feed(rest.size());
    chunker.finish(ends);
    return ends;
}

/// The CPU's random cases, whole and in their calls: 25 of them have one rule, since opening takes
/// longer than cutting. WARREN_OPERATIONS sets how many there are.
TEST_F(GpuCuts, CasesOfTheCpuLong) {
    const Seed seed;
    const u64 cases = test_operations(100'000);
    constexpr u64 cases_of_rule = 25;
    for (u64 index = 0; index < cases;) {
        Case test = random_case(seed.part(index), 400);
        Random random(seed.part(cases + index));
        const Rule rule = random_device_rule(random, test.rule);
        // One chunker for each kind of call: its memory belongs to that kind.
        GpuChunker whole;
        GpuChunker streaming;
        ASSERT_EQ(whole.open(rule), Errc::ok) << gpu::last_failure().message;
        ASSERT_EQ(streaming.open(rule), Errc::ok) << gpu::last_failure().message;
        for (u64 turn = 0; turn < cases_of_rule && index < cases; ++turn, ++index) {
            if (turn > 0) test = random_case(seed.part(index), random.one_in(50) ? 60'000 : 400);
            test.rule = rule;
            const std::vector<u64> expected = cut_serial(rule, test.bytes);
            std::vector<u64> ends;
            ASSERT_EQ(whole.cut(test.bytes, ends), Errc::ok) << gpu::last_failure().message;
            const auto differs_whole = [&](const Case& one) {
                std::vector<u64> found;
                return whole.cut(one.bytes, found) != Errc::ok ||
                       found != cut_serial(rule, one.bytes);
            };
            ASSERT_EQ(ends, expected) << "case " << index << ", shrunk:\n"
                                      << describe(shrink(test, differs_whole));
            const auto differs_in_calls = [&](const Case& one) {
                return cut_by_gpu(streaming, one) != cut_serial(rule, one.bytes);
            };
            ASSERT_FALSE(differs_in_calls(test)) << "case " << index << " in calls, shrunk:\n"
                                                 << describe(shrink(test, differs_in_calls));
        }
    }
}

/// As CutsLong of the CPU: gigabytes of zeros in which no window matches, in device memory and from
/// host memory.
TEST_F(GpuCuts, GigabytesWithoutACandidateLong) {
    constexpr u64 bytes = 5 * gib + 4321;
    ASSERT_EQ(device.reserve(bytes + 16), Errc::ok);
    ASSERT_EQ(gpu::check(cudaMemset(device.data(), 0, bytes), "cudaMemset"), Errc::ok);
    const std::vector<std::byte> zeros(bytes);
    for (std::string_view name : {"lbfs", "gear", "fastcdc", "borg", "storegpu-sha1"}) {
        for (const u64 maximum_bytes : {unlimited_bytes, 64 * mib}) {
            Rule rule = *preset(name);
            rule.maximum_bytes = maximum_bytes;
            GpuChunker chunker;
            ASSERT_EQ(chunker.open(rule), Errc::ok) << gpu::last_failure().message;
            std::vector<u64> expected;
            for (u64 end = 0; end < bytes;)
                expected.push_back(end = std::min(bytes, end + maximum_bytes));
            std::vector<u64> ends;
            ASSERT_EQ(chunker.cut_device(device.data(), bytes, stream.get(), ends), Errc::ok)
                << gpu::last_failure().message;
            EXPECT_EQ(ends, expected) << name << " on the device";
            ends.clear();
            ASSERT_EQ(chunker.cut(zeros, ends), Errc::ok) << gpu::last_failure().message;
            EXPECT_EQ(ends, expected) << name << " from the host";
        }
    }
}

class GpuCutsOf : public GpuCuts, public testing::WithParamInterface<std::string_view> {
 protected:
    /// Cuts that fill an allocation to its last byte.
    void expect_in_place(GpuChunker& chunker, const Rule& rule, std::span<const std::byte> data) {
        gpu::DeviceBuffer<u8> exact;
        ASSERT_EQ(exact.allocate(data.size()), Errc::ok);
        ASSERT_EQ(stream.copy(exact.data(), data.data(), data.size()), Errc::ok);
        std::vector<u64> ends;
        ASSERT_EQ(chunker.cut_device(exact.data(), data.size(), stream.get(), ends), Errc::ok)
            << gpu::last_failure().message;
        ASSERT_EQ(ends, cut(rule, data)) << data.size() << " bytes";
    }
};

/// Each length modulo 16: a memory checker needs that to detect a read behind the data.
TEST_P(GpuCutsOf, AllocationsOfTheSizeOfTheirData) {
    const Seed seed;
    Random random(seed.value());
    const std::vector<std::byte> bytes = random_bytes(random, 300'000);
    const Rule rule = preset_for_test(GetParam());
    GpuChunker chunker;
    ASSERT_EQ(chunker.open(rule), Errc::ok);
    for (const size_t least : {1, 64, 8192 - 16, 262144 + 4096}) {
        for (size_t size = least; size < least + 18; ++size)
            ASSERT_NO_FATAL_FAILURE(expect_in_place(chunker, rule, std::span(bytes).first(size)));
    }
}

/// Every kernel once: as much as a race checker for shared memory does in seconds.
TEST_P(GpuCutsOf, OneShortCall) {
    Random random(3);
    const std::vector<std::byte> bytes = random_bytes(random, 20'011);
    const Rule rule = preset_for_test(GetParam());
    GpuChunker chunker;
    ASSERT_EQ(chunker.open(rule), Errc::ok);
    expect_in_place(chunker, rule, bytes);
}

INSTANTIATE_TEST_SUITE_P(Presets, GpuCutsOf, testing::ValuesIn(preset_names()), [](const auto& of) {
    std::string name(of.param);
    std::erase(name, '-');
    return name;
});

TEST_F(GpuCuts, LargeInputsEqualTheCpu) {
    const Seed seed;
    Random random(seed.value());
    const std::vector<std::byte> bytes = random_bytes(random, 150 * mib + 77);
    for (std::string_view name : preset_names()) {
        const Rule rule = preset_for_test(name);
        GpuChunker chunker;
        ASSERT_EQ(chunker.open(rule), Errc::ok) << name;
        // By the serial rule a digest of every window takes a second a MiB.
        const bool is_digest = rule.method >= Method::md5;
        expect_serial(chunker, rule, std::span(bytes).first(is_digest ? mib : bytes.size()), 0);
        if (is_digest) {
            std::vector<u64> ends;
            ASSERT_EQ(chunker.cut(bytes, ends), Errc::ok);
            EXPECT_EQ(ends, cut(rule, bytes)) << name;
        }
    }
}

TEST_F(GpuCuts, CandidatesEverywhereAndNowhere) {
    const std::vector<std::byte> zeros(70 * mib);
    Rule every = *preset("lbfs");
    every.mask = every.value = 0;
    Rule none = *preset("lbfs");
    none.value = 1;
    Rule fastcdc = *preset("fastcdc");
    fastcdc.mask = fastcdc.early_mask = fastcdc_table[0] - 1;  // zeros match it everywhere
    for (const Rule& rule :
         {every, none, fastcdc, *preset("fastcdc"), *preset("borg"), *preset("xet")}) {
        GpuChunker chunker;
        ASSERT_EQ(chunker.open(rule), Errc::ok);
        expect_serial(chunker, rule, zeros, 0);
        expect_serial(chunker, rule, {}, 0);
    }
}

/// Where no window matches for some MiB, segments meet one after the other only.
TEST_F(GpuCuts, StretchesWithoutACandidateBetweenOthers) {
    const Seed seed;
    Random random(seed.value());
    std::vector<std::byte> bytes(96 * mib);
    for (size_t at = 0; at < bytes.size(); ++at)
        bytes[at] = static_cast<std::byte>(random.next());
    for (const auto& [begin, length] : {std::pair{5 * mib + 7, 9 * mib},
                                        {30 * mib, 2 * mib},
                                        {50 * mib + 123, 30 * mib},
                                        {90 * mib, 300 * kib}}) {
        std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(begin), length, std::byte{0});
    }
    for (const Rule& rule : {*fastcdc_rule(8 * kib), *preset("gear"), *preset("lbfs")}) {
        GpuChunker chunker;
        ASSERT_EQ(chunker.open(rule), Errc::ok);
        expect_serial(chunker, rule, bytes, 0);
    }
}

/// Candidates for the device and for the host are listed in separate memory.
TEST_F(GpuCuts, OneChunkerCutsWholeStreamsAndCalls) {
    const Seed seed;
    Random random(seed.value());
    const std::vector<std::byte> bytes = random_bytes(random, 3 * mib + 5);
    for (std::string_view name : {"lbfs", "gear", "fastcdc", "borg"}) {
        const Rule rule = *preset(name);
        const std::vector<u64> expected = cut_serial(rule, bytes);
        GpuChunker gpu;
        ASSERT_EQ(gpu.open(rule), Errc::ok);
        for (int turn = 0; turn < 2; ++turn) {
            expect_serial(gpu, rule, bytes, 0);
            Chunker stream;
            ASSERT_EQ(stream.open(rule, 1), Errc::ok);
            std::vector<u64> ends;
            ASSERT_EQ(stream.feed_by_gpu(gpu, bytes, ends), Errc::ok);
            stream.finish(ends);
            EXPECT_EQ(ends, expected) << name << " in calls";
        }
    }
}

TEST_F(GpuCuts, CallsOfAStreamEqualTheSerialRule) {
    const Seed seed;
    for (u64 index = 0; index < 40; ++index) {
        Random random(seed.part(index));
        const Rule rule = random_device_rule(random);
        const std::vector<std::byte> bytes = random_bytes(random, 1 + random.below(3'000'000));
        GpuChunker gpu;
        ASSERT_EQ(gpu.open(rule), Errc::ok) << gpu::last_failure().message;
        Chunker chunker;
        ASSERT_EQ(chunker.open(rule, 2), Errc::ok);
        std::vector<u64> ends;
        std::span<const std::byte> rest = bytes;
        while (!rest.empty()) {
            const u64 most = random.one_in(2) ? 300 : 1'000'000;
            const size_t call = std::min<size_t>(rest.size(), 1 + random.below(most));
            if (random.one_in(3)) {
                chunker.feed(rest.first(call), ends);
            } else {
                ASSERT_EQ(chunker.feed_by_gpu(gpu, rest.first(call), ends), Errc::ok)
                    << gpu::last_failure().message;
            }
            rest = rest.subspan(call);
        }
        chunker.finish(ends);
        ASSERT_EQ(ends, cut_serial(rule, bytes)) << "rule " << index;
    }
}

TEST_F(GpuCuts, LittleMemoryMakesSmallerPieces) {
    Random random(2);
    const std::vector<std::byte> bytes = random_bytes(random, 64 * mib);
    GpuChunker first;  // loads the kernels, which need memory, too
    std::vector<u64> ends;
    ASSERT_EQ(first.open(*preset("gear")), Errc::ok);
    ASSERT_EQ(first.cut(std::span(bytes).first(mib), ends), Errc::ok);
    // All of the device's memory but 32 MiB, in ever smaller parts.
    std::optional<gpu::DeviceBuffer<u8>> left(std::in_place);
    ASSERT_EQ(left->allocate(32 * mib), Errc::ok);
    std::vector<gpu::DeviceBuffer<u8>> taken;
    auto take = [&](u64 part, u64 least) {
        for (; part >= least; part /= 2) {
            gpu::DeviceBuffer<u8> buffer;
            while (buffer.allocate(part) == Errc::ok)
                taken.push_back(std::move(buffer));
        }
    };
    GpuChunker chunker;
    ASSERT_EQ(chunker.open(*preset("gear")), Errc::ok);
    take(16 * gib, 2 * mib);
    left.reset();
    ends.clear();
    ASSERT_EQ(chunker.cut(bytes, ends), Errc::ok) << gpu::last_failure().message;
    EXPECT_EQ(ends, cut_serial(*preset("gear"), bytes));
    take(16 * mib, 64 * kib);
    GpuChunker other;
    ends.clear();
    Chunker stream;
    ASSERT_EQ(stream.open(*preset("gear")), Errc::ok);
    if (other.open(*preset("gear")) == Errc::ok) {
        EXPECT_EQ(stream.feed_by_gpu(other, bytes, ends), Errc::no_memory);
        stream.finish(ends);
        EXPECT_EQ(ends, cut_serial(*preset("gear"), bytes)) << "the CPU went on";
    }
}

TEST_F(GpuCuts, EndsArriveWhileTheGpuWorks) {
    Random random(1);
    const std::vector<std::byte> bytes = random_bytes(random, 200 * mib);
    GpuChunker chunker;
    ASSERT_EQ(chunker.open(*preset("lbfs")), Errc::ok);
    std::vector<u64> ends;
    std::vector<size_t> seen;
    ASSERT_EQ(chunker.cut(bytes, ends,
                          [&](std::span<const u64> so_far) {
                              seen.push_back(so_far.size());
                              return Errc::ok;
                          }),
              Errc::ok);
    EXPECT_GT(seen.size(), 5u);
    EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
    EXPECT_EQ(seen.back(), ends.size());
    ends.clear();
    EXPECT_EQ(chunker.cut(bytes, ends, [](std::span<const u64>) { return Errc::no_space; }),
              Errc::no_space);
    expect_serial(chunker, *preset("lbfs"), std::span(bytes).first(1'000'000), 0);
}

TEST_F(GpuCuts, DigestsOfChunksEqualTheCpu) {
    const Seed seed;
    Random random(seed.value());
    const std::vector<std::byte> bytes = random_bytes(random, 300 * mib + 5);
    const Rule rule = *preset("lbfs");
    GpuChunker chunker;
    ASSERT_EQ(chunker.open(rule), Errc::ok);
    // Digests read whole 16 bytes, so the buffer that they read ends at a multiple of 16.
    ASSERT_EQ(device.reserve((bytes.size() + 15) / 16 * 16), Errc::ok);
    for (hash::Algorithm algorithm : {hash::Algorithm::md5, hash::Algorithm::sha1}) {
        cuda::ChunkDigests digests;
        ASSERT_EQ(digests.open(algorithm, bytes.size() / rule.minimum_bytes + 1), Errc::ok);
        std::vector<u64> ends;
        digests.begin(device.data(), bytes.size());
        ASSERT_EQ(chunker.cut(
                      bytes, ends,
                      [&](std::span<const u64> known) {
                          return digests.add(known, !known.empty() && known.back() == bytes.size());
                      },
                      device.data()),
                  Errc::ok)
            << gpu::last_failure().message;
        std::span<const u8> found;
        ASSERT_EQ(digests.finish(found), Errc::ok) << gpu::last_failure().message;
        std::vector<hash::Bytes> pieces;
        u64 start = 0;
        for (u64 end : ends) {
            pieces.push_back(std::span(bytes).subspan(start, end - start));
            start = end;
        }
        std::vector<u8> expected(pieces.size() * hash::digest_bytes(algorithm));
        ASSERT_EQ(hash::hash_many(algorithm, pieces, expected,
                                  {.threads = 0, .processor = hash::Processor::cpu}),
                  Errc::ok);
        ASSERT_TRUE(std::equal(expected.begin(), expected.end(), found.begin(), found.end()));
    }
}

TEST_F(GpuCuts, TheReportsCallsEqualTheSerialRule) {
    const Seed seed;
    Random random(seed.value());
    const std::vector<std::byte> bytes = random_bytes(random, 80 * mib);
    rabinpoly_t* rabin = rabin_init(48, 8, 2, 64);
    ASSERT_NE(rabin, nullptr);
    std::vector<u64> ends;
    for (size_t done = 0; done < bytes.size();) {
        const auto call =
            std::min<size_t>(bytes.size() - done, random.below(random.one_in(2) ? 100 : 40 * mib));
        std::vector<size_t> markers(rabin_marker_limit(rabin, call));
        const size_t count = compute_rabin_segments_gpu(rabin, &bytes[done], call, markers.data());
        for (size_t index = 0; index < count; ++index)
            ends.push_back(done + markers[index]);
        done += call;
    }
    if (ends.back() < bytes.size()) ends.push_back(bytes.size());
    EXPECT_EQ(ends, cut_serial(*preset("lbfs"), bytes));
    rabin_free(rabin);
}

TEST_F(GpuCuts, RulesWithoutKernelAreRefused) {
    GpuChunker chunker;
    Rule rule = *preset("lbfs");
    rule.window_bytes = 50;
    EXPECT_EQ(chunker.open(rule), Errc::not_supported);
    rule = *preset("fastcdc");
    rule.early_mask = ~rule.mask;
    EXPECT_EQ(chunker.open(rule), Errc::not_supported);
    EXPECT_EQ(chunker.open(*preset("restic")), Errc::invalid);
}

}  // namespace
}  // namespace warren::chunk::gpu_chunker_test
