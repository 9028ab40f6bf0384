// SPDX-License-Identifier: Apache-2.0
// The kernels of a scan, and the host code that launches them. A kernel writes the report and the
// first words of the output to pinned memory. Most scans find no more, so the host waits once.
#include "fs/engine/cuda/launch/tree_scan.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <utility>

#include "base/out_of_memory.hpp"
#include "fs/bulk/scan/scan_worker.hpp"
#include "gpu/device.hpp"
#include "gpu/failure.hpp"
#include "team/warp_team.hpp"

namespace warren::cuda_engine {
namespace {

constexpr u64 range_count = u64{1} << 20;
constexpr u64 wanted_count = u64{1} << 20;
constexpr u64 first_words = 128 * 1024;  // written together with the report
constexpr u64 first_bundles = 8 * 1024;
constexpr u64 piece_words = 256 * 1024;  // of a larger output, which is copied in segments
constexpr u64 first_sums = 4 * 1024;
constexpr u32 report_blocks = 32;
constexpr u32 gather_blocks = 264;
constexpr u32 masks_max = 4096;  // block groups that a listed tree may have something of
constexpr u32 seed_threads = 256;
constexpr u32 warps_max = 8;  // of a block
// What ScanState::written and BundlePlace can count.
constexpr u64 output_words_max = u64{1} << 32;
constexpr u64 output_bundles_max = u64{1} << (64 - written_shift);

/// Prepares a run and fills its queue. One block of threads.
__global__ void begin_run(core::Store store, ScanRef ref, const ops::TreeTask* left, Handle root,
                          bool is_first, bool keeps_output) {
    ScanState& state = *ref.state;
    __shared__ u32 count;
    if (threadIdx.x == 0) {
        if (is_first) {
            start_scan(ref, root);
            check_room(ref, store);
        }
        count = state.spilled_count;
        start_run(ref, keeps_output && !is_first);
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < count; i += blockDim.x)
        seed_scan(ref, i, is_first ? ScanTask::make(0) : left[i]);
    __syncthreads();
    if (threadIdx.x == 0) ref.queue.begin_over(ThreadTeam{});
}

/// `lists`: for ScanPurpose::list. The kernel for other scans does without its code.
template <bool lists>
__global__ void __launch_bounds__(256, 3)
    scan_trees(core::Store store, const __grid_constant__ ScanPlan plan,
               const __grid_constant__ ScanRef ref) {
    extern __shared__ ScanScratch scratches[];
    const WarpTeam team{(blockIdx.x * blockDim.x + threadIdx.x) / WarpTeam::width};
    using Way = ResidentWay<WarpTeam, AskForBlocks, lists>;
    const Way way(team, store, scratches[threadIdx.x / WarpTeam::width], AskForBlocks(ref));
    ScanWorker<WarpTeam, BulkQueue, Way, OutputTeller<WarpTeam>> worker(team, plan, ref, ref.queue,
                                                                        way, {team, ref});
    worker.work();
}

/// Pinned memory for the report and the first results.
struct FirstFound {
    ScanReport* report;
    u64* output;  // null: the output stays where it is
    BundlePlace* bundles;
    ScanSum* sums;
};

/// Writes the report and the results to pinned memory. One kernel takes less time than several
/// copies, and it copies only as many words as there are.
__global__ void report_run(ScanRef ref, FirstFound to) {
    const ScanState& state = *ref.state;
    const u64 thread = u64{blockIdx.x} * blockDim.x + threadIdx.x;
    const u64 threads = u64{gridDim.x} * blockDim.x;
    const u64 words = written_words(state.written);
    const u64 bundles = written_bundles(state.written);
    if (to.output != nullptr && words <= first_words && bundles <= first_bundles) {
        for (u64 i = thread; i < words; i += threads)
            to.output[i] = ref.output[i];
        for (u64 i = thread; i < bundles; i += threads)
            to.bundles[i] = ref.bundles[i];
    }
    if (state.sum_count <= first_sums) {
        for (u64 i = thread; i < state.sum_count; i += threads)
            to.sums[i] = ref.sums[i];
    }
    if (thread != 0) return;
    *to.report = report_of(state);
}

/// Writes to pinned memory what the listed tree has in each block group.
__global__ void gather_tree(core::Store store, ScanRef ref, FrameMasks* rows) {
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x;
    const u32 warps = gridDim.x * blockDim.x / WarpTeam::width;
    const WarpTeam team{thread / WarpTeam::width};
    for (u64 frame = team.worker; frame < store.frame_count; frame += warps) {
        gather_masks(team, ref.masks, frame, rows, masks_max, ref.state->masked_count);
    }
}

class Arrival final : public ScanArrival {
 public:
    Arrival(const std::deque<gpu::Event>& pieces, u64 words)
        : pieces_(pieces), count_((words + piece_words - 1) / piece_words) {}

    /// One thread at a time calls the CUDA runtime, because many would contend for its locks.
    bool wait_for(u64 words) const override {
        const u64 needed = (words + piece_words - 1) / piece_words;
        // Acquire: pairs with the release below, so the calling thread sees the segments' contents.
        while (arrived_.load(std::memory_order_acquire) < needed) {
            if (has_failed_.load(std::memory_order_relaxed)) return false;
            const std::unique_lock turn(mutex_, std::try_to_lock);
            if (turn)
                look();
            else
                pause_briefly();
        }
        return true;
    }

 private:
    void look() const {
        if (has_failed_.load(std::memory_order_relaxed)) return;
        const gpu::DeviceScope device(device_);
        u64 arrived = arrived_.load(std::memory_order_relaxed);
        while (arrived < count_ && pieces_[arrived].is_reached())
            ++arrived;
        // is_reached() is also true for an event that failed.
        if (arrived == count_ && pieces_[count_ - 1].wait() != Errc::ok) {
            has_failed_.store(true, std::memory_order_relaxed);
        } else {
            arrived_.store(arrived, std::memory_order_release);
        }
    }

    const std::deque<gpu::Event>& pieces_;
    const u64 count_;
    const int device_ = gpu::current_device();
    mutable std::mutex mutex_;
    alignas(64) mutable std::atomic<u64> arrived_{0};  // in another cache line than the mutex
    mutable std::atomic<bool> has_failed_{false};
};

Errc launched(const char* name) {
    return gpu::check(cudaGetLastError(), name);
}

}  // namespace

Errc TreeScan::open(const ScanShape& shape) {
    shape_ = shape;
    WARREN_CHECK(shape.warps_per_block <= warps_max);
    const int shared_bytes = static_cast<int>(shape.warps_per_block * sizeof(ScanScratch));
    for (const auto kernel : {scan_trees<false>, scan_trees<true>}) {
        WARREN_TRY(gpu::check(
            cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                 cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes),
            "cudaFuncSetAttribute"));
    }
    WARREN_TRY(stream_.open());
    WARREN_TRY(begin_.open());
    WARREN_TRY(end_.open());
    share_.emplace(shape.budget);
    const auto take = [this](auto& buffer, u64 count) -> Errc {
        WARREN_TRY(take_share(buffer.missing_bytes(count)));
        return buffer.allocate(count);
    };
    WARREN_TRY(take(room_.state, 1));
    WARREN_TRY(take(room_.slots, shape.queue_capacity));
    WARREN_TRY(take(room_.ranges, range_count));
    WARREN_TRY(take(room_.wanted, wanted_count));
    WARREN_TRY(take(groups_, core::groups_max));
    const u64 words_min = workers() * leaf_output_words;
    const u64 bundles_min = workers() * leaf_bundles;
    WARREN_TRY(take(room_.output, std::max(shape.output_bytes / 8, 2 * words_min)));
    WARREN_TRY(take(room_.bundles, bundles_min + room_.output.count() / 128));
    WARREN_TRY(report_.allocate(1));
    WARREN_TRY(host_output_.allocate(first_words));
    WARREN_TRY(host_bundles_.allocate(first_bundles));
    WARREN_TRY(host_sums_.allocate(first_sums));
    WARREN_TRY(stream_.fill(room_.slots.data(), 0, room_.slots.bytes()));
    WARREN_TRY(stream_.fill(room_.state.data(), 0, room_.state.bytes()));
    WARREN_TRY(make_room(shape.directories, 64));
    return stream_.wait();
}

/// Makes room for `directories` directories and for the files of `frames` frames. The previous
/// contents are lost.
Errc TreeScan::make_room(u64 directories, u64 frames) {
    const u64 count = directories + workers() * format::leaf_entries_max;
    const u64 tasks = count + range_count;
    const u64 words = frames * (format::inodes_per_frame / 64);
    // All at once: after a refusal the scan is as before, and may be used again.
    WARREN_TRY(take_share(room_.directories.missing_bytes(count) + room_.sums.missing_bytes(count) +
                          room_.spilled[0].missing_bytes(tasks) +
                          room_.spilled[1].missing_bytes(tasks) +
                          room_.linked.missing_bytes(words)));
    WARREN_TRY(room_.directories.grow(count));
    WARREN_TRY(room_.sums.grow(count));
    for (auto& list : room_.spilled)
        WARREN_TRY(list.grow(tasks));
    return room_.linked.grow(words);
}

/// Makes twice the room for output. The output so far is lost.
Errc TreeScan::grow_output() {
    const u64 words = 2 * room_.output.count();
    const u64 bundles = 2 * room_.bundles.count();
    if (words > output_words_max || bundles > output_bundles_max) {
        return gpu::fail(Errc::no_space, "the results of a scan do not fit into its output");
    }
    WARREN_TRY(
        take_share(room_.output.missing_bytes(words) + room_.bundles.missing_bytes(bundles)));
    WARREN_TRY(room_.output.grow(words));
    return room_.bundles.grow(bundles);
}

/// Counts device memory that is about to be taken.
Errc TreeScan::take_share(u64 bytes) {
    if (share_->grow(bytes)) return Errc::ok;
    return gpu::fail(Errc::no_space, "a scan finds no room beside the copy of the metadata");
}

ScanRef TreeScan::ref() const {
    return room_.ref(workers(), WarpTeam::width);
}

float TreeScan::kernel_ms() const {
    const Result<float> taken = end_.milliseconds_since(begin_);
    return taken ? *taken : 0;
}

/// Sets the plan, and copies its credentials to device memory.
Errc TreeScan::begin(const core::Store& store, const ScanPlan& plan) {
    plan_ = plan;
    if (plan.caller.group_count > core::groups_max) return Errc::invalid;
    WARREN_TRY(stream_.copy(groups_.data(), plan.caller.groups,
                            u64{plan.caller.group_count} * sizeof(u32)));
    plan_.caller.groups = groups_.data();
    const bool lists = plan.purpose == ScanPurpose::list;
    if (lists) {
        const u64 blocks = store.frame_count * format::words_per_frame;
        const u64 inodes = room_.linked.count();
        WARREN_TRY(take_share(room_.blocks.missing_bytes(blocks) +
                              room_.held.missing_bytes(inodes) +
                              room_.sharing.missing_bytes(inodes)));
        WARREN_TRY(room_.blocks.grow(blocks));
        WARREN_TRY(room_.held.grow(inodes));
        WARREN_TRY(room_.sharing.grow(inodes));
        WARREN_TRY(host_masks_.reserve(masks_max));
        WARREN_TRY(stream_.fill(room_.blocks.data(), 0, room_.blocks.bytes()));
        WARREN_TRY(stream_.fill(room_.held.data(), 0, room_.held.bytes()));
        WARREN_TRY(stream_.fill(room_.sharing.data(), 0, room_.sharing.bytes()));
    }
    if (!lists && plan.purpose != ScanPurpose::measure) return Errc::ok;
    return stream_.fill(room_.linked.data(), 0, room_.linked.bytes());
}

/// Passes what the listed tree consists of to `take`. Errc::no_space if it lies in more block
/// groups than there is room for.
Errc TreeScan::fetch_masks(const core::Store& store, const TakeOutput& take) {
    gather_tree<<<gather_blocks, seed_threads, 0, stream_.get()>>>(
        store, room_.ref(workers(), WarpTeam::width), host_masks_.data());
    WARREN_TRY(launched("gather_tree"));
    u32& count = report_.data()->masked_count;
    WARREN_TRY(stream_.copy(&count, &room_.state.data()->masked_count, sizeof count));
    WARREN_TRY(stream_.wait());
    if (count > masks_max) return Errc::no_space;
    ScanOutput output;
    output.directory_count = report_.data()->directory_count;
    output.masks = {host_masks_.data(), count};
    return take(output);
}

Errc TreeScan::run(const core::Store& store, Handle root, bool is_first, bool keeps_output) {
    ++runs_;
    const ops::TreeTask* const left = room_.turn_over();
    const ScanRef shared = ref();
    WARREN_TRY(begin_.record(stream_));
    begin_run<<<1, seed_threads, 0, stream_.get()>>>(store, shared, left, root, is_first,
                                                     keeps_output);
    WARREN_TRY(launched("begin_run"));
    const auto kernel = plan_.purpose == ScanPurpose::list ? scan_trees<true> : scan_trees<false>;
    kernel<<<shape_.blocks, shape_.warps_per_block * WarpTeam::width,
             shape_.warps_per_block * sizeof(ScanScratch), stream_.get()>>>(store, plan_, shared);
    WARREN_TRY(launched("scan_trees"));
    WARREN_TRY(end_.record(stream_));
    report_run<<<report_blocks, seed_threads, 0, stream_.get()>>>(
        shared, {report_.data(), keeps_output ? nullptr : host_output_.data(), host_bundles_.data(),
                 host_sums_.data()});
    WARREN_TRY(launched("report_run"));
    return stream_.wait();
}

/// Passes the results of a run to `take`, which may begin before all of them are there, unless they
/// came with the report.
Errc TreeScan::fetch_output(const TakeOutput& take) {
    const u64 written = report_.data()->written;
    const u64 words = written_words(written);
    const u64 bundles = written_bundles(written);
    if (bundles == 0) return Errc::ok;
    const bool comes_in_pieces = words > first_words || bundles > first_bundles;
    const Arrival arrival(arrived_, words);
    ScanOutput output;
    if (comes_in_pieces) {
        WARREN_TRY(host_bundles_.reserve(bundles));
        WARREN_TRY(stream_.copy(host_bundles_.data(), room_.bundles.data(),
                                bundles * sizeof(BundlePlace)));
        WARREN_TRY(send_output(words));
        WARREN_TRY(arrived_[0].wait());
        output.arrival = &arrival;
    }
    output.words = host_output_.data();
    output.word_count = words;
    output.bundles = {host_bundles_.data(), bundles};
    output.directory_count = report_.data()->directory_count;
    const Errc taken = or_no_memory([&] { return take(output); });
    if (comes_in_pieces && !output.await_all()) {
        const Errc failed = stream_.wait();
        return failed != Errc::ok ? failed : gpu::fail(Errc::io, "the results of a scan are lost");
    }
    return taken;
}

/// Queues the copy of the output to the host in segments, so that the first can be read while the
/// others are being copied.
Errc TreeScan::send_output(u64 words) {
    WARREN_TRY(host_output_.reserve(words));
    const u64 pieces = (words + piece_words - 1) / piece_words;
    while (arrived_.size() < pieces)
        arrived_.emplace_back();
    for (u64 i = 0; i < pieces; ++i) {
        WARREN_TRY(arrived_[i].open());
        const u64 begin = i * piece_words;
        const u64 count = std::min(piece_words, words - begin);
        WARREN_TRY(stream_.copy(host_output_.data() + begin, room_.output.data() + begin,
                                count * sizeof(u64)));
        WARREN_TRY(arrived_[i].record(stream_));
    }
    return Errc::ok;
}

/// Implements the calls of run_scan() for a scan of one tree.
class TreeScan::Site {
 public:
    Site(TreeScan& scan, const core::Store& store, const ScanPlan& plan, Handle root,
         const TakeOutput& take, BulkHost& host)
        : scan_(scan), store_(store), plan_(plan), root_(root), take_(take), host_(host) {}

    Result<ScanReport> run(bool is_first) {
        const bool begins = is_first || std::exchange(begins_again_, false);
        WARREN_TRY(scan_.run(store_, root_, begins, !take_));
        return *scan_.report_.data();
    }
    Errc make_room(u64 inodes, u64 frames) {
        WARREN_TRY(scan_.make_room(inodes, frames));
        return scan_.begin(store_, plan_);
    }
    Errc take_output() {
        if (plan_.purpose == ScanPurpose::removal) return Errc::ok;
        if (!take_) return keep_output();
        const bool visits_last = plan_.purpose == ScanPurpose::visit && host_.visits_last();
        const ScanReport& report = *scan_.report_.data();
        if (plan_.purpose == ScanPurpose::list) {
            const bool is_whole = report.error == 0 && report.spilled_count == 0;
            return is_whole ? scan_.fetch_masks(store_, take_) : Errc::ok;
        }
        if (visits_last && report.error != 0) return static_cast<Errc>(report.error);
        if (visits_last && report.spilled_count != 0) return Errc::no_space;
        return scan_.fetch_output(take_);
    }
    Errc bring_wanted() {
        const u64 count = std::min<u64>(scan_.report_.data()->wanted_count, wanted_count);
        return bring_listed(scan_.stream_, scan_.room_.wanted.data(), count, host_);
    }
    bool is_put_off() const { return false; }

 private:
    /// Begins again with more room if it was too small.
    Errc keep_output() {
        const ScanReport& report = *scan_.report_.data();
        if (report.error != 0 || report.spilled_count == 0) return Errc::ok;
        if (has_output_room(scan_.ref(), report.written)) return Errc::ok;
        begins_again_ = true;
        return scan_.grow_output();
    }

    TreeScan& scan_;
    const core::Store& store_;
    const ScanPlan& plan_;
    const Handle root_;
    const TakeOutput& take_;
    BulkHost& host_;
    bool begins_again_ = false;
};

Errc TreeScan::scan(const core::Store& store, const ScanPlan& plan, Handle root,
                    const TakeOutput& take, BulkHost& host) {
    WARREN_TRY(begin(store, plan));
    runs_ = 0;
    Site site(*this, store, plan, root, take, host);
    return run_scan(site);
}

Errc TreeScan::fill_table(const core::Store& store, const ScanCall& call, BulkHost& host) {
    WARREN_TRY(scan(store, call.plan, call.root, {}, host));
    const ScanReport& report = *report_.data();
    return table_.fill(stream_, ref(), report.written, report.directory_count, call);
}

Errc TreeScan::fetch_sums(std::vector<ScanSum>& sums) {
    const u32 count = report_.data()->sum_count;
    if (count <= first_sums) {
        sums.assign(host_sums_.data(), host_sums_.data() + count);
        return Errc::ok;
    }
    sums.resize(count);
    WARREN_TRY(stream_.copy(sums.data(), room_.sums.data(), sums.size() * sizeof(ScanSum)));
    return stream_.wait();
}

}  // namespace warren::cuda_engine
