// SPDX-License-Identifier: Apache-2.0
// Runs steps until nothing is left of the tree. The host polls a word in its own memory for the end
// of a step, which is faster than a call of the driver.
#include "fs/engine/cuda/launch/tree_removal.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <span>
#include <utility>

#include "base/file_clock.hpp"
#include "base/host_device.hpp"
#include "base/out_of_memory.hpp"
#include "gpu/failure.hpp"

namespace warren::cuda_engine {
namespace {

using Clock = std::chrono::steady_clock;

constexpr u32 idle_steps_max = 1000;  // other operations can take a step's time or journal room
constexpr u32 damaged_max = 4;        // tries on metadata that seem to be damaged
constexpr u64 listed_max = u64{TreeListing::frames_max} * format::inodes_per_frame;

}  // namespace

Errc TreeRemoval::open(const RemovalShape& shape) {
    shape_ = shape;
    warps_ = shape.blocks * shape.warps_per_block;
    WARREN_TRY(stream_.open());
    WARREN_TRY(state_.allocate(1));
    WARREN_TRY(slots_.allocate(shape.queue_capacity));
    WARREN_TRY(lists_.allocate(4 * u64{removal_list_entries}));
    WARREN_TRY(listed_.allocate(3 * listed_max + TreeListing::frames_max));
    WARREN_TRY(directories_.allocate(listed_max));
    WARREN_TRY(roots_.allocate(removal_roots_max));
    WARREN_TRY(report_.allocate(1));
    *report_.data() = {};
    WARREN_TRY(stream_.fill(slots_.data(), 0, slots_.bytes()));
    WARREN_TRY(stream_.fill(state_.data(), 0, state_.bytes()));
    // The state of a queue before a run; see BulkQueue::reset().
    const u64 one = 1;
    WARREN_TRY(stream_.copy(&state_.data()->queue.unfinished, &one, sizeof one));
    return stream_.wait();
}

RemovalRef TreeRemoval::ref() {
    RemovalRef ref{};
    ref.state = state_.data();
    ref.queue.slots = slots_.data();
    ref.queue.capacity = slots_.count();
    ref.queue.margin = std::min(slots_.count(), u64{warps_} * 32);
    ref.queue.state = &state_.data()->queue;
    ref.unfinished = lists_.data();
    ref.emptied = lists_.data() + removal_list_entries;
    ref.wanted = lists_.data() + 2 * u64{removal_list_entries};
    ref.seeds = lists_.data() + 3 * u64{removal_list_entries};
    ref.listing.ranks = ranks_.data();
    ref.listing.above = listed_.data();
    ref.listing.reached = listed_.data() + listed_max;
    ref.listing.parents = listed_.data() + 2 * listed_max;
    ref.listing.frames = listed_.data() + 3 * listed_max;
    ref.listing.directories = directories_.data();
    ref.roots = roots_.data();
    ref.root_count = root_count_;
    ref.first_root = roots_.data()[0];
    ref.list_max = removal_list_entries;
    ref.workers = warps_;
    ref.now = now_;
    ref.sequence = ++sequence_;
    ref.report = report_.data();
    return ref;
}

/// Waits for the report of the last launch: polls for 2 ms, then waits for the stream.
Errc TreeRemoval::wait_for_report() {
    system_atomic<u64> sequence(report_.data()->sequence);
    const auto patience = Clock::now() + std::chrono::milliseconds(2);
    for (u32 look = 1; look % 64 != 0 || Clock::now() < patience; ++look) {
        // Acquire: pairs with the release in report_step().
        if (sequence.load(hd::memory_order_acquire) == sequence_) return Errc::ok;
    }
    return stream_.wait();
}

bool TreeRemoval::is_sound() const {
    if (stream_.wait() != Errc::ok) return false;
    if (report_.data()->is_open == 0 && report_.data()->hangs_nowhere == 0) return true;
    static_cast<void>(gpu::fail(Errc::io, "a step of a removal could not be ended"));
    return false;
}

Errc TreeRemoval::bring_wanted(BulkHost& host) {
    const u32 count = std::min(report_.data()->wanted_count, removal_list_entries);
    return bring_listed(stream_, lists_.data() + 2 * u64{removal_list_entries}, count, host);
}

/// Ends a step that could not end in its first kernel, because it needs a listing or missing
/// blocks, or leaves many directories.
Errc TreeRemoval::finish_step(const core::Store& store, BulkHost& host) {
    const RemovalReport& report = *report_.data();
    for (u32 damaged = 0; report.is_open != 0;) {
        const RemovalRef next = ref();
        if (report.is_narrow != 0) {
            WARREN_TRY(list_trees(store, next, stream_));
            RemovalBegin listed;
            listed.kind = RemovalBegin::Kind::nothing;
            WARREN_TRY(launch_step(store, next, listed, shape_, stream_));
        } else {
            // A block that cannot be loaded may belong to the tree and not be needed here; the
            // directory stays then. end_step() lists again the blocks that it needs itself.
            const Errc brought = or_no_memory([&] { return bring_wanted(host); });
            if (brought != Errc::ok && ++damaged == damaged_max) return brought;
            if (report.wants_frames != 0) WARREN_TRY(host.add_frames());
            WARREN_TRY(launch_end(store, next, stream_));
        }
        WARREN_TRY(wait_for_report());
    }
    return Errc::ok;
}

Errc TreeRemoval::run_step(const core::Store& store, const RemovalBegin& begin, BulkHost& host,
                           Removal& removal) {
    ++steps_;
    now_ = now_nanoseconds();
    WARREN_TRY(launch_step(store, ref(), begin, shape_, stream_));
    WARREN_TRY(wait_for_report());
    WARREN_TRY(finish_step(store, host));
    const RemovalReport& report = *report_.data();
    removal.files = report.files;
    removal.directories = report.directories;
    removal.blocks = report.blocks;
    return static_cast<Errc>(report.error);
}

/// Adds the directories that a step has left to pending_, for further steps.
Errc TreeRemoval::keep_unfinished(BulkHost& host, Removal& removal) {
    const u32 count = report_.data()->unfinished_count;
    if (count == 0) return Errc::ok;
    const u64 before = pending_.size();
    WARREN_TRY(or_no_memory([&] { pending_.resize(before + count); }));
    const std::span<u64> left = std::span(pending_).subspan(before);
    WARREN_TRY(stream_.copy(left.data(), lists_.data(), left.size_bytes()));
    WARREN_TRY(stream_.wait());
    WARREN_TRY(bring_wanted(host));
    for (u64& root : left) {
        const bool has_leftovers = (root & leftovers_only) != 0;
        root = ops::TreeTask{root & ~leftovers_only, 0}.number();
        if (!has_leftovers) continue;
        u64 files = 0;
        WARREN_TRY(host.remove_leftovers(root, files));
        removal.files += files;
    }
    static_cast<void>(host.rest());
    return Errc::ok;
}

/// Takes the roots of the next step: the newest in pending_, so that the orphan directory does not
/// grow with the tree.
void TreeRemoval::take_roots() {
    const u64 count = std::min<u64>(pending_.size(), report_.data()->roots_max);
    std::copy_n(pending_.end() - static_cast<std::ptrdiff_t>(count), count, roots_.data());
    pending_.resize(pending_.size() - count);
    root_count_ = static_cast<u32>(count);
}

/// Removes all that is left by commands instead of steps.
Errc TreeRemoval::remove_by_names(BulkHost& host, Removal& removal) {
    for (u32 i = 0; i < root_count_; ++i)
        WARREN_TRY(host.remove_by_names(roots_.data()[i], removal));
    for (const u64 root : pending_)
        WARREN_TRY(host.remove_by_names(root, removal));
    return Errc::ok;
}

/// Makes room for a step that found too little for the names that it may leave. Errc::no_space if
/// that is impossible.
Errc TreeRemoval::find_room(Errc lack, bool& has_committed, BulkHost& host) {
    if (lack == Errc::need_frame) {
        const Errc added = host.add_frames();
        if (added != Errc::need_space && added != Errc::no_memory) return added;
    }
    return std::exchange(has_committed, true) ? Errc::no_space : host.commit();
}

Errc TreeRemoval::run_steps(const core::Store& store, RemovalBegin& begin, BulkHost& host,
                            Removal& removal, ops::Removed& removed) {
    WARREN_TRY(ranks_.reserve(store.frame_count));
    u32 idle_steps = 0;
    u32 commits = 0;
    bool has_committed = false;  // for lack of room, and no step has run since
    for (u32 damaged = 0;;) {
        Removal step;
        const u32 roots = root_count_;
        const Errc code = run_step(store, begin, host, step);
        if (report_.data()->has_root != 0) {
            begin.kind = RemovalBegin::Kind::roots;
            removed = report_.data()->removed;
        }
        removal.files += step.files;
        removal.directories += step.directories;
        removal.blocks += step.blocks;
        commits = code == Errc::need_commit ? commits + 1 : 0;
        if (report_.data()->lacks_room != 0 || commits > ops::roomless_commits_max) {
            const Errc found = find_room(code, has_committed, host);
            if (found == Errc::ok) continue;
            if (found != Errc::no_space) return found;
            const bool is_named = begin.kind == RemovalBegin::Kind::name;
            return is_named ? Errc::not_supported : remove_by_names(host, removal);
        }
        has_committed = false;
        if (code == Errc::need_commit) {
            WARREN_TRY(host.commit());
        } else if (code == Errc::need_block) {
            WARREN_TRY(bring_wanted(host));
        } else if (code == Errc::ok) {
            WARREN_TRY(keep_unfinished(host, removal));
            take_roots();
            if (root_count_ == 0) return Errc::ok;
        } else if (code == Errc::corrupt && begin.kind == RemovalBegin::Kind::name) {
            if (++damaged == damaged_max) return code;
        } else if (code != Errc::retry) {
            return code;
        }
        const bool is_idle = code == Errc::ok && step.files + step.directories == 0 &&
                             report_.data()->wanted_count == 0 &&
                             report_.data()->unfinished_count <= roots;
        idle_steps = is_idle ? idle_steps + 1 : 0;
        // Commands tell of damage, if that is the reason.
        if (idle_steps == idle_steps_max) return remove_by_names(host, removal);
    }
}

Errc TreeRemoval::remove(const core::Store& store, u64 root, BulkHost& host, Removal& removal) {
    RemovalBegin begin;
    ops::Removed removed;
    pending_.clear();
    roots_.data()[0] = root;
    root_count_ = 1;
    return run_steps(store, begin, host, removal, removed);
}

Errc TreeRemoval::remove_name(const core::Store& store, const core::Credentials& caller,
                              Handle directory, std::string_view name, BulkHost& host,
                              Removal& removal, ops::Removed& removed) {
    RemovalBegin begin;
    begin.kind = RemovalBegin::Kind::name;
    begin.caller = caller;
    begin.caller.groups = nullptr;
    begin.caller.group_count = 0;
    begin.directory = directory;
    // A name that is too long is passed on with a length above the limit: the kernel refuses it
    // after it has checked the directory, in the same order as all other code.
    begin.name_length = static_cast<u32>(std::min<std::size_t>(name.size(), sizeof begin.name + 1));
    std::copy_n(name.begin(), std::min(name.size(), sizeof begin.name), begin.name);
    pending_.clear();
    root_count_ = 0;
    return run_steps(store, begin, host, removal, removed);
}

}  // namespace warren::cuda_engine
