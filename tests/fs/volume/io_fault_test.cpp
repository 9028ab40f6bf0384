// SPDX-License-Identifier: Apache-2.0
// Each disk request within an operation, or within the commit that follows it, fails once. The
// caller gets an error, nothing crashes or hangs; after a failed read the volume stays usable,
// after a failed write or flush it does or does not, as `errors` says. The disk then holds the
// state before the operation or the one after it.
#include <gtest/gtest.h>

#include <cstdio>
#include <vector>

#include "base/random.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/operation_cases.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/test_engine.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::io_fault_test {
namespace {

const std::vector<OperationWay> ways = [] {
    std::vector<OperationWay> all = operation_ways();
    all.push_back({"SmallBuffersContinue",
                   "cpu",
                   {.workers = 2,
                    .meta_buffer_bytes = small_meta_buffer,
                    .file_buffer_bytes = 256 * kib,
                    .errors = ErrorMode::go_on}});
    return all;
}();

constexpr FaultPlan reads{.writes = false, .flushes = false, .is_once = true};
constexpr FaultPlan writes{.reads = false, .is_once = true};

/// Runs operations with failing requests on copies of one volume.
class Faults {
 public:
    /// About `most` of an operation's requests of one kind fail.
    Faults(const OperationWay& way, u64 most) : way_(way), base_(way), most_(most) {}

    /// Makes the operation's requests of the kinds in the plan fail, one in each run.
    void fail_each(const OperationCase& operation, FaultPlan plan) {
        SCOPED_TRACE(operation.name);
        const Outcome whole = run(operation, plan);
        EXPECT_EQ(whole.code, Errc::ok);
        EXPECT_EQ(whole.synced, Errc::ok);
        for (plan.nth = 1; plan.nth <= whole.requests && !testing::Test::HasFailure(); ++plan.nth) {
            SCOPED_TRACE(testing::Message()
                         << (plan.reads ? "read " : "write or flush ") << plan.nth << " fails");
            if (whole.requests > most_ && random_.below(whole.requests) >= most_) continue;
            const Outcome outcome = run(operation, plan);
            // Workers divide the work at run time: the number of disk requests varies between runs.
            if (!outcome.has_failed) continue;
            ++runs_;
            const bool is_told = outcome.code != Errc::ok || outcome.synced != Errc::ok;
            const bool must_tell = plan.writes && way_.options.errors == ErrorMode::remount_ro;
            EXPECT_TRUE(is_told || !must_tell);
            EXPECT_TRUE(is_told || outcome.shown == whole.shown);
            if (!operation.is_whole) continue;
            EXPECT_TRUE(outcome.shown == base_.before() || outcome.shown == whole.shown)
                << "neither as before nor as after, but:\n"
                << outcome.shown;
        }
    }
    u64 runs() const { return runs_; }

 private:
    struct Outcome {
        Errc code = Errc::ok;
        Errc synced = Errc::ok;
        bool has_failed = false;
        u64 requests = 0;
        std::string shown;
    };

    Outcome run(const OperationCase& operation, const FaultPlan& plan) {
        const auto disk = base_.copy();
        FaultDisk faults(*disk);
        Outcome outcome;
        auto volume = base_.open(faults);
        OperationPlace at = open_operation_place(*volume);
        faults.set_plan(plan);
        outcome.code = operation.run(at);
        outcome.synced = volume->sync();
        outcome.requests = faults.count();
        outcome.has_failed = faults.failed_count() > 0;
        faults.set_plan({});
        const bool has_ended = outcome.synced != Errc::ok;
        EXPECT_TRUE(!has_ended || plan.writes) << "a read that failed ended the volume";
        if (!has_ended) release_operation_place(at);
        const auto later = volume->create(anybody, at.root, "later", {});
        EXPECT_EQ(later.code(), has_ended ? Errc::read_only : Errc::ok);
        const Errc gone = volume->unlink(anybody, at.root, "later");
        EXPECT_TRUE(has_ended || gone == Errc::ok);
        EXPECT_EQ(volume->close() != Errc::ok, has_ended);
        volume.reset();
        outcome.shown = base_.shown(*disk);
        EXPECT_TRUE(expect_clean(*disk));
        return outcome;
    }

    const OperationWay& way_;
    const OperationBase base_;
    const u64 most_;
    const Seed seed_;
    Random random_{seed_.part(0)};
    u64 runs_ = 0;
};

void fail_requests(const OperationWay& way, u64 most) {
    Faults faults(way, most);
    const std::vector<OperationCase> operations = operation_cases(way.options.dedup);
    for (const OperationCase& operation : operations) {
        for (const FaultPlan& plan : {reads, writes})
            faults.fail_each(operation, plan);
    }
    EXPECT_GT(faults.runs(), 5 * operations.size() / 2);
    std::printf("%s: %llu requests failed\n", way.name,
                static_cast<unsigned long long>(faults.runs()));
}

/// Otherwise the ways with deduplication would be as those without.
TEST(OperationCases, ofDeduplicationShareAndZero) {
    for (const OperationWay& way : ways) {
        if (way.options.dedup != Dedup::on) continue;
        SCOPED_TRACE(way.name);
        const OperationBase base(way);
        u64 shared = 0, zeros = 0;
        for (const OperationCase& operation : operation_cases(Dedup::on)) {
            const auto disk = base.copy();
            const auto volume = base.open(*disk);
            OperationPlace at = open_operation_place(*volume);
            EXPECT_EQ(operation.run(at), Errc::ok) << operation.name;
            const DedupStatistics done = volume->dedup_statistics();
            shared += done.shared_bytes >= 32 * kib ? 1 : 0;
            zeros += done.zero_bytes >= 32 * kib ? 1 : 0;
            release_operation_place(at);
            EXPECT_EQ(volume->close(), Errc::ok);
        }
        EXPECT_GE(shared, 3u);
        EXPECT_GE(zeros, 3u);
    }
}

std::string name_of_way(const testing::TestParamInfo<OperationWay>& way) {
    return way.param.name;
}

class IoFault : public testing::TestWithParam<OperationWay> {};
INSTANTIATE_TEST_SUITE_P(Ways, IoFault, testing::ValuesIn(ways), name_of_way);

/// All requests on the host's engine; under a sanitizer at most 20, or 4, of each operation and
/// kind. On a device a bulk command with a small meta buffer makes some 1,600 requests, and each of
/// its runs takes a quarter of a second.
TEST_P(IoFault, ofAnOperationIsToldAndDoesNoHarm) {
    fail_requests(GetParam(), is_sanitized ? 100 / case_step : 256);
}

class IoFaultLong : public testing::TestWithParam<OperationWay> {};
INSTANTIATE_TEST_SUITE_P(Ways, IoFaultLong, testing::ValuesIn(ways), name_of_way);

TEST_P(IoFaultLong, ofEachRequestIsToldAndDoesNoHarm) {
    fail_requests(GetParam(), ~u64{0});
}

}  // namespace
}  // namespace warren::io_fault_test
