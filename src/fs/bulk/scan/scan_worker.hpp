// SPDX-License-Identifier: Apache-2.0
// A worker of a scan: reads the leaf that covers the first of its keys, offers the rest of its keys
// to other workers, and reads the inodes of a leaf by all lanes at once.
//
// `Tasks` queues tasks for other workers (BulkQueue, or the queues of a thread pool). `Way` reads a
// directory and its inodes (resident_way.hpp, or volume/command_way.hpp if blocks can be evicted).
// `Teller` receives the results: the output that a GPU writes (scan_output.hpp), or the caller's
// visitor (volume/host_scan.cpp).
//
// Invariant: the entries of a leaf are reported after all versions on its path are confirmed, and
// only if there is room for all of them; so no entry is reported twice, and no leaf in part.
#pragma once

#include "fs/bulk/scan/resident_way.hpp"
#include "fs/bulk/scan/scan_work.hpp"

namespace warren::bulk {

template <class Team, class Tasks, class Way, class Teller>
class ScanWorker {
 public:
    WARREN_HD ScanWorker(const Team& team, const ScanPlan& plan, const ScanRef& ref,
                         const Tasks& tasks, const Way& way, const Teller& teller)
        : team_(team), plan_(plan), ref_(ref), tasks_(tasks), way_(way), teller_(teller) {}

    /// Runs tasks until all work is done, together with other workers. Collective, like all members
    /// that do not say "one lane".
    WARREN_HD void work() {
        ops::TreeTask task;
        while (tasks_.pop(team_, task)) {
            visit(task);
            tasks_.finish(team_);
        }
    }

    /// Runs one task.
    WARREN_HD void visit(const ops::TreeTask& task) {
        if (!begin(task)) return;
        for (u32 attempt = 0;; ++attempt) {
            const Errc code = list(task);
            if (code == Errc::retry && attempt < attempts_max) {
                once(team_, [&] { pause_briefly(); });
                continue;
            }
            return end(task, code);
        }
    }

 private:
    static constexpr u32 attempts_max = 4096;  // then the task is left to the next run
    static constexpr u32 none = ~u32{0};

    /// The current task.
    struct Task {
        ScanDirectory directory;
        u64 root;  // inode number of the scan's root directory
        KeyRange keys;
        bool is_over;  // an error has ended the scan
    };

    WARREN_HD bool begin(const ops::TreeTask& task) {
        task_ = once(team_, [&] {
            const ScanDirectory& at = ref_.directories[ScanTask::directory(task)];
            const KeyRange& keys = ScanTask::keys(ref_, task);
            Task copy{};
            copy.directory.number = relaxed_load(at.number);
            copy.directory.generation = relaxed_load(at.generation);
            copy.directory.depth = relaxed_load(at.depth);
            copy.directory.sum = relaxed_load(at.sum);
            copy.directory.is_allowed = relaxed_load(at.is_allowed);
            copy.root = relaxed_load(ref_.directories[0].number);
            copy.keys = {relaxed_load(keys.from), relaxed_load(keys.end)};
            copy.is_over = relaxed_load(ref_.state->error) != 0;
            return copy;
        });
        return !task_.is_over;
    }

    WARREN_HD void end(const ops::TreeTask& task, Errc code) {
        if (code == Errc::ok || code == Errc::stale || code == Errc::no_entry) return;
        once(team_, [&] {
            const bool is_damaged = code == Errc::corrupt;
            if (is_damaged) {
                relaxed_add(ref_.state->damaged_count, 1);
            }
            // The block may have been reused meanwhile, so the task is retried; the host limits how
            // often.
            const bool is_for_later = is_damaged || !is_final(code);
            if (!is_for_later) return fail_scan(ref_, code);
            KeyRange& keys = ScanTask::keys(ref_, task);
            relaxed_store(keys.from, task_.keys.from);
            relaxed_store(keys.end, task_.keys.end);
            spill_scan(ref_, task);
        });
    }

    /// Lists the rest of the task's keys.
    WARREN_HD Errc list(const ops::TreeTask& task) {
        const auto give = [&](const auto& way, const ScanPairs<Team>& array, u32 index) {
            if (!has_more(array, index)) return Errc::ok;
            const Errc code = way.confirm();
            if (code == Errc::ok) share(task, array, index);
            return code;
        };
        while (task_.keys.from < task_.keys.end) {
            // The first names are listed even if the teller is full: otherwise the scan would make
            // no progress.
            const bool may_wait = task_.keys.from != 0 || task_.directory.depth != 0;
            if (may_wait && teller_.is_full()) return Errc::need_space;
            u64 upper = core::key_end;
            WARREN_TRY(way_.go_down(handle(), task_.keys.from, upper, give));
            WARREN_TRY(list_leaf(task));
            if (upper >= task_.keys.end) return Errc::ok;
            task_.keys.from = upper;
        }
        return Errc::ok;
    }

    WARREN_HD Handle handle() const { return {task_.directory.number, task_.directory.generation}; }

    /// Offers the keys of the task after pair `index` of an array to other workers. A warp makes a
    /// task of each child; a thread offers half of the rest for as long as others have little to
    /// do. It proceeds from the end, so that the keys that do not fit in the queue stay contiguous.
    WARREN_HD void share(const ops::TreeTask& task, const ScanPairs<Team>& array, u32 index) {
        const u32 last = core::search_keys(team_, array.count, task_.keys.end - 1,
                                           [&](u32 i) { return array.key(i); });
        u32 end = last + 1;
        while (end > index + 1 && tasks_.wants_more()) {
            u32 begin = end - (index + 1) > Team::width ? end - Team::width : index + 1;
            u32 count = end - begin;
            if constexpr (Team::width == 1) {
                begin = index + 1 + (end - (index + 1)) / 2;
                count = 1;
            }
            const u64 from = array.key(begin);
            // For a thread, the pair may have changed since it was read.
            if (from <= task_.keys.from || from >= task_.keys.end) break;
            const u64 first =
                once(team_, [&] { return u64{relaxed_add(ref_.state->range_count, count)}; });
            if (first + count > ref_.range_max) break;
            const u32 mine = begin + team_.lane();
            const bool has = team_.lane() < count;
            const u64 range = first + team_.lane();
            if (has) {
                relaxed_store(ref_.ranges[range].from, mine == begin ? from : array.key(mine));
                relaxed_store(ref_.ranges[range].end,
                              team_.lane() + 1 < count ? array.key(mine + 1) : task_.keys.end);
            }
            const u32 directory = ScanTask::directory(task);
            if (!tasks_.push(team_, has, ScanTask::make(directory, range))) break;
            task_.keys.end = from;
            end = begin;
        }
    }
    WARREN_HD bool has_more(const ScanPairs<Team>& array, u32 index) const {
        return array.key(index + 1) < task_.keys.end && tasks_.wants_more();
    }

    // ---- a leaf

    WARREN_HD Errc check_caller(const ops::TreeTask& task) {
        if (plan_.caller.is_privileged() || task_.directory.is_allowed != 0) {
            return Errc::ok;
        }
        WARREN_TRY(way_.check_caller(plan_.caller, plan_.permission));
        task_.directory.is_allowed = 1;
        once(team_,
             [&] { relaxed_store(ref_.directories[ScanTask::directory(task)].is_allowed, 1); });
        return Errc::ok;
    }

    /// Errc::ok if there is room for the largest leaf, in addition to those of all other workers.
    WARREN_HD Errc take_room() const {
        return once(team_, [&] {
            const u64 directories = relaxed_load(ref_.state->directory_count);
            const u64 most = directories + ref_.workers * format::leaf_entries_max;
            return most <= ref_.directory_max && teller_.has_room() ? Errc::ok : Errc::need_space;
        });
    }

    WARREN_HD Errc list_leaf(const ops::TreeTask& task) {
        const format::DirectoryLeaf& leaf = way_.leaf();
        const bool checks_whole = plan_.tree_check == core::TreeCheck::whole;
        if constexpr (Way::lists) way_.add_path(ref_.masks);
        // An empty directory needs no permission, because there is nothing to list or to remove.
        if (leaf.count == 0 && !checks_whole) return Errc::ok;
        WARREN_TRY(check_caller(task));
        if (checks_whole && way_.must_own_entries(plan_.caller)) return Errc::not_permitted;
        if (leaf.count == 0) return Errc::ok;
        WARREN_TRY(take_room());
        LaneSlots<Team> slots;
        for (u32 round = 0; round < slots.rounds; ++round) {
            if (needs_inode(leaf, round * Team::width + team_.lane())) slots.add(round);
        }
        // All blocks are loaded first, so that the leaf is reported as a whole.
        WARREN_TRY(way_.bring_inodes(slots));
        ScanSum sum{};
        ScanFound found;
        for (u32 r = slots.next(0); r < slots.rounds; r = slots.next(r + 1)) {
            found.forget();
            look_at(r * Team::width + team_.lane(), slots.has(r), found);
            if (plan_.purpose == ScanPurpose::measure) add(found, sum);
            tell(task, found);
            descend();
        }
        if (plan_.purpose == ScanPurpose::measure) add_sum(task_.directory.sum, sum);
        teller_.note_listed(leaf.count);
        return Errc::ok;
    }

    /// Whether the inode of the entry in this slot of the leaf must be read.
    WARREN_HD bool needs_inode(const format::DirectoryLeaf& leaf, u32 index) const {
        if (index >= format::leaf_entries_max) return false;
        const format::DirectorySlot slot = leaf.slots[index];
        if (slot.inode() == 0 || !is_of_use(leaf, slot)) return false;
        const u64 key = format::entry_key(leaf.hashes[index], slot);
        return key >= task_.keys.from && key < task_.keys.end;
    }
    WARREN_HD bool is_of_use(const format::DirectoryLeaf& leaf, format::DirectorySlot slot) const {
        if (slot.type() == format::directory_entry) return true;
        if (Way::lists || plan_.purpose == ScanPurpose::measure) return true;
        if (plan_.purpose == ScanPurpose::removal) return way_.must_own_entries(plan_.caller);
        if (slot.name_offset() + slot.name_length() > format::leaf_heap_bytes) return true;
        const char* heap = reinterpret_cast<const char*>(leaf.heap);
        return plan_.files.wants_name(heap + slot.name_offset(), slot.name_length(), slot.type());
    }

    /// If `looks`, reads the entry in slot `index`. Each lane has its own slot.
    WARREN_HD void look_at(u32 index, bool looks, ScanFound& found) {
        const bool whole = plan_.purpose == ScanPurpose::visit;
        if (looks) {
            const format::DirectorySlot slot = way_.leaf().slots[index];
            found.name_offset = slot.name_offset();
            found.name_length = slot.name_length();
            found.code = way_.read_inode(index, whole, found.attributes);
        }
        while (team_.ballot(found.code == Errc::retry) != 0) {
            if (found.code != Errc::retry) continue;
            pause_briefly();
            found.code = way_.read_inode(index, whole, found.attributes);
        }
        const bool is_gone = found.code == Errc::stale;
        if (!looks || (is_gone && !Way::lists)) return;
        if (found.code != Errc::ok) {
            // In an image that nobody changes no inode can be gone.
            fail_scan(ref_, is_gone ? Errc::corrupt : found.code);
            return;
        }
        const Attributes& attributes = found.attributes;
        found.is_directory = format::is_directory(attributes.mode);
        if (found.name_offset % 8 != 0 ||
            found.name_offset + core::padded(found.name_length) > format::leaf_heap_bytes) {
            fail_scan(ref_, Errc::corrupt);
        } else if (found.is_directory && is_stray(attributes)) {
            // It was moved meanwhile and is found elsewhere, or the volume is damaged.
            const Errc code = way_.explain_stray(index, attributes.handle, task_.root);
            if (code != Errc::ok) fail_scan(ref_, code);
            found = {};
        } else if constexpr (Way::lists) {
            const Errc code = way_.add_entry(ref_.masks, index);
            if (code != Errc::ok) fail_scan(ref_, code);
        } else if (plan_.purpose == ScanPurpose::visit) {
            found.is_told =
                found.is_directory || plan_.files.wants_file(attributes.size, attributes.modified);
        } else if (plan_.purpose == ScanPurpose::measure) {
            found.is_told = found.is_directory && task_.directory.depth < plan_.sums_depth;
        } else if (way_.must_own_entries(plan_.caller) && !plan_.caller.owns(attributes.user)) {
            fail_scan(ref_, Errc::not_permitted);
        }
    }

    /// Whether a directory names another parent, or is the root of the scan: to descend into it
    /// might not terminate.
    WARREN_HD bool is_stray(const Attributes& directory) const {
        return directory.parent != task_.directory.number || directory.handle.inode == task_.root;
    }

    /// Adds an entry to the sum of its parent directory. A directory with a sum of its own is
    /// counted there instead. One lane.
    WARREN_HD void add(const ScanFound& found, ScanSum& sum) const {
        const Attributes& attributes = found.attributes;
        if (attributes.handle.inode == 0 || found.code != Errc::ok || found.is_told) return;
        ++sum.entries;
        if (!found.is_directory && attributes.links > 1 && !plan_.counts_links) {
            const u64 number = attributes.handle.inode;
            const bool is_noted = number / format::inodes_per_frame < ref_.linked_frames;
            if (is_noted && !core::set_bit(ref_.linked, number)) return;
        }
        sum.blocks += attributes.blocks;
        sum.bytes += ops::counted_bytes(attributes.mode, attributes.size);
    }

    WARREN_HD void add_sum(u32 index, const ScanSum& mine) const {
        const ScanSum all = sum_lanes(team_, mine).all;
        if (all.entries == 0) return;
        once(team_, [&] {
            ScanSum& sum = ref_.sums[index];
            relaxed_add(sum.entries, all.entries);
            relaxed_add(sum.blocks, all.blocks);
            relaxed_add(sum.bytes, all.bytes);
        });
    }

    /// Reports the entries that the lanes have found, and numbers the directories to descend into.
    WARREN_HD void tell(const ops::TreeTask& task, const ScanFound& found) {
        const bool is_visit = plan_.purpose == ScanPurpose::visit;
        bool is_numbered = found.is_directory && task_.directory.depth + 1 < plan_.files.depth_max;
        if (is_visit && found.is_told && !teller_.visit(handle(), depth(), way_.leaf(), found)) {
            is_numbered = false;
        }
        met_ = none;
        const u32 directories = team_.ballot(is_numbered);
        if (directories != 0) {
            const u32 count = static_cast<u32>(hd::popcount(directories));
            const u32 first = reserve(ref_.state->directory_count, count);
            if (is_numbered) met_ = first + rank_in(team_, directories);
        }
        u32 sum = task_.directory.sum;
        const u32 told = team_.ballot(found.is_told);
        if (told != 0 && plan_.purpose == ScanPurpose::measure) {
            const u32 count = static_cast<u32>(hd::popcount(told));
            const u32 first = reserve(ref_.state->sum_count, count);
            if (found.is_told) sum = first + rank_in(team_, told);
        }
        if (met_ != none) write_directory(found, sum);
        if (told == 0) return;
        teller_.write(is_visit ? ScanTask::directory(task) : task_.directory.sum, depth(),
                      way_.leaf(), found, told, is_visit ? met_ : sum);
    }

    WARREN_HD u32 depth() const { return task_.directory.depth + 1; }

    WARREN_HD u32 reserve(u32& counter, u32 count) const {
        return once(team_, [&] { return relaxed_add(counter, count); });
    }

    /// One lane.
    WARREN_HD void write_directory(const ScanFound& found, u32 sum) const {
        ScanDirectory& at = ref_.directories[met_];
        relaxed_store(at.number, found.attributes.handle.inode);
        relaxed_store(at.generation, found.attributes.handle.generation);
        relaxed_store(at.depth, task_.directory.depth + 1);
        relaxed_store(at.sum, sum);
        relaxed_store(at.is_allowed, 0);
        relaxed_store(at.keys.from, 0);
        relaxed_store(at.keys.end, core::key_end);
        if (!found.is_told || plan_.purpose != ScanPurpose::measure) return;
        const Attributes& attributes = found.attributes;
        ref_.sums[sum] = {1, attributes.blocks, attributes.size};
    }

    /// Makes tasks of the directories that were numbered.
    WARREN_HD void descend() {
        const bool is_numbered = met_ != none;
        if (team_.ballot(is_numbered) == 0) return;
        const ops::TreeTask task = ScanTask::make(is_numbered ? met_ : 0);
        if (tasks_.push(team_, is_numbered, task)) return;
        if (is_numbered) spill_scan(ref_, task);
    }

    const Team team_;
    const ScanPlan& plan_;
    const ScanRef& ref_;
    const Tasks tasks_;
    Way way_;
    Teller teller_;
    Task task_{};
    u32 met_ = none;  // the number given to this lane's directory
};

}  // namespace warren::bulk
