// SPDX-License-Identifier: Apache-2.0
// The threads that list call the visitor as they list. So nothing is buffered, directories that the
// visitor declines are not read, and a thread that needs a missing block loads it.
#include "fs/volume/host_scan.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <utility>

#include "base/out_of_memory.hpp"
#include "fs/bulk/scan/scan_answer.hpp"
#include "fs/bulk/scan/scan_room.hpp"
#include "fs/bulk/scan/scan_run.hpp"
#include "fs/bulk/scan/scan_worker.hpp"
#include "fs/volume/command_way.hpp"
#include "fs/volume/progress_teller.hpp"

namespace warren {
namespace {

using namespace bulk;

/// The host's counterpart of gpu::DeviceBuffer. A large array uses memory only for touched pages.
template <class T>
class HostArray {
 public:
    T* data() const { return data_; }
    u64 count() const { return count_; }
    /// Allocates `count` elements and keeps the first `kept`.
    void grow(u64 count, u64 kept = 0) {
        std::unique_ptr<T[]> few;
        ReservedRange many;
        if (count * sizeof(T) <= few_bytes) {
            few = std::make_unique_for_overwrite<T[]>(count);
        } else {
            many = ReservedRange(count * sizeof(T));
            if (many.data() == nullptr) throw std::bad_alloc();
        }
        T* const grown = few ? few.get() : many.as<T>();
        std::copy_n(data_, kept, grown);
        few_ = std::move(few);
        many_ = std::move(many);
        data_ = grown;
        count_ = count;
    }
    /// Allocates `count` elements, all zero. The old contents are lost.
    void grow_cleared(u64 count) {
        grow(count);
        if (few_) std::fill_n(data_, count, T{});  // a new range is zero
    }

 private:
    static constexpr u64 few_bytes = 64 * kib;

    std::unique_ptr<T[]> few_;
    ReservedRange many_;
    T* data_ = nullptr;
    u64 count_ = 0;
};

/// The tasks of a scan, in the queues of a thread pool. A worker pushes to its own queue.
class PoolTasks {
 public:
    PoolTasks(const ThreadPool& thread_pool, ThreadPool::Worker& worker)
        : thread_pool_(thread_pool), worker_(worker) {}

    /// Whether other workers may soon run out of tasks.
    bool wants_more() const { return thread_pool_.pending() < u64{2} * thread_pool_.width(); }
    /// As BulkQueue::push().
    bool push(const ThreadTeam& /*team*/, bool mine, const ops::TreeTask& task) const {
        if (!mine) return true;
        const Errc code = or_no_memory([&] { worker_.push({task.subject, task.part}); });
        return code == Errc::ok;
    }

 private:
    const ThreadPool& thread_pool_;
    ThreadPool::Worker& worker_;
};

/// Loads missing blocks immediately, with the blocks around them.
class LoadBlocks {
 public:
    explicit LoadBlocks(MetaLoader& loader) : loader_(loader) {}

    void want(u64 place) {
        if (count_ > 0 && places_[count_ - 1] == place) return;
        WARREN_CHECK(count_ < places_.size());
        places_[count_++] = place;
    }
    Errc bring() {
        const u64 count = std::exchange(count_, 0);
        return or_no_memory([&]() -> Errc {
            std::array<Errc, format::leaf_entries_max> answers;
            loader_.load_around(std::span(places_).first(count), std::span(answers).first(count));
            for (u64 i = 0; i < count; ++i)
                WARREN_TRY(answers[i]);
            return Errc::ok;
        });
    }

 private:
    MetaLoader& loader_;
    std::array<u64, format::leaf_entries_max> places_;
    u64 count_ = 0;
};

/// The receivers of the results, shared by all workers.
struct Audience {
    const std::function<bool(const Scanned&)>* visit = nullptr;
    const std::function<bool()>* is_full = nullptr;
    std::vector<DirectoryUsage>* usage = nullptr;
    ProgressTeller* progress = nullptr;
    std::atomic<u64> measured = {0};            // names
    std::mutex mutex = {};                      // guards `usage`
    std::atomic<bool> has_been_full = {false};  // so some positions were left
};

/// Reports to an Audience; has the interface of OutputTeller.
class VisitTeller {
 public:
    /// Adds to `listed` the names that this worker reads.
    VisitTeller(Audience& audience, const ScanRef& ref, u64& listed)
        : audience_(audience), ref_(ref), listed_(listed) {}

    bool is_full() const {
        if (audience_.is_full == nullptr || !*audience_.is_full) return false;
        return check([&] {
            const bool is_full = (*audience_.is_full)();
            if (is_full) audience_.has_been_full.store(true, std::memory_order_relaxed);
            return is_full;
        });
    }
    bool has_room() const { return true; }
    bool visit(Handle in, u32 depth, const format::DirectoryLeaf& leaf,
               const ScanFound& found) const {
        return check([&] {
            return (*audience_.visit)({in, name_of(leaf, found), depth, found.attributes});
        });
    }
    void write(u32 above, u32 depth, const format::DirectoryLeaf& leaf, const ScanFound& found,
               u32 /*told*/, u32 directory) const {
        if (audience_.usage == nullptr) return;
        check([&] {
            const std::lock_guard lock(audience_.mutex);
            note_usage(*audience_.usage, directory, found.attributes.handle, above, depth,
                       name_of(leaf, found));
            return true;
        });
    }
    void note_listed(u32 names) const {
        listed_ += names;
        if (audience_.progress == nullptr) return;
        audience_.measured.fetch_add(names, std::memory_order_relaxed);
        const auto count = [&] { return audience_.measured.load(std::memory_order_relaxed); };
        if (!audience_.progress->goes_on(count)) fail_scan(ref_, Errc::canceled);
    }

 private:
    static std::string_view name_of(const format::DirectoryLeaf& leaf, const ScanFound& found) {
        return {reinterpret_cast<const char*>(leaf.heap) + found.name_offset, found.name_length};
    }
    /// The result of `body`. If it runs out of memory, returns false and ends the scan.
    template <class Body>
    bool check(const Body& body) const {
        bool answer = false;
        const Errc code = or_no_memory([&] { answer = body(); });
        if (code != Errc::ok) fail_scan(ref_, code);
        return answer;
    }

    Audience& audience_;
    const ScanRef& ref_;
    u64& listed_;
};

/// The Site of run_scan(): memory for one scan, and the thread pool.
class HostSite {
 public:
    HostSite(VolumeImplementation& volume, const ScanPlan& plan,
             std::span<const ScanPosition> first, Audience& audience)
        : volume_(volume), plan_(plan), audience_(audience) {
        room_.state.grow_cleared(1);
        room_.ranges.grow(ranges_max);
        grow(first.size() + directories_few);
        if (plan.purpose == ScanPurpose::measure && !plan.counts_links) mark_no_links();
        start(first);
    }

    Result<ScanReport> run(bool /*is_first*/) {
        const ScanState& state = *room_.state.data();
        if (state.directory_count + leaves_at_once() > room_.directories.count()) {
            grow(std::max(u64{4} * state.directory_count,
                          relaxed_load(volume_.store().state->inodes_used)));
        }
        const ops::TreeTask* const left = room_.turn_over();
        std::vector<Task> tasks;
        for (u32 i = 0; i < state.spilled_count; ++i)
            tasks.push_back({left[i].subject, left[i].part});
        const ScanRef ref = this->ref();
        start_run(ref);
        const core::Store& store = volume_.store();
        if (volume_.works_on_host() && store.heads == nullptr) {
            run_tasks<ResidentWay<ThreadTeam, LoadBlocks>>(
                std::move(tasks), ref, [&](const ThreadTeam& team, ScanScratch& scratch) {
                    return ResidentWay(team, store, scratch, LoadBlocks(volume_.loader()));
                });
        } else {
            run_tasks<CommandWay>(std::move(tasks), ref, [&](const ThreadTeam&, ScanScratch&) {
                return CommandWay(volume_, plan_.purpose);
            });
        }
        return report_of(state);
    }
    // A run makes room when it begins, visits as it lists, and loads missing blocks, so there is
    // nothing to do between runs.
    Errc make_room(u64 /*directories*/, u64 /*frames*/) const { return Errc::no_memory; }
    Errc take_output() const { return Errc::ok; }
    Errc bring_wanted() const { return Errc::ok; }
    bool is_put_off() const { return audience_.has_been_full.load(std::memory_order_relaxed); }

    u64 listed() const { return listed_; }

    std::span<const ScanSum> sums() const {
        return {room_.sums.data(), room_.state.data()->sum_count};
    }
    /// Adds the positions still to be listed of an interrupted scan.
    void add_left(std::vector<ScanPosition>& left) const {
        const ScanRef ref = this->ref();
        for (u32 i = 0; i < ref.state->spilled_count; ++i) {
            const ops::TreeTask& task = ref.spilled[i];
            const ScanDirectory& in = ref.directories[ScanTask::directory(task)];
            const KeyRange& keys = ScanTask::keys(ref, task);
            left.push_back({{in.number, in.generation}, in.depth, keys.from, keys.end});
        }
    }

 private:
    static constexpr u64 ranges_max = 512;
    static constexpr u64 directories_few = 64;  // initially; most scans are small

    ScanRef ref() const { return room_.ref(volume_.thread_pool().width(), ThreadTeam::width); }
    u64 leaves_at_once() const {
        return u64{volume_.thread_pool().width()} * format::leaf_entries_max;
    }

    /// Makes room for `directories` directories, besides those in the workers' current leaves.
    void grow(u64 directories) {
        const ScanState& state = *room_.state.data();
        const u64 count = directories + leaves_at_once();
        room_.directories.grow(count, state.directory_count);
        room_.sums.grow(count, state.sum_count);
        for (auto& list : room_.spilled)
            list.grow(count + ranges_max, state.spilled_count);
    }
    void mark_no_links() {
        const u64 frames = relaxed_load(volume_.store().state->metadata_frames_end);
        room_.linked.grow_cleared(frames * (format::inodes_per_frame / 64));
    }

    /// Queues the positions. The root of the scan is known only where a scan begins.
    void start(std::span<const ScanPosition> first) {
        Handle root;
        for (const ScanPosition& position : first) {
            if (position.depth == 0) root = position.directory;
        }
        const ScanRef ref = this->ref();
        start_scan(ref, root);
        ScanState& state = *ref.state;
        state.spilled_count = 0;
        for (const ScanPosition& at : first) {
            const u32 number = state.directory_count++;
            ref.directories[number] = {at.directory.inode, at.directory.generation, at.depth, 0, 0,
                                       {at.from, at.end}};
            ref.spilled[state.spilled_count++] = ScanTask::make(number);
        }
    }

    /// Each worker keeps its ScanWorker for the whole run.
    template <class Way, class MakeWay>
    void run_tasks(std::vector<Task> tasks, const ScanRef& ref, const MakeWay& make_way) {
        struct Seat {
            ScanScratch scratch;
            u64 listed = 0;
            std::optional<ScanWorker<ThreadTeam, PoolTasks, Way, VisitTeller>> worker;
        };
        ThreadPool& thread_pool = volume_.thread_pool();
        const auto seats = std::make_unique_for_overwrite<Seat[]>(thread_pool.width());
        thread_pool.run(std::move(tasks), [&](ThreadPool::Worker& by, const Task& task) {
            Seat& seat = seats[by.index()];
            if (!seat.worker) {
                seat.worker.emplace(by.team(), plan_, ref, PoolTasks(thread_pool, by),
                                    make_way(by.team(), seat.scratch),
                                    VisitTeller(audience_, ref, seat.listed));
            }
            seat.worker->visit({task.subject, task.place});
        });
        for (u32 i = 0; i < thread_pool.width(); ++i)
            listed_ += seats[i].listed;
    }

    VolumeImplementation& volume_;
    const ScanPlan& plan_;
    Audience& audience_;
    ScanRoom<HostArray> room_;
    u64 listed_ = 0;
};

}  // namespace

Errc scan_on_host(VolumeImplementation& volume, const ScanCall& call, u64& listed) {
    std::vector<ScanPosition> left{{call.root}};
    return scan_on_host(volume, call, {}, left, listed);
}

Errc scan_on_host(VolumeImplementation& volume, const ScanCall& call,
                  const std::function<bool()>& is_full, std::vector<ScanPosition>& left,
                  u64& listed) {
    // Takes the newest positions, so that few are left at any time. Not all of them, because a step
    // would spend its time on deferring tasks for which it has no room.
    constexpr std::size_t most = 1024;
    const std::size_t begin = left.size() - std::min(left.size(), most);
    const std::function<bool(const Scanned&)> visit_others = [&](const Scanned& entry) {
        return call.visited->visit(entry, *call.visit);
    };
    const bool was_interrupted = call.visited != nullptr && call.visited->is_interrupted();
    ProgressTeller progress(call.progress);
    Audience audience{.visit = was_interrupted ? &visit_others : call.visit,
                      .is_full = &is_full,
                      .usage = call.usage,
                      .progress = call.progress ? &progress : nullptr};
    HostSite site(volume, call.plan, std::span(left).subspan(begin), audience);
    const Errc code = run_scan(site);
    listed += site.listed();
    // Also after an error: the sums up to it.
    if (call.usage != nullptr) add_sums(site.sums(), *call.usage);
    WARREN_TRY(code);
    left.resize(begin);
    site.add_left(left);
    return Errc::ok;
}

}  // namespace warren
