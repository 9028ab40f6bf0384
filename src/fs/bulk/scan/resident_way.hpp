// SPDX-License-Identifier: Apache-2.0
// Reads directories for a scan where every metadata block has a fixed address in memory. It
// descends from the inode through the tree, copies each block as a whole (its loads overlap), and
// validates all copies together at the end.
//
// Invariant: the version of an address is read before the block there is copied, and after the
// block that points to it. So if confirm() finds all versions unchanged, all copies were valid at
// the same moment.
#pragma once

#include "fs/bulk/bulk_queue.hpp"
#include "fs/bulk/scan/scan_work.hpp"
#include "fs/core/directory.hpp"
#include "fs/core/permission.hpp"

namespace warren::bulk {

/// Memory of one worker, shared by its lanes; on a GPU it is shared memory.
struct ScanScratch {
    u64 inode[format::inode_size / 8];
    u64 block[format::block_size / 8];
    u64 places[core::tree_height_max + 2];  // addresses on the path, and their versions
    u64 versions[core::tree_height_max + 2];
};

/// An array of pairs on the path. A warp reads a copy. A thread reads the few pairs that it needs
/// in place, so any of them may change before it is confirmed.
template <class Team>
struct ScanPairs {
    const format::TreePair* pairs;
    u32 count;
    u32 height;

    WARREN_HD u64 key(u32 index) const { return word(pairs[index].key); }
    WARREN_HD format::BlockPointer child(u32 index) const { return {word(pairs[index].child.raw)}; }

 private:
    static WARREN_HD u64 word(const u64& at) {
        if constexpr (Team::width == 1) return relaxed_load(at);
        return at;
    }
};

/// The slots of a leaf that one lane handles: bit r stands for slot r * width + lane.
template <class Team>
struct LaneSlots {
    static constexpr u32 rounds = (format::leaf_entries_max + Team::width - 1) / Team::width;

    WARREN_HD void add(u32 round) { bits[round / 64] |= u64{1} << round % 64; }
    WARREN_HD bool has(u32 round) const { return (bits[round / 64] >> round % 64 & 1) != 0; }
    /// The first round to run, starting at `round`; `rounds` at the end. A thread skips rounds
    /// without a slot, whereas the lanes of a warp run all rounds together.
    WARREN_HD u32 next(u32 round) const {
        if constexpr (Team::width == 1) {
            for (; round < rounds; round = (round / 64 + 1) * 64) {
                const u64 rest = bits[round / 64] >> round % 64;
                if (rest != 0) return round + static_cast<u32>(hd::countr_zero(rest));
            }
            return rounds;
        }
        return round;
    }

 private:
    u64 bits[(rounds + 63) / 64] = {};
};

/// Handling of missing blocks on a GPU: the host loads them between two runs.
class AskForBlocks {
 public:
    explicit WARREN_HD AskForBlocks(const ScanRef& ref) : ref_(ref) {}

    /// Requests the missing block at `place`. One lane.
    WARREN_HD void want(u64 place) const {
        const u32 index = relaxed_add(ref_.state->wanted_count, 1);
        if (index < ref_.wanted_max) ref_.wanted[index] = place;
    }
    /// Errc::ok if the requested blocks were loaded; any other code ends the task.
    WARREN_HD Errc bring() const { return Errc::need_block; }

 private:
    const ScanRef& ref_;
};

inline constexpr u64 inode_head_bytes = 128;  // the part before its area
inline constexpr u64 leaf_head_bytes = offsetof(format::DirectoryLeaf, heap);

/// Prefetches for a CPU; a warp has many loads in flight anyway. Always inlined, because the
/// compiler would drop calls of a function without effect.
[[gnu::always_inline]] WARREN_HD inline void fetch([[maybe_unused]] const void* from,
                                                   [[maybe_unused]] u64 bytes) {
#if !defined(__CUDA_ARCH__)
    for (u64 at = 0; at < bytes; at += 64)
        __builtin_prefetch(static_cast<const std::byte*>(from) + at);
#endif
}

/// The attributes that a scan needs of entries whose files are not reported. One lane.
WARREN_HD inline Attributes read_few(const core::InodeRef& inode) {
    const format::Inode& at = *inode.at;
    Attributes few;
    few.handle = inode.handle();
    few.mode = relaxed_load(at.mode);
    few.links = relaxed_load(at.links);
    few.user = relaxed_load(at.user);
    few.size = relaxed_load(at.size);
    few.blocks = relaxed_load(at.blocks);
    few.parent = relaxed_load(at.parent);
    return few;
}

/// `Blocks` handles missing blocks. `lists_tree`: for ScanPurpose::list and nothing else; other
/// scans do without its code. Members are collective unless they say "one lane".
template <class Team, class Blocks, bool lists_tree = false>
class ResidentWay {
 public:
    static constexpr bool lists = lists_tree;

    WARREN_HD ResidentWay(const Team& team, const core::Store& store, ScanScratch& scratch,
                          const Blocks& blocks)
        : team_(team), store_(store), scratch_(scratch), blocks_(blocks) {}

    /// Copies the leaf of `directory` that covers key `from`, and sets `upper` to the end of its
    /// keys. A directory without leaves yields an empty leaf. `share(way, array, index)` is called
    /// for each array on the path with pairs after pair `index`; after confirming them it may hand
    /// them to other workers.
    template <class Share>
    WARREN_HD Errc go_down(Handle directory, u64 from, u64& upper, const Share& share) {
        WARREN_TRY(begin(directory));
        const format::Inode& at = inode();
        ScanPairs<Team> array{at.area.pairs, at.area_count, at.height};
        upper = core::key_end;
        if (array.count == 0) {
            once(team_, [&] { leaf_words().count = 0; });
            return confirm();
        }
        for (bool is_leaf = false; !is_leaf;) {
            const u32 index =
                core::search_keys(team_, array.count, from, [&](u32 i) { return array.key(i); });
            if (index + 1 < array.count) {
                WARREN_TRY(share(*this, array, index));
                upper = array.key(index + 1);
            }
            is_leaf = array.height == 1;
            if (is_leaf) fetch(store_.base + array.child(index).offset(), leaf_head_bytes);
            if (is_leaf && index + 1 < array.count) {
                fetch(store_.base + array.child(index + 1).offset(), leaf_head_bytes);
            }
            WARREN_TRY(step(array.child(index), array));
        }
        return confirm();
    }

    /// Errc::retry if anything on the path has changed.
    WARREN_HD Errc confirm() const {
        core::fence_acquire();  // pairs with fence_release() of writers
        bool is_stale = false;
        for (u32 i = team_.lane(); i < count_; i += Team::width) {
            const u64 now = relaxed_load(store_.versions[core::stripe_of(scratch_.places[i])]);
            is_stale = is_stale || now != scratch_.versions[i];
        }
        return team_.ballot(is_stale) != 0 ? Errc::retry : Errc::ok;
    }

    WARREN_HD const format::DirectoryLeaf& leaf() const {
        return *reinterpret_cast<const format::DirectoryLeaf*>(scratch_.block);
    }
    /// Whether `caller` may change only those entries of the directory that it owns.
    WARREN_HD bool must_own_entries(const core::Credentials& caller) const {
        return core::must_own_entries(caller, inode().mode, inode().user);
    }

    /// Errc::access unless `caller` has the permissions `wanted` in the directory.
    WARREN_HD Errc check_caller(const core::Credentials& caller, u32 wanted) {
        for (;;) {
            core::Operation<Team> op(team_, store_);
            const Result<core::InodeRef> inode = core::find_inode(op, directory_);
            const Errc code =
                inode ? core::check_permission(op, *inode, caller, wanted) : inode.code();
            core::finish(op);
            if (code != Errc::need_block) return code;
            once(team_, [&] { blocks_.want(op.needed_place); });
            WARREN_TRY(blocks_.bring());
        }
    }

    /// Ensures that the inodes of these slots of the leaf are in memory.
    WARREN_HD Errc bring_inodes(const LaneSlots<Team>& slots) {
        while (is_missing_inodes(slots))
            WARREN_TRY(blocks_.bring());
        return Errc::ok;
    }

    /// Reads a consistent copy of the attributes of the entry in `slot`: all, or those of
    /// read_few(). Errc::stale if the entry is gone. One lane.
    WARREN_HD Errc read_inode(u32 slot, bool whole, Attributes& attributes) const {
        const u64 number = leaf().slots[slot].inode();
        if (!core::is_inode_number(store_, number)) return Errc::stale;
        core::InodeRef inode = core::inode_at(store_, number);
        const u64& word = store_.versions[core::stripe_of(number * format::inode_size)];
        // Both loads are issued before either result is used.
        const auto kind = core::kind_of(store_, number / format::inodes_per_frame);
        // Acquire: pairs with the release of end_apply().
        const u64 version =
            device_atomic<u64>(const_cast<u64&>(word)).load(hd::memory_order_acquire);
        if (kind != core::FrameKind::inodes) return Errc::stale;
        if ((version & 1) != 0) return Errc::retry;
        inode.generation = relaxed_load(inode.at->generation);
        attributes = whole ? core::read_attributes(inode) : read_few(inode);
        core::fence_acquire();  // pairs with fence_release() of writers
        if (relaxed_load(word) != version) return Errc::retry;
        return inode.generation == 0 ? Errc::stale : Errc::ok;
    }

    /// Adds the blocks of the path, but not that of the directory's inode.
    WARREN_HD void add_path(const TreeMasks& masks) const {
        for (u32 i = 1 + team_.lane(); i < count_; i += Team::width)
            add_block(masks, scratch_.places[i]);
    }
    /// Adds the inode of the entry in `slot`, which read_inode() has read. One lane.
    WARREN_HD Errc add_entry(const TreeMasks& masks, u32 slot) const {
        const format::DirectorySlot entry = leaf().slots[slot];
        const bool is_directory = entry.type() == format::directory_entry;
        return add_inode(store_, masks, entry.inode(), is_directory);
    }

    /// Called for a directory in `slot` that names another parent. Errc::corrupt if the leaf still
    /// has the entry; otherwise the directory was moved, and is listed where it is now. One lane.
    WARREN_HD Errc explain_stray(u32 /*slot*/, Handle /*met*/, u64 /*root*/) const {
        core::fence_acquire();  // pairs with fence_release() of writers
        for (u32 i = 0; i < count_; ++i) {
            const u64 now = relaxed_load(store_.versions[core::stripe_of(scratch_.places[i])]);
            if (now != scratch_.versions[i]) return Errc::ok;
        }
        return Errc::corrupt;
    }

 private:
    WARREN_HD const format::Inode& inode() const {
        return *reinterpret_cast<const format::Inode*>(scratch_.inode);
    }
    WARREN_HD const format::TreeNode& node() const {
        return *reinterpret_cast<const format::TreeNode*>(scratch_.block);
    }
    WARREN_HD format::DirectoryLeaf& leaf_words() const {
        return *reinterpret_cast<format::DirectoryLeaf*>(scratch_.block);
    }
    /// The code for invalid contents: Errc::corrupt if the path has not changed since it was read.
    WARREN_HD Errc doubt() const {
        const Errc code = confirm();
        return code == Errc::ok ? Errc::corrupt : code;
    }

    /// Whether inodes of these slots are not in memory; requests their blocks.
    WARREN_HD bool is_missing_inodes(const LaneSlots<Team>& slots) {
        bool is_missing = false;
        for (u32 r = slots.next(0); r < slots.rounds; r = slots.next(r + 1)) {
            if (!slots.has(r)) continue;
            const u64 number = leaf().slots[r * Team::width + team_.lane()].inode();
            if (!core::is_inode_number(store_, number)) continue;
            const u64 block = number * format::inode_size / format::block_size;
            if (!core::test_bit(store_.resident, block)) {
                if (!core::is_inode_slot(store_, number)) continue;
                blocks_.want(block * format::block_size);
                is_missing = true;
                continue;
            }
            fetch(store_.base + number * format::inode_size, inode_head_bytes);
        }
        see_loaded();
        return team_.ballot(is_missing) != 0;
    }

    /// Begins a path at the inode of a directory. Errc::stale if it is gone.
    WARREN_HD Errc begin(Handle directory) {
        directory_ = directory;
        const u64 place = directory.inode * format::inode_size;
        count_ = 0;
        if (!core::is_inode_slot(store_, directory.inode)) return Errc::stale;
        WARREN_TRY(pass(place, place / format::block_size * format::block_size));
        core::copy_words<format::inode_size / 8>(team_, scratch_.inode,
                                                 reinterpret_cast<const u64*>(store_.base + place));
        const format::Inode& at = inode();
        if (at.generation != directory.generation) {
            WARREN_TRY(confirm());
            return Errc::stale;
        }
        const bool is_sound = format::is_directory(at.mode) &&
                              format::can_be_root(at.area_kind, at.area_count, at.height);
        return is_sound ? Errc::ok : doubt();
    }

    /// Descends to `child`, whose copy replaces that of the current array. If the child is a node,
    /// `array` becomes its array; if it is a leaf, `array` stays.
    WARREN_HD Errc step(format::BlockPointer child, ScanPairs<Team>& array) {
        const u64 place = child.offset();
        if (!child.is_valid() || place % format::block_size != 0 || place >= store_.size_bytes) {
            return doubt();
        }
        WARREN_TRY(pass(place, place));
        const u64* from = reinterpret_cast<const u64*>(store_.base + place);
        if constexpr (Team::width == 1) {
            copy_used(from, array.height == 1);
        } else {
            core::copy_words<format::block_size / 8>(team_, scratch_.block, from);
        }
        if (array.height == 1) {
            return is_ours(leaf().header, format::BlockKind::directory_leaf) ? Errc::ok : doubt();
        }
        const format::TreeNode& node = this->node();
        const bool is_sound = is_ours(node.header, format::BlockKind::directory_node) &&
                              node.height == array.height - 1 && node.count > 0 &&
                              node.count <= format::node_pairs_max;
        if (!is_sound) return doubt();
        const auto* shared = reinterpret_cast<const format::TreeNode*>(from);
        array = {Team::width == 1 ? shared->pairs : node.pairs, node.count, node.height};
        return Errc::ok;
    }

    /// Copies the used part of a leaf, or the header of a node: for a thread, each word costs time.
    WARREN_HD void copy_used(const u64* from, bool is_leaf) const {
        constexpr u64 head_bytes = offsetof(format::DirectoryLeaf, hashes);
        static_assert(head_bytes == offsetof(format::TreeNode, pairs));
        u64* const to = scratch_.block;
        for (u32 i = 0; i < head_bytes / 8; ++i)
            to[i] = relaxed_load(from[i]);
        if (!is_leaf) return;
        const u64 heap_bytes =
            leaf().heap_used < format::leaf_heap_bytes ? leaf().heap_used : format::leaf_heap_bytes;
        const u64 end = offsetof(format::DirectoryLeaf, heap) / 8 + (heap_bytes + 7) / 8;
        for (u64 i = head_bytes / 8; i < end; ++i)
            to[i] = relaxed_load(from[i]);
    }

    /// Adds `place` and its version to the path, after its block has been loaded.
    WARREN_HD Errc pass(u64 place, u64 block_place) {
        struct Look {
            u64 version;
            u64 bits;
        };
        const u64 block = block_place / format::block_size;
        for (;;) {
            // Both loads are issued before either result is used.
            const Look look = once(team_, [&] {
                const u64 bits = relaxed_load(store_.resident[block / 64]);
                // Acquire: pairs with the release of end_apply().
                const u64 version = device_atomic<u64>(store_.versions[core::stripe_of(place)])
                                        .load(hd::memory_order_acquire);
                return Look{version, bits};
            });
            see_loaded();
            if ((look.version & 1) != 0) return Errc::retry;
            if ((look.bits >> block % 64 & 1) != 0) {
                once(team_, [&] {
                    scratch_.places[count_] = place;
                    scratch_.versions[count_] = look.version;
                });
                ++count_;
                return Errc::ok;
            }
            // The pointer may be out of date, and then no block is missing.
            WARREN_TRY(confirm());
            once(team_, [&] { blocks_.want(block_place); });
            WARREN_TRY(blocks_.bring());
        }
    }

    /// Orders the reads of blocks after those of their residency bits.
    static WARREN_HD void see_loaded() {
#if !defined(__CUDA_ARCH__)
        // Pairs with the release by the loader of the blocks. A GPU's blocks are loaded by copies
        // that end before the bit is set, and relaxed loads read the level-2 cache.
        core::fence_acquire();
#endif
    }

    WARREN_HD bool is_ours(const format::BlockHeader& header, format::BlockKind kind) const {
        return format::BlockIdentity{kind, directory_.generation, directory_.inode}.agrees(header);
    }

    const Team team_;
    const core::Store& store_;
    ScanScratch& scratch_;
    Blocks blocks_;
    Handle directory_;
    u32 count_ = 0;
};

}  // namespace warren::bulk
