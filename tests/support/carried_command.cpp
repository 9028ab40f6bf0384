// SPDX-License-Identifier: Apache-2.0
// Invariant: each thread uses memory of its own, so commands may run concurrently.
#include "tests/support/carried_command.hpp"

#include <array>
#include <cstring>

#include "fs/ring/client.hpp"
#include "fs/ring/encode_command.hpp"
#include "fs/ring/reply_code.hpp"

namespace warren {
namespace {

constexpr u32 phase = 1;

ops::Command decode(const ring::CommandCell& cell, char* short_name, const ring::Arena& arena) {
    const auto word = [&](u32 i) { return ring::cell_word(cell, i); };
    const ring::Head head = ring::unpack_head(word);
    WARREN_CHECK(ring::check_head(head, arena) == Errc::ok);
    for (u32 i = 0; i < ring::words_per_slot; ++i) {
        const u32 letters = word(ring::words_per_slot + i);
        std::memcpy(short_name + i * sizeof letters, &letters, sizeof letters);
    }
    ops::Command command;
    const Errc code = ring::decode_command(head, short_name, arena.base + head.block.offset, arena,
                                           ring::Stamp{.caller = {}, .is_trusted = true}, command);
    WARREN_CHECK(code == Errc::ok);
    return command;
}

}  // namespace

void carry_command(const ops::Command& sent, ops::Reply& reply,
                   const std::function<void(const ops::Command&, ops::Reply&)>& run) {
    constexpr u64 buffer_bytes_max = 64 * kib;
    alignas(ring::arena_granule) static thread_local std::array<
        std::byte, ring::block_bytes_max + ring::arena_granule + buffer_bytes_max>
        memory;
    const ring::Arena arena{memory.data(), memory.size()};
    const Result<u64> block_bytes = ring::block_bytes_of(sent, true);
    if (!block_bytes) {
        reply.code = block_bytes.code();
        return;
    }
    const ring::ArenaRange buffer{*block_bytes, sent.buffer_bytes};
    WARREN_CHECK(arena.holds(buffer));
    if (*block_bytes != 0) ring::write_block(sent, true, buffer.offset, arena.base);
    ring::CommandCell cell{};
    ring::write_cell(sent, true, {0, *block_bytes}, phase, cell);
    std::array<char, ring::words_per_slot * sizeof(u32)> short_name;
    ops::Command command = decode(cell, short_name.data(), arena);
    command.walk = sent.walk;  // a ring cannot carry it: the CUDA engine launches such commands
    ops::Reply answer;
    run(command, answer);
    ring::ReplyWords words;
    ring::encode_reply(0, command.verb, answer, words);
    ring::decode_reply(words, reply);
    const u64 output = ring::output_bytes(command.verb, reply, sent.buffer_bytes);
    if (output != 0) std::memcpy(sent.buffer, arena.base + buffer.offset, output);
}

}  // namespace warren
