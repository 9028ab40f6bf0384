// SPDX-License-Identifier: Apache-2.0
// A file's chunks do not depend on how it passes through the buffer: as long as the buffer, a byte
// more and less, several times as long, or from a pipe, whose length nobody knows.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>

#include "base/random.hpp"
#include "tests/support/seed.hpp"
#include "warren/dedup.hpp"

namespace warren::dedup {
namespace {

constexpr u64 buffer_bytes = 16 * mib;  // of a reader with one thread

std::vector<std::byte> random_bytes(Random& random, u64 size) {
    std::vector<std::byte> bytes(size + 8);
    for (u64 at = 0; at < size; at += 8) {
        const u64 word = random.next();
        std::memcpy(&bytes[at], &word, 8);
    }
    bytes.resize(size);
    return bytes;
}

/// Reads `descriptor` and holds it to the cuts and digests of `bytes` as a whole.
void expect_chunks(ChunkReader& reader, const Splitter& splitter, int descriptor,
                   std::span<const std::byte> bytes, const std::vector<u64>& ends) {
    u64 start = 0;
    size_t index = 0;
    const Errc code = reader.read(descriptor, [&](std::span<const FileChunk> some) {
        for (const FileChunk& chunk : some) {
            if (index == ends.size()) return false;
            const auto expected = bytes.subspan(start, ends[index] - start);
            std::vector<u8> digest(hash::digest_bytes(splitter.algorithm));
            EXPECT_EQ(hash::hash_one(splitter.algorithm, expected, digest), Errc::ok);
            EXPECT_EQ(chunk.offset, start);
            EXPECT_EQ(chunk.bytes.size(), expected.size());
            EXPECT_TRUE(std::equal(digest.begin(), digest.end(), chunk.digest.begin()));
            if (testing::Test::HasFailure()) return false;
            start = ends[index++];
        }
        return true;
    });
    EXPECT_EQ(code, Errc::ok);
    EXPECT_EQ(index, ends.size());
}

TEST(ReadChunks, FilesAroundTheBuffer) {
    const Seed seed;
    Random random(seed.value());
    const std::vector<std::byte> bytes = random_bytes(random, 2 * buffer_bytes + 4567);
    Splitter splitter;
    splitter.block_bytes = 0;
    splitter.rule = *chunk::preset("fastcdc");
    splitter.algorithm = hash::Algorithm::xxh3_128;
    splitter.threads = 1;
    splitter.processor = hash::Processor::automatic;
    ChunkReader reader;
    ASSERT_EQ(reader.open(splitter), Errc::ok);
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
    const int descriptor = fileno(file.get());
    ASSERT_EQ(::write(descriptor, bytes.data(), bytes.size()), static_cast<i64>(bytes.size()));
    for (const u64 size : {bytes.size(), buffer_bytes + 1, buffer_bytes, buffer_bytes - 1, u64{5},
                           u64{0}, buffer_bytes + 1 + random.below(1000)}) {
        ASSERT_EQ(::ftruncate(descriptor, static_cast<off_t>(bytes.size())), 0);
        ASSERT_EQ(::pwrite(descriptor, bytes.data(), bytes.size(), 0),
                  static_cast<i64>(bytes.size()));
        ASSERT_EQ(::ftruncate(descriptor, static_cast<off_t>(size)), 0);
        ASSERT_EQ(::lseek(descriptor, 0, SEEK_SET), 0);
        const auto whole = std::span(bytes).first(size);
        expect_chunks(reader, splitter, descriptor, whole, chunk::cut(splitter.rule, whole, 1));
        if (HasFailure()) FAIL() << size << " bytes";
    }
}

TEST(ReadChunks, FromAPipe) {
    const Seed seed;
    Random random(seed.value());
    const std::vector<std::byte> bytes =
        random_bytes(random, buffer_bytes + random.below(buffer_bytes));
    Splitter splitter;
    splitter.block_bytes = 4096;
    splitter.algorithm = hash::Algorithm::xxh3_128;
    splitter.threads = 1;
    ChunkReader reader;
    ASSERT_EQ(reader.open(splitter), Errc::ok);
    std::vector<u64> ends;
    for (u64 end = 4096; end < bytes.size() + 4096; end += 4096)
        ends.push_back(std::min<u64>(end, bytes.size()));
    std::signal(SIGPIPE, SIG_IGN);  // a reader that fails must not end the program
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    std::jthread writer([&] {
        for (u64 at = 0; at < bytes.size();) {
            const ssize_t count = ::write(pipe[1], bytes.data() + at, bytes.size() - at);
            if (count <= 0) break;
            at += static_cast<u64>(count);
        }
        ::close(pipe[1]);
    });
    expect_chunks(reader, splitter, pipe[0], bytes, ends);
    ::close(pipe[0]);
}

}  // namespace
}  // namespace warren::dedup
