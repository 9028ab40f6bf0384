// SPDX-License-Identifier: Apache-2.0
// A volume for tests of files that share blocks.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren {

using Bytes = std::vector<std::byte>;

inline constexpr u64 block_bytes = 4096;

inline Bytes random_bytes(Random& random, u64 size) {
    Bytes bytes(size);
    for (std::byte& byte : bytes)
        byte = static_cast<std::byte>(random.next());
    return bytes;
}

inline Bytes contents(Volume& volume, Handle file) {
    Bytes bytes(volume.attributes(file)->size);
    const Result<u64> read = volume.read(file, 0, bytes);
    EXPECT_TRUE(read && *read == bytes.size());
    return bytes;
}

inline void put(Volume& volume, Handle file, u64 offset, const Bytes& bytes) {
    const Result<u64> done = volume.write(file, offset, bytes);
    ASSERT_TRUE(done) << static_cast<int>(done.code());
    ASSERT_EQ(*done, bytes.size());
}

inline u64 used_blocks(Volume& volume) {
    const Statistics statistics = volume.statistics();
    return statistics.blocks - statistics.blocks_free;
}

class SharingVolume : public testing::TestWithParam<u64> {
 public:
    explicit SharingVolume(u64 volume_bytes = 64 * mib) : volume_(volume_bytes, options()) {}

    static OpenOptions options() {
        OpenOptions options;
        options.meta_buffer_bytes = GetParam();
        return options;
    }
    Handle open_new(const std::string& name) {
        const Handle file = make_file(*volume_, volume_->root(), name);
        EXPECT_EQ(volume_->open_file(file), Errc::ok);
        return file;
    }
    void share(Handle source, Handle target) {
        const u64 size = volume_->attributes(source)->size;
        const Result<u64> done = volume_->share_range(source, 0, target, 0, size);
        ASSERT_TRUE(done) << static_cast<int>(done.code());
        ASSERT_EQ(*done, size);
    }
    void remove(Handle file, const std::string& name) {
        EXPECT_EQ(volume_->release(file), Errc::ok);
        EXPECT_EQ(volume_->unlink({}, volume_->root(), name), Errc::ok);
    }

 protected:
    MemoryVolume volume_;
    Random random_{7};
};

}  // namespace warren
