// SPDX-License-Identifier: Apache-2.0
// A volume asks its replica before it scans with its own threads, and does so if the replica
// cannot. The replica is in the host's memory here; on a GPU see device_replica_test.cu.
#include "fs/engine/replica/replica_scans.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/fs/bulk/output_scan.hpp"
#include "tests/support/host_replica.hpp"

namespace warren {
namespace {

class HostReplicaScans final : public ReplicaScans {
 public:
    explicit HostReplicaScans(VolumeImplementation& volume)
        : replica_(
              volume.store(), std::make_unique<HostReplica>(volume.store()),
              [&volume](const std::function<void()>& action) { volume.freeze(action); },
              [&volume](u64 count, const std::function<void(u64)>& body) {
                  volume.thread_pool().for_each_at_once(count, body);
              }) {}

    Errc scan(const ScanCall& call) override {
        if (refuses) return ++counts_.left, Errc::not_supported;
        ++counts_.answered;
        return replica_.read([&](const core::Store& image, auto&) {
            OutputScan scan(image, [](u64) { return Errc::io; });
            bulk::ScanVisits visits(call);
            const Errc code = scan.scan(call.plan, call.root, [&](const auto& output) {
                if (call.usage != nullptr) return bulk::take_usage(output, *call.usage);
                if (call.visit != nullptr) visits.take(output);
            });
            if (call.usage != nullptr) bulk::add_sums(scan.sums(), *call.usage);
            return code;
        });
    }
    std::string name() const override { return "the host's memory"; }
    ReplicaScanCounts counts() const override { return counts_; }

    bool refuses = false;

 private:
    Replica replica_;
    ReplicaScanCounts counts_;
};

TEST(ReplicaScans, areAskedFirst) {
    const auto disk = make_memory_disk(64 * mib);
    InsideVolume volume(*disk);
    ASSERT_EQ(volume.inside().mark_changes(), Errc::ok);
    auto made = std::make_unique<HostReplicaScans>(volume.inside());
    HostReplicaScans& replica = *made;
    volume.inside().use_replica(std::move(made));
    build_random(*volume, 1, 300);
    for (const bool refuses : {false, true}) {
        replica.refuses = refuses;
        OutputScan scan(volume.inside());
        expect_same_answers(scan, volume);
        EXPECT_GT(replica.counts().answered, 8u);
        EXPECT_EQ(replica.counts().left != 0, refuses);
    }
}

/// Without a GPU, or where it cannot help, the volume opens all the same.
TEST(ReplicaScans, areOptional) {
    const auto disk = make_memory_disk(64 * mib);
    std::vector<std::string> warnings;
    OpenOptions options{.workers = 1, .meta_buffer_bytes = mib, .engine = EngineChoice::cpu};
    options.device_memory_bytes = gib;
    options.warn = [&](const std::string& line) { warnings.push_back(line); };
    const auto volume = open_on(*disk, options);
    ASSERT_TRUE(volume);
    EXPECT_EQ(volume->engine(), "cpu");
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_EQ(warnings[0],
              "no GPU works beside the CPU engine (a meta buffer limits the metadata in memory); "
              "the CPU does all work");
    EXPECT_EQ(volume->engine_note() + "; the CPU does all work", warnings[0]);
    ASSERT_TRUE(volume->create(anybody, volume->root(), "file", {}));
    std::vector<DirectoryUsage> usage;
    EXPECT_EQ(volume->usage(anybody, volume->root(), {}, usage), Errc::ok);
    EXPECT_EQ(usage[0].entries, 2u);
}

}  // namespace
}  // namespace warren
