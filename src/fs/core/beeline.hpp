// SPDX-License-Identifier: Apache-2.0
// From a directory and a name to the inode in as few waits as possible. Where a team has many
// lanes, as on a GPU, a look at memory costs hundreds of nanoseconds however little is read: so
// each step reads all of what it can need at once, and checks that the step before was sound while
// it is on its way to the next. This is the common way only: everything is in memory, nobody
// writes, no list decides on permission, the name is of usual length and shares its hash with none.
// For all else the answer is "no", and the caller goes the plain way, which says why.
//
// Invariant: a step's version is read before what it guards, and again after what was found there
// has been observed in its turn; so what is found was all true at one moment (see
// fs/core/tree.hpp).
#pragma once

#include "fs/core/directory.hpp"
#include "fs/core/gather.hpp"
#include "fs/core/permission.hpp"

namespace warren::core {

/// The version word that guards `place`, with its neighbour.
WARREN_HD inline const WordPair* version_pair(const Store& store, u64 place) {
    return pair_around(store.versions, stripe_of(place));
}
WARREN_HD inline bool shows_version(const WordPair& pair, const Seen& seen) {
    return word_of(pair, stripe_of(seen.place)) == seen.version;
}

/// Whether what `seen` guards, all of it read by gathering, is still as it was.
template <class Team>
WARREN_HD bool stands(const Team& team, const Store& store, const Seen& seen) {
    return load(team, store.versions[stripe_of(seen.place)]) == seen.version;
}

/// An inode as it was at one moment between its version's two readings. The second is the caller's.
template <class Team>
struct InodeImage {
    static constexpr u32 pairs = format::inode_size / sizeof(WordPair);

    InodeRef inode;
    Gathered<Team, WordPair, pairs + 1> items;  // the last one: the version of what led here

    /// A field of at most eight bytes.
    template <class T>
    WARREN_HD T get(const Team& team, T Inode::*field) const {
        const auto offset = static_cast<u32>(reinterpret_cast<const char*>(&(inode.at->*field)) -
                                             reinterpret_cast<const char*>(inode.at));
        return items.tell(team, offset / 16, [&](const WordPair& pair) {
            const u64 word = offset / 8 % 2 == 0 ? pair.low : pair.high;
            return static_cast<T>(word >> offset % 8 * 8);
        });
    }
    WARREN_HD bool has_attributes(const Team& team) const {
        constexpr u32 offset = offsetof(Inode, attributes);
        static_assert(offset % 16 == 0);
        return items.tell(team, offset / 16, [](const WordPair& pair) { return pair.low; }) != 0;
    }
};

/// The words that say whether an inode can be read at all: the version, whether its block is in
/// memory, the kind of the frame; and one that says whether the bitmap is in memory, for those who
/// want to free the inode.
struct InodeLanding {
    static constexpr u32 words = 3;
    static constexpr u32 words_with_bitmap = 4;

    const Store& store;
    u64 number;
    // All of these fit: a volume has at most 2^36 inodes.
    u32 block = static_cast<u32>(number / format::inodes_per_block);
    u32 frame = block / format::blocks_per_frame;

    WARREN_HD bool is_in_volume() const {
        return number < store.size_bytes / format::inode_size &&
               block % format::blocks_per_frame != 0;
    }
    WARREN_HD u32 bitmap_block() const { return frame * format::blocks_per_frame; }
    WARREN_HD const u64* word_at(u32 i) const {
        if (i == 0) return store.versions + stripe_of(number * format::inode_size);
        if (i == 2) return &store.frame(frame).kind;
        return store.resident + (i == 1 ? block : bitmap_block()) / 64;
    }
    WARREN_HD bool is_good(u32 i, u64 word) const {
        if (i == 0) return (word & 1) == 0;
        if (i == 2) return static_cast<FrameKind>(word) == FrameKind::inodes;
        return (word >> (i == 1 ? block : bitmap_block()) % 64 & 1) != 0;
    }
};

/// Reads the inode for which a landing was good, `image.inode.seen` noted already; `before` led to
/// it and must still be as it was. `fits(i, pair)` is one more question to each pair of words, to
/// which `fitting` must answer yes.
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

/// Finds the inode with this number; `fits`: see read_image().
template <class Team, class Fits>
WARREN_HD bool sight_inode(const Team& team, const Store& store, u64 number,
                           InodeImage<Team>& image, u32 fitting, const Fits& fits) {
    const InodeLanding landing{store, number};
    if (!landing.is_in_volume()) return false;
    Gathered<Team, u64, InodeLanding::words> words;
    words.read(team, [&](u32 i) { return landing.word_at(i); });
    const u32 good =
        words.count_of(team, [&](u32 i, u64 word) { return landing.is_good(i, word); });
    if (good != InodeLanding::words) return false;
    image.inode.seen = {number * format::inode_size,
                        words.tell(team, 0, [](u64 word) { return word; })};
    return read_image(team, store, number, image.inode.seen, image, fitting, fits);
}

/// Finds the inode that `handle` means.
template <class Team>
WARREN_HD bool sight_handle(const Team& team, const Store& store, Handle handle,
                            InodeImage<Team>& image) {
    static_assert(offsetof(Inode, generation) == 4);
    return sight_inode(team, store, handle.inode, image, 1, [&](u32 i, const WordPair& pair) {
        return i == 0 && static_cast<u32>(pair.low >> 32) == handle.generation;
    });
}

/// Finds the directory that `handle` means, if it has a tree of leaves.
template <class Team>
WARREN_HD bool sight_directory(const Team& team, const Store& store, Handle handle,
                               InodeImage<Team>& image) {
    static_assert(offsetof(Inode, mode) == 8 && offsetof(Inode, area_kind) == 54 &&
                  offsetof(Inode, height) == 55 && offsetof(Inode, area_count) == 56);
    return sight_inode(team, store, handle.inode, image, 2, [&](u32 i, const WordPair& pair) {
        if (i == 0) {
            const u32 mode = static_cast<u32>(pair.high);
            return static_cast<u32>(pair.low >> 32) == handle.generation &&
                   (mode & format::type_mask) == format::type_directory;
        }
        const u32 kind = static_cast<u32>(pair.low >> 48) & 0xff;
        const u32 height = static_cast<u32>(pair.low >> 56);
        const u32 count = static_cast<u32>(pair.high) & 0xffff;
        return i == 3 && kind == static_cast<u32>(AreaKind::tree) && height >= 1 &&
               height <= tree_height_max && count >= 1 && count <= format::root_pairs_max;
    });
}

/// What stat(2) tells.
template <class Team>
WARREN_HD Attributes attributes_in(const Team& team, const InodeImage<Team>& image) {
    Attributes out;
    out.handle = image.inode.handle();
    out.mode = image.get(team, &Inode::mode);
    out.links = image.get(team, &Inode::links);
    out.user = image.get(team, &Inode::user);
    out.group = image.get(team, &Inode::group);
    out.device = image.get(team, &Inode::device);
    out.size = image.get(team, &Inode::size);
    out.blocks = image.get(team, &Inode::blocks);
    out.parent = image.get(team, &Inode::parent);
    out.accessed = image.get(team, &Inode::accessed);
    out.modified = image.get(team, &Inode::modified);
    out.changed = image.get(team, &Inode::changed);
    out.born = image.get(team, &Inode::born);
    return out;
}

/// Notes the version of a block of a tree; false if it cannot be read now.
template <class Team>
WARREN_HD bool sight_block(const Team& team, const Store& store, BlockPointer pointer, Seen& seen) {
    const u64 place = pointer.offset();
    if (!pointer.is_valid() || place >= store.size_bytes) return false;
    const u64 block = place / format::block_size;
    Gathered<Team, u64, 2> words;
    words.read(team, [&](u32 i) {
        return i == 0 ? &store.versions[stripe_of(place)] : &store.resident[block / 64];
    });
    const u32 good = words.count_of(team, [&](u32 i, u64 word) {
        return i == 0 ? (word & 1) == 0 : (word >> block % 64 & 1) != 0;
    });
    seen = {place, words.tell(team, 0, [](u64 word) { return word; })};
    return good == 2;
}

/// The child whose keys, of the items in [first, end), are those from `key` on; in `child`. False
/// if the keys of one hash, of which `key` is the first, are divided between two.
template <class Team, u32 count>
WARREN_HD bool choose(const Team& team, const Gathered<Team, WordPair, count>& items, u32 first,
                      u32 end, u64 key, BlockPointer& child) {
    const u32 passed = items.count_of(team, [&](u32 i, const WordPair& pair) {
        return i >= first && i < end && pair.low <= key;
    });
    const u32 parted = items.count_of(team, [&](u32 i, const WordPair& pair) {
        return i >= first && i < end && pair.low > key && pair.low <= (key | 0xff);
    });
    const u32 index = first + (passed == 0 ? 0 : passed - 1);
    child = {items.tell(team, index, [](const WordPair& pair) { return pair.high; })};
    return parted == 0;
}

/// Goes through the node that `seen` guards, of the tree of inode `owner`, towards `key`.
template <class Team>
WARREN_HD bool pass_node(const Team& team, const Store& store, const Seen& seen, const Seen& before,
                         u64 owner, u32 height, u64 key, BlockPointer& child) {
    constexpr u32 heads = 4;  // three pairs of the header and the count, and what led here
    constexpr u32 stride = 9;
    static_assert((32 - heads) * stride >= format::node_pairs_max);
    auto* node = reinterpret_cast<TreeNode*>(store.base + seen.place);
    const auto* header = reinterpret_cast<const WordPair*>(node);
    const auto* pairs = reinterpret_cast<const WordPair*>(node->pairs);
    Gathered<Team, WordPair, 32> items;
    items.read(team, [&](u32 i) {
        if (i == 2) return pairs - 1;
        if (i == 3) return version_pair(store, before.place);
        return i < heads ? header + i : pairs + (i - heads) * stride;
    });
    const u32 sound = items.count_of(team, [&](u32 i, const WordPair& pair) {
        if (i == 0) return (pair.low >> 32 & 0xffff) == static_cast<u64>(BlockKind::directory_node);
        if (i == 1) return pair.high == owner;
        if (i == 2) return pair.low >> 32 == height;
        return i == 3 && shows_version(pair, before);
    });
    const u32 count =
        items.tell(team, 2, [](const WordPair& pair) { return static_cast<u32>(pair.low); });
    if (sound != heads || count == 0 || count > format::node_pairs_max) return false;
    const u32 passed = items.count_of(team, [&](u32 i, const WordPair& pair) {
        return i >= heads && (i - heads) * stride < count && pair.low <= key;
    });
    const u32 first = passed == 0 ? 0 : (passed - 1) * stride;
    const u32 end = count - first < stride + 1 ? count - first : stride + 1;
    Gathered<Team, WordPair, stride + 1> window;
    window.read(team, [&](u32 i) { return pairs + first + (i < end ? i : 0); });
    return choose(team, window, 0, end, key, child);
}

/// What one glance at a leaf tells.
struct LeafGlance {
    DirectoryLeaf* leaf = nullptr;
    Seen seen;
    Seen before;  // what led to it, to be confirmed when the leaf is read
    LeafCounts counts;
    u32 slot = slot_none;  // of the one entry with the name's hash
    DirectorySlot entry{};
};

/// Which of the four hashes in a pair are `row`, a bit each.
WARREN_HD inline u32 matches_of(const WordPair& pair, u32 row) {
    return (static_cast<u32>(pair.low) == row ? 1u : 0u) |
           (static_cast<u32>(pair.low >> 32) == row ? 2u : 0u) |
           (static_cast<u32>(pair.high) == row ? 4u : 0u) |
           (static_cast<u32>(pair.high >> 32) == row ? 8u : 0u);
}

/// Goes from a directory's root to the leaf for `hash`. False also if the hash is in two leaves.
template <class Team>
WARREN_HD bool sight_leaf(const Team& team, const Store& store, const InodeImage<Team>& directory,
                          u64 hash, LeafGlance& glance) {
    constexpr u32 root = offsetof(Inode, area) / sizeof(WordPair);
    const u64 key = format::first_key(hash);
    // Height and number of pairs in one word.
    const u32 shape = directory.items.tell(team, 3, [](const WordPair& pair) {
        return static_cast<u32>(pair.low >> 56) << 16 | (static_cast<u32>(pair.high) & 0xffff);
    });
    BlockPointer child;
    if (!choose(team, directory.items, root, root + (shape & 0xffff), key, child)) return false;
    glance.before = directory.inode.seen;
    for (u32 height = shape >> 16;; --height) {
        if (!sight_block(team, store, child, glance.seen)) return false;
        if (height == 1) break;
        if (!pass_node(team, store, glance.seen, glance.before, directory.inode.number, height - 1,
                       key, child)) {
            return false;
        }
        glance.before = glance.seen;
    }
    glance.leaf = reinterpret_cast<DirectoryLeaf*>(store.base + glance.seen.place);
    return true;
}

/// Compares the hashes of a leaf of directory `owner`. False if several entries share the row.
template <class Team>
WARREN_HD bool compare_hashes(const Team& team, const Store& store, u64 owner, u64 hash,
                              LeafGlance& glance) {
    constexpr u32 head = offsetof(DirectoryLeaf, slots) / sizeof(WordPair);
    constexpr u32 first_row = offsetof(DirectoryLeaf, hashes) / sizeof(WordPair);
    const auto* from = reinterpret_cast<const WordPair*>(glance.leaf);
    const WordPair* version = version_pair(store, glance.before.place);
    Gathered<Team, WordPair, head + 1> items;
    items.read(team, [&](u32 i) { return i < head ? from + i : version; });
    const u32 sound = items.count_of(team, [&](u32 i, const WordPair& pair) {
        if (i == 0) return (pair.low >> 32 & 0xffff) == static_cast<u64>(BlockKind::directory_leaf);
        if (i == 1) return pair.high == owner;
        return i == head && shows_version(pair, glance.before);
    });
    if (sound != 3) return false;
    const u32 row = static_cast<u32>(hash >> 23);
    const auto votes = [&](u32 i, const WordPair& pair) {
        return i >= first_row && i < head && matches_of(pair, row) != 0;
    };
    glance.counts = items.tell(team, first_row - 1, [](const WordPair& pair) {
        return LeafCounts{static_cast<u32>(pair.low), static_cast<u32>(pair.low >> 32),
                          static_cast<u32>(pair.high)};
    });
    const u32 found = items.count_of(team, votes);
    if (found == 0) return true;
    const u32 at = items.first_of(team, votes);
    const u32 bits =
        items.tell(team, at, [&](const WordPair& pair) { return matches_of(pair, row); });
    if (found > 1 || (bits & (bits - 1)) != 0) return false;
    const u32 slot = (at - first_row) * 4 + static_cast<u32>(hd::countr_zero(bits));
    Gathered<Team, WordPair, 1> entry;
    entry.read(team,
               [&](u32) { return reinterpret_cast<const WordPair*>(&glance.leaf->slots[slot]); });
    const WordPair words = entry.tell(team, 0, [](const WordPair& pair) { return pair; });
    glance.entry = {words.low, words.high};
    const bool is_meant = format::entry_key(row, glance.entry) >> 8 == hash;
    if (is_meant && glance.entry.inode() != 0) glance.slot = slot;
    return true;
}

/// A name in the caller's memory as its words, eight bytes a lane.
template <class Team>
class NameWords {
    static constexpr u32 rows = 32 / Team::width;

 public:
    /// The longest that leaves lanes for a landing.
    static constexpr u32 length_max = (32 - InodeLanding::words_with_bitmap) * 8;

    /// False for what make_name() refuses, and for what is too long here. Collective.
    WARREN_HD bool take(const Team& team, const char* bytes, u32 length) {
        if (length == 0 || length > length_max) return false;
        bool is_odd = false;
        for (u32 row = 0; row < rows; ++row) {
            const u32 i = row * Team::width + team.lane();
            held_[row] = i * 8 < length ? name_word(bytes, length, i) : 0;
            // The bytes behind the end are zero, as no other may be.
            const u32 rest = i * 8 < length ? length - i * 8 : 0;
            const u64 beyond = rest >= 8 ? 0 : ~u64{0} << rest * 8;
            is_odd = is_odd || has_zero_byte(held_[row] | beyond) ||
                     has_zero_byte(held_[row] ^ all_slashes);
        }
        if (team.ballot(is_odd) != 0) return false;
        return !(bytes[0] == '.' && (length == 1 || (length == 2 && bytes[1] == '.')));
    }
    WARREN_HD u64 word(const Team& team, u32 i) const {
        u64 word = held_[0];
        for (u32 row = 1; row < rows; ++row) {
            if (row == i / Team::width) word = held_[row];
        }
        return team.broadcast(word, i % Team::width);
    }
    /// Word i, by the lane that holds it.
    WARREN_HD u64 own_word(u32 i) const { return held_[rows == 1 ? 0 : i / Team::width]; }

 private:
    u64 held_[rows];
};

/// The directory that a team went through last. It may go through it again without a look, because
/// the step behind confirms its version anyway.
template <class Team>
struct KnownDirectory {
    Handle handle;  // inode 0: none
    InodeImage<Team> image;
};

/// What the beeline sees.
template <class Team>
struct Sighting {
    InodeImage<Team> directory;
    Name name;
    LeafGlance glance;
    Entry entry;
    InodeImage<Team> inode;   // if entry.exists
    bool has_bitmap = false;  // likewise: the inode's bitmap is in memory
};

/// Looks at the slot and the name that may be the one wanted, and whether its inode can be read.
template <class Team>
WARREN_HD bool sight_entry(const Team& team, const Store& store, const NameWords<Team>& words,
                           Sighting<Team>& sighting) {
    const LeafGlance& glance = sighting.glance;
    const DirectorySlot slot = glance.entry;
    const Name& name = sighting.name;
    const u32 offset = slot.name_offset();
    const u64 key = format::entry_key(static_cast<u32>(name.hash >> 23), slot);
    const InodeLanding landing{store, slot.inode()};
    if (slot.name_length() != name.length || offset % 8 != 0 ||
        offset + padded(name.length) > format::leaf_heap_bytes || !landing.is_in_volume()) {
        return false;
    }
    constexpr u32 first = 32 - InodeLanding::words_with_bitmap;
    constexpr u32 bitmap_word = 31;
    const u32 name_words = padded(name.length) / 8;
    const u64* heap = glance.leaf->heap + offset / 8;
    Gathered<Team, u64, 32> items;
    items.read(team, [&](u32 i) -> const u64* {
        if (i >= first) return landing.word_at(i - first);
        return heap + (i < name_words ? i : 0);
    });
    const u32 good = items.count_of(team, [&](u32 i, u64 word) {
        if (i >= first) return i != bitmap_word && landing.is_good(i - first, word);
        return i < name_words && word == words.own_word(i);
    });
    if (good != name_words + InodeLanding::words) return false;
    sighting.has_bitmap = items.tell(
        team, bitmap_word, [&](u64 word) { return landing.is_good(bitmap_word - first, word); });
    sighting.inode.inode.seen = {slot.inode() * format::inode_size,
                                 items.tell(team, first, [](u64 word) { return word; })};
    sighting.entry.exists = true;
    sighting.entry.inode = slot.inode();
    sighting.entry.type = slot.type();
    sighting.entry.key = key;
    sighting.entry.slot = glance.slot;
    return read_image(team, store, slot.inode(), glance.seen, sighting.inode, 0,
                      [](u32, const WordPair&) { return false; });
}

/// Whether the mode bits alone let `caller` do `wanted` in a directory.
template <class Team>
WARREN_HD bool mode_permits(const Team& team, const InodeImage<Team>& directory,
                            const Credentials& caller, u32 wanted) {
    if (!caller.check || caller.is_root()) return true;
    const u32 mode = directory.get(team, &Inode::mode);
    if (caller.user == directory.get(team, &Inode::user)) return (mode >> 6 & wanted) == wanted;
    if (directory.has_attributes(team)) return false;
    const u32 bits = caller.is_in(directory.get(team, &Inode::group)) ? mode >> 3 : mode;
    return (bits & wanted) == wanted;
}

/// Finds `name` in a directory where the caller may do `wanted`, or finds that it is not there;
/// then entry.key is where it would go. If it is there, nothing tells yet whether its inode has
/// stayed as it was: the caller confirms sighting.inode.inode.seen, or locks it. `known` spares the
/// look at a directory gone through before; after a "no" it knows none.
template <class Team>
WARREN_HD bool sight(const Team& team, const Store& store, const Credentials& caller,
                     Handle directory, const char* bytes, u32 length, u32 wanted,
                     Sighting<Team>& sighting, KnownDirectory<Team>& known) {
    static_assert(Team::width > 1);
    if (store.heads != nullptr) return false;
    NameWords<Team> words;
    if (!words.take(team, bytes, length)) return false;
    const bool is_known = known.handle.inode == directory.inode &&
                          known.handle.generation == directory.generation && directory.inode != 0;
    known.handle = Handle{};
    if (is_known) {
        sighting.directory = known.image;
    } else if (!sight_directory(team, store, directory, sighting.directory)) {
        return false;
    }
    const InodeImage<Team>& image = sighting.directory;
    if (!mode_permits(team, image, caller, wanted)) return false;
    const u64 hash = shortened_hash(
        siphash_1_3_of(store.hash_key, length, [&](u32 i) { return words.word(team, i); }));
    sighting.name = {bytes, length, hash & store.hash_mask};
    LeafGlance& glance = sighting.glance;
    if (!sight_leaf(team, store, image, sighting.name.hash, glance)) return false;
    if (!compare_hashes(team, store, directory.inode, sighting.name.hash, glance)) return false;
    sighting.entry = Entry{};
    sighting.entry.leaf = glance.leaf;
    sighting.entry.leaf_seen = glance.seen;
    sighting.entry.key = format::first_key(sighting.name.hash);
    const bool is_there = glance.slot != slot_none;
    const bool is_sound =
        is_there ? sight_entry(team, store, words, sighting) : stands(team, store, glance.seen);
    if (is_sound) known = {directory, image};
    return is_sound;
}

/// As above for who knows no directory.
template <class Team>
WARREN_HD bool sight(const Team& team, const Store& store, const Credentials& caller,
                     Handle directory, const char* bytes, u32 length, u32 wanted,
                     Sighting<Team>& sighting) {
    KnownDirectory<Team> known;
    return sight(team, store, caller, directory, bytes, length, wanted, sighting, known);
}

}  // namespace warren::core
