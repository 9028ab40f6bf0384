// SPDX-License-Identifier: Apache-2.0
// The encoding of a reply: the ticket, the code, a mask of the parts of the reply that follow, and
// these parts. Most replies fit into one or two slots.
//
// Invariant: the engine writes a completion once, into the completion cell with the same index as
// the command's cell, and never reads it. A client checks every length before it uses it.
#pragma once

#include <initializer_list>

#include "fs/ops/command.hpp"
#include "fs/ring/cell.hpp"

namespace warren::ring {

enum ReplyPart : u32 {
    reply_value = 1,
    reply_length = 2,
    reply_attributes = 4,
    reply_removed = 8,
    reply_mapping = 16,
    reply_mapping_bytes = 32,
    reply_piece = 64,
    reply_piece_bytes = 128,
    reply_needs = 256,
    reply_may_use_reserve = 512,
};

inline constexpr u32 reply_words_max = completion_slots * words_per_slot;
inline constexpr u32 reply_header_words = 2;  // ticket; code and mask

/// The words of a completion.
struct ReplyWords {
    u32 words[reply_words_max] = {};
    u32 count = reply_header_words;

    WARREN_HD u32 take() { return count < reply_words_max ? words[count++] : 0; }
    WARREN_HD u64 take_long() {
        const u32 low = take();
        return low | u64{take()} << 32;
    }
    WARREN_HD u32 mask() const { return words[1] >> 16; }
    /// Slots that hold the words written so far.
    WARREN_HD u32 slots() const { return (count + words_per_slot - 1) / words_per_slot; }
};

/// Writes the words of a completion one after the other. The count stays in a register: if it were
/// in shared memory, each word would wait for the update of the count by the one before.
struct ReplyPen {
    u32* words;
    u32 count = reply_header_words;

    WARREN_HD void put(u32 word) { words[count++] = word; }
    WARREN_HD void put_long(u64 value) {
        put(static_cast<u32>(value));
        put(static_cast<u32>(value >> 32));
    }
};

/// Which parts of the reply to a command have to be sent.
WARREN_HD inline u32 parts_of(ops::Verb verb, const ops::Reply& reply) {
    u32 mask = 0;
    if (reply.value != 0) mask |= reply_value;
    if (reply.length != 0) mask |= reply_length;
    if (reply.may_use_reserve) mask |= reply_may_use_reserve;
    if (!is_final(reply.code)) return mask | reply_needs;
    if (reply.code != Errc::ok) return mask;
    if (reply.attributes.handle != Handle{}) mask |= reply_attributes;
    if (reply.removed.reclaim.inode != 0 || reply.removed.prune_inode != 0) mask |= reply_removed;
    if (verb == ops::Verb::map) {
        mask |= reply_mapping;
        if (reply.mapping.kind == ops::MappingKind::bytes) mask |= reply_mapping_bytes;
    } else if (reply.has_piece) {
        mask |= reply_piece;
        if (reply.piece.has_bytes) mask |= reply_piece_bytes;
    }
    return mask;
}

/// The number of words that the parts in `mask` take.
WARREN_HD constexpr u32 words_of(u32 mask) {
    constexpr u32 sizes[] = {2, 2, 22, 7, 11, 32, 8, 32, 6, 0};
    u32 words = reply_header_words;
    for (u32 i = 0; i < 10; ++i)
        words += (mask >> i & 1) * sizes[i];
    return words;
}

WARREN_HD inline void put_attributes(const Attributes& from, ReplyPen& to) {
    to.put_long(from.handle.inode);
    to.put(from.handle.generation);
    to.put(from.mode);
    to.put(from.links);
    to.put(from.user);
    to.put(from.group);
    to.put(from.device);
    to.put_long(from.size);
    to.put_long(from.blocks);
    to.put_long(from.parent);
    to.put_long(static_cast<u64>(from.accessed));
    to.put_long(static_cast<u64>(from.modified));
    to.put_long(static_cast<u64>(from.changed));
    to.put_long(static_cast<u64>(from.born));
}

/// How many words a completion with only attributes has. They fill whole slots.
inline constexpr u32 attribute_words_end = reply_header_words + 22;
static_assert(attribute_words_end % words_per_slot == 0);

/// Packs values of five bits; the first is in the lowest bits.
constexpr u64 packed_fives(std::initializer_list<u64> values) {
    u64 packed = 0;
    u32 place = 0;
    for (const u64 value : values)
        packed |= value << 5 * place++;
    return packed;
}

/// The index of the 32-bit word of an inode that is word `word` of a completion with only
/// attributes. For words from the generation on; see put_attributes() and format::Inode.
WARREN_HD constexpr u32 attribute_source(u32 word) {
    constexpr u64 first = packed_fives({1, 2, 3, 8, 9, 15, 4, 5, 18, 19});
    constexpr u64 second = packed_fives({6, 7, 24, 25, 26, 27, 28, 29, 30, 31});
    const u32 i = word - reply_header_words - 2;
    return static_cast<u32>((i < 10 ? first >> i * 5 : second >> (i - 10) * 5) & 31);
}

WARREN_HD inline void take_attributes(ReplyWords& from, Attributes& to) {
    to.handle.inode = from.take_long();
    to.handle.generation = from.take();
    to.mode = from.take();
    to.links = from.take();
    to.user = from.take();
    to.group = from.take();
    to.device = from.take();
    to.size = from.take_long();
    to.blocks = from.take_long();
    to.parent = from.take_long();
    to.accessed = static_cast<i64>(from.take_long());
    to.modified = static_cast<i64>(from.take_long());
    to.changed = static_cast<i64>(from.take_long());
    to.born = static_cast<i64>(from.take_long());
}

// The functions that encode structures name each member, so that they no longer compile when a
// member is added.

/// Writes all members except the bytes, which are a part of their own (reply_mapping_bytes).
WARREN_HD inline void put_mapping(const ops::Mapping& from, ReplyPen& to) {
    const auto& [kind, is_shared, place, blocks, size, bytes, seen] = from;
    static_cast<void>(bytes);
    to.put(static_cast<u32>(kind) | (is_shared ? 4u : 0u));
    to.put_long(place);
    to.put_long(blocks);
    to.put_long(size);
    to.put_long(seen.place);
    to.put_long(seen.version);
}

WARREN_HD inline void take_mapping(ReplyWords& from, ops::Mapping& to) {
    const u32 word = from.take();
    to.kind = static_cast<ops::MappingKind>(word & 3);
    to.is_shared = (word & 4) != 0;
    to.place = from.take_long();
    to.blocks = from.take_long();
    to.size = from.take_long();
    to.seen.place = from.take_long();
    to.seen.version = from.take_long();
}

WARREN_HD inline void put_bytes(const ops::InlineBytes& from, ReplyPen& to) {
    for (const u64 word : from.words)
        to.put_long(word);
}

WARREN_HD inline void take_bytes(ReplyWords& from, ops::InlineBytes& to) {
    for (u64& word : to.words)
        word = from.take_long();
}

/// Writes all members except the bytes, which are a part of their own (reply_piece_bytes).
WARREN_HD inline void put_piece(const ops::Piece& from, ReplyPen& to) {
    const auto& [file_block, place, blocks, keeps_rest, has_bytes, bytes, old_place] = from;
    static_cast<void>(bytes);
    to.put_long(file_block);
    to.put_long(place);
    to.put(blocks);
    to.put((keeps_rest ? 1u : 0u) | (has_bytes ? 2u : 0u));
    to.put_long(old_place);
}

WARREN_HD inline void take_piece(ReplyWords& from, ops::Piece& to) {
    to.file_block = from.take_long();
    to.place = from.take_long();
    to.blocks = from.take();
    const u32 flags = from.take();
    to.keeps_rest = (flags & 1) != 0;
    to.has_bytes = (flags & 2) != 0;
    to.old_place = from.take_long();
}

/// Encodes the reply to the command with `ticket`. A reply that does not fit becomes
/// Errc::overflow; no verb has such a reply.
WARREN_HD inline void encode_reply(u32 ticket, ops::Verb verb, const ops::Reply& reply,
                                   ReplyWords& out) {
    u32 mask = parts_of(verb, reply);
    Errc code = reply.code;
    if (words_of(mask) > reply_words_max) {
        mask = 0;
        code = Errc::overflow;
    }
    out.words[0] = ticket;
    out.words[1] = static_cast<u32>(code) & 0xffff;
    out.words[1] |= mask << 16;
    ReplyPen pen{out.words};
    if ((mask & reply_value) != 0) pen.put_long(reply.value);
    if ((mask & reply_length) != 0) pen.put_long(reply.length);
    if ((mask & reply_attributes) != 0) put_attributes(reply.attributes, pen);
    if ((mask & reply_removed) != 0) {
        pen.put_long(reply.removed.reclaim.inode);
        pen.put(reply.removed.reclaim.generation);
        pen.put_long(reply.removed.prune_inode);
        pen.put_long(reply.removed.prune_key);
    }
    if ((mask & reply_mapping) != 0) put_mapping(reply.mapping, pen);
    if ((mask & reply_mapping_bytes) != 0) put_bytes(reply.mapping.bytes, pen);
    if ((mask & reply_piece) != 0) put_piece(reply.piece, pen);
    if ((mask & reply_piece_bytes) != 0) put_bytes(reply.piece.bytes, pen);
    if ((mask & reply_needs) != 0) {
        pen.put_long(reply.needed_place);
        pen.put_long(reply.needed_inode);
        pen.put_long(reply.needed_key);
    }
    // The rest of the last slot is sent as well; zeros keep it from leaking another command's data.
    while (pen.count % words_per_slot != 0)
        pen.put(0);
    out.count = pen.count;
}

/// Decodes the reply in `in`, all words of which have arrived; returns its ticket.
inline u32 decode_reply(ReplyWords& in, ops::Reply& reply) {
    reply = ops::Reply{};
    const u32 mask = in.mask();
    in.count = reply_header_words;
    reply.code = static_cast<Errc>(in.words[1] & 0xffff);
    reply.may_use_reserve = (mask & reply_may_use_reserve) != 0;
    if ((mask & reply_value) != 0) reply.value = in.take_long();
    if ((mask & reply_length) != 0) reply.length = in.take_long();
    if ((mask & reply_attributes) != 0) take_attributes(in, reply.attributes);
    if ((mask & reply_removed) != 0) {
        reply.removed.reclaim.inode = in.take_long();
        reply.removed.reclaim.generation = in.take();
        reply.removed.prune_inode = in.take_long();
        reply.removed.prune_key = in.take_long();
    }
    if ((mask & reply_mapping) != 0) {
        reply.mapping = ops::Mapping{};
        take_mapping(in, reply.mapping);
    }
    if ((mask & reply_mapping_bytes) != 0) take_bytes(in, reply.mapping.bytes);
    if ((mask & reply_piece) != 0) {
        reply.has_piece = true;
        reply.piece = ops::Piece{};
        take_piece(in, reply.piece);
    }
    if ((mask & reply_piece_bytes) != 0) take_bytes(in, reply.piece.bytes);
    if ((mask & reply_needs) != 0) {
        reply.needed_place = in.take_long();
        reply.needed_inode = in.take_long();
        reply.needed_key = in.take_long();
    }
    return in.words[0];
}

}  // namespace warren::ring
