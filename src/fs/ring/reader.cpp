// SPDX-License-Identifier: Apache-2.0
// See fs/ring/reader.hpp.
//
// Invariant: the first piece of a completion is written last. A client that sees it therefore
// almost always finds the other pieces as well.
#include "fs/ring/reader.hpp"

#include <new>

#include "fs/ring/reply_code.hpp"

namespace warren::ring {
namespace {

/// Copies bytes that the client may be changing. `bytes` is a multiple of 16.
void copy_shared(std::byte* to, const std::byte* from, u64 bytes) {
    auto* pieces = reinterpret_cast<Piece*>(to);
    const auto* shared = reinterpret_cast<const Piece*>(from);
    for (u64 i = 0; i < bytes / sizeof(Piece); ++i)
        pieces[i] = load_block_piece(shared[i]);
}

}  // namespace

/// Copies the next cell; returns whether all needed pieces have arrived.
bool RingReader::copy_next(CommandCell& copy) const {
    const CommandCell& cell = ring_.commands[cell_of(next_ticket_, ring_.cells)];
    const u32 phase = phase_of(next_ticket_, ring_.cells);
    if (!load_slot(cell, 0, phase, copy)) return false;
    const bool has_name = (cell_word(copy, 0) >> 16 & head_has_name) != 0;
    return !has_name || load_slot(cell, 1, phase, copy);
}

bool RingReader::has_command() const {
    CommandCell copy;
    return copy_next(copy);
}

bool RingReader::take(Received& received) {
    CommandCell copy;
    if (!copy_next(copy)) return false;
    received.ticket = next_ticket_++;
    received.block.reset();
    received.block_bytes = 0;
    const Head head = unpack_head([&](u32 i) { return cell_word(copy, i); });
    received.verdict = check_head(head, ring_.arena);
    received.command = ops::Command{};
    if (received.verdict != Errc::ok) return true;
    if ((head.flags & head_has_name) != 0) {
        u32 words[words_per_slot];
        for (u32 i = 0; i < words_per_slot; ++i)
            words[i] = cell_word(copy, words_per_slot + i);
        std::memcpy(received.name, words, sizeof words);
    }
    if ((head.flags & head_has_block) != 0) {
        received.block.reset(new (std::nothrow) std::byte[head.block.bytes]);
        if (received.block == nullptr) {
            received.verdict = Errc::no_memory;
            return true;
        }
        received.block_bytes = head.block.bytes;
        copy_shared(received.block.get(), ring_.arena.base + head.block.offset, head.block.bytes);
    }
    received.verdict = decode_command(head, received.name, received.block.get(), ring_.arena,
                                      stamp_, received.command);
    return true;
}

void RingReader::complete(const Received& received, const ops::Reply& reply) {
    ReplyWords words;
    encode_reply(static_cast<u32>(received.ticket), received.command.verb, reply, words);
    const u32 phase = phase_of(received.ticket, ring_.cells);
    CompletionCell& cell = ring_.completions[cell_of(received.ticket, ring_.cells)];
    store_slots(cell, 0, words.slots(), words.words, phase);
}

}  // namespace warren::ring
