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

// A part of a reply is written and read by one function, which passes each value to a pen or to
// the words of a completion. A value of 64 bits takes two words, a smaller one takes one.

/// The words of a completion. A client passes them one after the other; behind the end are zeros.
struct ReplyWords {
    static constexpr bool reads = true;
    u32 words[reply_words_max] = {};
    u32 count = reply_header_words;

    template <class T>
    WARREN_HD void pass(T& value) {
        u64 got = take();
        if constexpr (sizeof(T) == sizeof(u64)) got |= u64{take()} << 32;
        value = static_cast<T>(got);
    }
    WARREN_HD u32 mask() const { return words[1] >> 16; }
    /// Slots that hold the words written so far.
    WARREN_HD u32 slots() const { return (count + words_per_slot - 1) / words_per_slot; }

 private:
    WARREN_HD u32 take() { return count < reply_words_max ? words[count++] : 0; }
};

/// Writes the words of a completion one after the other. The count stays in a register: if it were
/// in shared memory, each word would wait for the update of the count by the one before.
struct ReplyPen {
    static constexpr bool reads = false;
    u32* words;
    u32 count = reply_header_words;

    template <class T>
    WARREN_HD void pass(const T& value) {
        words[count++] = static_cast<u32>(value);
        if constexpr (sizeof(T) == sizeof(u64)) {
            words[count++] = static_cast<u32>(static_cast<u64>(value) >> 32);
        }
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

template <class Io, class Values>
WARREN_HD void pass_attributes(Io& io, Values& attributes) {
    io.pass(attributes.handle.inode);
    io.pass(attributes.handle.generation);
    io.pass(attributes.mode);
    io.pass(attributes.links);
    io.pass(attributes.user);
    io.pass(attributes.group);
    io.pass(attributes.device);
    io.pass(attributes.size);
    io.pass(attributes.blocks);
    io.pass(attributes.parent);
    io.pass(attributes.accessed);
    io.pass(attributes.modified);
    io.pass(attributes.changed);
    io.pass(attributes.born);
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
/// attributes. For words from the generation on; see pass_attributes() and format::Inode.
WARREN_HD constexpr u32 attribute_source(u32 word) {
    constexpr u64 first = packed_fives({1, 2, 3, 8, 9, 15, 4, 5, 18, 19});
    constexpr u64 second = packed_fives({6, 7, 24, 25, 26, 27, 28, 29, 30, 31});
    const u32 i = word - reply_header_words - 2;
    return static_cast<u32>((i < 10 ? first >> i * 5 : second >> (i - 10) * 5) & 31);
}

// The functions that pass structures name each member, so that they no longer compile when a
// member is added.

/// Passes all members except the bytes, which are a part of their own (reply_mapping_bytes).
template <class Io, class Values>
WARREN_HD void pass_mapping(Io& io, Values& mapping) {
    if constexpr (Io::reads) mapping = ops::Mapping{};
    auto& [kind, is_shared, place, blocks, size, bytes, seen] = mapping;
    static_cast<void>(bytes);
    u32 word = static_cast<u32>(kind) | (is_shared ? 4u : 0u);
    io.pass(word);
    if constexpr (Io::reads) {
        kind = static_cast<ops::MappingKind>(word & 3);
        is_shared = (word & 4) != 0;
    }
    io.pass(place);
    io.pass(blocks);
    io.pass(size);
    io.pass(seen.place);
    io.pass(seen.version);
}

template <class Io, class Values>
WARREN_HD void pass_bytes(Io& io, Values& bytes) {
    for (auto& word : bytes.words)
        io.pass(word);
}

/// Passes all members except the bytes, which are a part of their own (reply_piece_bytes).
template <class Io, class Values>
WARREN_HD void pass_piece(Io& io, Values& piece) {
    if constexpr (Io::reads) piece = ops::Piece{};
    auto& [file_block, place, blocks, keeps_rest, has_bytes, bytes, old_place] = piece;
    static_cast<void>(bytes);
    io.pass(file_block);
    io.pass(place);
    io.pass(blocks);
    u32 flags = (keeps_rest ? 1u : 0u) | (has_bytes ? 2u : 0u);
    io.pass(flags);
    if constexpr (Io::reads) {
        keeps_rest = (flags & 1) != 0;
        has_bytes = (flags & 2) != 0;
    }
    io.pass(old_place);
}

/// Passes the parts of a reply that `mask` names.
template <class Io, class Values>
WARREN_HD void pass_parts(Io& io, u32 mask, Values& reply) {
    if ((mask & reply_value) != 0) io.pass(reply.value);
    if ((mask & reply_length) != 0) io.pass(reply.length);
    if ((mask & reply_attributes) != 0) pass_attributes(io, reply.attributes);
    if ((mask & reply_removed) != 0) {
        io.pass(reply.removed.reclaim.inode);
        io.pass(reply.removed.reclaim.generation);
        io.pass(reply.removed.prune_inode);
        io.pass(reply.removed.prune_key);
    }
    if ((mask & reply_mapping) != 0) pass_mapping(io, reply.mapping);
    if ((mask & reply_mapping_bytes) != 0) pass_bytes(io, reply.mapping.bytes);
    if ((mask & reply_piece) != 0) pass_piece(io, reply.piece);
    if ((mask & reply_piece_bytes) != 0) pass_bytes(io, reply.piece.bytes);
    if ((mask & reply_needs) != 0) {
        io.pass(reply.needed_place);
        io.pass(reply.needed_inode);
        io.pass(reply.needed_key);
    }
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
    pass_parts(pen, mask, reply);
    // The rest of the last slot is sent as well; zeros keep it from leaking another command's data.
    while (pen.count % words_per_slot != 0)
        pen.pass(u32{0});
    out.count = pen.count;
}

/// Decodes the reply in `in`, all words of which have arrived; returns its ticket.
inline u32 decode_reply(ReplyWords& in, ops::Reply& reply) {
    reply = ops::Reply{};
    const u32 mask = in.mask();
    in.count = reply_header_words;
    reply.code = static_cast<Errc>(in.words[1] & 0xffff);
    reply.may_use_reserve = (mask & reply_may_use_reserve) != 0;
    reply.has_piece = (mask & reply_piece) != 0;
    pass_parts(in, mask, reply);
    return in.words[0];
}

}  // namespace warren::ring
