// SPDX-License-Identifier: Apache-2.0
// An engine with memory of its own is lost at each of its calls, one call per run, within every
// operation. The counterpart of cuda_fault_test.cu that needs no GPU.
#include <gtest/gtest.h>

#include <atomic>

#include "tests/support/engine_faults.hpp"
#include "tests/support/fault_disk.hpp"
#include "tests/support/losable_engine.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/sanitized.hpp"

namespace warren::engine_fault_test {
namespace {

/// The calls to an engine, which is lost at the failing one.
class Questions final : public FailingCalls {
 public:
    std::unique_ptr<Volume> open(Disk& disk, const OpenOptions& options) override {
        Failure failure;
        auto volume =
            open_on_losable_engine(std::make_unique<FaultDisk>(disk), options, failure, [this] {
                return asked_.fetch_add(1, std::memory_order_relaxed) + 1 ==
                       failing_.load(std::memory_order_relaxed);
            });
        EXPECT_TRUE(volume) << failure.message;
        return volume;
    }
    u64 fail(u64 nth) override {
        failing_.store(nth, std::memory_order_relaxed);
        return asked_.exchange(0, std::memory_order_relaxed);
    }

 private:
    std::atomic<u64> asked_{0};
    std::atomic<u64> failing_{0};
};

/// With all metadata in the engine's memory, and with a buffer of a megabyte.
class EngineFault : public testing::TestWithParam<u64> {
 protected:
    static void fail_operations(u64 odds, u64 many_odds) {
        Questions questions;
        EngineFaults faults(questions, {.workers = 2, .meta_buffer_bytes = GetParam()});
        faults.fail_all(odds, many_odds);
    }
};
INSTANTIATE_TEST_SUITE_P(MetaBuffers, EngineFault, testing::ValuesIn(block_maps));

TEST_P(EngineFault, ofAQuestionIsToldAndDoesNoHarm) {
    fail_operations(volume_step, (is_sanitized ? 40 : 10) * case_step);
}

class EngineFaultLong : public EngineFault {};
INSTANTIATE_TEST_SUITE_P(MetaBuffers, EngineFaultLong, testing::ValuesIn(block_maps));

TEST_P(EngineFaultLong, ofEachQuestionIsToldAndDoesNoHarm) {
    fail_operations(1, 1);
}

}  // namespace
}  // namespace warren::engine_fault_test
