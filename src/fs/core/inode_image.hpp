// SPDX-License-Identifier: Apache-2.0
// The first step of a fast-path lookup (fs/core/fast_lookup.hpp): reads an inode in two rounds of
// loads. The first round reads the words that say whether the inode can be read; the second reads
// all of the inode and, at the same time, confirms the version of what led to it.
//
// Invariant: the version that guards an image was read before the image; the user of the image
// confirms it afterwards.
#pragma once

#include "fs/core/gather.hpp"
#include "fs/core/tree.hpp"

namespace warren::core {

/// The pair of words that contains the version word of `place`.
WARREN_HD inline const WordPair* version_pair(const Store& store, u64 place) {
    return pair_around(store.versions, stripe_of(place));
}
WARREN_HD inline bool shows_version(const WordPair& pair, const Seen& seen) {
    return word_of(pair, stripe_of(seen.place)) == seen.version;
}

/// Whether the version of `seen` has not changed. Requires: what it guards was read through
/// Gathered, whose loads come before this one.
template <class Team>
WARREN_HD bool is_unchanged(const Team& team, const Store& store, const Seen& seen) {
    return load(team, store.versions[stripe_of(seen.place)]) == seen.version;
}

/// A copy of an inode that is consistent if its version has not changed; the caller confirms that.
template <class Team>
struct InodeImage {
    static constexpr u32 pairs = format::inode_size / sizeof(WordPair);

    InodeRef inode;
    Gathered<Team, WordPair, pairs + 1> items;  // the last item is the version of what led here

    /// The value at byte `offset`. Requires: a T lies there within one word of 8 bytes.
    template <class T>
    WARREN_HD T at(const Team& team, u32 offset) const {
        return items.tell(team, offset / 16, [&](const WordPair& pair) {
            const u64 word = offset / 8 % 2 == 0 ? pair.low : pair.high;
            return static_cast<T>(word >> offset % 8 * 8);
        });
    }
    /// The value of a field of at most eight bytes.
    template <class T>
    WARREN_HD T get(const Team& team, T Inode::*field) const {
        return at<T>(team, static_cast<u32>(reinterpret_cast<const char*>(&(inode.at->*field)) -
                                            reinterpret_cast<const char*>(inode.at)));
    }
    WARREN_HD u64 attributes(const Team& team) const {
        return at<u64>(team, offsetof(Inode, attributes));
    }
};

/// The words that say whether an inode can be read: its version, whether its block is in memory,
/// and the kind of its frame. A fourth says whether its bitmap is in memory, for callers that will
/// free the inode.
struct InodeProbe {
    static constexpr u32 words = 3;
    static constexpr u32 words_with_bitmap = 4;

    const Store& store;
    u64 number;
    // 32 bits suffice: a volume has at most 2^36 inodes.
    u32 block = static_cast<u32>(number / format::inodes_per_block);
    u32 frame = block / format::blocks_per_frame;

    WARREN_HD bool is_in_volume() const {
        return number < store.size_bytes / format::inode_size &&
               block % format::blocks_per_frame != 0;
    }
    WARREN_HD u32 bitmap_block() const { return frame * format::blocks_per_frame; }
    template <class Team>
    WARREN_HD const u64* word_at(u32 i) const {
        if constexpr (parts_freely<Team>) {
            if (i == 0) return store.versions + stripe_of(number * format::inode_size);
            if (i == 2) return &store.frame(frame).kind;
            return store.resident + (i == 1 ? block : bitmap_block()) / 64;
        }
        const u64* const version = store.versions + stripe_of(number * format::inode_size);
        const u64* const kind = &store.frame(frame).kind;
        const u64* const bits = store.resident + (i == 1 ? block : bitmap_block()) / 64;
        return i == 0 ? version : i == 2 ? kind : bits;
    }
    template <class Team>
    WARREN_HD bool is_good(u32 i, u64 word) const {
        if constexpr (parts_freely<Team>) {
            if (i == 0) return (word & 1) == 0;
            if (i == 2) return static_cast<FrameKind>(word) == FrameKind::inodes;
            return (word >> (i == 1 ? block : bitmap_block()) % 64 & 1) != 0;
        }
        const bool is_unlocked = (word & 1) == 0;
        const bool is_kind = static_cast<FrameKind>(word) == FrameKind::inodes;
        const bool is_there = (word >> (i == 1 ? block : bitmap_block()) % 64 & 1) != 0;
        return i == 0 ? is_unlocked : i == 2 ? is_kind : is_there;
    }
};

/// Reads an inode after its probe succeeded. Requires: `image.inode.seen` is set. `before` is the
/// version of what led to the inode; the function fails if it has changed, or if the inode does not
/// exist. `fits(i, pair)` is a further test of each pair of words, which exactly `fitting` pairs
/// must pass.
template <class Team, class Fits>
WARREN_HD bool read_image(const Team& team, const Store& store, u64 number, const Seen& before,
                          InodeImage<Team>& image, u32 fitting, const Fits& fits) {
    constexpr u32 pairs = InodeImage<Team>::pairs;
    image.inode.number = number;
    image.inode.at = reinterpret_cast<Inode*>(store.base + number * format::inode_size);
    const auto* from = reinterpret_cast<const WordPair*>(image.inode.at);
    const WordPair* version = version_pair(store, before.place);
    image.items.read(team, [&](u32 i) { return i < pairs ? from + i : version; });
    const u32 good = image.items.count_of(team, [&](u32 i, const WordPair& pair) {
        return i == pairs ? shows_version(pair, before) : fits(i, pair);
    });
    image.inode.generation = image.get(team, &Inode::generation);
    return good == fitting + 1 && image.inode.generation != 0;
}

/// Reads the inode with this number; for `fits` and `fitting` see read_image().
template <class Team, class Fits>
WARREN_HD bool peek_inode(const Team& team, const Store& store, u64 number, InodeImage<Team>& image,
                          u32 fitting, const Fits& fits) {
    const InodeProbe probe{store, number};
    if (!probe.is_in_volume()) return false;
    Gathered<Team, u64, InodeProbe::words> words;
    words.read(team, [&](u32 i) { return probe.template word_at<Team>(i); });
    const u32 good = words.count_of(
        team, [&](u32 i, u64 word) { return probe.template is_good<Team>(i, word); });
    if (good != InodeProbe::words) return false;
    image.inode.seen = {number * format::inode_size,
                        words.tell(team, 0, [](u64 word) { return word; })};
    return read_image(team, store, number, image.inode.seen, image, fitting, fits);
}

/// Reads the inode that `handle` names.
template <class Team>
WARREN_HD bool peek_handle(const Team& team, const Store& store, Handle handle,
                           InodeImage<Team>& image) {
    static_assert(offsetof(Inode, generation) == 4);
    return peek_inode(team, store, handle.inode, image, 1, [&](u32 i, const WordPair& pair) {
        return i == 0 && static_cast<u32>(pair.low >> 32) == handle.generation;
    });
}

/// Reads the directory that `handle` names, if it has a tree of leaves.
template <class Team>
WARREN_HD bool peek_directory(const Team& team, const Store& store, Handle handle,
                              InodeImage<Team>& image) {
    static_assert(offsetof(Inode, mode) == 8 && offsetof(Inode, area_kind) == 54 &&
                  offsetof(Inode, height) == 55 && offsetof(Inode, area_count) == 56);
    return peek_inode(team, store, handle.inode, image, 2, [&](u32 i, const WordPair& pair) {
        if (i == 0) {
            const u32 mode = static_cast<u32>(pair.high);
            return static_cast<u32>(pair.low >> 32) == handle.generation &&
                   format::is_directory(mode);
        }
        const u32 kind = static_cast<u32>(pair.low >> 48) & 0xff;
        const u32 height = static_cast<u32>(pair.low >> 56);
        const u32 count = static_cast<u32>(pair.high) & 0xffff;
        return i == 3 && kind == static_cast<u32>(AreaKind::tree) && height >= 1 &&
               height <= tree_height_max && count >= 1 && count <= format::root_pairs_max;
    });
}

/// The fields that stat(2) returns.
template <class Team>
WARREN_HD Attributes attributes_in(const Team& team, const InodeImage<Team>& image) {
    return make_attributes(image.inode.handle(),
                           [&](auto field) { return image.get(team, field); });
}

}  // namespace warren::core
