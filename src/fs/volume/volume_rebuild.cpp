// SPDX-License-Identifier: Apache-2.0
// Packing a directory: by a replica, by the engine's bulk command, or step by step by all workers.
#include <algorithm>
#include <atomic>
#include <vector>

#include "base/out_of_memory.hpp"
#include "fs/core/tree.hpp"
#include "fs/volume/progress_teller.hpp"
#include "fs/volume/volume_batches.hpp"
#include "fs/volume/volume_implementation.hpp"

namespace warren {

using ops::Verb;

namespace {

/// Divides a directory's tree into parts for workers, and returns the lowest keys of the parts;
/// only 0 for a directory too small to be divided. No part ends within a node right above leaves,
/// so work on a leaf and its neighbours stays within one part.
Result<std::vector<u64>> part_tree(CpuOperation& op, const core::InodeRef& inode) {
    std::vector<u64> begins = {0};
    WARREN_LET(root, core::root_pairs(op, inode));
    if (root->height < 2) return begins;
    for (u32 i = 0; i < root->count; ++i) {
        const u64 key = relaxed_load(root->pairs[i].key);
        if (key != 0) begins.push_back(key);
        if (root->height < 3) continue;
        const u32 mark = op.pin_mark();
        core::Descent descent;
        WARREN_TRY(core::step_down(op, *root, key, descent));
        WARREN_LET(node, core::node_pairs(op, descent.leaf, descent.leaf_seen,
                                          core::identity_of(core::directory_tree.node, inode),
                                          root->height - 1));
        for (u32 j = 1; j < node->count; ++j) {
            begins.push_back(relaxed_load(node->pairs[j].key));
        }
        WARREN_TRY(op.confirm(descent.leaf_seen));
        op.release_pins(mark);
    }
    WARREN_TRY(op.confirm(inode.seen));
    return begins;
}

/// As above, for a directory of any volume.
Result<std::vector<u64>> part_directory(VolumeImplementation& volume, Handle directory) {
    if (!volume.works_on_host()) return std::vector<u64>{0};
    return volume.run([&](CpuOperation& op) -> Result<std::vector<u64>> {
        WARREN_LET(inode, core::find_directory(op, directory));
        return or_no_memory([&]() -> Result<std::vector<u64>> { return part_tree(op, *inode); });
    });
}

/// Packs a directory's tree, step by step. Several threads may each pack a part.
class Packing {
 public:
    /// `names` is the number of names in the directory.
    Packing(VolumeImplementation& volume, const Caller& caller, Handle directory, u64 names,
            const ProgressCallback& progress)
        : volume_(volume),
          command_(command_on(directory, caller)),
          names_(names),
          progress_(progress) {}

    /// Packs level `height` for keys in [begin, end).
    Errc pack_range(u64 begin, u64 end, u32 height) {
        ops::Command command = command_;
        command.how = static_cast<u8>(height == 0 ? ops::Pack::leaves : ops::Pack::nodes);
        command.mode = height;
        for (command.from = begin; command.from < end;) {
            WARREN_LET(step, volume_.ask<Verb::pack>(command));
            const u64 next = step->is_done ? end : step->next_key;
            // Relaxed: only for reports. The sum is at most the number of all keys, so it cannot
            // overflow.
            if (height == 0) {
                packed_keys_.fetch_add(std::min(next, end) - command.from,
                                       std::memory_order_relaxed);
            }
            if (!progress_.goes_on([&] { return done(); })) return Errc::canceled;
            command.from = next;
        }
        return Errc::ok;
    }

    /// Packs the levels above the leaves.
    Errc finish() {
        for (u32 height = 1; height < core::tree_height_max; ++height) {
            WARREN_TRY(pack_range(0, core::key_end, height));
        }
        ops::Command command = command_;
        command.how = static_cast<u8>(ops::Pack::root);
        for (bool is_done = false; !is_done;) {
            WARREN_LET(step, volume_.ask<Verb::pack>(command));
            is_done = step->is_done;
        }
        return Errc::ok;
    }

 private:
    /// An estimate of the names packed so far: keys are hashes, which are evenly distributed.
    u64 done() const {
        const double share = static_cast<double>(packed_keys_.load(std::memory_order_relaxed)) /
                             static_cast<double>(core::key_end);
        return static_cast<u64>(std::min(share, 1.0) * static_cast<double>(names_));
    }

    VolumeImplementation& volume_;
    const ops::Command command_;
    const u64 names_;
    ProgressTeller progress_;
    std::atomic<u64> packed_keys_{0};
};

Errc rebuild_by_commands(VolumeImplementation& volume, const Caller& caller, Handle directory,
                         u64 names, const ProgressCallback& progress) {
    Packing packing(volume, caller, directory, names, progress);
    WARREN_LET(begins, part_directory(volume, directory));
    std::vector<Errc> errors(begins->size(), Errc::ok);
    volume.thread_pool().for_each(begins->size(), [&](const ThreadTeam&, u64 i) {
        const u64 end = i + 1 < begins->size() ? (*begins)[i + 1] : core::key_end;
        errors[i] = packing.pack_range((*begins)[i], end, 0);
    });
    for (const Errc error : errors)
        WARREN_TRY(error);
    return packing.finish();
}

}  // namespace

Errc Volume::rebuild(const Caller& caller, Handle directory, Rebuilt& rebuilt,
                     const ProgressCallback& progress) {
    return or_no_memory([&]() -> Errc {
        VolumeImplementation& volume = *implementation_;
        WARREN_LET(before, attributes(directory));
        rebuilt.blocks_before = before->blocks;
        const auto count_names = [&] {
            return volume.ask<Verb::count_names>(command_on(directory));
        };
        WARREN_LET(names, count_names());
        // Also if the directory is packed, so that nothing would change.
        if (relaxed_load(volume.store().state->read_only) != 0) return Errc::read_only;
        const core::Credentials credentials = credentials_of(caller);
        const auto by_commands = [&] {
            rebuilt.in_steps = !volume.works_on_host();
            return rebuild_by_commands(volume, caller, directory, *names, progress);
        };
        Errc packed = Errc::not_supported;
        if (ReplicaQueries* const replica = volume.replica(); may_ask_replica(volume, *names)) {
            const auto commit = [&] { return volume.commit(); };
            packed = replica->rebuild(credentials, directory, *names, before->blocks, commit,
                                      by_commands);
        } else {
            BulkCommands* const bulk = volume.engine().bulk();
            if (bulk != nullptr) packed = bulk->rebuild(credentials, directory, before->blocks);
            if (packed == Errc::not_supported) packed = by_commands();
        }
        WARREN_TRY(packed);
        WARREN_LET(after, attributes(directory));
        rebuilt.blocks_after = after->blocks;
        WARREN_LET(entries, count_names());
        rebuilt.entries = *entries;
        return Errc::ok;
    });
}

}  // namespace warren
