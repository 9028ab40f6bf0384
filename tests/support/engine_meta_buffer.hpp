// SPDX-License-Identifier: Apache-2.0
// A volume whose engine keeps only a megabyte of metadata in memory, for tests of what happens when
// that is too little.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/support/memory_volume.hpp"
#include "tests/support/test_engine.hpp"

namespace warren {

class EngineMetaBufferTest : public testing::Test {
 protected:
    void open() {
        Failure failure;
        volume_ = open_on_engine(std::make_unique<FaultDisk>(*disk_), engine_of_its_own(),
                                 {.workers = 2, .meta_buffer_bytes = small_meta_buffer}, failure);
        ASSERT_NE(volume_, nullptr) << failure.message;
    }
    void close_and_check() {
        ASSERT_EQ(volume_->close(), Errc::ok);
        volume_ = nullptr;
        EXPECT_TRUE(expect_clean(*disk_));
    }
    Handle make(Handle directory, const std::string& name, u32 mode = 0100644) {
        const auto made = volume_->create({.check = false}, directory, name, {.mode = mode});
        EXPECT_TRUE(made) << name;
        return made ? made->handle : Handle{};
    }

    std::unique_ptr<MemoryDisk> disk_ = make_memory_disk(512 * mib);
    std::unique_ptr<Volume> volume_;
};

}  // namespace warren
