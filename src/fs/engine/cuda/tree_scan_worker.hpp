// SPDX-License-Identifier: Apache-2.0
// One worker of a scan: goes down to the leaf that covers its keys, shares the others of every
// array on its way, and looks at the inodes of a leaf with all lanes at once.
//
// What lies on the way is copied and believed only if afterwards none of the versions on it has
// moved on. Invariant: a leaf's entries are told of after that, and only if there is room for all
// of them; so nothing is told twice and nothing in part. Needs the identity map.
#pragma once

#include "fs/engine/cuda/tree_scan_way.hpp"
#include "fs/engine/cuda/tree_scan_work.hpp"

namespace warren::cuda_engine {

template <class Team>
class ScanWorker {
 public:
    WARREN_HD ScanWorker(const Team& team, const core::Store& store, const ScanPlan& plan,
                         const ScanRef& ref, ScanScratch& scratch)
        : team_(team), store_(store), plan_(plan), ref_(ref), way_(team, store, scratch) {}

    /// Does all there is to do, with others. Collective, as all members that do not say "one lane".
    WARREN_HD void work() {
        ops::TreeTask task;
        while (ref_.queue.pop(team_, task)) {
            visit(task);
            ref_.queue.finish(team_);
        }
    }

    WARREN_HD void visit(const ops::TreeTask& task) {
        if (!begin(task)) return;
        for (u32 attempt = 0;; ++attempt) {
            const Errc code = list(task);
            if (code == Errc::need_block && way_.missing != 0) {
                once(team_, [&] { want_block(ref_, way_.missing); });
                way_.missing = 0;
            }
            if (code == Errc::retry && attempt < attempts_max) {
                once(team_, [&] { pause_briefly(); });
                continue;
            }
            return end(task, code);
        }
    }

 private:
    static constexpr u32 attempts_max = 4096;  // then the host gives the task again
    static constexpr u32 none = ~u32{0};

    /// What a worker knows of its task.
    struct Task {
        ScanDirectory directory;
        u64 root;  // number of the scan's first directory
        KeyRange keys;
        bool is_over;  // an error was met: nothing matters any more
    };
    /// What a lane knows of an entry of a leaf.
    struct Found {
        Errc code = Errc::ok;
        bool is_told = false;
        bool is_directory = false;
        u32 name_offset = 0;
        u32 name_length = 0;
        Attributes attributes;
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
                device_atomic<u32>(ref_.state->damaged_count)
                    .fetch_add(1, hd::memory_order_relaxed);
            }
            // What was read may have changed hands meanwhile: the host says when it is enough.
            const bool is_for_later = is_damaged || !is_final(code);
            if (!is_for_later) return fail_scan(ref_, code);
            KeyRange& keys = ScanTask::keys(ref_, task);
            relaxed_store(keys.from, task_.keys.from);
            relaxed_store(keys.end, task_.keys.end);
            spill_scan(ref_, task);
        });
    }

    /// Lists what is left of the task's keys.
    WARREN_HD Errc list(const ops::TreeTask& task) {
        while (task_.keys.from < task_.keys.end) {
            u64 upper = core::key_end;
            WARREN_TRY(go_down(task, upper));
            WARREN_TRY(list_leaf(task));
            if (upper >= task_.keys.end) return Errc::ok;
            task_.keys.from = upper;
        }
        return Errc::ok;
    }

    // ---- the way down

    /// Copies the leaf that covers the first of the task's keys; its keys end at `upper`. An empty
    /// one stands for a directory without leaves.
    WARREN_HD Errc go_down(const ops::TreeTask& task, u64& upper) {
        WARREN_TRY(way_.begin({task_.directory.number, task_.directory.generation}));
        const format::Inode& inode = way_.inode();
        PairsCopy array{inode.area.pairs, inode.area_count, inode.height};
        if (array.count == 0) {
            once(team_, [&] { way_.leaf().count = 0; });
            return way_.confirm();
        }
        for (bool is_leaf = false; !is_leaf;) {
            const u32 index = core::search_keys(team_, array.count, task_.keys.from,
                                                [&](u32 i) { return array.pairs[i].key; });
            const bool is_last = index + 1 >= array.count;
            if (!is_last && array.pairs[index + 1].key < task_.keys.end) {
                WARREN_TRY(way_.confirm());
                share(task, array, index);
            }
            if (!is_last) upper = array.pairs[index + 1].key;
            is_leaf = array.height == 1;
            WARREN_TRY(way_.step(array.pairs[index].child, array));
        }
        return way_.confirm();
    }

    /// Gives what lies behind pair `index` of an array to others, as far as it is the task's. From
    /// the end, so that what finds no room stays in one piece.
    WARREN_HD void share(const ops::TreeTask& task, const PairsCopy& array, u32 index) {
        const u32 last = core::search_keys(team_, array.count, task_.keys.end - 1,
                                           [&](u32 i) { return array.pairs[i].key; });
        u32 end = last + 1;
        while (end > index + 1) {
            const u32 begin = end - (index + 1) > Team::width ? end - Team::width : index + 1;
            const u32 count = end - begin;
            const u64 first = once(team_, [&] {
                return u64{device_atomic<u32>(ref_.state->range_count)
                               .fetch_add(count, hd::memory_order_relaxed)};
            });
            if (first + count > ref_.range_max) return;
            const u32 mine = begin + team_.lane();
            const bool has = mine < end;
            const u64 range = first + team_.lane();
            if (has) {
                relaxed_store(ref_.ranges[range].from, array.pairs[mine].key);
                relaxed_store(ref_.ranges[range].end,
                              mine + 1 < end ? array.pairs[mine + 1].key : task_.keys.end);
            }
            const u32 directory = ScanTask::directory(task);
            if (!ref_.queue.push(team_, has, ScanTask::make(directory, range))) return;
            task_.keys.end = array.pairs[begin].key;
            end = begin;
        }
    }

    // ---- a leaf

    WARREN_HD Errc check_caller(const ops::TreeTask& task) {
        if (plan_.caller.is_privileged() || task_.directory.is_allowed != 0) {
            return Errc::ok;
        }
        WARREN_TRY(ask_permission());
        task_.directory.is_allowed = 1;
        once(team_,
             [&] { relaxed_store(ref_.directories[ScanTask::directory(task)].is_allowed, 1); });
        return Errc::ok;
    }

    WARREN_HD Errc ask_permission() const {
        core::Operation<Team> op(team_, store_);
        const Result<core::InodeRef> inode =
            core::find_inode(op, Handle{task_.directory.number, task_.directory.generation});
        const Errc code = inode ? core::check_permission(op, *inode, plan_.caller, plan_.permission)
                                : inode.code();
        if (code == Errc::need_block) once(team_, [&] { want_block(ref_, op.needed_place); });
        core::finish(op);
        return code;
    }

    /// Whether there is room for all that a leaf can bring, beside those of all other workers.
    WARREN_HD bool has_room() const {
        return once(team_, [&] {
            const u64 written = relaxed_load(ref_.state->written);
            const u64 words = written & ((u64{1} << written_shift) - 1);
            const u64 directories = relaxed_load(ref_.state->directory_count);
            return words + ref_.workers * leaf_output_words <= ref_.output_max &&
                   (written >> written_shift) + ref_.workers * leaf_bundles <= ref_.bundle_max &&
                   directories + ref_.workers * format::leaf_entries_max <= ref_.directory_max;
        });
    }

    WARREN_HD Errc list_leaf(const ops::TreeTask& task) {
        const format::DirectoryLeaf& leaf = way_.leaf();
        const bool checks_whole = plan_.tree_check == core::TreeCheck::whole;
        // An empty directory asks for no permission: there is nothing to see or to remove.
        if (leaf.count == 0 && !checks_whole) return Errc::ok;
        WARREN_TRY(check_caller(task));
        if (checks_whole && must_own_entries()) return Errc::not_permitted;
        if (leaf.count == 0) return Errc::ok;
        if (!has_room()) return Errc::need_space;
        constexpr u32 rounds = (format::leaf_entries_max + Team::width - 1) / Team::width;
        // First all blocks are brought, so that the leaf is told of in one go.
        if (is_missing_blocks(leaf)) return Errc::need_block;
        ScanSum sum{};
        for (u32 round = 0; round < rounds; ++round) {
            Found found = look_at(leaf, round * Team::width + team_.lane());
            if (plan_.purpose == ScanPurpose::measure) add(found, sum);
            tell(task, leaf, found);
            descend();
        }
        if (plan_.purpose == ScanPurpose::measure) add_sum(task_.directory.sum, sum);
        return Errc::ok;
    }

    /// The entry in slot `index` of the leaf if it is one of the task's; its inode is 0 else.
    WARREN_HD format::DirectorySlot entry_at(const format::DirectoryLeaf& leaf, u32 index) const {
        if (index >= format::leaf_entries_max) return {};
        const format::DirectorySlot slot = leaf.slots[index];
        const u64 key = format::entry_key(leaf.hashes[index], slot);
        const bool mine = task_.keys.from <= key && key < task_.keys.end;
        return mine ? slot : format::DirectorySlot{};
    }

    WARREN_HD bool needs_inode(const format::DirectoryLeaf& leaf,
                               const format::DirectorySlot& slot) const {
        if (slot.inode() == 0) return false;
        if (slot.type() == format::entry_type(format::type_directory)) return true;
        if (plan_.purpose == ScanPurpose::measure) return true;
        if (plan_.purpose == ScanPurpose::removal) return must_own_entries();
        if (slot.name_offset() + slot.name_length() > format::leaf_heap_bytes) return true;
        const char* heap = reinterpret_cast<const char*>(leaf.heap);
        return plan_.files.wants_name(heap + slot.name_offset(), slot.name_length(), slot.type());
    }

    WARREN_HD bool must_own_entries() const {
        const format::Inode& directory = way_.inode();
        return core::must_own_entries(plan_.caller, directory.mode, directory.user);
    }

    /// Asks for all blocks with inodes of the leaf's entries that are not in memory.
    WARREN_HD bool is_missing_blocks(const format::DirectoryLeaf& leaf) const {
        bool is_missing = false;
        for (u32 i = team_.lane(); i < format::leaf_entries_max; i += Team::width) {
            const u64 number = leaf.slots[i].inode();
            if (number == 0 || !core::is_inode_number(store_, number)) continue;
            const u64 block = number * format::inode_size / format::block_size;
            if ((relaxed_load(store_.resident[block / 64]) >> block % 64 & 1) != 0) continue;
            if (!core::is_inode_slot(store_, number) || !needs_inode(leaf, entry_at(leaf, i))) {
                continue;
            }
            want_block(ref_, block * format::block_size);
            is_missing = true;
        }
#if !defined(__CUDA_ARCH__)
        // Pairs with the release of the loader that filled the blocks. A GPU's blocks are filled by
        // copies that end before the bit is set, and relaxed loads go to the level-2 cache.
        core::fence_acquire();
#endif
        return team_.ballot(is_missing) != 0;
    }

    /// Reads what one lane has to know of its entry.
    WARREN_HD Found look_at(const format::DirectoryLeaf& leaf, u32 index) const {
        Found found;
        const format::DirectorySlot slot = entry_at(leaf, index);
        const bool looks = needs_inode(leaf, slot);
        if (looks) {
            found.name_offset = slot.name_offset();
            found.name_length = slot.name_length();
            found.code = read_inode(slot.inode(), found.attributes);
        }
        while (team_.ballot(found.code == Errc::retry) != 0) {
            if (found.code != Errc::retry) continue;
            pause_briefly();
            found.code = read_inode(slot.inode(), found.attributes);
        }
        if (!looks || found.code != Errc::ok) return found;
        const Attributes& attributes = found.attributes;
        found.is_directory = (attributes.mode & format::type_mask) == format::type_directory;
        if (found.is_directory && is_stray(attributes)) {
            // It was moved meanwhile and is met elsewhere, or the volume is damaged.
            if (way_.stands()) fail_scan(ref_, Errc::corrupt);
            return {};
        }
        if (found.name_offset % 8 != 0 ||
            found.name_offset + core::padded(found.name_length) > format::leaf_heap_bytes) {
            fail_scan(ref_, Errc::corrupt);
        } else if (plan_.purpose == ScanPurpose::visit) {
            found.is_told =
                found.is_directory || plan_.files.wants_file(attributes.size, attributes.modified);
        } else if (plan_.purpose == ScanPurpose::measure) {
            found.is_told = found.is_directory && task_.directory.depth < plan_.sums_depth;
        } else if (must_own_entries() && !plan_.caller.owns(attributes.user)) {
            fail_scan(ref_, Errc::not_permitted);
        }
        return found;
    }

    /// Whether a directory says that it lies elsewhere, or is the first of the scan: a way that
    /// goes on there might lead in a circle.
    WARREN_HD bool is_stray(const Attributes& directory) const {
        return directory.parent != task_.directory.number || directory.handle.inode == task_.root;
    }

    /// A consistent copy of an inode's attributes. Errc::stale if it is gone. One lane.
    WARREN_HD Errc read_inode(u64 number, Attributes& attributes) const {
        if (!core::is_inode_number(store_, number)) return Errc::stale;
        core::InodeRef inode;
        inode.number = number;
        inode.at = reinterpret_cast<format::Inode*>(store_.base + number * format::inode_size);
        const u64& word = store_.versions[core::stripe_of(number * format::inode_size)];
        // Both are asked for before either answer is looked at.
        const auto kind = core::kind_of(store_, number / format::inodes_per_frame);
        // Acquire: pairs with the release of end_apply().
        const u64 version =
            device_atomic<u64>(const_cast<u64&>(word)).load(hd::memory_order_acquire);
        if (kind != core::FrameKind::inodes) return Errc::stale;
        if ((version & 1) != 0) return Errc::retry;
        inode.generation = relaxed_load(inode.at->generation);
        if (plan_.purpose == ScanPurpose::visit) {
            attributes = core::read_attributes(inode);
        } else {
            attributes = read_few(inode);
        }
        core::fence_acquire();  // pairs with fence_release() of writers
        if (relaxed_load(word) != version) return Errc::retry;
        return inode.generation == 0 ? Errc::stale : Errc::ok;
    }

    // ---- what comes of it

    /// Adds an entry to the sum of the directory that it is in; a directory that has a sum of its
    /// own to that. One lane.
    WARREN_HD void add(const Found& found, ScanSum& sum) const {
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
        ScanSum all{};
        for (u32 lane = 0; lane < Team::width; ++lane) {
            const ScanSum one = team_.broadcast(mine, lane);
            all.entries += one.entries;
            all.blocks += one.blocks;
            all.bytes += one.bytes;
        }
        if (all.entries == 0) return;
        once(team_, [&] {
            ScanSum& sum = ref_.sums[index];
            device_atomic<u64>(sum.entries).fetch_add(all.entries, hd::memory_order_relaxed);
            device_atomic<u64>(sum.blocks).fetch_add(all.blocks, hd::memory_order_relaxed);
            device_atomic<u64>(sum.bytes).fetch_add(all.bytes, hd::memory_order_relaxed);
        });
    }

    /// How many of the lanes before this one say yes. One lane.
    WARREN_HD u32 rank_in(u32 votes) const {
        return static_cast<u32>(hd::popcount(votes & ((u32{1} << team_.lane()) - 1)));
    }

    /// Gives directories that are told of a number, and writes what is told to the output.
    WARREN_HD void tell(const ops::TreeTask& task, const format::DirectoryLeaf& leaf,
                        const Found& found) {
        met_ = none;
        const bool is_numbered = found.is_directory && may_descend();
        const u32 directories = team_.ballot(is_numbered);
        if (directories != 0) {
            const u32 count = static_cast<u32>(hd::popcount(directories));
            const u32 first = reserve(ref_.state->directory_count, count);
            if (is_numbered) met_ = first + rank_in(directories);
        }
        u32 sum = task_.directory.sum;
        const u32 told = team_.ballot(found.is_told);
        if (told != 0 && plan_.purpose == ScanPurpose::measure) {
            const u32 count = static_cast<u32>(hd::popcount(told));
            const u32 first = reserve(ref_.state->sum_count, count);
            if (found.is_told) sum = first + rank_in(told);
        }
        if (met_ != none) write_directory(found, sum);
        if (told == 0) return;
        const bool is_visit = plan_.purpose == ScanPurpose::visit;
        write_bundle(is_visit ? ScanTask::directory(task) : task_.directory.sum, leaf, found, told,
                     is_visit ? met_ : sum);
    }

    /// Whether what is in the directories of this leaf is wanted.
    WARREN_HD bool may_descend() const {
        return task_.directory.depth + 1 < plan_.files.depth_max;
    }

    WARREN_HD u32 reserve(u32& counter, u32 count) const {
        return once(team_, [&] {
            return device_atomic<u32>(counter).fetch_add(count, hd::memory_order_relaxed);
        });
    }

    /// One lane.
    WARREN_HD void write_directory(const Found& found, u32 sum) const {
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

    /// Writes the entries of the lanes in `told`.
    WARREN_HD void write_bundle(u32 above, const format::DirectoryLeaf& leaf, const Found& found,
                                u32 told, u32 directory) {
        const u32 count = static_cast<u32>(hd::popcount(told));
        const u32 directories = team_.ballot(found.is_told && found.is_directory);
        const u32 first = static_cast<u32>(hd::countr_zero(told));
        const u32 user = team_.broadcast(found.attributes.user, first);
        const u32 group = team_.broadcast(found.attributes.group, first);
        const bool fits = !found.is_told || ShortRecord::fits(found.attributes, user, group);
        const bool is_short = team_.ballot(!fits) == 0;
        const u32 mine = found.is_told ? core::padded(found.name_length) / 8 : 0;
        u32 name = bundle_words + count * (is_short ? short_record_words : record_words);
        u32 words = name;
        for (u32 left = told; left != 0; left &= left - 1) {
            const u32 lane = static_cast<u32>(hd::countr_zero(left));
            const u32 its = team_.broadcast(mine, lane);
            if (lane < team_.lane()) name += its;
            words += its;
        }
        const u64 before = once(team_, [&] {
            return device_atomic<u64>(ref_.state->written)
                .fetch_add((u64{1} << written_shift) + words, hd::memory_order_relaxed);
        });
        const u64 begin = before & ((u64{1} << written_shift) - 1);
        u64* output = ref_.output + begin;
        once(team_, [&] {
            ref_.bundles[before >> written_shift] = {static_cast<u32>(begin),
                                                     static_cast<u16>(count),
                                                     static_cast<u16>(hd::popcount(directories))};
            *reinterpret_cast<ScanBundle*>(output) = {
                above, task_.directory.depth + 1, count, words, is_short ? 1u : 0u, user, group, 0};
        });
        if (!found.is_told) return;
        if (is_short) {
            auto& record = reinterpret_cast<ShortRecord*>(output + bundle_words)[rank_in(told)];
            record.set(found.attributes, name << 8 | found.name_length);
        } else {
            auto& record = reinterpret_cast<ScanRecord*>(output + bundle_words)[rank_in(told)];
            record.set(found.attributes, name << 8 | found.name_length);
            record.directory = directory;
        }
        for (u32 i = 0; i < mine; ++i)
            output[name + i] = leaf.heap[found.name_offset / 8 + i];
    }

    /// Makes tasks of the directories that were numbered.
    WARREN_HD void descend() {
        const bool is_numbered = met_ != none;
        if (team_.ballot(is_numbered) == 0) return;
        const ops::TreeTask task = ScanTask::make(is_numbered ? met_ : 0);
        if (ref_.queue.push(team_, is_numbered, task)) return;
        if (is_numbered) spill_scan(ref_, task);
    }

    const Team team_;
    const core::Store& store_;
    const ScanPlan& plan_;
    const ScanRef& ref_;
    ScanWay<Team> way_;
    Task task_{};
    u32 met_ = none;  // the number that this lane's directory got
};

}  // namespace warren::cuda_engine
