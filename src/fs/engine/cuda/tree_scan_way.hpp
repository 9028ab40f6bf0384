// SPDX-License-Identifier: Apache-2.0
// The way from a directory's inode down its tree, as a scan goes it: each block is copied whole,
// with one wait for all of its words, and believed later.
//
// Invariant: the version of a place is noted before the block there is copied and after the block
// that led there was; so if confirm() finds all of them unmoved, all copies were true at once.
#pragma once

#include "fs/core/directory.hpp"
#include "fs/ops/lane_free.hpp"

namespace warren::cuda_engine {

/// What the lanes of a worker share: near to them, and nobody else's.
struct ScanScratch {
    u64 inode[format::inode_size / 8];
    u64 block[format::block_size / 8];
    u64 places[core::tree_height_max + 2];  // on the way, and the versions seen there
    u64 versions[core::tree_height_max + 2];
};

/// An array of pairs that was copied.
struct PairsCopy {
    const format::TreePair* pairs;
    u32 count;
    u32 height;
};

/// All members are collective.
template <class Team>
class ScanWay {
 public:
    WARREN_HD ScanWay(const Team& team, const core::Store& store, ScanScratch& scratch)
        : team_(team), store_(store), scratch_(scratch) {}

    u64 missing = 0;  // with Errc::need_block

    /// Begins a way with the inode of a directory. Errc::stale if it is gone.
    WARREN_HD Errc begin(Handle directory) {
        directory_ = directory;
        const u64 place = directory.inode * format::inode_size;
        count_ = 0;
        if (!core::is_inode_slot(store_, directory.inode)) return Errc::stale;
        WARREN_TRY(pass(place, place / format::block_size * format::block_size));
        copy<format::inode_size / 8>(scratch_.inode,
                                     reinterpret_cast<const u64*>(store_.base + place));
        const format::Inode& at = inode();
        if (at.generation != directory.generation) {
            WARREN_TRY(confirm());
            return Errc::stale;
        }
        const bool is_sound = (at.mode & format::type_mask) == format::type_directory &&
                              at.area_kind == static_cast<u8>(format::AreaKind::tree) &&
                              at.area_count <= format::root_pairs_max &&
                              at.height <= core::tree_height_max &&
                              (at.area_count == 0 || at.height > 0);
        return is_sound ? Errc::ok : doubt();
    }

    /// Goes to what a pair of the array at hand leads to; what was copied of that is gone. The next
    /// array if it is a node; if it is a leaf, `array` stays.
    WARREN_HD Errc step(format::BlockPointer child, PairsCopy& array) {
        const u64 place = child.offset();
        if (!child.is_valid() || place % format::block_size != 0 || place >= store_.size_bytes) {
            return doubt();
        }
        WARREN_TRY(pass(place, place));
        copy<format::block_size / 8>(scratch_.block,
                                     reinterpret_cast<const u64*>(store_.base + place));
        if (array.height == 1) {
            return is_ours(leaf().header, format::BlockKind::directory_leaf) ? Errc::ok : doubt();
        }
        const auto& node = *reinterpret_cast<const format::TreeNode*>(scratch_.block);
        const bool is_sound = is_ours(node.header, format::BlockKind::directory_node) &&
                              node.height == array.height - 1 && node.count > 0 &&
                              node.count <= format::node_pairs_max;
        if (!is_sound) return doubt();
        array = {node.pairs, node.count, node.height};
        return Errc::ok;
    }

    /// Errc::retry if anything on the way has changed.
    WARREN_HD Errc confirm() const {
        core::fence_acquire();  // pairs with fence_release() of writers
        bool is_stale = false;
        for (u32 i = team_.lane(); i < count_; i += Team::width) {
            const u64 now = relaxed_load(store_.versions[core::stripe_of(scratch_.places[i])]);
            is_stale = is_stale || now != scratch_.versions[i];
        }
        return team_.ballot(is_stale) != 0 ? Errc::retry : Errc::ok;
    }
    /// Whether nothing on the way has changed. One lane.
    WARREN_HD bool stands() const {
        core::fence_acquire();  // pairs with fence_release() of writers
        for (u32 i = 0; i < count_; ++i) {
            const u64 now = relaxed_load(store_.versions[core::stripe_of(scratch_.places[i])]);
            if (now != scratch_.versions[i]) return false;
        }
        return true;
    }
    /// The answer to what cannot be: Errc::corrupt if it has not changed meanwhile.
    WARREN_HD Errc doubt() const {
        const Errc code = confirm();
        return code == Errc::ok ? Errc::corrupt : code;
    }

    WARREN_HD const format::Inode& inode() const {
        return *reinterpret_cast<const format::Inode*>(scratch_.inode);
    }
    WARREN_HD format::DirectoryLeaf& leaf() const {
        return *reinterpret_cast<format::DirectoryLeaf*>(scratch_.block);
    }

 private:
    /// Copies `words` words that others may change. They are asked for before the first is waited
    /// for.
    template <u32 words>
    WARREN_HD void copy(u64* to, const u64* from) const {
        constexpr u32 each = (words + Team::width - 1) / Team::width;
        constexpr u32 batch = each < 16 ? each : 16;
        team_.sync();
        for (u32 begin = 0; begin < each; begin += batch) {
            u64 held[batch];
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
            for (u32 i = 0; i < batch; ++i) {
                const u32 at = (begin + i) * Team::width + team_.lane();
                held[i] = at < words ? relaxed_load(from[at]) : 0;
            }
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
            for (u32 i = 0; i < batch; ++i) {
                const u32 at = (begin + i) * Team::width + team_.lane();
                if (at < words) to[at] = held[i];
            }
        }
        team_.sync();
    }

    /// Notes the version of `place` on the way, if its block is in memory.
    WARREN_HD Errc pass(u64 place, u64 block_place) {
        struct Look {
            u64 version;
            u64 bits;
        };
        const u64 block = block_place / format::block_size;
        // Both are asked for before either answer is looked at.
        const Look look = once(team_, [&] {
            const u64 bits = relaxed_load(store_.resident[block / 64]);
            // Acquire: pairs with the release of end_apply().
            const u64 version = device_atomic<u64>(store_.versions[core::stripe_of(place)])
                                    .load(hd::memory_order_acquire);
            return Look{version, bits};
        });
#if !defined(__CUDA_ARCH__)
        // Pairs with the release of the loader that filled the block. A GPU's blocks are filled by
        // copies that end before the bit is set, and relaxed loads go to the level-2 cache.
        core::fence_acquire();
#endif
        if ((look.version & 1) != 0) return Errc::retry;
        if ((look.bits >> block % 64 & 1) == 0) {
            missing = block_place;
            return Errc::need_block;
        }
        once(team_, [&] {
            scratch_.places[count_] = place;
            scratch_.versions[count_] = look.version;
        });
        ++count_;
        return Errc::ok;
    }

    WARREN_HD bool is_ours(const format::BlockHeader& header, format::BlockKind kind) const {
        return format::BlockIdentity{kind, directory_.generation, directory_.inode}.agrees(header);
    }

    const Team team_;
    const core::Store& store_;
    ScanScratch& scratch_;
    Handle directory_;
    u32 count_ = 0;
};

}  // namespace warren::cuda_engine
