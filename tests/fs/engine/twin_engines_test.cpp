// SPDX-License-Identifier: Apache-2.0
// Three engines run the same random operations on volumes that began as copies of each other: the
// CPU engine, the one that WARREN_TEST_ENGINE names (cuda on a machine with a GPU; without it the
// CPU's commands), and the CPU engine with a replica that carries out all bulk commands it can (the
// GPU's; without one a replica in the host's memory). After each operation all must have given the
// same answer; from time to time the volumes are compared with the model, checked, and exchanged
// between the engines.
//
// WARREN_TEST_ENGINE=cuda WARREN_SEED=1 test_fs --gtest_filter='TwinEnginesLong.*' repeats a run;
// WARREN_OPERATIONS sets its length.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

#include "tests/support/fault_disk.hpp"
#include "tests/support/host_reader.hpp"
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

constexpr std::string_view with_replica = "cpu with a replica";

/// One of the volumes, and its state in the test.
class Twin {
 public:
    Twin(std::unique_ptr<MemoryDisk> disk, const TwinPlan& plan)
        : disk_(std::move(disk)), plan_(plan) {}

    bool open(const std::string& engine) {
        const bool is_on_gpu = engine_of_its_own() == "cuda";
        const bool has_replica = engine == with_replica;
        OpenOptions options{.workers = 2, .dedup = plan_.dedup};
        if (has_replica && is_on_gpu) options.device_memory_bytes = gib;
        replica_ = nullptr;
        const auto adjust = [&](VolumeImplementation& volume) {
            if (!has_replica) return;
            if (!is_on_gpu) host_replica_ = std::make_unique<HostReplicaOf>(volume);
            replica_ = volume.replica();
            if (replica_ != nullptr) replica_->use_only(Side::replica);
        };
        Failure failure;
        const std::string_view beside = is_on_gpu ? "auto" : "cpu";
        volume_ = open_on_engine(std::make_unique<FaultDisk>(*disk_), has_replica ? beside : engine,
                                 options, failure, plan_.hash_mask, adjust);
        EXPECT_TRUE(volume_) << failure.message;
        if (volume_ == nullptr) return false;
        EXPECT_EQ(replica_ != nullptr, has_replica) << volume_->engine_note();
        if (has_replica == (replica_ == nullptr)) return false;
        if (driver_ != nullptr) driver_->set_volume(*volume_);
        return true;
    }
    void start(u64 seed) {
        driver_ = std::make_unique<RandomOperations>(*volume_, seed, plan_.random);
    }
    /// Closes and checks the volume. False if anything is wrong.
    bool close() {
        deduplicated_bytes_ += volume_->dedup_statistics().shared_bytes;
        if (replica_ != nullptr) by_replica_ += replica_->statistics().by_replica;
        const Errc closed = volume_->close();
        EXPECT_EQ(closed, Errc::ok);
        volume_.reset();
        return expect_clean(*disk_, plan_.hash_mask) && closed == Errc::ok;
    }

    RandomOperations& driver() { return *driver_; }
    u64 deduplicated_bytes() const { return deduplicated_bytes_; }
    /// The number of bulk commands that a replica has carried out.
    u64 by_replica() const { return by_replica_; }

 private:
    std::unique_ptr<MemoryDisk> disk_;
    const TwinPlan plan_;
    u64 deduplicated_bytes_ = 0;  // both until it was closed last
    u64 by_replica_ = 0;
    std::unique_ptr<HostReplicaOf> host_replica_;  // outlives the volume
    std::unique_ptr<Volume> volume_;
    ReplicaQueries* replica_ = nullptr;
    std::unique_ptr<RandomOperations> driver_;
};

class Twins {
 public:
    Twins(u64 seed, const TwinPlan& plan)
        : seed_(seed),
          plan_(plan),
          random_(seed + 1),
          engines_{"cpu", test_engine_name("commands"), std::string(with_replica)} {
        const auto disk = make_memory_disk(plan.size_bytes);
        for (auto& twin : twins_)
            twin = std::make_unique<Twin>(disk->copy(), plan);
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
    /// Of the one that shared least.
    u64 deduplicated_bytes() const {
        u64 least = ~u64{0};
        for (const auto& twin : twins_)
            least = std::min(least, twin->deduplicated_bytes());
        return least;
    }
    u64 by_replica() const {
        u64 all = 0;
        for (const auto& twin : twins_)
            all += twin->by_replica();
        return all;
    }

 private:
    static constexpr u64 count = 3;

    bool open() {
        for (u64 i = 0; i < count; ++i)
            if (!twins_[i]->open(engines_[i])) return false;
        return true;
    }

    bool run_some(u64 operations, u64& done) {
        for (u64 i = 0; i < operations; ++i, ++done) {
            bool wants_room = false;
            for (u64 k = 0; k < count; ++k) {
                RandomOperations& driver = twins_[k]->driver();
                if (!driver.act()) return false;
                wants_room = wants_room || driver.wants_room();
                if (driver.transcript() == twins_[0]->driver().transcript()) continue;
                driver.fail(engines_[k] + " gave another answer than " + engines_[0]);
                return false;
            }
            for (u64 k = 0; wants_room && k < count; ++k)
                twins_[k]->driver().make_room();
        }
        return true;
    }

    bool compare() {
        return std::ranges::all_of(twins_, [](auto& twin) { return twin->driver().compare(); });
    }

    /// Closes all volumes and opens each with the engine of the next one.
    bool exchange() {
        const bool lets_go = random_.one_in(2);
        for (auto& twin : twins_) {
            if (lets_go) twin->driver().let_all_go();
            if (!twin->close()) return false;
        }
        std::ranges::rotate(engines_, engines_.begin() + 1);
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
    std::array<std::string, count> engines_;
    std::array<std::unique_ptr<Twin>, count> twins_;
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
    u64 by_replica = 0;
    for (const Dedup dedup : {Dedup::off, Dedup::on}) {
        for (const u64 index : {0, 5, 6, 7}) {
            SCOPED_TRACE(index);
            TwinPlan plan = plan_for(index, dedup);
            plan.compare_interval = 500;
            Twins twins(seed.part(index), plan);
            EXPECT_EQ(twins.run(operations), operations);
            EXPECT_EQ(twins.deduplicated_bytes() > 0, dedup == Dedup::on);
            by_replica += twins.by_replica();
            if (HasFailure()) return;
        }
    }
    EXPECT_GT(by_replica, 0u);
}

/// Runs WARREN_OPERATIONS operations, by default a million, and expects the engines to agree.
/// Several parts at once, to keep a GPU busy.
void run_long(Dedup dedup) {
    const Seed seed;
    constexpr u64 operations_each = 12'500;
    const u64 operations = test_operations(1'000'000);
    const u64 parts = (operations + operations_each - 1) / operations_each;
    const u64 threads = std::min<u64>(parts, std::max(1u, std::thread::hardware_concurrency() / 4));
    std::atomic<u64> next{0};
    std::atomic<u64> done{0};
    std::atomic<u64> deduplicated{0};
    std::atomic<u64> by_replica{0};
    std::vector<std::thread> workers;
    for (u64 t = 0; t < threads; ++t) {
        workers.emplace_back([&] {
            for (u64 i = next++; i < parts && !testing::Test::HasFailure(); i = next++) {
                const u64 part = seed.part(i);
                SCOPED_TRACE("part " + std::to_string(i) + ", seed " + std::to_string(part));
                Twins twins(part, plan_for(i, dedup));
                done += twins.run(std::min(operations_each, operations));
                deduplicated += twins.deduplicated_bytes();
                by_replica += twins.by_replica();
            }
        });
    }
    for (std::thread& worker : workers)
        worker.join();
    std::printf(
        "%llu operations, %llu times three volumes, engines cpu, %s, and %s, which carried out "
        "%llu bulk commands; %llu MiB shared\n",
        static_cast<unsigned long long>(done), static_cast<unsigned long long>(parts),
        test_engine_name("commands").c_str(), with_replica.data(),
        static_cast<unsigned long long>(by_replica),
        static_cast<unsigned long long>(deduplicated / mib));
    EXPECT_TRUE(by_replica > 0 || operations < operations_each);
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
