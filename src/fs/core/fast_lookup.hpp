// SPDX-License-Identifier: Apache-2.0
// The fast path of a lookup: from a directory and a name to the inode with as few dependent loads
// from memory as possible. On a GPU a load costs hundreds of nanoseconds, however little it reads.
// So a team of many lanes loads in each step all that the step may need, and validates the step
// before while these loads are in flight. The fast path covers only the common case: everything is
// in memory, no thread is writing, no ACL decides on permission, the name is not too long and its
// hash is unique. In all other cases it fails, and the caller takes the general path, which finds
// the reason.
//
// Invariant: the version that guards a step is read before the step's data, and confirmed after the
// version of what they point to was read. So everything that is found was true at one moment (see
// fs/core/tree.hpp).
#pragma once

#include "fs/core/directory.hpp"
#include "fs/core/gather.hpp"
#include "fs/core/inode_image.hpp"
#include "fs/core/node_copy.hpp"
#include "fs/core/permission.hpp"
#include "fs/core/version_notes.hpp"

namespace warren::core {

/// Reads the version of a block of a tree; false if the block is not in memory or is locked.
template <class Team>
WARREN_HD bool peek_block(const Team& team, const Store& store, BlockPointer pointer, Seen& seen) {
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

/// Sets `child` to the child that covers `key`, the lowest key of one hash, by the pairs in items
/// [first, end). False if the keys of that hash are divided between two children.
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

/// Finds the child that covers `key` in the node that `seen` guards, which must belong to the tree
/// of `owner`. Also confirms `before`, the version of what led to the node.
template <class Team>
WARREN_HD bool pass_node(const Team& team, const Store& store, const Seen& seen, const Seen& before,
                         const InodeRef& owner, u32 height, u64 key, BlockPointer& child) {
    constexpr u32 heads = 5;  // three pairs of the header, the count, the version of what led here
    constexpr u32 stride = 10;
    static_assert((32 - heads) * stride >= format::node_pairs_max);
    auto* node = reinterpret_cast<TreeNode*>(store.base + seen.place);
    const auto* header = reinterpret_cast<const WordPair*>(node);
    const auto* pairs = reinterpret_cast<const WordPair*>(node->pairs);
    const BlockIdentity expected = identity_of(BlockKind::directory_node, owner);
    Gathered<Team, WordPair, 32> items;
    items.read(team, [&](u32 i) {
        if (i == 4) return version_pair(store, before.place);
        return i < heads ? header + i : pairs + (i - heads) * stride;
    });
    const u32 sound = items.count_of(team, [&](u32 i, const WordPair& pair) {
        if (i < 3) return expected.agrees(i, pair.low, pair.high);
        if (i == 3) return pair.low >> 32 == height;
        return i == 4 && shows_version(pair, before);
    });
    const u32 count =
        items.tell(team, 3, [](const WordPair& pair) { return static_cast<u32>(pair.low); });
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

/// What a team remembers of the directory that it searched last, and where it notes versions of
/// leaves. A lookup uses these instead of loads; that is safe because its later steps validate them
/// anyway.
template <class Team>
struct KnownDirectory {
    Handle handle;  // inode 0: no directory is remembered
    InodeImage<Team> image;
    NodeCopy* node = nullptr;  // null: this team remembers no nodes
    Seen node_seen;            // place 0: no node is remembered
    VersionNotes* notes = nullptr;
    bool is_used = false;       // the last lookup used some of it instead of a load
    bool is_note_used = false;  // the last lookup used the noted version of a leaf

    WARREN_HD void forget() {
        handle = Handle{};
        node_seen = Seen{};
    }
};

/// For callers that remember nothing.
struct NothingKnown {};

/// The result of one optimistic read of a leaf.
struct LeafView {
    DirectoryLeaf* leaf = nullptr;
    Seen seen;
    Seen before;  // the version of what led to the leaf, to be confirmed when the leaf is read
    Seen above;   // the version of what led to that, also to be confirmed; or the same
    LeafCounts counts;
    u32 slot = slot_none;  // of the only entry with the name's hash
    DirectorySlot entry{};
};

/// One bit for each of the four hashes in a pair: whether it is `row`, the upper 32 bits of a hash.
WARREN_HD inline u32 matches_of(const WordPair& pair, u32 row) {
    return (static_cast<u32>(pair.low) == row ? 1u : 0u) |
           (static_cast<u32>(pair.low >> 32) == row ? 2u : 0u) |
           (static_cast<u32>(pair.high) == row ? 4u : 0u) |
           (static_cast<u32>(pair.high >> 32) == row ? 8u : 0u);
}

/// Finds the child that covers `key` in the node at `child`, which is right above the leaves. Loads
/// the node only if it is not the remembered one. Requires: known.node is not null.
template <class Team>
WARREN_HD bool pass_known_node(const Team& team, const Store& store, const InodeRef& owner, u64 key,
                               KnownDirectory<Team>& known, LeafView& leaf_view,
                               BlockPointer& child) {
    leaf_view.above = leaf_view.before;
    if (child.is_valid() && child.offset() == known.node_seen.place) {
        known.is_used = true;
    } else {
        Seen seen;
        if (!peek_block(team, store, child, seen) ||
            !copy_node(team, store, seen, leaf_view.before, owner, *known.node)) {
            return false;
        }
        leaf_view.above = known.node_seen = seen;
    }
    leaf_view.before = known.node_seen;
    return known.node->choose(team, key, child);
}

/// The version of the leaf at `pointer`: from a note if there is one and `is_trusted`, else by a
/// load.
template <class Team>
WARREN_HD bool peek_known_leaf(const Team& team, const Store& store, BlockPointer pointer,
                               KnownDirectory<Team>& known, bool is_trusted, Seen& seen) {
    if (known.notes == nullptr) return peek_block(team, store, pointer, seen);
    if (is_trusted && pointer.is_valid() && known.notes->find(team, pointer.offset(), seen)) {
        known.is_used = known.is_note_used = true;
        return true;
    }
    if (!peek_block(team, store, pointer, seen)) return false;
    known.notes->write(team, seen);
    return true;
}

/// Descends from a directory's root to the leaf that covers `hash`. Also false if two leaves cover
/// it. `known` is a KnownDirectory or NothingKnown; noted versions are used only if `is_trusted`.
template <class Team, class Known>
WARREN_HD bool peek_leaf(const Team& team, const Store& store, const InodeImage<Team>& directory,
                         u64 hash, LeafView& leaf_view, Known& known, bool is_trusted) {
    constexpr bool remembers = !std::is_same_v<Known, NothingKnown>;
    constexpr u32 root = offsetof(Inode, area) / sizeof(WordPair);
    const u64 key = format::first_key(hash);
    // The height and the number of pairs, in one word.
    const u32 shape = directory.items.tell(team, 3, [](const WordPair& pair) {
        return static_cast<u32>(pair.low >> 56) << 16 | (static_cast<u32>(pair.high) & 0xffff);
    });
    BlockPointer child;
    const u32 count = shape & 0xffff;
    if (remembers && count == 1) {
        child = {directory.items.tell(team, root, [](const WordPair& pair) { return pair.high; })};
    } else if (!choose(team, directory.items, root, root + count, key, child)) {
        return false;
    }
    leaf_view.above = leaf_view.before = directory.inode.seen;
    u32 height = shape >> 16;
    u32 height_known = 1;
    if constexpr (remembers) {
        if (known.node != nullptr) height_known = 2;
    }
    for (; height > height_known; --height) {
        if (!peek_block(team, store, child, leaf_view.seen)) return false;
        if (!pass_node(team, store, leaf_view.seen, leaf_view.before, directory.inode, height - 1,
                       key, child)) {
            return false;
        }
        leaf_view.above = leaf_view.before = leaf_view.seen;
    }
    if constexpr (remembers) {
        if (height == 2 &&
            !pass_known_node(team, store, directory.inode, key, known, leaf_view, child)) {
            return false;
        }
        if (!peek_known_leaf(team, store, child, known, is_trusted, leaf_view.seen)) return false;
    } else if (!peek_block(team, store, child, leaf_view.seen)) {
        return false;
    }
    leaf_view.leaf = reinterpret_cast<DirectoryLeaf*>(store.base + leaf_view.seen.place);
    return true;
}

/// Compares the hashes of a leaf, which must belong to the directory `owner`, with `hash`. False if
/// the leaf is not valid, if several entries have the same upper 32 bits, or if leaf_view.before
/// has changed. `has_above`: leaf_view.above has to be confirmed here as well.
template <bool has_above, class Team>
WARREN_HD bool compare_hashes(const Team& team, const Store& store, const InodeRef& owner, u64 hash,
                              LeafView& leaf_view) {
    constexpr u32 head = offsetof(DirectoryLeaf, slots) / sizeof(WordPair);
    constexpr u32 first_row = offsetof(DirectoryLeaf, hashes) / sizeof(WordPair);
    const auto* from = reinterpret_cast<const WordPair*>(leaf_view.leaf);
    const WordPair* before = version_pair(store, leaf_view.before.place);
    const WordPair* above = version_pair(store, leaf_view.above.place);
    const BlockIdentity expected = identity_of(BlockKind::directory_leaf, owner);
    Gathered<Team, WordPair, head + (has_above ? 2 : 1)> items;
    items.read(team, [&](u32 i) { return i < head ? from + i : i == head ? before : above; });
    const bool is_sound = items.all_of(team, [&](u32 i, const WordPair& pair) -> bool {
        if constexpr (parts_freely<Team>) {
            if (i < 3) return expected.agrees(i, pair.low, pair.high);
            return i != head || shows_version(pair, leaf_view.before);
        }
        return expected.agrees(i, pair.low, pair.high) &
               ((i != head) | shows_version(pair, leaf_view.before)) &
               (!has_above | (i != head + 1) | shows_version(pair, leaf_view.above));
    });
    if (!is_sound) return false;
    const u32 row = static_cast<u32>(hash >> 23);
    const auto votes = [&](u32 i, const WordPair& pair) -> bool {
        if constexpr (parts_freely<Team>) {
            return i >= first_row && i < head && matches_of(pair, row) != 0;
        }
        return (i >= first_row) & (i < head) & (matches_of(pair, row) != 0);
    };
    leaf_view.counts = items.tell(team, first_row - 1, [](const WordPair& pair) {
        return LeafCounts{static_cast<u32>(pair.low), static_cast<u32>(pair.low >> 32),
                          static_cast<u32>(pair.high)};
    });
    u32 found = 0;
    const u32 at = items.first_of(team, votes, found);
    if (found == 0) return true;
    const u32 bits =
        items.tell(team, at, [&](const WordPair& pair) { return matches_of(pair, row); });
    if (found > 1 || (bits & (bits - 1)) != 0) return false;
    const u32 slot = (at - first_row) * 4 + static_cast<u32>(hd::countr_zero(bits));
    Gathered<Team, WordPair, 1> entry;
    entry.read(
        team, [&](u32) { return reinterpret_cast<const WordPair*>(&leaf_view.leaf->slots[slot]); });
    const WordPair words = entry.tell(team, 0, [](const WordPair& pair) { return pair; });
    leaf_view.entry = {words.low, words.high};
    const bool is_meant = format::entry_key(row, leaf_view.entry) >> 8 == hash;
    if (is_meant && leaf_view.entry.inode() != 0) leaf_view.slot = slot;
    return true;
}

/// A name as words of eight bytes, spread over the lanes.
template <class Team>
class NameWords {
    static constexpr u32 rows = 32 / Team::width;

 public:
    /// The longest name that leaves enough lanes for an InodeProbe.
    static constexpr u32 length_max = (32 - InodeProbe::words_with_bitmap) * 8;

    /// Takes a name of `length` bytes; word_of(i) returns bytes 8 i to 8 i + 7, with any values
    /// after the end. False if make_name() would refuse the name, or if it is longer than
    /// length_max. Collective.
    template <class WordOf>
    WARREN_HD bool take_words(const Team& team, u32 length, const WordOf& word_of) {
        length_ = length;
        if (length == 0 || length > length_max) return false;
        bool is_odd = false;
        for (u32 row = 0; row < rows; ++row) {
            const u32 i = row * Team::width + team.lane();
            const u32 rest = i * 8 < length ? length - i * 8 : 0;
            const u64 beyond = rest >= 8 ? 0 : ~u64{0} << rest * 8;
            held_[row] = rest == 0 ? 0 : word_of(i) & ~beyond;
            // The bytes after the end are zero; within a valid name none is.
            const bool is_dots = i == 0 && ((length == 1 && held_[row] == one_dot) ||
                                            (length == 2 && held_[row] == two_dots));
            is_odd = is_odd || is_dots || has_zero_byte(held_[row] | beyond) ||
                     has_zero_byte(held_[row] ^ all_slashes);
        }
        return team.ballot(is_odd) == 0;
    }
    /// As above, for a name in the caller's memory.
    WARREN_HD bool take(const Team& team, const char* bytes, u32 length) {
        return take_words(team, length, [&](u32 i) { return name_word(bytes, length, i); });
    }
    WARREN_HD u32 length() const { return length_; }
    WARREN_HD u64 word(const Team& team, u32 i) const {
        u64 word = held_[0];
        for (u32 row = 1; row < rows; ++row) {
            if (row == i / Team::width) word = held_[row];
        }
        return team.broadcast(word, i % Team::width);
    }
    /// Word i. Only the lane that holds it may call this.
    WARREN_HD u64 own_word(u32 i) const { return held_[rows == 1 ? 0 : i / Team::width]; }

 private:
    static constexpr u64 one_dot = 0x2e;
    static constexpr u64 two_dots = 0x2e2e;

    u64 held_[rows];
    u32 length_ = 0;
};

/// The result of the fast path.
template <class Team>
struct FastEntry {
    InodeImage<Team> directory;
    Name name;
    LeafView leaf_view;
    Entry entry;
    InodeImage<Team> inode;   // valid if entry.exists
    bool has_bitmap = false;  // likewise: whether the inode's bitmap is in memory
};

/// Compares the name of the entry with `words` and reads the inode; false if they differ or if the
/// inode cannot be read.
template <class Team>
WARREN_HD bool peek_entry(const Team& team, const Store& store, const NameWords<Team>& words,
                          FastEntry<Team>& found) {
    const LeafView& leaf_view = found.leaf_view;
    const DirectorySlot slot = leaf_view.entry;
    const Name& name = found.name;
    const u32 offset = slot.name_offset();
    const u64 key = format::entry_key(static_cast<u32>(name.hash >> 23), slot);
    const InodeProbe probe{store, slot.inode()};
    if (slot.name_length() != name.length || offset % 8 != 0 ||
        offset + padded(name.length) > format::leaf_heap_bytes || !probe.is_in_volume()) {
        return false;
    }
    constexpr u32 first = 32 - InodeProbe::words_with_bitmap;
    constexpr u32 bitmap_word = 31;
    const u32 name_words = padded(name.length) / 8;
    const u64* heap = leaf_view.leaf->heap + offset / 8;
    Gathered<Team, u64, 32> items;
    items.read(team, [&](u32 i) -> const u64* {
        if (parts_freely<Team> && i >= first) return probe.template word_at<Team>(i - first);
        const u64* const name_word = heap + (i < name_words ? i : 0);
        if (parts_freely<Team>) return name_word;
        const u64* const probe_word = probe.template word_at<Team>(i - first);
        return i >= first ? probe_word : name_word;
    });
    const bool is_good = items.all_of(team, [&](u32 i, u64 word) -> bool {
        if constexpr (parts_freely<Team>) {
            if (i < first) return i >= name_words || word == words.own_word(i);
            return i == bitmap_word || probe.template is_good<Team>(i - first, word);
        }
        const bool can_land = (i == bitmap_word) | probe.template is_good<Team>(i - first, word);
        const bool is_same = (i >= name_words) | (word == words.own_word(i));
        return i >= first ? can_land : is_same;
    });
    if (!is_good) return false;
    found.has_bitmap = items.tell(team, bitmap_word, [&](u64 word) {
        return probe.template is_good<Team>(bitmap_word - first, word);
    });
    found.inode.inode.seen = {slot.inode() * format::inode_size,
                              items.tell(team, first, [](u64 word) { return word; })};
    found.entry.exists = true;
    found.entry.inode = slot.inode();
    found.entry.type = slot.type();
    found.entry.key = key;
    found.entry.slot = leaf_view.slot;
    return read_image(team, store, slot.inode(), leaf_view.seen, found.inode, 0,
                      [](u32, const WordPair&) { return false; });
}

/// Whether the mode bits let `caller` do `wanted` in a directory, and no ACL has to be asked.
template <class Team>
WARREN_HD bool mode_permits(const Team& team, const InodeImage<Team>& directory,
                            const Credentials& caller, u32 wanted) {
    const ModeAnswer answer =
        ask_mode(caller, directory.get(team, &Inode::mode), directory.get(team, &Inode::user),
                 directory.get(team, &Inode::group), wanted);
    return answer.allows && !(answer.yields_to_acl && directory.attributes(team) != 0);
}

/// Takes the directory from `known` if it is remembered there, else loads and remembers it.
template <class Team, class Known>
WARREN_HD bool peek_known_directory(const Team& team, const Store& store, Handle directory,
                                    InodeImage<Team>& image, Known& known) {
    if constexpr (std::is_same_v<Known, NothingKnown>) {
        return peek_directory(team, store, directory, image);
    } else {
        const bool is_known = known.handle.inode == directory.inode &&
                              known.handle.generation == directory.generation &&
                              directory.inode != 0;
        if (is_known) {
            known.is_used = true;
            image = known.image;
            return true;
        }
        known.forget();
        if (!peek_directory(team, store, directory, image)) return false;
        known.handle = directory;
        known.image = image;
        return true;
    }
}

/// One attempt of fast_lookup().
template <class Team, class Known>
WARREN_HD bool try_fast_lookup(const Team& team, const Store& store, const Credentials& caller,
                               Handle directory, const NameWords<Team>& words, u32 wanted,
                               FastEntry<Team>& found, Known& known, bool is_trusted) {
    if (!peek_known_directory(team, store, directory, found.directory, known)) return false;
    const InodeImage<Team>& image = found.directory;
    if (!mode_permits(team, image, caller, wanted)) return false;
    const u64 hash = shortened_hash(
        siphash_1_3_of(store.hash_key, words.length(), [&](u32 i) { return words.word(team, i); }));
    found.name = {nullptr, words.length(), hash & store.hash_mask};
    LeafView& leaf_view = found.leaf_view;
    if (!peek_leaf(team, store, image, found.name.hash, leaf_view, known, is_trusted)) {
        return false;
    }
    constexpr bool remembers = !std::is_same_v<Known, NothingKnown>;
    if (!compare_hashes<remembers>(team, store, image.inode, found.name.hash, leaf_view)) {
        return false;
    }
    found.entry = Entry{};
    found.entry.leaf = leaf_view.leaf;
    found.entry.leaf_seen = leaf_view.seen;
    found.entry.key = format::first_key(found.name.hash);
    if (leaf_view.slot != slot_none) return peek_entry(team, store, words, found);
    return is_unchanged(team, store, leaf_view.seen);
}

/// Finds a name in a directory where `caller` may do `wanted`. If the name does not exist,
/// found.entry.exists is false and entry.key is the key that it would get. If it exists, its inode
/// is not validated yet: the caller confirms found.inode.inode.seen or locks it. `known` (a
/// KnownDirectory or NothingKnown) saves loads of what an earlier lookup has read. False if the
/// fast path does not apply.
template <class Team, class Known>
WARREN_HD bool fast_lookup(const Team& team, const Store& shared_store, const Credentials& caller,
                           Handle directory, const NameWords<Team>& words, u32 wanted,
                           FastEntry<Team>& found, Known& known) {
    static_assert(Team::width > 1);
    if (shared_store.heads != nullptr) return false;
    if constexpr (std::is_same_v<Known, NothingKnown>) {
        return try_fast_lookup(team, shared_store, caller, directory, words, wanted, found, known,
                               false);
    } else {
        // A copy: the compiler would reload the shared one after each load.
        const Store store = shared_store;
        // What is remembered may be out of date: then the lookup is tried again without it. Leaves
        // change most often, so the first retry ignores only noted versions of leaves.
        for (bool is_trusted = true;; is_trusted = false) {
            known.is_used = known.is_note_used = false;
            if (try_fast_lookup(team, store, caller, directory, words, wanted, found, known,
                                is_trusted)) {
                return true;
            }
            if (known.is_note_used) continue;
            known.forget();
            if (!known.is_used) return false;
        }
    }
}

/// As above, for a name in the caller's memory and with nothing remembered.
template <class Team>
WARREN_HD bool fast_lookup(const Team& team, const Store& store, const Credentials& caller,
                           Handle directory, const char* bytes, u32 length, u32 wanted,
                           FastEntry<Team>& found) {
    NameWords<Team> words;
    NothingKnown known;
    if (!words.take(team, bytes, length)) return false;
    if (!fast_lookup(team, store, caller, directory, words, wanted, found, known)) return false;
    found.name.bytes = bytes;
    return true;
}

}  // namespace warren::core
