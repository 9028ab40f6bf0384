// SPDX-License-Identifier: Apache-2.0
// A worker of the resident server: one command at a time, from its letter box to the completion in
// the client's ring.
//
// Invariant: what a client can still change is read once, into memory of the device, and only
// then believed or refused. To the host's memory the device only ever writes.
#include "fs/engine/cuda/server_warp.hpp"
#include "fs/ring/client.hpp"

namespace warren::cuda_engine {
namespace {

using ring::Piece;

/// A command being served, with where its parts lie.
struct Service {
    const WarpTeam& team;
    const RingEntry& entry;
    const Mailbox& box;
    WorkerSpace& space;
    Staging& staging;
};

__device__ void copy_block(const Service& at, const ring::ArenaRange& range) {
    // With the polling warp's look at the cell an acquire: pairs with the release in the client's
    // store_piece().
    cuda::atomic_thread_fence(cuda::memory_order_acquire, cuda::thread_scope_system);
    const auto* from = reinterpret_cast<const Piece*>(at.entry.memory.arena.base + range.offset);
    auto* to = reinterpret_cast<Piece*>(at.staging.block);
    for (u64 i = at.team.lane(); i < range.bytes / sizeof(Piece); i += WarpTeam::width)
        to[i] = ring::load_block_piece(from[i]);
    at.team.sync();
}

/// Makes the command of what lies in the letter box. Its buffer is then the worker's; `target` is
/// where the client wants it.
__device__ Errc receive(const Service& at, std::byte*& target) {
    const ring::Head head =
        ring::unpack_head([&](u32 i) { return ring::cell_word(at.box.cell, i); });
    WARREN_TRY(ring::check_head(head, at.entry.memory.arena));
    if ((head.flags & ring::head_has_name) != 0) {
        if (at.team.lane() < ring::words_per_slot) {
            const u32 word = ring::cell_word(at.box.cell, ring::words_per_slot + at.team.lane());
            memcpy(at.space.name + at.team.lane() * sizeof word, &word, sizeof word);
        }
        at.team.sync();
    }
    if ((head.flags & ring::head_has_block) != 0) copy_block(at, head.block);
    struct Outcome {
        Errc code;
        std::byte* target;
    };
    const Outcome outcome = once(at.team, [&] {
        ops::Command& command = at.space.command;
        const Errc code = ring::decode_command(head, at.space.name, at.staging.block,
                                               at.entry.memory.arena, at.entry.stamp, command);
        auto* wanted = static_cast<std::byte*>(command.buffer);
        if (wanted != nullptr) {
            command.buffer = at.staging.buffer;
            command.buffer_bytes =
                command.buffer_bytes < buffer_bytes_max ? command.buffer_bytes : buffer_bytes_max;
        }
        return Outcome{code, wanted};
    });
    target = outcome.target;
    return outcome.code;
}

/// Writes what the command put into its buffer to the client's arena.
__device__ void send_buffer(const Service& at, const ops::Reply& reply, std::byte* target) {
    const u64 bytes =
        ring::output_bytes(at.space.command.verb, reply, at.space.command.buffer_bytes);
    if (bytes == 0) return;
    const auto* from = reinterpret_cast<const u64*>(at.staging.buffer);
    auto* to = reinterpret_cast<u64*>(target);
    // Buffers are whole granules of the arena, so the last word may be written whole.
    for (u64 i = at.team.lane(); i < (bytes + 7) / 8; i += WarpTeam::width)
        system_atomic<u64>(to[i]).store(from[i], hd::memory_order_relaxed);
    // Release: the client's look at the completion is the acquire.
    __threadfence_system();
    at.team.sync();
}

__device__ void complete(const Service& at, ops::Verb verb, const ops::Reply& reply) {
    once(at.team,
         [&] { ring::encode_reply(static_cast<u32>(at.box.ticket), verb, reply, at.space.reply); });
    const ring::RingMemory& memory = at.entry.memory;
    const u32 phase = ring::phase_of(at.box.ticket, memory.cells);
    ring::CompletionCell& cell = memory.completions[at.box.ticket % memory.cells];
    const u32 lane = at.team.lane();
    if (lane < at.space.reply.slots() * ring::pieces_per_slot) {
        const u32* words = at.space.reply.words + lane * ring::words_per_piece;
        ring::store_piece(cell.pieces[lane], Piece::make(words, phase));
    }
    at.team.sync();
}

__device__ __noinline__ void serve_one(const Service& at, const core::Store& store) {
    std::byte* target = nullptr;
    ops::Reply reply;
    reply.code = receive(at, target);
    ops::Verb verb{};
    if (reply.code == Errc::ok) {
        verb = at.space.command.verb;
        run_command(at.team, store, at.space.command, reply);
        if (target != nullptr) send_buffer(at, reply, target);
    }
    complete(at, verb, reply);
}

/// Waits until the box is not idle any more.
__device__ u32 wait_for_mail(const WarpTeam& team, u32& state, bool is_near) {
    return once(team, [&] {
        for (u32 looks = 0;; ++looks) {
            // Acquire: pairs with the release in publish().
            const u32 found = is_near ? block_atomic<u32>(state).load(hd::memory_order_acquire)
                                      : device_atomic<u32>(state).load(hd::memory_order_acquire);
            if (found != box_idle) return found;
            if (!is_near && looks > 64) __nanosleep(200);
        }
    });
}

}  // namespace

__device__ __noinline__ void work(const ServerArguments& arguments, BlockSpace& space, u32 block,
                                  u32 warp) {
    const u32 number = block * warps_per_block + warp;
    const WarpTeam team{number};
    const bool is_near = block == 0;
    const Mailbox& box = is_near ? space.boxes[warp] : arguments.memory->boxes[number];
    u32& state = is_near ? space.states[warp] : arguments.memory->states[number];
    for (;;) {
        const u32 found = wait_for_mail(team, state, is_near);
        if (found == box_full) {
            serve_one(
                {team, space.rings[box.ring], box, space.workers[warp], arguments.staging[number]},
                arguments.store);
        }
        once(team, [&] {
            // Release: pairs with the acquire in refresh(): the box has been read.
            if (is_near) {
                block_atomic<u32>(state).store(box_idle, hd::memory_order_release);
            } else {
                device_atomic<u32>(state).store(box_idle, hd::memory_order_release);
            }
        });
        if (found == box_leave) return;
    }
}

}  // namespace warren::cuda_engine
