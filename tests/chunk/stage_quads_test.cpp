// SPDX-License-Identifier: Apache-2.0
// The copies of a scan on a GPU, simulated by the host lane by lane: the data end at the end of a
// page before unmapped memory, and begin at the start of one if no earlier bytes count.
#include "chunk/cuda/stage_quads.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <vector>

namespace warren::chunk::cuda::stage_quads_test {
namespace {

constexpr u32 rows = 32;

/// Memory between two pages that cannot be read.
class FencedPages {
 public:
    explicit FencedPages(size_t bytes) : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
        bytes_ = (bytes + page_ - 1) / page_ * page_;
        void* const at = mmap(nullptr, bytes_ + 2 * page_, PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED) return;
        memory_ = static_cast<u8*>(at);
        is_open_ = mprotect(begin(), bytes_, PROT_READ | PROT_WRITE) == 0;
    }
    ~FencedPages() {
        if (memory_ != nullptr) munmap(memory_, bytes_ + 2 * page_);
    }
    FencedPages(const FencedPages&) = delete;
    FencedPages& operator=(const FencedPages&) = delete;

    bool is_open() const { return is_open_; }
    u8* begin() const { return memory_ + page_; }
    u8* end() const { return begin() + bytes_; }

 private:
    size_t page_;
    size_t bytes_ = 0;
    u8* memory_ = nullptr;
    bool is_open_ = false;
};

/// One stage of a warp's runs as the lanes copy it: all 16 bytes where `Runs::ask` does.
void copy_stage(const u8* bytes, const DataExtent& extent, i64 warp_begin, u32 run_bytes, int stage,
                u8* buffer) {
    const bool is_inside = extent.has_all(warp_begin, warp_begin + i64{rows} * run_bytes);
    for (u32 row = 0; row < rows; ++row) {
        for (u32 offset = 0; offset < stage_bytes; offset += quad_bytes) {
            const i64 at = warp_begin + i64{row} * run_bytes + i64{stage} * stage_bytes + offset;
            u8* const to = buffer + row * stage_bytes + offset;
            const u32 count = is_inside ? quad_bytes : extent.bytes_at(at);
            if (count == quad_bytes) {
                std::memcpy(to, bytes + at, quad_bytes);
            } else {
                const Quad quad = read_part(bytes + at, count);
                std::memcpy(to, quad.words, quad_bytes);
            }
        }
    }
}

/// The model's byte at `at`: zeros outside of the data.
u8 expected_at(const u8* bytes, const DataExtent& extent, i64 at) {
    const i64 first = extent.has_history ? -i64{stage_bytes} : 0;
    return at >= first && at < static_cast<i64>(extent.count) ? bytes[at] : u8{0};
}

void expect_stages(const u8* bytes, const DataExtent& extent, u32 run_bytes) {
    std::vector<u8> buffer(rows * stage_bytes);
    for (i64 warp = 0; warp < static_cast<i64>(extent.count); warp += i64{rows} * run_bytes) {
        for (int stage = -1; stage < static_cast<int>(run_bytes / stage_bytes); ++stage) {
            copy_stage(bytes, extent, warp, run_bytes, stage, buffer.data());
            for (u32 row = 0; row < rows; ++row) {
                const i64 at = warp + i64{row} * run_bytes + i64{stage} * stage_bytes;
                for (u32 byte = 0; byte < stage_bytes; ++byte) {
                    ASSERT_EQ(buffer[row * stage_bytes + byte],
                              expected_at(bytes, extent, at + byte))
                        << extent.count << " bytes, at " << at + byte;
                }
            }
        }
    }
}

TEST(StageQuads, NoByteOutsideOfTheDataIsRead) {
    constexpr u32 run_bytes = 256;
    const u64 warp_bytes = u64{rows} * run_bytes;
    // Each length modulo 16 in the last run, in the one before, and as a single short run.
    for (const u64 least : {u64{0}, u64{64}, warp_bytes - 48, warp_bytes + 240, 3 * warp_bytes}) {
        for (u64 count = least; count < least + 33; ++count) {
            for (const bool has_history : {false, true}) {
                const FencedPages pages(count + stage_bytes);
                ASSERT_TRUE(pages.is_open());
                for (u8* at = pages.begin(); at < pages.end(); ++at)
                    *at = static_cast<u8>((at - pages.begin()) % 251 + 1);
                expect_stages(pages.end() - count, {count, has_history}, run_bytes);
                if (HasFatalFailure()) return;
                if (!has_history) expect_stages(pages.begin(), {count, false}, run_bytes);
                if (HasFatalFailure()) return;
            }
        }
    }
}

}  // namespace
}  // namespace warren::chunk::cuda::stage_quads_test
