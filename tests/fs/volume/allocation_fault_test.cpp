// SPDX-License-Identifier: Apache-2.0
// Each memory allocation within an operation fails once. The caller gets an error, nothing crashes
// or hangs, the volume is in its state before the operation or after it, and stays usable.
//
// Only allocations of Warren within the operation are counted, not those of the test's disk.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "base/random.hpp"
#include "tests/support/failing_allocations.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/operation_cases.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/test_engine.hpp"
#include "tests/support/uncounted_disk.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::allocation_fault_test {
namespace {

constexpr u64 volume_bytes = 16 * mib;
constexpr u64 never = u64{1} << 62;

const std::vector<OperationWay> ways = operation_ways();

/// Runs operations with failing allocations on copies of one volume.
class Faults {
 public:
    explicit Faults(const OperationWay& way) : base_(way) {}

    /// Makes one in `odds` of the operation's allocations fail, and always the first two.
    void fail_each(const OperationCase& operation, u64 odds, Random& random) {
        SCOPED_TRACE(operation.name);
        const Outcome whole = run(operation, never);
        EXPECT_EQ(whole.code, Errc::ok);
        EXPECT_FALSE(whole.has_failed);
        for (u64 nth = 1; nth <= whole.allocations && !testing::Test::HasFailure(); ++nth) {
            if (nth > 2 && !random.one_in(odds)) continue;
            SCOPED_TRACE(testing::Message() << "allocation " << nth << " fails");
            const Outcome outcome = run(operation, nth);
            // Workers divide the work at run time: the number of allocations varies between runs.
            if (!outcome.has_failed) continue;
            ++runs_;
            EXPECT_TRUE(outcome.code == Errc::ok || outcome.code == Errc::no_memory)
                << static_cast<int>(outcome.code);
            EXPECT_TRUE(outcome.code != Errc::ok || outcome.shown == whole.shown);
            if (!operation.is_whole) continue;
            EXPECT_TRUE(outcome.shown == base_.before() || outcome.shown == whole.shown)
                << "neither as before nor as after, but:\n"
                << outcome.shown.substr(0, 300);
        }
    }
    u64 runs() const { return runs_; }

 private:
    struct Outcome {
        Errc code = Errc::ok;
        bool has_failed = false;
        u64 allocations = 0;
        std::string shown;
    };

    Outcome run(const OperationCase& operation, u64 nth) {
        const auto disk = base_.copy();
        Outcome outcome;
        auto volume = base_.open(*disk);
        OperationPlace at = open_operation_place(*volume);
        {
            const FailingAllocation failing(nth);
            outcome.code = operation.run(at);
            outcome.allocations = failing.count();
            outcome.has_failed = failing.has_failed();
        }
        release_operation_place(at);
        // Memory is available again, and so is the volume.
        const auto later = volume->create(anybody, at.root, "later", {});
        EXPECT_EQ(later.code(), Errc::ok);
        EXPECT_EQ(volume->unlink(anybody, at.root, "later"), Errc::ok);
        EXPECT_EQ(volume->close(), Errc::ok);
        volume.reset();
        EXPECT_TRUE(expect_clean(*disk));
        outcome.shown = base_.shown(*disk);
        return outcome;
    }

    const OperationBase base_;
    u64 runs_ = 0;
};

class AllocationFault : public testing::TestWithParam<OperationWay> {};
INSTANTIATE_TEST_SUITE_P(Ways, AllocationFault, testing::ValuesIn(ways),
                         [](const auto& way) { return std::string(way.param.name); });

/// `many_odds`: for operations with thousands of allocations.
void fail_operations(const OperationWay& way, u64 odds, u64 many_odds) {
    const Seed seed;
    Random random(seed.value());
    Faults faults(way);
    if (way.options.dedup == Dedup::on) odds = std::max(case_step / 8, u64{1});  // fewer operations
    for (const OperationCase& operation : operation_cases(way.options.dedup))
        faults.fail_each(operation, operation.is_many ? many_odds : odds, random);
    EXPECT_GT(faults.runs(), 20u);
    std::printf("%s: %llu allocations failed\n", way.name,
                static_cast<unsigned long long>(faults.runs()));
}

TEST_P(AllocationFault, ofAnOperationIsToldAndDoesNoHarm) {
    fail_operations(GetParam(), 10 * case_step, 200 * case_step);
}

class AllocationFaultLong : public testing::TestWithParam<OperationWay> {};
INSTANTIATE_TEST_SUITE_P(Ways, AllocationFaultLong, testing::ValuesIn(ways),
                         [](const auto& way) { return std::string(way.param.name); });

TEST_P(AllocationFaultLong, ofAnOperationIsToldAndDoesNoHarm) {
    fail_operations(GetParam(), 1, 1);
}

/// A volume with a journal to replay and a tree to free.
std::unique_ptr<MemoryDisk> make_cut_volume() {
    const auto disk = make_memory_disk(volume_bytes);
    disk->start_recording();
    const auto volume = open_on(*disk, {.workers = 1});
    make_operation_base(*volume);
    const Result<Attributes> file = volume->lookup(anybody, volume->root(), "file");
    EXPECT_EQ(volume->open_file(file->handle), Errc::ok);
    EXPECT_EQ(volume->unlink(anybody, volume->root(), "file"), Errc::ok);
    EXPECT_EQ(volume->sync(), Errc::ok);
    auto cut = disk->image_after(disk->event_count(), {.lost = ~u64{0}});
    EXPECT_EQ(volume->release(file->handle), Errc::ok);
    return cut;
}

TEST_P(AllocationFault, ofAnOpeningIsToldAndTheNextOneSucceeds) {
    const auto cut = make_cut_volume();
    bool has_failed = true;
    u64 nth = 0;
    while (has_failed && !HasFailure()) {
        SCOPED_TRACE(testing::Message() << "allocation " << ++nth << " fails");
        const auto disk = cut->copy();
        auto uncounted = std::make_unique<UncountedDisk>(*disk);
        Failure failure;
        std::unique_ptr<Volume> volume;
        {
            const FailingAllocation failing(nth);
            volume = open_on_engine(std::move(uncounted), GetParam().engine, GetParam().options,
                                    failure);
            has_failed = failing.has_failed();
        }
        EXPECT_TRUE(volume || has_failed);
        EXPECT_EQ(failure.code, volume ? Errc::ok : Errc::no_memory);
        EXPECT_EQ(failure.message.find("image"), volume ? std::string::npos : 0);
        if (volume == nullptr) volume = open_on(*disk, {.workers = 1});
        ASSERT_TRUE(volume);
        EXPECT_EQ(volume->close(), Errc::ok);
        EXPECT_TRUE(expect_clean(*disk));
    }
    EXPECT_GT(nth, 5u);
}

}  // namespace
}  // namespace warren::allocation_fault_test
