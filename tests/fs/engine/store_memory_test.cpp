// SPDX-License-Identifier: Apache-2.0
// Which memory of a store the system may give in huge pages: new frames of metadata, no others.
#include "fs/engine/cpu/store_memory.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace warren::store_memory_test {
namespace {

/// Whether huge pages were asked for at this address (proc(5), VmFlags in smaps).
bool wants_huge_pages(const void* at) {
    std::ifstream maps("/proc/self/smaps");
    const auto address = reinterpret_cast<std::uintptr_t>(at);
    bool is_here = false;
    for (std::string line; std::getline(maps, line);) {
        std::istringstream words(line);
        std::uintptr_t begin = 0;
        std::uintptr_t end = 0;
        char dash = 0;
        if (words >> std::hex >> begin >> dash >> end && dash == '-') {
            is_here = begin <= address && address < end;
        } else if (is_here && line.starts_with("VmFlags:")) {
            return line.find(" hg") != std::string::npos;
        }
    }
    return false;
}

TEST(StoreMemory, AsksForHugePagesForNewFramesAlone) {
    StoreShape shape;
    shape.size_bytes = 64 * mib;
    shape.frame_table_blocks = 1;
    StoreMemory memory;
    ASSERT_EQ(memory.open(shape), Errc::ok);
    const std::byte* const base = memory.store().base;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(base) % format::frame_size, 0u);
    memory.expect_new_frames(memory.store().frame_count);
    EXPECT_FALSE(wants_huge_pages(base + 31 * format::frame_size));
    memory.expect_new_frames(3);
    const bool has_any = std::filesystem::exists("/sys/kernel/mm/transparent_hugepage");
    EXPECT_FALSE(wants_huge_pages(base + 2 * format::frame_size));
    EXPECT_EQ(wants_huge_pages(base + 3 * format::frame_size), has_any);
    EXPECT_EQ(wants_huge_pages(base + 31 * format::frame_size), has_any);
}

}  // namespace
}  // namespace warren::store_memory_test
