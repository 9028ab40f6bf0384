// SPDX-License-Identifier: Apache-2.0
// Files that a GPU cuts and digests give the CPU's chunks: by every kind of rule and in blocks, for
// a file longer than the buffer, for a short one behind it, and when the model chooses, which gives
// a part of the file to the CPU to measure it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <memory>

#include "base/random.hpp"
#include "gpu/device.hpp"
#include "tests/support/seed.hpp"
#include "warren/dedup.hpp"

namespace warren::dedup::read_chunks_gpu_test {
namespace {

struct Listed {
    u64 offset;
    u64 length;
    bool is_zero;
    std::vector<u8> digest;
    bool operator==(const Listed&) const = default;
};

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

File make_file(u64 seed, u64 bytes) {
    File file(std::tmpfile(), std::fclose);
    Random random(seed);
    std::vector<u64> words(bytes / 8 + 1);
    // A third is zeros.
    for (size_t at = words.size() / 3; at < words.size(); ++at)
        words[at] = random.next();
    EXPECT_EQ(std::fwrite(words.data(), 1, bytes, file.get()), bytes);
    std::fflush(file.get());
    return file;
}

std::vector<Listed> list(ChunkReader& reader, const File& file) {
    std::vector<Listed> found;
    ::lseek(fileno(file.get()), 0, SEEK_SET);
    const Errc code = reader.read(fileno(file.get()), [&](std::span<const FileChunk> some) {
        for (const FileChunk& chunk : some)
            found.push_back({chunk.offset,
                             chunk.bytes.size(),
                             chunk.is_zero,
                             {chunk.digest.begin(), chunk.digest.end()}});
        return true;
    });
    EXPECT_EQ(code, Errc::ok);
    return found;
}

std::vector<Splitter> splitters() {
    std::vector<Splitter> all(1);
    for (const char* name : {"lbfs", "fastcdc", "gear", "borg", "storegpu-sha1"}) {
        Splitter& made = all.emplace_back();
        made.block_bytes = 0;
        made.rule = *chunk::preset(name);
    }
    all[2].algorithm = hash::Algorithm::sha1;
    all[3].algorithm = hash::Algorithm::xxh3_128;
    return all;
}

TEST(ReadChunksGpu, EqualsTheCpu) {
    if (gpu::device_count() == 0) GTEST_SKIP() << "there is no GPU";
    const Seed seed;
    const File large = make_file(seed.part(0), 300 * mib + 123);
    const File small = make_file(seed.part(1), 70'001);
    for (Splitter splitter : splitters()) {
        ChunkReader cpu;
        ASSERT_EQ(cpu.open(splitter), Errc::ok);
        const std::vector<Listed> expected = list(cpu, large);
        const std::vector<Listed> expected_small = list(cpu, small);
        EXPECT_EQ(cpu.work().gpu_bytes, 0u);
        const u64 bytes = 300 * mib + 123;
        for (const auto& [processor, threads] : {std::pair{hash::Processor::gpu, 0u},
                                                 {hash::Processor::automatic, 0u},
                                                 {hash::Processor::automatic, 1u}}) {
            splitter.processor = processor;
            splitter.threads = threads;
            ChunkReader reader;
            ASSERT_EQ(reader.open(splitter), Errc::ok);
            EXPECT_TRUE(list(reader, large) == expected);
            EXPECT_TRUE(list(reader, small) == expected_small);
            const ReadWork& work = reader.work();
            EXPECT_EQ(work.note.find("failed"), std::string::npos) << work.note;
            if (processor == hash::Processor::gpu) {
                // The short file is processed by the CPU.
                EXPECT_EQ(work.gpu_bytes, bytes);
            } else {
                EXPECT_GT(work.asked_bytes, 0u);
                EXPECT_LT(work.asked_bytes, bytes);
                EXPECT_GT(work.predicted_gpu_seconds, 0);
                std::printf(
                    "predicted %.3f s on the CPU, %.3f s on the GPU; the GPU took %.3f s for "
                    "%.0f of %.0f MiB\n",
                    work.predicted_cpu_seconds, work.predicted_gpu_seconds, work.gpu_seconds,
                    work.gpu_bytes / double{mib}, work.asked_bytes / double{mib});
            }
        }
    }
}

}  // namespace
}  // namespace warren::dedup::read_chunks_gpu_test
