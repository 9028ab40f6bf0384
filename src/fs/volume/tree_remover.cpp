// SPDX-License-Identifier: Apache-2.0
// A directory is one task: its files are freed at once, its subdirectories become tasks, and it is
// freed when its leaves are empty. The order does not matter within a step.
#include "fs/volume/tree_remover.hpp"

#include <thread>
#include <utility>

#include "base/out_of_memory.hpp"
#include "fs/ops/change_structure.hpp"
#include "fs/ops/remove_tree.hpp"

namespace warren {
namespace {

constexpr i64 step_nanoseconds = 100'000'000;  // so a commit waits for about this long at most
constexpr u32 idle_steps_max = 1000;           // steps in a row without obstacle or progress
// How many directories a worker may leave unfinished before it notices that the step is full.
constexpr u64 unfinished_by_worker = 8192;
constexpr u32 named_at_once = 1024;  // directories removed name by name if a step has no room
// A step uses a quarter of the journal: half of that until it is full, and an eighth of that for
// detached directories at its end. With the smallest journal it can still make progress.
static_assert(core::journal_room_min / 4 / 8 > 0);
static_assert(core::journal_room_min / 4 / 2 >= core::shared_frames_max);  // counts of a file

}  // namespace

/// The Step of TreeReclaimer; each task has its own.
class TreeRemover::Step {
 public:
    const ops::LaneRules rules;

    Step(TreeRemover& remover, ThreadPool::Worker& worker)
        : rules{remover.now_, remover.dirty_limit_, &remover.dropping_},
          remover_(remover),
          worker_(worker) {}

    bool is_full(const ThreadTeam& /*team*/) const { return remover_.step_is_full(); }
    const core::Store& near(const core::Store& store) const { return store; }
    bool is_listed(u64 /*number*/, u64 /*in*/) const { return false; }
    bool push(const ThreadTeam& /*team*/, bool mine, const ops::TreeTask& task) const {
        if (!mine) return true;
        const bool is_detached = task.kind() == ops::TreeTask::directory_kind;
        if (is_detached) remover_.detached_.fetch_add(1, std::memory_order_relaxed);
        const Errc pushed = or_no_memory([&] { worker_.push({task.subject, task.part}); });
        if (pushed != Errc::ok && is_detached) freed(task);
        return pushed == Errc::ok;
    }
    void set_aside(const ops::TreeTask& task, bool has_leftovers) const {
        const std::lock_guard lock(remover_.mutex_);
        remover_.unfinished_.push_back({task.number(), has_leftovers});  // memory was reserved
    }
    void freed(const ops::TreeTask& /*task*/) const {
        remover_.detached_.fetch_sub(1, std::memory_order_relaxed);
    }
    void emptied(const ops::TreeTask& task) const {
        const Errc ended = remover_.end_root(worker_.team(), task.number());
        if (ended == Errc::ok) {
            ++remover_.tallies_[worker_.index()].of.directories;
        } else {
            remover_.fail(ended);
        }
    }
    bool want(u64 place) const {
        const Errc loaded = remover_.volume_.loader().load(place);
        if (loaded != Errc::ok) remover_.fail(loaded);
        return loaded == Errc::ok;
    }
    void fail(Errc code) const { remover_.fail(code); }
    void pause() const { std::this_thread::yield(); }

 private:
    TreeRemover& remover_;
    ThreadPool::Worker& worker_;
};

/// As VolumeImplementation::run(), for parts of a bulk step, which cannot wait for a commit.
template <class Body>
auto TreeRemover::run_in_step(const ThreadTeam& team, const Body& body) {
    for (u32 damaged = 0;;) {
        CpuOperation op(team, volume_.store());
        op.barrier_is_held = true;
        auto result = body(op);
        const Errc code = code_of(result);
        const u64 place = op.needed_place;
        const u64 inode = op.needed_inode;
        const u64 key = op.needed_key;
        core::finish(op);
        if (code == Errc::retry) {
            std::this_thread::yield();
            continue;
        }
        if (code == Errc::need_block) {
            const Errc loaded = volume_.loader().load(place);
            // The block may have been reused since the operation read its address: retry first.
            const bool looks_again = loaded == Errc::corrupt && ++damaged < 4;
            if (loaded == Errc::ok || looks_again) continue;
            return decltype(result)(loaded);
        }
        if (code == Errc::need_space && orphan_room_.give_back()) continue;
        if (code != Errc::need_split && code != Errc::need_prune) return result;
        const Errc changed = change_in_step(team, code, inode, key);
        if (changed != Errc::ok) return decltype(result)(changed);
    }
}

/// Serves need_split and need_prune. Nothing recurses: change_structure() returns neither of them.
Errc TreeRemover::change_in_step(const ThreadTeam& team, Errc what, u64 inode, u64 key) {
    return run_in_step(team, [&](CpuOperation& op) {
        op.may_use_reserve = true;
        return ops::change_structure(op, what, inode, key);
    });
}

Errc TreeRemover::remove(u64 root, Removal& removal) {
    tallies_.assign(volume_.thread_pool().width(), {});
    rooted_ = {root};
    WARREN_TRY(volume_.count_freed(total_, [this] { return remove_in_steps(); }));
    removal.files += total_.files;
    removal.directories += total_.directories;
    removal.blocks += total_.blocks;
    return Errc::ok;
}

Errc TreeRemover::remove_in_steps() {
    u64 done = 0;
    for (u32 idle_steps = 0; !rooted_.empty();) {
        now_ = now_nanoseconds();
        Errc began = Errc::ok;
        Errc ended = Errc::ok;
        const auto step = [&](CpuOperation& entry) {
            const std::shared_lock lock(volume_.committer().steps());
            std::vector<Task> tasks;
            WARREN_TRY(begin_step(entry, tasks));
            // A step that has begun is never restarted, even if it fails, because its first
            // directory may have been freed.
            ended = run_step(std::move(tasks));
            core::check_step_credits(*volume_.store().state);
            entry.end_apply();
            return Errc::ok;
        };
        {
            // Take the thread pool before the freeze barrier: the thread that uses the pool may
            // wait for a commit, and a commit waits for threads that have passed the freeze
            // barrier.
            const auto turn = volume_.thread_pool().take_turn();
            began = volume_.run(step);
        }
        if (began == Errc::no_space) {
            WARREN_TRY(remove_some_by_names());
            continue;
        }
        WARREN_TRY(began);
        WARREN_TRY(ended);
        WARREN_TRY(prepare_next_step());
        if (volume_.must_stop_reclaiming()) return Errc::busy;
        const u64 done_before = std::exchange(done, total_.files + total_.directories);
        static_cast<void>(progress_.goes_on([&] { return done; }));
        idle_steps = done == done_before && !was_full_ ? idle_steps + 1 : 0;
        if (idle_steps < idle_steps_max) continue;
        WARREN_TRY(remove_some_by_names());  // which tells of damage, if that is the reason
        idle_steps = 0;
    }
    return Errc::ok;
}

/// If there is no room for what a step may leave unfinished, or steps free nothing: removes some of
/// the rest name by name, as rm(1) does, which may make room in the orphan directory.
Errc TreeRemover::remove_some_by_names() {
    roomless_commits_ = 0;
    while (orphan_room_.give_back()) {
    }
    for (u32 i = 0; i < named_at_once && !rooted_.empty(); ++i) {
        WARREN_TRY(volume_.remove_by_names(rooted_.back(), total_));
        rooted_.pop_back();
    }
    return Errc::ok;
}

/// Reserves what a bulk step needs, and passes the freeze barrier with `entry` for the whole step.
/// On an error, nothing has changed. Errc::no_space also if a commit cannot hold what a step may
/// dirty, or if other operations have used up the journal after each of several commits in a row.
Errc TreeRemover::begin_step(CpuOperation& entry, std::vector<Task>& tasks) {
    core::StoreState& state = *volume_.store().state;
    const u64 room = relaxed_load(state.journal_room);
    const u64 share = room / 4;
    // Directories that are detached at the end need leaves of the orphan directory, which are at
    // least half full. An entry may go to any existing leaf, and split it.
    detached_max_ = share / 8 * (format::leaf_entries_max / 2);
    const Result<ops::InodeRef> orphans = ops::find_inode(entry, volume_.store().orphan_directory);
    if (!orphans) return orphans.code() == Errc::stale ? Errc::corrupt : orphans.code();
    const u64 old_blocks = relaxed_load(orphans->at->blocks);
    const u64 credits = share + 2 * old_blocks +
                        ops::dirtied_when_full(volume_.store(), volume_.thread_pool().width());
    if (credits > ops::most_credits(room)) return Errc::no_space;
    orphan_room_.note_old_blocks(old_blocks);
    WARREN_TRY(orphan_room_.hold(detached_between_looks()));
    WARREN_TRY(or_no_memory([&] {
        unfinished_.reserve(rooted_.size() + detached_max_ +
                            unfinished_by_worker * volume_.thread_pool().width());
        for (const u64 directory : rooted_)
            tasks.push_back({ops::TreeTask::directory(directory, true).subject, 0});
    }));
    const Errc passed = entry.begin_apply({static_cast<u32>(credits), nullptr});
    if (passed == Errc::need_commit && ++roomless_commits_ > ops::roomless_commits_max) {
        return Errc::no_space;
    }
    WARREN_TRY(passed);
    roomless_commits_ = 0;
    dirty_limit_ = relaxed_load(state.dirty_blocks) + share / 2;
    dropping_ = 0;
    deadline_ = now_nanoseconds() + step_nanoseconds;
    detached_ = 0;
    detached_limit_ = 0;
    was_full_ = false;
    return Errc::ok;
}

/// Runs a bulk step: the thread pool processes the directories in rooted_ and everything below them
/// until all is done or the step is full.
Errc TreeRemover::run_step(std::vector<Task> tasks) {
    const Errc ran = or_no_memory([&] {
        volume_.thread_pool().run_in_turn(
            std::move(tasks),
            [this](ThreadPool::Worker& worker, const Task& task) { visit(worker, task); });
    });
    count_step(*volume_.store().state);
    const Errc adopted = adopt_unfinished();
    const Errc ended = ran != Errc::ok ? ran : adopted;
    // Some inode may be unreachable now, so no commit may contain this state.
    if (ended != Errc::ok) volume_.committer().forbid(ended);
    const Errc error = error_;
    return ended != Errc::ok ? ended : error;
}

void TreeRemover::visit(ThreadPool::Worker& worker, const Task& task) {
    Step step(*this, worker);
    ops::TreeReclaimer<ThreadTeam, Step> reclaimer(worker.team(), volume_.store(), step);
    reclaimer.visit({task.subject, task.place});
    ops::FreeTally& tally = tallies_[worker.index()].of;
    tally.files += reclaimer.tally.files;
    tally.directories += reclaimer.tally.directories;
    tally.inodes += reclaimer.tally.inodes;
    tally.blocks += reclaimer.tally.blocks;
}

/// Adds up what the workers have freed.
void TreeRemover::count_step(core::StoreState& state) {
    u64 inodes = 0;
    u64 blocks = 0;
    for (Tally& tally : tallies_) {
        const ops::FreeTally freed = std::exchange(tally.of, {});
        total_.files += freed.files;
        total_.directories += freed.directories;
        inodes += freed.inodes;
        blocks += freed.blocks;
    }
    device_atomic<u64>(state.inodes_used).fetch_sub(inodes, hd::memory_order_relaxed);
    device_atomic<u64>(state.blocks_used).fetch_sub(blocks, hd::memory_order_relaxed);
}

bool TreeRemover::step_is_full() {
    const bool is_full = error_.load(std::memory_order_relaxed) != Errc::ok || !may_detach_more() ||
                         relaxed_load(volume_.store().state->dirty_blocks) >= dirty_limit_ ||
                         now_nanoseconds() > deadline_;
    if (is_full) was_full_.store(true, std::memory_order_relaxed);
    return is_full;
}

/// How many directories all workers may detach between two checks of the limit.
u64 TreeRemover::detached_between_looks() const {
    return u64{format::leaf_entries_max} * volume_.thread_pool().width();
}

/// Whether more directories may be detached. Tries to reserve blocks for them in the orphan
/// directory.
bool TreeRemover::may_detach_more() {
    const u64 detached = detached_.load(std::memory_order_relaxed);
    if (detached <= detached_limit_.load(std::memory_order_relaxed)) return true;
    if (detached > detached_max_) return false;
    const u64 ahead = detached_between_looks();
    static_cast<void>(orphan_room_.hold(detached + 2 * ahead));
    const u64 names = orphan_room_.names();
    const u64 limit = names > ahead ? names - ahead : 0;
    detached_limit_.store(limit, std::memory_order_relaxed);
    return detached <= limit;
}

void TreeRemover::fail(Errc code) {
    // A step cannot serve a retry reason, so one counts as a lack of memory.
    error_.store(is_final(code) ? code : Errc::no_memory);
}

/// Frees an empty directory that is in the orphan directory.
Errc TreeRemover::end_root(const ThreadTeam& team, u64 directory) {
    const Result<ops::Removed> removed =
        run_in_step(team, [&](CpuOperation& op) { return ops::end_emptied(op, directory, now_); });
    if (!removed) return removed.code();
    if (removed->prune_inode == 0) return Errc::ok;
    return change_in_step(team, Errc::need_prune, removed->prune_inode, removed->prune_key);
}

/// Links every unfinished directory to the orphan directory, before the step ends. Returns the
/// first error, never a retry reason.
Errc TreeRemover::adopt_unfinished() {
    Errc error = Errc::ok;
    for (const Unfinished& one : unfinished_) {
        const Errc adopted = run_in_step(ThreadTeam{}, [&](CpuOperation& op) {
            return ops::adopt_orphan(op, one.directory, now_);
        });
        if (error == Errc::ok) error = adopted;
    }
    return is_final(error) ? error : Errc::no_space;
}

/// Between steps: removes the files that need operations of their own. The next step begins with
/// the unfinished directories.
Errc TreeRemover::prepare_next_step() {
    rooted_.clear();
    for (const Unfinished& one : std::exchange(unfinished_, {})) {
        rooted_.push_back(one.directory);
        if (one.has_leftovers) WARREN_TRY(volume_.remove_leftovers(one.directory, total_.files));
    }
    return Errc::ok;
}

}  // namespace warren
