// SPDX-License-Identifier: Apache-2.0
// A file's chunks do not depend on how it passes through the buffer: as long as the buffer, a byte
// more or less, several times as long, or from a pipe, whose length is unknown.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "base/random.hpp"
#include "tests/support/seed.hpp"
#include "warren/dedup.hpp"

namespace warren::dedup::read_chunks_test {
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

/// Compares the chunks that read(visit) reports with the cuts and digests of `bytes` as a whole.
void expect_chunks(const Splitter& splitter, std::span<const std::byte> bytes,
                   const std::vector<u64>& ends,
                   const std::function<Errc(const ChunkReader::Visit&)>& read) {
    u64 start = 0;
    size_t index = 0;
    const Errc code = read([&](std::span<const FileChunk> some) {
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
        const std::vector<u64> ends = chunk::cut(splitter.rule, whole, 1);
        expect_chunks(splitter, whole, ends, [&](const ChunkReader::Visit& visit) {
            return reader.read(descriptor, visit);
        });
        // The same from a function that returns few bytes at once, whatever length was announced.
        u64 at = 0;
        const auto input = [&](std::span<std::byte> target) -> Result<u64> {
            const u64 count = std::min({target.size(), size - at, u64{1} + random.below(mib)});
            std::copy_n(whole.begin() + static_cast<i64>(at), count, target.begin());
            at += count;
            return count;
        };
        expect_chunks(splitter, whole, ends, [&](const ChunkReader::Visit& visit) {
            return reader.read(input, random.below(2 * size + 1), visit);
        });
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
    expect_chunks(splitter, bytes, ends,
                  [&](const ChunkReader::Visit& visit) { return reader.read(pipe[0], visit); });
    ::close(pipe[0]);
}

TEST(ReadChunks, InputThatFails) {
    Splitter splitter;
    splitter.threads = 1;
    ChunkReader reader;
    ASSERT_EQ(reader.open(splitter), Errc::ok);
    u64 calls = 0;
    const auto input = [&](std::span<std::byte> target) -> Result<u64> {
        if (++calls == 3) return Errc::io;
        return target.first(1).size();
    };
    const auto visit = [](std::span<const FileChunk>) { return true; };
    EXPECT_EQ(reader.read(input, 5000, visit), Errc::io);
    EXPECT_EQ(calls, 3);
    // The reader has dropped the data that it had read.
    const std::vector<std::byte> bytes(5);
    bool is_read = false;
    expect_chunks(splitter, bytes, {5}, [&](const ChunkReader::Visit& check) {
        const auto once = [&](std::span<std::byte> target) -> Result<u64> {
            if (std::exchange(is_read, true)) return 0;
            std::copy(bytes.begin(), bytes.end(), target.begin());
            return bytes.size();
        };
        return reader.read(once, bytes.size(), check);
    });
}

}  // namespace
}  // namespace warren::dedup::read_chunks_test
