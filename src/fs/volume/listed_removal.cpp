// SPDX-License-Identifier: Apache-2.0
// All version words are locked: a tree of that size has inodes in nearly every stripe.
//
// Marks are those of blocks, which inodes share with others that may change all the time. So when a
// mark has made a list void, the version words are noted before the next list is made: they tell
// whether an inode of the tree was the one that changed.
#include "fs/volume/listed_removal.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "base/out_of_memory.hpp"
#include "base/phase.hpp"
#include "fs/bulk/scan/scan_output.hpp"
#include "fs/core/clear_inodes.hpp"
#include "fs/core/frozen_stripes.hpp"
#include "fs/ops/remove_tree.hpp"

namespace warren {
namespace {

using bulk::FrameMasks;
using core::Store;

// All are freed while the barrier is closed, so this bounds how long operations wait.
constexpr u64 inodes_max = u64{1} << 20;
constexpr u32 parts = 4;  // of the inodes of a block group, which threads take one by one
constexpr u32 part_words = core::bitmap_words / parts;

u64 count_bits(std::span<const u64> words) {
    u64 count = 0;
    for (const u64 word : words)
        count += static_cast<u64>(hd::popcount(word));
    return count;
}

/// The bits of the blocks in a word of the group's blocks that hold inodes of the row.
u64 inode_blocks(const FrameMasks& row, u32 w) {
    constexpr u32 words = core::bitmap_words / format::words_per_frame;
    constexpr u32 blocks = 64 / format::inodes_per_block;  // of one word of inodes
    u64 bits = 0;
    for (u32 i = 0; i < words; ++i) {
        for (u32 block = 0; block < blocks; ++block) {
            const u64 inodes = row.inodes[w * words + i] >> block * format::inodes_per_block;
            if ((inodes & ((u64{1} << format::inodes_per_block) - 1)) != 0)
                bits |= u64{1} << (i * blocks + block);
        }
    }
    return bits;
}

std::vector<u64> note_versions(const Store& store) {
    std::vector<u64> versions(core::version_stripes);
    for (u32 stripe = 0; stripe < core::version_stripes; ++stripe)
        versions[stripe] = relaxed_load(store.versions[stripe]);
    return versions;
}

class ListedTree {
 public:
    /// `versions`: as before the list was made, or empty.
    ListedTree(VolumeImplementation& volume, u64 root, std::span<const FrameMasks> rows,
               std::span<const u64> versions)
        : volume_(volume), store_(volume.store()), root_(root), rows_(rows), versions_(versions) {}

    u64 inodes() const { return inodes_; }
    u64 blocks() const { return blocks_ + shared_blocks_.load(std::memory_order_relaxed); }

    /// Frees everything or nothing. Requires: the caller holds the version of the list. Errc::busy
    /// if the thread pool is in use: its user may wait for a version, so this does not wait for it.
    Errc free() {
        std::unique_lock<std::mutex> turn;
        if (!volume_.thread_pool().try_turn(turn)) return Errc::busy;
        u64 bitmaps = 0;
        for (const FrameMasks& row : rows_) {
            const u64 inodes = count_bits(row.inodes);
            const u64 bitmap = row.frame * format::frame_size;
            if (inodes != 0 && !ops::are_resident(store_, bitmap, bitmap)) {
                return Errc::not_supported;
            }
            inodes_ += inodes;
            blocks_ += count_bits(row.blocks);
            shares_ =
                shares_ || std::ranges::any_of(row.sharing, [](u64 word) { return word != 0; });
            bitmaps += inodes != 0 ? 1 : 0;
        }
        if (inodes_ > inodes_max) return Errc::not_supported;
        core::StoreState& state = *store_.state;
        const u64 all_tables = store_.frame_count / format::frames_per_table_block + 1;
        const u64 tables = shares_ ? all_tables : std::min<u64>(rows_.size(), all_tables);
        const Result<u64> counts = shares_ ? count_counts() : Result<u64>(u64{0});
        if (!counts) return Errc::not_supported;
        const u64 dirtied = bitmaps + tables + *counts + 1;  // and the block of the root
        core::JournalCredits credits;
        const core::JournalRoom room = credits.reserve(state, dirtied);
        if (credits.verdict(room, dirtied) != Errc::ok) return Errc::busy;
        Errc code = Errc::retry;
        volume_.freeze([&] {
            if (is_changed() || relaxed_load(state.read_only) != 0) return;
            if (shares_ && has_more_counts_than(*counts)) return;
            code = or_no_memory([&] {
                free_on_all_cores();
                end_freeing(state);
            });
        });
        return code;
    }

 private:
    /// How many blocks of counts the volume has. An error if one is not in memory, or damaged.
    Result<u64> count_counts() const {
        u64 counts = 0;
        for (u64 frame = 0; frame < store_.frame_count; ++frame) {
            if (relaxed_load(store_.frame(frame).references) == 0) continue;
            CpuOperation op(ThreadTeam{}, store_);
            WARREN_TRY(core::find_counts(op, frame).code());
            ++counts;
        }
        return counts;
    }
    bool has_more_counts_than(u64 most) const {
        const Result<u64> counts = count_counts();
        return !counts || *counts > most;
    }

    core::InodeRef root_ref() const { return core::inode_at(store_, root_); }
    /// Whether a block or an inode that the list was made of may have changed since.
    bool is_changed() const {
        const u64 root_block = root_ref().block_place() / format::block_size;
        if (core::test_bit(store_.changed, root_block) && is_changed(root_)) return true;
        for (const FrameMasks& row : rows_) {
            if (!core::test_bit(store_.changed_frames, row.frame)) continue;
            for (u32 w = 0; w < format::words_per_frame; ++w) {
                const u64 changed =
                    relaxed_load(store_.changed[row.frame * format::words_per_frame + w]);
                if ((changed & row.blocks[w]) != 0) return true;
                for (u64 left = changed & inode_blocks(row, w); left != 0; left &= left - 1) {
                    if (has_changed_inode(row, w * 64 + static_cast<u32>(hd::countr_zero(left))))
                        return true;
                }
            }
        }
        return false;
    }
    /// Whether an inode of the tree in this block of the group may have changed.
    bool has_changed_inode(const FrameMasks& row, u32 block) const {
        const u32 first = block * format::inodes_per_block;
        for (u32 slot = first; slot < first + format::inodes_per_block; ++slot) {
            const bool is_listed = (row.inodes[slot / 64] >> slot % 64 & 1) != 0;
            if (is_listed && is_changed(row.frame * format::inodes_per_frame + slot)) return true;
        }
        return false;
    }
    /// The version words of inodes are raised with every change of what a list is made of.
    bool is_changed(u64 number) const {
        if (versions_.empty()) return true;
        const u32 stripe = core::stripe_of(number * format::inode_size);
        return relaxed_load(store_.versions[stripe]) != versions_[stripe];
    }

    u32 root_stripe() const { return core::stripe_of(root_ref().number * format::inode_size); }

    /// Locks every stripe, so that readers that saw anything of the tree read it again; frees
    /// everything; and unlocks every stripe but that of the root.
    void free_on_all_cores() const {
        Phase locking(core::version_stripes, core::stripes_at_once);
        Phase freeing(rows_.size() * parts, 1);
        Phase unlocking(core::version_stripes, core::stripes_at_once);
        const auto take_part = [&](ThreadPool::Worker& worker, const Task&) {
            locking.run([&](u64 stripe) noexcept { core::lock_frozen_stripe(store_, stripe); });
            freeing.run([&](u64 i) noexcept {
                free_part(worker.team(), rows_[i / parts], static_cast<u32>(i % parts));
            });
            unlocking.run([&](u64 stripe) noexcept {
                if (stripe != root_stripe()) core::unlock_frozen_stripe(store_, stripe);
            });
        };
        ThreadPool& pool = volume_.thread_pool();
        pool.run_in_turn(std::vector<Task>(pool.width()), take_part);
    }

    void free_part(const ThreadTeam& team, const FrameMasks& row, u32 part) const {
        // Both pair with fence_acquire() in Operation::unchanged(): a reader that sees any of the
        // stores below sees the locks.
        core::fence_release();
        fence_streamed();
        CpuOperation op(team, store_);
        if (part == 0) free_blocks(op, row);
        const u32 begin = part * part_words;
        const u32 end = begin + part_words;
        // All before the first bit: a read-modify-write instruction waits for lines that are on
        // their way to memory.
        for (u32 w = begin; w < end; ++w) {
            end_shared_extents(op, row, w);
            core::end_generations(store_, row.frame, w, row.inodes[w], row.held[w], true);
        }
        fence_streamed();
        bool has_inodes = false;
        for (u32 w = begin; w < end; ++w) {
            if (row.inodes[w] == 0) continue;
            has_inodes = true;
            core::free_inodes_alone(store_, row.frame, w, row.inodes[w], row.held[w]);
        }
        if (has_inodes) ops::note_free_number(op, row.frame, row.frame * format::frame_size);
    }
    /// Drops the references of the inodes of word `w` to shared blocks, before they are cleared.
    void end_shared_extents(CpuOperation& op, const FrameMasks& row, u32 w) const {
        u64 freed = 0;
        for (u64 left = row.sharing[w]; left != 0; left &= left - 1) {
            const u64 slot = u64{w} * 64 + static_cast<u64>(hd::countr_zero(left));
            const core::InodeRef inode =
                core::inode_at(store_, row.frame * format::inodes_per_frame + slot);
            ops::for_each_own_run(
                inode, ops::InodeParts(*inode.at),
                [&](const core::Extent& extent) {
                    if (format::is_shared(extent)) freed += core::end_extent(op, extent);
                },
                [](u64) {});
        }
        if (freed > 0) shared_blocks_.fetch_add(freed, std::memory_order_relaxed);
    }
    void free_blocks(CpuOperation& op, const FrameMasks& row) const {
        bool has_blocks = false;
        for (u32 w = 0; w < format::words_per_frame; ++w) {
            if (row.blocks[w] == 0) continue;
            has_blocks = true;
            const u64 first = row.frame * format::blocks_per_frame + u64{w} * 64;
            for (u64 dirty = relaxed_load(store_.dirty[first / 64]) & row.blocks[w]; dirty != 0;
                 dirty &= dirty - 1) {
                const u64 block = first + static_cast<u64>(hd::countr_zero(dirty));
                op.clear_dirty(block * format::block_size);
            }
            core::end_use_in_word(store_, row.frame, w, row.blocks[w]);
        }
        if (has_blocks) op.mark_dirty(store_.table_place(row.frame));
    }

    /// Counts what was freed; the root has neither names nor leaves any more. Unlocks its stripe.
    void end_freeing(core::StoreState& state) const {
        device_atomic<u64>(state.inodes_used).fetch_sub(inodes_, hd::memory_order_relaxed);
        device_atomic<u64>(state.blocks_used).fetch_sub(blocks(), hd::memory_order_relaxed);
        core::fence_release();  // pairs with fence_acquire() in Operation::unchanged()
        CpuOperation op(ThreadTeam{}, store_);
        format::Inode& root = *root_ref().at;
        relaxed_store(root.area_count, u16{0});
        relaxed_store(root.height, u8{0});
        relaxed_store(root.entries, format::entries_dying);
        relaxed_store(root.size, u64{0});
        relaxed_store(root.blocks, u64{relaxed_load(root.attributes.raw) != 0});
        op.mark_dirty(root_ref().block_place());
        core::unlock_frozen_stripe(store_, root_stripe());
        core::check_step_credits(state);
    }

    VolumeImplementation& volume_;
    const Store& store_;
    const u64 root_;
    const std::span<const FrameMasks> rows_;
    const std::span<const u64> versions_;
    u64 inodes_ = 0;
    u64 blocks_ = 0;                             // by their bits
    bool shares_ = false;                        // some have other references
    mutable std::atomic<u64> shared_blocks_{0};  // of those: the freed ones
};

}  // namespace

Errc remove_listed_tree(VolumeImplementation& volume, Handle root, Removal& removal,
                        const std::function<Errc()>& on_cpu) {
    const u64 before = removal.files + removal.directories;
    std::vector<u64> versions;
    const auto free_listed = [&](const bulk::ScanOutput& listed) {
        return or_no_memory([&] {
            ListedTree tree(volume, root.inode, listed.masks, versions);
            const Errc freed = tree.free();
            // Another list is made after this.
            if (freed == Errc::retry) versions = note_versions(volume.store());
            WARREN_TRY(freed);
            const u64 directories = listed.directory_count - 1;  // the root remains
            removal.files += tree.inodes() - directories;
            removal.directories += directories;
            removal.blocks += tree.blocks();
            return Errc::ok;
        });
    };
    return volume.replica()->remove(root, free_listed, [&](u64& removed) {
        const Errc code = on_cpu();
        removed = removal.files + removal.directories - before;
        return code;
    });
}

}  // namespace warren
