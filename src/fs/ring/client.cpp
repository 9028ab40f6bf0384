// SPDX-License-Identifier: Apache-2.0
// See fs/ring/client.hpp.
//
// Invariant: a completion is copied before it is parsed. A faulty engine can give wrong answers,
// but cannot make the client access memory out of bounds.
#include "fs/ring/client.hpp"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/check.hpp"
#include "base/processor_pause.hpp"
#include "fs/ring/encode_command.hpp"
#include "fs/ring/parking.hpp"
#include "fs/ring/reply_code.hpp"

namespace warren::ring {

ArenaSpace::ArenaSpace(u64 bytes, u64 parts) {
    free_.reserve(parts + 1);
    free_.push_back({0, bytes});
}

Result<ArenaRange> ArenaSpace::take(u64 bytes) {
    const u64 wanted = (bytes + arena_granule - 1) / arena_granule * arena_granule;
    if (wanted == 0) return ArenaRange{};
    const auto found = std::find_if(free_.begin(), free_.end(),
                                    [&](const ArenaRange& range) { return range.bytes >= wanted; });
    if (found == free_.end()) return Errc::no_space;
    const ArenaRange taken{found->offset, wanted};
    found->offset += wanted;
    found->bytes -= wanted;
    if (found->bytes == 0) free_.erase(found);
    return taken;
}

void ArenaSpace::give_back(const ArenaRange& range) {
    if (range.bytes == 0) return;
    const auto next =
        std::lower_bound(free_.begin(), free_.end(), range.offset,
                         [](const ArenaRange& one, u64 offset) { return one.offset < offset; });
    const bool touches_next = next != free_.end() && range.offset + range.bytes == next->offset;
    const auto before = next == free_.begin() ? free_.end() : std::prev(next);
    if (before != free_.end() && before->offset + before->bytes == range.offset) {
        before->bytes += range.bytes;
        if (!touches_next) return;
        before->bytes += next->bytes;
        free_.erase(next);
    } else if (touches_next) {
        *next = {range.offset, range.bytes + next->bytes};
    } else {
        free_.insert(next, range);
    }
}

RingClient::RingClient(const RingMemory& ring, Doorbell& doorbell, const ServerStatus& status,
                       bool names_caller)
    : ring_(ring),
      doorbell_(doorbell),
      status_(status),
      names_caller_(names_caller),
      pending_(ring.cells),
      space_(ring.arena.bytes, 2 * u64{ring.cells}) {}

/// Writes a command into the next cell.
Result<u64> RingClient::place(const ops::Command& command) {
    Pending& pending = pending_[cell_of(next_ticket_, ring_.cells)];
    WARREN_LET(block_bytes, block_bytes_of(command, names_caller_));
    if (*block_bytes > ring_.arena.bytes || command.buffer_bytes > ring_.arena.bytes) {
        return Errc::invalid;
    }
    if (!pending.is_taken) return Errc::busy;
    const Result<ArenaRange> block = space_.take(*block_bytes);
    if (!block) return Errc::busy;
    const Result<ArenaRange> buffer = space_.take(command.buffer_bytes);
    if (!buffer) {
        space_.give_back(*block);
        return Errc::busy;
    }
    if (block->bytes != 0) {
        write_block(command, names_caller_, buffer->offset, ring_.arena.base + block->offset);
    }
    const u64 ticket = next_ticket_++;
    pending = {false, command.verb, command.buffer, command.buffer_bytes, *block, *buffer};
    write_cell(command, names_caller_, *block, phase_of(ticket, ring_.cells),
               ring_.commands[cell_of(ticket, ring_.cells)]);
    return ticket;
}

Result<u64> RingClient::submit(const ops::Command& command) {
    const std::lock_guard lock(mutex_);
    const Result<u64> ticket = place(command);
    if (ticket) ring_doorbell(doorbell_, status_);
    return ticket;
}

u32 RingClient::submit_many(std::span<const ops::Command> commands, std::span<u64> tickets,
                            Errc& failure) {
    const std::lock_guard lock(mutex_);
    u32 count = 0;
    failure = Errc::ok;
    for (; count < commands.size(); ++count) {
        const Result<u64> ticket = place(commands[count]);
        failure = ticket.code();
        if (!ticket) break;
        tickets[count] = *ticket;
    }
    if (count != 0) ring_doorbell(doorbell_, status_);
    return count;
}

bool RingClient::poll(u64 ticket, ops::Reply& reply) {
    const u32 index = cell_of(ticket, ring_.cells);
    const u32 phase = phase_of(ticket, ring_.cells);
    const CompletionCell& cell = ring_.completions[index];
    CompletionCell copy;
    if (load_piece(cell.pieces[0]).phase() != phase) return false;
    if (!load_slot(cell, 0, phase, copy)) return false;
    const u32 words = std::min(words_of(cell_word(copy, 1) >> 16), reply_words_max);
    const u32 slots = (words + words_per_slot - 1) / words_per_slot;
    for (u32 slot = 1; slot < slots; ++slot) {
        if (!load_slot(cell, slot, phase, copy)) return false;
    }
    ReplyWords arrived;
    for (u32 i = 0; i < slots * words_per_slot; ++i)
        arrived.words[i] = cell_word(copy, i);
    decode_reply(arrived, reply);
    const std::lock_guard lock(mutex_);
    Pending& pending = pending_[index];
    WARREN_CHECK(!pending.is_taken);
    const u64 bytes = output_bytes(pending.verb, reply, pending.buffer_bytes);
    if (bytes != 0) {
        std::memcpy(pending.buffer, ring_.arena.base + pending.arena_buffer.offset, bytes);
    }
    space_.give_back(pending.block);
    space_.give_back(pending.arena_buffer);
    pending.is_taken = true;
    return true;
}

bool RingClient::is_lost() const {
    return system_atomic<u32>(const_cast<u32&>(status_.lost)).load(hd::memory_order_relaxed) != 0;
}

Errc RingClient::wait(u64 ticket, ops::Reply& reply, u32 milliseconds) {
    using clock = std::chrono::steady_clock;
    constexpr u32 spins_max = 4096;  // polls before the first sleep: about 100 microseconds
    const auto begin = clock::now();
    for (u64 spins = 1; !poll(ticket, reply); ++spins) {
        if (spins < spins_max) {
            pause_processor();
            continue;
        }
        const auto waited = clock::now() - begin;
        // The engine may have written this completion just before it was lost.
        if (is_lost()) return poll(ticket, reply) ? Errc::ok : Errc::io;
        if (waited > std::chrono::milliseconds(milliseconds)) return Errc::busy;
        if (waited < std::chrono::milliseconds(1)) {
            std::this_thread::yield();
        } else {
            std::this_thread::sleep_for(std::chrono::microseconds(50));
        }
    }
    return Errc::ok;
}

}  // namespace warren::ring
