// SPDX-License-Identifier: Apache-2.0
// A worker of the resident server. It serves one command at a time, from its mailbox to the
// completion in the client's ring.
//
// Invariant: memory that a client can change is read once, into device memory, and checked there.
// The device does no read-modify-write operations on host memory.
#include "fs/engine/cuda/server/server_warp.hpp"
#include "fs/ops/unlink.hpp"
#include "fs/ring/client.hpp"

namespace warren::cuda_engine {
namespace {

using ring::Piece;

/// A command being served, and the memory that the worker uses for it.
struct Service {
    const WarpTeam& team;
    const RingEntry& entry;
    const Mailbox& box;
    WorkerSpace& space;
    Staging& staging;
};

/// What a worker remembers of the directory of its last command.
using Known = core::KnownDirectory<WarpTeam>;

__device__ void copy_block(const Service& at, const ring::ArenaRange& range) {
    // Together with the polling warp's load of the cell this is an acquire: pairs with the release
    // in the client's store_piece().
    cuda::atomic_thread_fence(cuda::memory_order_acquire, cuda::thread_scope_system);
    const auto* from = reinterpret_cast<const Piece*>(at.entry.memory.arena.base + range.offset);
    auto* to = reinterpret_cast<Piece*>(at.staging.block);
    for (u64 i = at.team.lane(); i < range.bytes / sizeof(Piece); i += WarpTeam::width)
        to[i] = ring::load_block_piece(from[i]);
    at.team.sync();
}

__device__ void copy_name(const Service& at) {
    if (at.team.lane() < ring::words_per_slot) {
        const u32 word = ring::cell_word(at.box.cell, ring::words_per_slot + at.team.lane());
        memcpy(at.space.name + at.team.lane() * sizeof word, &word, sizeof word);
    }
    at.team.sync();
}

/// Decodes the command in the mailbox. The command's buffer becomes the worker's; `target` is the
/// client's buffer in the arena.
__device__ Errc receive(const Service& at, const ring::Head& head, std::byte*& target) {
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

/// Copies the bytes that the command has written into its buffer to the client's arena.
__device__ void send_buffer(const Service& at, const ops::Reply& reply, std::byte* target) {
    const u64 bytes =
        ring::output_bytes(at.space.command.verb, reply, at.space.command.buffer_bytes);
    if (bytes == 0) return;
    const auto* from = reinterpret_cast<const u64*>(at.staging.buffer);
    auto* to = reinterpret_cast<u64*>(target);
    // Buffers are whole granules of the arena, so the last word can be written as a whole.
    for (u64 i = at.team.lane(); i < (bytes + 7) / 8; i += WarpTeam::width)
        system_atomic<u64>(to[i]).store(from[i], hd::memory_order_relaxed);
    // Release: pairs with the acquire in load_piece(), by which the client reads the completion.
    __threadfence_system();
    at.team.sync();
}

/// Writes the first `slots` slots of a completion from the worker's words.
__device__ void send_words(const Service& at, u32 slots) {
    const ring::RingMemory& memory = at.entry.memory;
    const u32 phase = ring::phase_of(at.box.ticket, memory.cells);
    ring::CompletionCell& cell = memory.completions[ring::cell_of(at.box.ticket, memory.cells)];
    const u32 lane = at.team.lane();
    if (lane < slots * ring::pieces_per_slot) {
        const u32* words = at.space.reply.words + lane * ring::words_per_piece;
        ring::store_piece(cell.pieces[lane], Piece::make(words, phase));
    }
    at.team.sync();
}

__device__ void complete(const Service& at, ops::Verb verb, const ops::Reply& reply) {
    once(at.team,
         [&] { ring::encode_reply(static_cast<u32>(at.box.ticket), verb, reply, at.space.reply); });
    send_words(at, at.space.reply.slots());
}

/// A completion that consists of a code alone. It is prepared in advance, so that sending it takes
/// one store.
struct PlainCompletion {
    Piece* to;  // null for lanes without a piece
    Piece piece;

    __device__ PlainCompletion(const Service& at, Errc code) {
        const ring::RingMemory& memory = at.entry.memory;
        const u32 phase = ring::phase_of(at.box.ticket, memory.cells);
        ring::CompletionCell& cell = memory.completions[ring::cell_of(at.box.ticket, memory.cells)];
        const u32 lane = at.team.lane();
        const bool is_first = lane == 0;
        const u32 words[ring::words_per_piece] = {is_first ? static_cast<u32>(at.box.ticket) : 0,
                                                  is_first ? static_cast<u32>(code) & 0xffff : 0,
                                                  0};
        to = lane < ring::pieces_per_slot ? &cell.pieces[lane] : nullptr;
        piece = Piece::make(words, phase);
    }
    __device__ void send() const {
        if (to != nullptr) ring::store_piece(*to, piece);
        __syncwarp();
    }
};

/// Completes a command whose reply consists of a code alone.
__device__ void complete_with_code(const Service& at, Errc code) {
    PlainCompletion(at, code).send();
}

/// Completes a command whose reply is the attributes of an inode; each lane provides one word.
__device__ void complete_with(const Service& at, const core::InodeImage<WarpTeam>& image) {
    const u32 lane = at.team.lane();
    auto* raw = reinterpret_cast<core::WordPair*>(at.space.inode_words);
    if (lane < sizeof at.space.inode_words / sizeof *raw) raw[lane] = image.items.own(lane);
    at.team.sync();
    const u32 number = static_cast<u32>(lane == 2 ? image.inode.number : image.inode.number >> 32);
    u32 word = 0;
    if (lane == 0) word = static_cast<u32>(at.box.ticket);
    if (lane == 1) word = u32{ring::reply_attributes} << 16;
    if (lane == 2 || lane == 3) word = number;
    if (lane >= 4 && lane < ring::attribute_words_end) {
        word = at.space.inode_words[ring::attribute_source(lane)];
    }
    if (lane < ring::attribute_words_end) at.space.reply.words[lane] = word;
    at.team.sync();
    send_words(at, ring::attribute_words_end / ring::words_per_slot);
}

/// Reads the name in the mailbox. False if it cannot be looked up on the fast path.
__device__ bool take_name(const Service& at, const ops::Command& command,
                          core::NameWords<WarpTeam>& name) {
    return name.take_words(at.team, command.name_length, [&](u32 i) {
        // A lane beyond the end of the name reads some word of the cell, which is ignored.
        const u32 first = ring::words_per_slot + i % (ring::words_per_slot / 2) * 2;
        return ring::cell_word(at.box.cell, first) | u64{ring::cell_word(at.box.cell, first + 1)}
                                                         << 32;
    });
}

__device__ bool look_up_at_once(const Service& at, const core::Store& store,
                                const ops::Command& command, Known& known) {
    core::FastEntry<WarpTeam> seen;
    core::NameWords<WarpTeam> name;
    if (!take_name(at, command, name) ||
        !core::fast_lookup(at.team, store, command.caller, command.handle, name, core::may_execute,
                           seen, known)) {
        return false;
    }
    if (!seen.entry.exists) {
        complete_with_code(at, Errc::no_entry);
        return true;
    }
    if (!core::is_unchanged(at.team, store, seen.inode.inode.seen)) return false;
    complete_with(at, seen.inode);
    return true;
}

__device__ bool unlink_at_once(const Service& at, const core::Store& store,
                               const ops::Command& command, Known& known) {
    core::NameWords<WarpTeam> name;
    if (!take_name(at, command, name)) return false;
    WarpOperation op(at.team, store);
    op.commits_wait = true;  // a commit waits until the engine is idle
    op.may_use_reserve = command.may_use_reserve;
    Result<ops::Removed> removed;
    core::Seen changed;
    // The client gets its answer as soon as the locks are held, while the name is being removed.
    const PlainCompletion good(at, Errc::ok);
    const auto tell = [&] { good.send(); };
    if (!ops::unlink_simply(op, command.caller, command.handle, name, command.now, removed, changed,
                            known, tell)) {
        return false;
    }
    if (!removed) {
        if (!is_final(removed.code())) return false;
        complete_with_code(at, removed.code());
        return true;
    }
    op.end_apply();
    known.notes->write(at.team, changed);
    return true;
}

/// Serves the most frequent commands on a fast path. If it returns false, the command has to take
/// the general path, and nothing has changed. Requires: the command has no block in the arena.
__device__ bool serve_at_once(const Service& at, const core::Store& store, const ring::Head& head,
                              Known& known) {
    ops::Command command;
    const Errc code = ring::decode_command(head, at.space.name, nullptr, at.entry.memory.arena,
                                           at.entry.stamp, command);
    if (code != Errc::ok || store.heads != nullptr || command.references != 0) return false;
    // at.space.name is not filled in yet; the name is read from the mailbox.
    if (command.verb == ops::Verb::lookup) return look_up_at_once(at, store, command, known);
    if (command.verb == ops::Verb::unlink) return unlink_at_once(at, store, command, known);
    if (command.verb != ops::Verb::get_attributes) return false;
    core::InodeImage<WarpTeam> image;
    if (!core::peek_handle(at.team, store, command.handle, image)) return false;
    if (!core::is_unchanged(at.team, store, image.inode.seen)) return false;
    complete_with(at, image);
    return true;
}

/// Serves a command on the general path. The arguments are passed by value, so that they can stay
/// in registers on the fast path.
__device__ __noinline__ void serve_fully(Service at, const core::Store& store, ring::Head head) {
    std::byte* target = nullptr;
    ops::Reply reply;
    reply.code = receive(at, head, target);
    ops::Verb verb{};
    if (reply.code == Errc::ok) {
        verb = at.space.command.verb;
        run_command(at.team, store, at.space.command, reply);
        if (target != nullptr) send_buffer(at, reply, target);
    }
    complete(at, verb, reply);
}

__device__ void serve_one(const Service& at, const core::Store& store, Known& known) {
    const ring::Head head =
        ring::unpack_head([&](u32 i) { return ring::cell_word(at.box.cell, i); });
    const Errc code = ring::check_head(head, at.entry.memory.arena);
    if (code != Errc::ok) return complete_with_code(at, code);
    const bool has_block = (head.flags & ring::head_has_block) != 0;
    if (!has_block && serve_at_once(at, store, head, known)) return;
    if ((head.flags & ring::head_has_name) != 0) copy_name(at);
    serve_fully(at, store, head);
}

/// Waits until the mailbox's state is not box_idle; at the end of the epoch it becomes box_leave. A
/// worker in the polling warp's block polls shared memory with all lanes; in other blocks one lane
/// polls global memory, with pauses.
__device__ u32 wait_for_mail(const WarpTeam& team, u32& state, bool is_near) {
    if (!is_near) {
        return once(team, [&] {
            for (u32 looks = 0;; ++looks) {
                // Acquire: pairs with the release in publish().
                const u32 found = device_atomic<u32>(state).load(hd::memory_order_acquire);
                if (found != box_idle) return found;
                if (looks > 64) __nanosleep(200);
            }
        });
    }
    for (;;) {
        // Acquire: pairs with the release in post_one() and publish().
        const u32 found = block_atomic<u32>(state).load(hd::memory_order_acquire);
        // Lanes may see the change in different turns; the warp continues when the first one does.
        const u32 first = __reduce_max_sync(~0u, found);
        if (first != box_idle) return first;
    }
}

/// Copies a mailbox from device memory to shared memory.
__device__ void fetch_letter(const WarpTeam& team, const Mailbox& from, Mailbox& to) {
    static_assert(sizeof(Mailbox) == WarpTeam::width * sizeof(u64));
    reinterpret_cast<u64*>(&to)[team.lane()] = reinterpret_cast<const u64*>(&from)[team.lane()];
    team.sync();
}

}  // namespace

__device__ __noinline__ void work(const ServerArguments& arguments, BlockSpace& given_space,
                                  u32 block, u32 warp) {
    BlockSpace& space = in_shared_memory(given_space);
    const u32 number = block * warps_per_server_block + warp;
    const WarpTeam team{number};
    const bool is_near = block == 0;
    Mailbox& box = space.boxes[warp];
    Staging& staging = arguments.staging[number];
    u32& state = is_near ? space.states[warp] : arguments.memory->states[number];
    Known known;
    known.node = &space.workers[warp].node;
    known.notes = &space.notes;
    for (;;) {
        const u32 found = wait_for_mail(team, state, is_near);
        if (found == box_full) {
            if (!is_near) fetch_letter(team, arguments.memory->boxes[number], box);
            serve_one({team, space.ring, box, space.workers[warp], staging}, space.store, known);
        }
        once(team, [&] {
            // Release: pairs with the acquire in refresh(), so the box is not reused before this
            // worker has read it.
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
