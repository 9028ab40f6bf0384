// SPDX-License-Identifier: Apache-2.0
// A file buffer at its smallest size against an array of bytes.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/random.hpp"
#include "fs/cache/file_buffer.hpp"
#include "tests/support/memory_disk.hpp"
#include "tests/support/seed.hpp"

namespace warren::file_buffer_model {

using Bytes = std::vector<std::byte>;

inline constexpr u64 disk_bytes = 8 * mib;
inline constexpr u64 block = format::block_size;

inline FileBufferShape smallest() {
    FileBufferShape shape;
    shape.size_bytes = FileBuffer::size_bytes_min;
    return shape;
}

inline void fill(std::span<std::byte> bytes, Random& random) {
    for (std::byte& byte : bytes)
        byte = static_cast<std::byte>(random.next());
}

/// One random read or write within [begin, begin + model.size()), used by this caller only.
inline void step(FileBuffer& buffer, u64 begin, Bytes& model, Random& random) {
    const u64 unit = random.one_in(2) ? block : 1;
    const u64 length =
        (random.one_in(6) ? random.below(model.size() / 2) : random.below(9000)) / unit * unit;
    if (length == 0) return;
    const u64 at = random.below(model.size() - length) / unit * unit;
    Bytes bytes(length);
    if (random.one_in(2)) {
        fill(bytes, random);
        ASSERT_EQ(buffer.write(begin + at, bytes), Errc::ok);
        std::memcpy(model.data() + at, bytes.data(), length);
    } else {
        ASSERT_EQ(buffer.read(begin + at, bytes, begin + model.size()), Errc::ok);
        ASSERT_EQ(std::memcmp(bytes.data(), model.data() + at, length), 0)
            << length << " bytes at " << begin + at;
    }
}

inline void expect_as_model(const FileBufferShape& shape) {
    const Seed seed;
    Random random(seed.value());
    MemoryDisk disk(disk_bytes);
    FileBuffer buffer(disk, shape);
    Bytes model(disk_bytes);
    for (u64 i = 0; i < 2000 * test_load() && !testing::Test::HasFailure(); ++i) {
        step(buffer, 0, model, random);
        EXPECT_LE(buffer.figures().blocks * block, FileBuffer::size_bytes_min);
        if (random.one_in(200)) {
            ASSERT_EQ(buffer.write_back(), Errc::ok);
            EXPECT_EQ(buffer.figures().dirty_blocks, 0u);
            Bytes found(disk_bytes);
            ASSERT_EQ(disk.read(0, found), Errc::ok);
            ASSERT_TRUE(found == model) << "what was written back is not what was written";
        }
    }
    EXPECT_GT(buffer.figures().evictions, 100u);
}

}  // namespace warren::file_buffer_model
