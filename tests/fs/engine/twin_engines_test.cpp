// SPDX-License-Identifier: Apache-2.0
// Two engines run the same random operations on volumes that began as copies of each other: the CPU
// engine, and the one that WARREN_TEST_ENGINE names (cuda on a machine with a GPU; without it the
// CPU's commands). After each operation both must have given the same answer; from time to time
// both volumes are compared with the model, checked, and swapped between the engines.
//
// WARREN_TEST_ENGINE=cuda WARREN_SEED=1 test_fs --gtest_filter='TwinEnginesLong.*' repeats a run;
// WARREN_OPERATIONS sets its length.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "tests/support/fault_disk.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/random_operations.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/test_engine.hpp"

namespace warren::twin_engines_test {
namespace {

struct TwinPlan {
    RandomPlan random;
    u64 size_bytes = 512 * mib;
    u64 hash_mask = ~u64{0};
    u64 compare_interval = 2500;  // operations, about
    Dedup dedup = Dedup::off;
};

/// One of the two volumes, and its state in the test.
class Twin {
 public:
    Twin(std::unique_ptr<MemoryDisk> disk, const TwinPlan& plan)
        : disk_(std::move(disk)), plan_(plan) {}

    bool open(const std::string& engine) {
        Failure failure;
        volume_ = open_on_engine(std::make_unique<FaultDisk>(*disk_), engine,
                                 {.workers = 2, .dedup = plan_.dedup}, failure, plan_.hash_mask);
        EXPECT_TRUE(volume_) << failure.message;
        if (volume_ != nullptr && driver_ != nullptr) driver_->set_volume(*volume_);
        return volume_ != nullptr;
    }
    void start(u64 seed) {
        driver_ = std::make_unique<RandomOperations>(*volume_, seed, plan_.random);
    }
    /// Closes and checks the volume. False if anything is wrong.
    bool close() {
        deduplicated_bytes_ += volume_->dedup_statistics().shared_bytes;
        const Errc closed = volume_->close();
        EXPECT_EQ(closed, Errc::ok);
        volume_.reset();
        return expect_clean(*disk_, plan_.hash_mask) && closed == Errc::ok;
    }

    RandomOperations& driver() { return *driver_; }
    u64 deduplicated_bytes() const { return deduplicated_bytes_; }

 private:
    std::unique_ptr<MemoryDisk> disk_;
    const TwinPlan plan_;
    u64 deduplicated_bytes_ = 0;  // until it was closed last
    std::unique_ptr<Volume> volume_;
    std::unique_ptr<RandomOperations> driver_;
};

class Twins {
 public:
    Twins(u64 seed, const TwinPlan& plan)
        : seed_(seed),
          plan_(plan),
          random_(seed + 1),
          engines_{"cpu", test_engine_name("commands")} {
        auto disk = make_memory_disk(plan.size_bytes);
        auto other = disk->copy();
        twins_[0] = std::make_unique<Twin>(std::move(disk), plan);
        twins_[1] = std::make_unique<Twin>(std::move(other), plan);
    }

    /// Runs so many operations, or fewer if something goes wrong; returns how many.
    u64 run(u64 operations) {
        if (!open()) return 0;
        for (auto& twin : twins_)
            twin->start(seed_);
        u64 done = 0;
        while (done < operations) {
            const u64 most =
                std::min(operations - done, 1 + random_.below(2 * plan_.compare_interval));
            if (!run_some(most, done)) return done;
            if (done < operations && random_.one_in(2)) {
                if (!compare()) return done;
                continue;
            }
            if (!exchange()) return done;
        }
        return finish() ? done : 0;
    }
    /// Of the one that shared less.
    u64 deduplicated_bytes() const {
        return std::min(twins_[0]->deduplicated_bytes(), twins_[1]->deduplicated_bytes());
    }

 private:
    bool open() { return twins_[0]->open(engines_[0]) && twins_[1]->open(engines_[1]); }

    bool run_some(u64 operations, u64& done) {
        RandomOperations& first = twins_[0]->driver();
        RandomOperations& second = twins_[1]->driver();
        for (u64 i = 0; i < operations; ++i, ++done) {
            if (!first.act() || !second.act()) return false;
            if (first.transcript() != second.transcript()) {
                second.fail("the other engine gave another answer");
                return false;
            }
            if (!first.wants_room() && !second.wants_room()) continue;
            first.make_room();
            second.make_room();
        }
        return true;
    }

    bool compare() { return twins_[0]->driver().compare() && twins_[1]->driver().compare(); }

    /// Closes both volumes and opens each with the other's engine.
    bool exchange() {
        const bool lets_go = random_.one_in(2);
        for (auto& twin : twins_) {
            if (lets_go) twin->driver().let_all_go();
            if (!twin->close()) return false;
        }
        std::swap(engines_[0], engines_[1]);
        return open() && compare();
    }

    bool finish() {
        for (auto& twin : twins_) {
            twin->driver().let_all_go();
            if (!twin->driver().compare() || !twin->close()) return false;
        }
        return true;
    }

    const u64 seed_;
    const TwinPlan plan_;
    Random random_;
    std::string engines_[2];
    std::unique_ptr<Twin> twins_[2];
};

/// The plan of seed `index`: most plans cover everything, some a single area.
TwinPlan plan_for(u64 index, Dedup dedup) {
    TwinPlan plan;
    plan.dedup = dedup;
    plan.random.repeats = dedup == Dedup::on;
    plan.random.large_batches = true;
    switch (index % 8) {
        case 5:
            plan.size_bytes = 16 * mib;
            plan.random.entries_max = 600;
            plan.random.large_files = false;
            plan.random.large_batches = false;
            break;
        case 6:
            // The order of equal hashes is up to the engine, so nothing is listed in parts.
            // 32 values: a directory holds 256 names of one hash.
            plan.hash_mask = u64{1} | u64{1} << 12 | u64{1} << 30 | u64{1} << 45 | u64{1} << 54;
            plan.random.listings = false;
            break;
        case 7:
            plan.random.large_files = false;
            plan.random.errors = false;
            plan.random.entries_max = 20'000;
            break;
        default:
            break;
    }
    return plan;
}

TEST(TwinEngines, agreeOnEveryAnswer) {
    const Seed seed;
    const u64 operations = (is_sanitized ? 750 : 1500) * test_load();
    for (const Dedup dedup : {Dedup::off, Dedup::on}) {
        for (const u64 index : {0, 5, 6, 7}) {
            SCOPED_TRACE(index);
            TwinPlan plan = plan_for(index, dedup);
            plan.compare_interval = 500;
            Twins twins(seed.part(index), plan);
            EXPECT_EQ(twins.run(operations), operations);
            EXPECT_EQ(twins.deduplicated_bytes() > 0, dedup == Dedup::on);
            if (HasFailure()) return;
        }
    }
}

/// Runs WARREN_OPERATIONS operations, by default a million, and expects the engines to agree.
/// Several pairs of twins at once, to keep a GPU busy.
void run_long(Dedup dedup) {
    const Seed seed;
    constexpr u64 operations_each = 12'500;
    const u64 operations = test_operations(1'000'000);
    const u64 pairs = (operations + operations_each - 1) / operations_each;
    const u64 threads = std::min<u64>(pairs, std::max(1u, std::thread::hardware_concurrency() / 4));
    std::atomic<u64> next{0};
    std::atomic<u64> done{0};
    std::atomic<u64> deduplicated{0};
    std::vector<std::thread> workers;
    for (u64 t = 0; t < threads; ++t) {
        workers.emplace_back([&] {
            for (u64 i = next++; i < pairs && !testing::Test::HasFailure(); i = next++) {
                const u64 part = seed.part(i);
                SCOPED_TRACE("pair " + std::to_string(i) + ", seed " + std::to_string(part));
                Twins twins(part, plan_for(i, dedup));
                done += twins.run(std::min(operations_each, operations));
                deduplicated += twins.deduplicated_bytes();
            }
        });
    }
    for (std::thread& worker : workers)
        worker.join();
    std::printf("%llu operations, %llu pairs of volumes, engines cpu and %s, %llu MiB shared\n",
                static_cast<unsigned long long>(done), static_cast<unsigned long long>(pairs),
                test_engine_name("commands").c_str(),
                static_cast<unsigned long long>(deduplicated / mib));
    EXPECT_GE(done, operations);
    EXPECT_EQ(deduplicated > 0, dedup == Dedup::on);
}

TEST(TwinEnginesLong, aMillionOperationsAgree) {
    run_long(Dedup::off);
}

TEST(TwinEnginesLong, aMillionOperationsAgreeWithDeduplication) {
    run_long(Dedup::on);
}

}  // namespace
}  // namespace warren::twin_engines_test
