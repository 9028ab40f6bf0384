// SPDX-License-Identifier: Apache-2.0
// Queries that a replica may answer beside the CPU engine: scans, lookups of many names, what the
// removal of a tree frees, batches of changes, and rebuilds of directories. Each runs on the side
// that is predicted to finish first (side_choice.hpp).
//
// Invariant: the visitors of a scan are called by one side. After an error of the replica itself,
// or if its memory is used up, it is given up for as long as the volume is open; but if there is no
// memory after a release, it stays released.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "fs/bulk/scan/scan_call.hpp"
#include "fs/engine/bulk_commands.hpp"
#include "fs/engine/lookup_stream.hpp"
#include "fs/engine/replica/image_batch.hpp"
#include "fs/engine/replica/image_rebuild.hpp"
#include "fs/engine/replica/image_runs.hpp"
#include "fs/engine/replica/replica.hpp"
#include "fs/engine/replica/scan_sizes.hpp"
#include "fs/engine/replica/side_choice.hpp"

namespace warren {

/// Reads the image of a replica where it lies.
class ImageReader {
 public:
    /// Calls `use` with the image, of which a version is held meanwhile, and returns its result.
    using WithImage = std::function<Errc(const std::function<Errc(const core::Store& image)>& use)>;

    virtual ~ImageReader() = default;

    /// Takes the device. Called once, before all else but failure().
    virtual Errc open() = 0;
    /// See BulkCommands::scan(). Calls `begin_visits` before the first visitor; from then on it
    /// does not read the image, and a failure of the device leaves in `call.visited` what was
    /// visited. Errc::io or Errc::no_memory: the device has failed. Called by many threads.
    virtual Errc scan(const core::Store& image, const ScanCall& call,
                      const std::function<void()>& begin_visits) = 0;
    /// Takes the memory of a stream, then opens it within `with_image`, on behalf of `caller`, for
    /// `use`. One stream at a time: waits for the previous one. After an error, which means the
    /// same as that of a scan, the answers that the stream has given are good all the same. Called
    /// by many threads.
    virtual Errc look_up(const core::Credentials& caller, const WithImage& with_image,
                         const UseStream& use) = 0;
    /// One of two, numbered 0 and 1.
    virtual ImageBatch& batch(u32 number) = 0;
    virtual ImageRebuild& rebuild() = 0;
    /// What keeps the image, for users.
    virtual std::string name() const = 0;
    /// Why the device, or the image's memory, has failed the calling thread.
    virtual std::string failure() const = 0;
    /// Frees the memory that no scan and no stream uses now. Called by many threads.
    virtual void drop_idle() = 0;
};

/// Which side has run queries (scans, calls for lookups or changes, removals of trees, packing),
/// since the volume was opened.
struct ReplicaStatistics {
    bool is_on = false;       // not given up
    bool has_memory = false;  // of the device
    u64 by_replica = 0;       // queries that the replica has answered
    u64 by_cpu = 0;           // queries that the CPU has answered
    u64 left = 0;             // of these, those that the replica was asked for in vain
    u64 error_percent = 0;    // by how much predictions of a query's time were off, on average
};

/// Of a steady clock.
double seconds_now();

struct ReplicaOptions {
    u32 device = 0;
    u64 device_bytes = 0;  // the most memory of the device that the image and its readers take
    u32 workers = 1;       // threads of a query on the CPU
    /// Called by load() once the reader is open: loads metadata.
    std::function<void()> prepare;
    Replica::Freeze freeze;
    Replica::ForEach for_each;
    Replica::MakeMemory make_memory;
    /// Receives a line when the replica is given up: from then on the CPU works.
    std::function<void(const std::string&)> report;
    std::function<double()> now = seconds_now;  // in seconds
};

class ReplicaQueries {
 public:
    /// Scans by the CPU. Adds to `listed` the number of names in what it has read; 0 if some of the
    /// scan is left to a later call.
    using CpuScan = std::function<Errc(u64& listed)>;

    /// Requires: `store` outlives this and its changes are marked.
    ReplicaQueries(const core::Store& store, std::unique_ptr<ImageReader> reader,
                   const ReplicaOptions& options);

    /// Opens the reader and makes the first version. Without this call a thread does so behind the
    /// first query that would have been faster; the CPU answers until it is done.
    /// After an error `failure` has the reason.
    Errc load(std::string& failure);
    bool is_loaded() const {
        // Acquire: pairs with the release in load().
        return is_loaded_.load(std::memory_order_acquire);
    }
    /// Waits until that thread has ended, if it was begun.
    void finish_loading();
    /// Measures both sides with a scan for whose results nobody waits.
    void measure(const ScanCall& call, const CpuScan& on_cpu);

    /// See BulkCommands::scan(). The replica answers with every change that ended before the call,
    /// in the state of one moment.
    Errc scan(const ScanCall& call, const CpuScan& on_cpu);
    /// Looks up `names` names on behalf of `caller`: by `by_stream` what a stream of the replica
    /// answers, with every change that ended before the call; then, or instead, by `by_cpu`
    /// whatever has no answer yet.
    void look_up(u64 names, const core::Credentials& caller, const UseStream& by_stream,
                 const std::function<void()>& by_cpu);
    /// Runs `items` changes of a kind: by `by_batches` what batches of the replica carry out of the
    /// first ones; then, or instead, by `by_cpu` all that are left.
    void change_items(QueryKind kind, u64 items,
                      const std::function<void(ItemBatches&)>& by_batches,
                      const std::function<void()>& by_cpu);
    /// Packs the tree of a directory of `names` names and `blocks` blocks, on behalf of `caller`:
    /// the replica in windows between which it may call `commit`, or `on_cpu`.
    Errc rebuild(const core::Credentials& caller, Handle directory, u64 names, u64 blocks,
                 const std::function<Errc()>& commit, const std::function<Errc()>& on_cpu);
    /// Removes the detached directory `root` and everything below it. `free_listed` gets what the
    /// replica lists and frees all of it but the root, or nothing: Errc::retry if something of it
    /// has changed since. Then, or instead, `on_cpu` removes the rest and sets the number of all
    /// names that were removed.
    Errc remove(Handle root, const std::function<Errc(const bulk::ScanOutput&)>& free_listed,
                const CpuScan& on_cpu);
    /// Frees the memory of the image and of its readers: waits for queries that read the image,
    /// but not for visitors, whose scan frees its memory when they have ended. A later query takes
    /// the memory again if that is predicted to be faster all the same. Errc::no_device: the
    /// replica was given up.
    Errc release();
    ReplicaStatistics statistics() const;
    /// What works beside the CPU engine and what it has done, for users.
    std::string note() const;
    /// See Volume::predictions().
    std::vector<std::string> predictions() const;
    /// From now on runs all queries on this side, or chooses again; for tests and benchmarks.
    /// Requires: none runs.
    void use_only(std::optional<Side> side) { only_ = side; }
    /// Fewer names to change or to pack are not worth a prediction. With use_only() tests are
    /// quick.
    u64 changes_min() const { return only_ ? 16 : 4096; }
    /// Names that one batch changes: nothing else is applied while it runs.
    u64 window_items() const { return window_items_; }
    /// For tests. Requires: no query runs.
    void use_windows_of(u64 items) { window_items_ = items; }

 private:
    void load_if_faster(const Query& query, double seconds);
    void load_behind();
    Errc load();
    SideChoice::Choice choose(const Query& query, bool may_load);
    template <class OnReplica, class OnCpu>
    Errc run(const Query& query, const OnReplica& on_replica, const OnCpu& on_cpu);
    Errc scan_image(const ScanCall& call, bool may_load);
    bool remove_listed(Handle root, bool may_load,
                       const std::function<Errc(const bulk::ScanOutput&)>& free_listed);
    ImageRuns runs(bool may_load) { return {store_, replica_, for_each_, may_load}; }
    void give_up_after_runs(const ImageRuns& runs);
    void give_up_after(Errc code);
    bool give_up(const std::string& reason, bool is_reported = true);
    void free_memory();

    const core::Store& store_;
    const std::unique_ptr<ImageReader> reader_;  // outlives the image
    const std::function<void(const std::string&)> report_;
    const std::function<double()> now_;
    const std::function<void()> prepare_;
    const bool has_asked_;  // for a device by its number
    const Replica::ForEach for_each_;
    std::mutex batch_turn_;    // held while a batch is open
    std::mutex rebuild_turn_;  // held while a directory is packed
    Replica replica_;
    u64 window_items_ = 131'072;
    SideChoice sides_;
    ScanSizes sizes_;
    ScanSizes removal_sizes_;
    std::optional<Side> only_;
    std::atomic<bool> is_loaded_{false};  // the first version was made
    std::atomic<bool> is_given_up_{false};
    std::atomic<bool> has_failed_{false};  // the device, which is not touched any more
    std::atomic<bool> was_released_{false};
    std::atomic<u64> by_replica_{0};
    std::atomic<u64> by_cpu_{0};
    std::atomic<u64> left_{0};
    mutable std::mutex reason_mutex_;
    std::string reason_;       // why it was given up; guarded by reason_mutex_
    std::mutex loader_mutex_;  // guards the next two
    bool has_begun_to_load_ = false;
    std::jthread loader_;  // last, because it uses the others
};

}  // namespace warren
