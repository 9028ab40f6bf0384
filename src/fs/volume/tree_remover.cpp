// SPDX-License-Identifier: Apache-2.0
// A directory is one task: its files are freed on the spot, its directories become tasks, and it
// goes itself when its leaves are empty. Order does not matter within a step.
#include "fs/volume/tree_remover.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "fs/ops/change_structure.hpp"
#include "fs/volume/part_tree.hpp"

namespace warren {
namespace {

constexpr i64 step_nanoseconds = 100'000'000;  // a commit waits no longer than about this
constexpr u32 idle_steps_max = 1000;           // others can take a step's time or journal room

}  // namespace

/// As VolumeImplementation::run(), for parts of a bulk step: no commit can be waited for.
template <class Body>
auto TreeRemover::run_in_step(const ThreadTeam& team, const Body& body) {
    for (u32 damaged = 0;;) {
        CpuOperation op(team, volume_.store());
        op.gate_is_held = true;
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
            // The place may have changed hands since the operation read it: look again first.
            const bool looks_again = loaded == Errc::corrupt && ++damaged < 4;
            if (loaded == Errc::ok || looks_again) continue;
            return decltype(result)(loaded);
        }
        if (code != Errc::need_split && code != Errc::need_prune) return result;
        for (Errc changed = Errc::retry; changed != Errc::ok;) {
            CpuOperation inner(team, volume_.store());
            inner.gate_is_held = true;
            inner.may_use_reserve = true;
            changed = ops::change_structure(inner, code, inode, key);
            const u64 missing = inner.needed_place;
            core::finish(inner);
            if (changed == Errc::need_block) changed = volume_.loader().load(missing);
            if (changed == Errc::ok && code == Errc::need_prune) break;
            if (changed != Errc::ok && changed != Errc::retry) {
                return decltype(result)(changed);
            }
        }
    }
}

Errc TreeRemover::remove(u64 root, Removal& removal) {
    tallies_.assign(volume_.crew().width(), {});
    rooted_ = {root};
    const u64 blocks_before = relaxed_load(volume_.store().state->blocks_used);
    u64 done = 0;
    for (u32 idle_steps = 0; !rooted_.empty();) {
        now_ = now_nanoseconds();
        {
            // The crew comes before the gate: those that have it may wait for a commit, and a
            // commit waits for those that have passed the gate.
            const auto turn = volume_.crew().take_turn();
            WARREN_TRY(volume_.run([&](CpuOperation& gate) { return run_step(gate); }));
        }
        WARREN_TRY(prepare_next_step());
        const u64 done_before = std::exchange(done, count_done());
        idle_steps = done == done_before ? idle_steps + 1 : 0;
        // A directory counts names that are nowhere to be found.
        if (idle_steps == idle_steps_max) return Errc::corrupt;
    }
    for (const Tally& tally : tallies_) {
        removal.files += tally.harvest.files;
        removal.directories += tally.directories;
    }
    const u64 blocks_after = relaxed_load(volume_.store().state->blocks_used);
    removal.blocks += blocks_before > blocks_after ? blocks_before - blocks_after : 0;
    return Errc::ok;
}

/// How many names and directories have gone so far.
u64 TreeRemover::count_done() const {
    u64 count = 0;
    for (const Tally& tally : tallies_)
        count += tally.harvest.files + tally.directories;
    return count;
}

/// One bulk step: the crew works through the rooted directories and what they hold until all is
/// done or the step has dirtied its share of the journal. `gate` passes the gate for all of it.
Errc TreeRemover::run_step(CpuOperation& gate) {
    core::StoreState& state = *volume_.store().state;
    const u64 share = relaxed_load(state.journal_room) / 4;
    WARREN_TRY(gate.begin_apply(static_cast<u32>(share)));
    dirty_limit_ = relaxed_load(state.dirty_blocks) + share / 2;
    deadline_ = now_nanoseconds() + step_nanoseconds;
    // What is loose at the end costs leaves of the orphan directory, at least half full.
    loose_limit_ = share / 8 * (format::leaf_entries_max / 2);
    loose_ = 0;
    std::vector<Task> tasks;
    for (const u64 directory : rooted_)
        tasks.push_back({directory, 0, nullptr});
    volume_.crew().run_in_turn(std::move(tasks), [this](Crew::Worker& worker, const Task& task) {
        if (task.context != nullptr) {
            visit_range(worker, std::unique_ptr<Range>(static_cast<Range*>(task.context)));
        } else {
            visit(worker, task.subject);
        }
    });
    u64 freed = 0;
    for (Tally& tally : tallies_) {
        freed += tally.harvest.inodes;
        tally.harvest.inodes = 0;
    }
    device_atomic<u64>(state.inodes_used).fetch_sub(freed, hd::memory_order_relaxed);
    const Errc adopted = adopt_unfinished();
    gate.end_apply();
    const Errc error = error_;
    return error != Errc::ok ? error : adopted;
}

bool TreeRemover::step_is_full() const {
    return loose_.load(std::memory_order_relaxed) > loose_limit_ ||
           relaxed_load(volume_.store().state->dirty_blocks) >= dirty_limit_ ||
           now_nanoseconds() > deadline_;
}

void TreeRemover::set_aside(u64 directory, bool needs_commit) {
    std::lock_guard lock(mutex_);
    unfinished_.push_back(directory);
    needs_commit_ = needs_commit_ || needs_commit;
}

/// Sets aside a directory that this step has taken names from.
void TreeRemover::set_aside_changed(const ThreadTeam& team, u64 directory, bool needs_commit) {
    const Errc kept =
        run_in_step(team, [&](CpuOperation& op) { return ops::keep_directory(op, directory); });
    if (kept != Errc::ok) fail(kept);
    set_aside(directory, needs_commit);
}

void TreeRemover::fail(Errc code) {
    // A wish that a step cannot grant: the meta buffer has no room for what the step needs.
    error_.store(is_final(code) ? code : Errc::no_memory);
}

void TreeRemover::visit(Crew::Worker& worker, u64 directory) {
    if (error_ != Errc::ok || step_is_full()) return set_aside(directory);
    const Errc dying = run_in_step(
        worker.team(), [&](CpuOperation& op) { return ops::start_dying(op, directory); });
    if (dying != Errc::ok) {
        set_aside(directory);
        return fail(dying);
    }
    if (share(worker, directory)) return;
    if (harvest(worker, directory, 0, core::key_end)) finish_directory(worker, directory);
}

/// Cuts a large directory into ranges of keys, one task each. False if it is not large.
bool TreeRemover::share(Crew::Worker& worker, u64 directory) {
    const Result<std::vector<u64>> begins =
        run_in_step(worker.team(), [&](CpuOperation& op) -> Result<std::vector<u64>> {
            const Result<core::InodeRef> inode = core::find_inode(op, directory);
            if (!inode) return inode.code();
            return part_tree(op, *inode);
        });
    if (!begins || begins->size() < 2) return false;
    auto shared = std::make_shared<Shared>();
    shared->directory = directory;
    shared->ranges_left = begins->size();
    for (std::size_t i = 0; i < begins->size(); ++i) {
        const u64 end = i + 1 < begins->size() ? (*begins)[i + 1] : core::key_end;
        auto range = std::make_unique<Range>(Range{shared, (*begins)[i], end});
        worker.push({directory, 0, range.release()});
    }
    return true;
}

void TreeRemover::visit_range(Crew::Worker& worker, std::unique_ptr<Range> range) {
    if (error_ == Errc::ok) {
        harvest(worker, range->of->directory, range->begin, range->end);
    } else {
        set_aside(range->of->directory);
    }
    // Acquire and release: the last range sees the work of all others.
    if (range->of->ranges_left.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        finish_directory(worker, range->of->directory);
    }
}

/// Empties the leaves of a range. False if something is left; then the directory is set aside.
bool TreeRemover::harvest(Crew::Worker& worker, u64 directory, u64 begin, u64 end) {
    ops::Harvest& tally = tallies_[worker.index()].harvest;
    const auto push = [&](u64 child) {
        loose_.fetch_add(1, std::memory_order_relaxed);
        worker.push({child, 0, nullptr});
    };
    for (u32 damaged = 0;;) {
        CpuOperation op(worker.team(), volume_.store());
        op.gate_is_held = true;
        tally.left_over = 0;
        Errc code = ops::harvest_range(
            op, directory, begin, end, now_, push, [this] { return step_is_full(); }, tally);
        const u64 place = op.needed_place;
        core::finish(op);
        if (code == Errc::retry) {
            std::this_thread::yield();
            continue;
        }
        if (code == Errc::ok && tally.left_over == 0) return true;
        if (code == Errc::need_block) {
            code = volume_.loader().load(place);
            if (code == Errc::ok) continue;
        }
        // As for every operation: what cannot be right is looked at again.
        if (code == Errc::corrupt && ++damaged < 4) continue;
        set_aside_changed(worker.team(), directory, code == Errc::need_commit);
        if (is_final(code) && code != Errc::ok && code != Errc::canceled) fail(code);
        return false;
    }
}

void TreeRemover::finish_directory(Crew::Worker& worker, u64 directory) {
    Errc freed = Errc::retry;
    while (freed == Errc::retry) {
        freed = run_in_step(worker.team(),
                            [&](CpuOperation& op) { return ops::free_directory(op, directory); });
    }
    if (freed == Errc::ok) {
        if (!is_rooted(directory)) loose_.fetch_sub(1, std::memory_order_relaxed);
        ++tallies_[worker.index()].directories;
        ++tallies_[worker.index()].harvest.inodes;
        const Errc dropped = drop_root(worker.team(), directory);
        if (dropped != Errc::ok) fail(dropped);
        return;
    }
    set_aside_changed(worker.team(), directory, freed == Errc::need_commit);
    if (freed != Errc::not_empty && freed != Errc::need_commit) fail(freed);
}

/// A freed directory that hung on the orphan directory loses its name there in the same step.
Errc TreeRemover::drop_root(const ThreadTeam& team, u64 directory) {
    if (!is_rooted(directory)) return Errc::ok;
    const Result<ops::Removed> removed =
        run_in_step(team, [&](CpuOperation& op) { return ops::drop_orphan(op, directory, now_); });
    if (!removed) return removed.code();
    if (removed->prune_inode == 0) return Errc::ok;
    return run_in_step(team, [&](CpuOperation& op) {
        return ops::change_structure(op, Errc::need_prune, removed->prune_inode,
                                     removed->prune_key);
    });
}

bool TreeRemover::is_rooted(u64 directory) const {
    return std::binary_search(rooted_.begin(), rooted_.end(), directory);
}

/// Before the step ends, every unfinished directory must hang on the orphan directory.
Errc TreeRemover::adopt_unfinished() {
    std::sort(unfinished_.begin(), unfinished_.end());
    unfinished_.erase(std::unique(unfinished_.begin(), unfinished_.end()), unfinished_.end());
    for (const u64 directory : unfinished_) {
        if (is_rooted(directory)) continue;
        WARREN_TRY(run_in_step(ThreadTeam{}, [&](CpuOperation& op) {
            return ops::adopt_orphan(op, directory, now_);
        }));
    }
    return Errc::ok;
}

/// Between steps: makes room in the meta buffer if that was short, and removes what needs
/// operations of its own. The next step starts with what is unfinished.
Errc TreeRemover::prepare_next_step() {
    rooted_ = std::exchange(unfinished_, {});
    if (std::exchange(needs_commit_, false)) WARREN_TRY(volume_.commit());
    for (const u64 directory : rooted_)
        WARREN_TRY(remove_leftovers(directory));
    return Errc::ok;
}

/// Unlinks the names of a dying directory that a step cannot free: open or very large files.
Errc TreeRemover::remove_leftovers(u64 directory) {
    const Result<Handle> handle =
        volume_.run([&](CpuOperation& op) { return ops::handle_of(op, directory); });
    if (!handle) return handle.code();
    const core::Credentials anybody{.check = false};
    auto leaf = std::make_unique<format::DirectoryLeaf>();
    for (u64 key = 0; key != core::key_end;) {
        const Result<u64> next =
            volume_.run([&](CpuOperation& op) { return ops::read_leaf(op, *handle, key, *leaf); });
        if (!next) return next.code();
        key = *next;
        for (const format::DirectorySlot& slot : leaf->slots) {
            if (slot.inode() == 0 || slot.type() == format::entry_type(format::type_directory)) {
                continue;
            }
            const char* name = reinterpret_cast<const char*>(leaf->heap) + slot.name_offset();
            const Result<bool> special = volume_.run(
                [&](CpuOperation& op) { return ops::needs_own_operation(op, slot.inode()); });
            if (special && !*special) continue;
            const Result<ops::Removed> removed = volume_.run([&](CpuOperation& op) {
                return ops::unlink(op, anybody, *handle, name, slot.name_length(), false, now_);
            });
            if (removed) {
                ++tallies_[0].harvest.files;
                WARREN_TRY(volume_.settle(*removed));
            } else if (removed.code() != Errc::no_entry) {
                return removed.code();
            }
        }
    }
    return Errc::ok;
}

}  // namespace warren
