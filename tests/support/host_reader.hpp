// SPDX-License-Identifier: Apache-2.0
// Scans of an image in the host's memory, lookups and changes there, in the place of a GPU's, and a
// replica with them.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "fs/engine/cpu/cpu_engine.hpp"
#include "fs/engine/replica/replica_queries.hpp"
#include "tests/fs/bulk/host_rebuild.hpp"
#include "tests/fs/bulk/output_scan.hpp"
#include "tests/support/host_batch.hpp"
#include "tests/support/host_lookups.hpp"
#include "tests/support/host_replica.hpp"

namespace warren {

/// How a test makes runs on an image fail.
struct HostRuns {
    Errc begin() {
        runs.fetch_add(1);
        return fails_at_run.exchange(Errc::ok);
    }
    void end() const {
        if (after_run) after_run();
    }

    std::atomic<u64> runs{0};
    std::atomic<Errc> fails_at_open{Errc::ok};
    std::atomic<Errc> fails_at_run{Errc::ok};  // once
    std::function<void()> after_run;           // while nothing applies to the volume
};

/// Batches on an image in the host's memory.
class HostImageBatch final : public ImageBatch, public HostRuns {
 public:
    Result<ops::BatchMemory> open(const ops::BatchShape& shape) override {
        if (const Errc code = fails_at_open.load(); code != Errc::ok) return code;
        const UncountedAllocations uncounted;
        return batch_.open(shape);
    }
    void send(const ops::BatchPart& part) override { batch_.send(part); }
    Errc run(const core::Store& image, const ops::BatchHeader& header, ops::BatchWindow& window,
             Errc& status) override {
        WARREN_TRY(begin());
        status = batch_.run(image, header, window);
        end();
        return Errc::ok;
    }
    void close() override {}

 private:
    HostBatch batch_;
};

/// Packs directories in an image in the host's memory.
class HostImageRebuild final : public ImageRebuild, public HostRuns {
 public:
    Errc open(u64 blocks) override {
        if (const Errc code = fails_at_open.load(); code != Errc::ok) return code;
        const UncountedAllocations uncounted;
        return workers_.grow(blocks);
    }
    Errc run(const core::Store& image, const core::Credentials& caller, Handle directory,
             const bulk::RebuildWindows& windows) override {
        WARREN_TRY(begin());
        const UncountedAllocations uncounted;
        workers_.run(image, caller, directory, windows);
        end();
        return Errc::ok;
    }
    const bulk::RebuildState& report() const override { return workers_.report(); }
    void close() override {}

 private:
    HostRebuildWorkers workers_{2, false};
};

/// Some words of a scan's output arrive, the others never.
class FailingArrival final : public bulk::ScanArrival {
 public:
    explicit FailingArrival(u64 words) : words_(words) {}
    bool wait_for(u64 words) const override { return words <= words_; }

 private:
    const u64 words_;
};

class HostReader final : public ImageReader {
 public:
    Errc open() override {
        opened.fetch_add(1);
        if (at_open) at_open();
        return fails_at_opening.load();
    }
    Errc scan(const core::Store& image, const ScanCall& call,
              const std::function<void()>& begin_visits) override {
        runs.fetch_add(1, std::memory_order_relaxed);
        if (instead) return instead();
        if (const Errc code = fails_with.load(std::memory_order_relaxed); code != Errc::ok) {
            return code;
        }
        OutputScan scan(image, [](u64) { return Errc::not_supported; });
        if (call.table != nullptr) {
            const Errc code = scan.fill_table(call);
            call.table->is_filled = code == Errc::ok;
            if (code != Errc::no_memory) return code;
        }
        std::vector<bulk::ScanOutput> found;
        if (call.take_masks != nullptr) {
            const auto list = [&] {
                const UncountedAllocations uncounted;
                return scan.scan(call.plan, call.root,
                                 [&](const bulk::ScanOutput& output) { found = {output}; });
            };
            WARREN_TRY(list());
            if (before_masks) before_masks();
            const Errc code = (*call.take_masks)(found[0]);
            freed_trees.fetch_add(code == Errc::ok ? 1 : 0, std::memory_order_relaxed);
            return code;
        }
        const Errc code = scan.scan(call.plan, call.root, [&](const bulk::ScanOutput& output) {
            if (call.usage != nullptr) bulk::take_usage(output, *call.usage);
            found.push_back(output);
        });
        if (call.usage != nullptr) bulk::add_sums(scan.sums(), *call.usage);
        if (code != Errc::ok || call.visit == nullptr) return code;
        if (found.size() > 1) return Errc::no_space;
        begin_visits();
        const FailingArrival arrival(found[0].word_count / 2);
        if (fails_at_last != Errc::ok) found[0].arrival = &arrival;
        bulk::ScanVisits visits(call);
        visits.take(found[0]);
        if (call.wait) WARREN_TRY(call.wait());
        if (fails_at_last == Errc::io) visits.note_visited(found[0], *call.visited);
        return fails_at_last;
    }
    /// Each seventh name, by length, is left to the CPU.
    Errc look_up(const core::Credentials& caller, const WithImage& with_image,
                 const UseStream& use) override {
        const std::lock_guard turn(lookups_turn_);
        runs.fetch_add(1, std::memory_order_relaxed);
        if (instead) return instead();
        return with_image([&](const core::Store& image) {
            const Errc code = fails_with.load(std::memory_order_relaxed);
            if (code != Errc::ok) return code;
            CpuEngine engine(image);
            lookups_.open(engine, caller);
            use(lookups_);
            return fails_at_last;
        });
    }
    ImageBatch& batch(u32 number) override { return number == 0 ? batches : other_batches; }
    ImageRebuild& rebuild() override { return rebuilds; }
    std::string name() const override { return "the host's memory"; }
    std::string failure() const override { return "a test wants it"; }
    void drop_idle() override { drops.fetch_add(1, std::memory_order_relaxed); }

    HostImageBatch batches;
    HostImageBatch other_batches;  // packed while the first runs
    HostImageRebuild rebuilds;
    std::function<void()> at_open;
    std::atomic<u64> opened{0};
    std::atomic<Errc> fails_at_opening{Errc::ok};
    std::function<Errc()> instead;       // of a scan or lookups
    std::function<void()> before_masks;  // between the listing of a tree and its removal
    std::atomic<u64> runs{0};
    std::atomic<u64> drops{0};               // of idle memory
    std::atomic<u64> freed_trees{0};         // by their lists
    std::atomic<Errc> fails_with{Errc::ok};  // before it begins
    Errc fails_at_last = Errc::ok;           // among the visits, or after all lookups

 private:
    std::mutex lookups_turn_;
    HostLookups lookups_;
};

/// Counts those that there are.
class CountedReplica final : public HostReplica {
 public:
    CountedReplica(const core::Store& of, std::shared_ptr<std::atomic<int>> count)
        : HostReplica(of), count_(std::move(count)) {
        count_->fetch_add(1);
    }
    ~CountedReplica() override { count_->fetch_sub(1); }

 private:
    const std::shared_ptr<std::atomic<int>> count_;
};

/// A replica of a volume in the host's memory; the volume owns it.
struct HostReplicaOf {
    /// When it is loaded.
    enum class Loads { now, when_faster };

    explicit HostReplicaOf(VolumeImplementation& volume,
                           const std::function<double()>& now = seconds_now,
                           Loads loads = Loads::now) {
        EXPECT_EQ(volume.mark_changes(), Errc::ok);
        ReplicaOptions options = volume.replica_options();
        options.now = now;
        options.report = [this](const std::string& line) { reports.push_back(line); };
        options.make_memory = [this, &store = volume.store()](auto& made) {
            auto its_memory = std::make_unique<CountedReplica>(store, images);
            memory = its_memory.get();
            if (at_load) WARREN_TRY(at_load(*its_memory));
            made = std::move(its_memory);
            return Errc::ok;
        };
        auto its_reader = std::make_unique<HostReader>();
        reader = its_reader.get();
        auto made =
            std::make_unique<ReplicaQueries>(volume.store(), std::move(its_reader), options);
        queries = made.get();
        if (loads == Loads::now) {
            std::string failure;
            EXPECT_EQ(made->load(failure), Errc::ok) << failure;
        }
        volume.use_replica(std::move(made));
        reader->runs = 0;
    }
    HostReplicaOf(const HostReplicaOf&) = delete;

    HostReplica* memory = nullptr;              // of the newest image
    std::shared_ptr<std::atomic<int>> images =  // that have memory
        std::make_shared<std::atomic<int>>(0);
    std::function<Errc(HostReplica&)> at_load;  // of an image made after a release
    HostReader* reader;
    ReplicaQueries* queries;
    std::vector<std::string> reports;
};

}  // namespace warren
