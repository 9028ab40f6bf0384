// SPDX-License-Identifier: Apache-2.0
// The kernel of the resident server, and its polling warp, which alone reads the ring's commands in
// host memory. In a quiet turn it reads the next cell, the head of the cell after it and the host's
// control words with a single instruction; when commands follow each other it reads sixteen cells
// at once. It hands commands to idle workers, those of its own block first. The phase in every
// piece tells whether the piece has arrived, so the loads need no order among each other.
//
// Invariant: all blocks of the grid run concurrently, because warps wait for the polling warp.
// There are far fewer blocks than multiprocessors, and a block fits on each.
#include "fs/engine/cuda/device_clock.hpp"
#include "fs/engine/cuda/server/server_warp.hpp"
#include "gpu/failure.hpp"

namespace warren::cuda_engine {
namespace {

using ring::Piece;

constexpr u32 pieces_per_cell = ring::command_slots * ring::pieces_per_slot;
constexpr u32 cells_per_load = WarpTeam::width / pieces_per_cell;
constexpr u32 loads_in_burst = 4;
constexpr u32 control_lane = pieces_per_cell;
constexpr u32 behind_lane = control_lane + 1;  // and the next three
constexpr u32 turns_per_clock = 8;             // turns between readings of the clock

/// The state of the polling warp, which stays in registers. Lane b has the values of block b; the
/// others are equal in all lanes. All that a quiet turn needs is here, because the load over the
/// bus cannot be issued before its operands have been read.
struct Poller {
    const ServerArguments& arguments;
    BlockSpace& space;
    const u32 lane;
    const u32 blocks;
    const u64 epoch;
    const ring::CommandCell* const cells;
    const u32 cell_count;
    const Piece* const fixed_place;  // what the lane reads in a quiet turn unless it reads a cell

    u64 next;         // the ticket of the next command
    u32 free = 0;     // a bit for each idle worker of the lane's block
    u32 claimed = 0;  // likewise: chosen for a command, but its state is still box_idle

    Piece heard;  // what the lane read in the last quiet turn
    u64 start = 0;
    u64 now = 0;
    u64 last_work = 0;
    u64 settled = 0;
    EpochEnd end = EpochEnd::none;

    __device__ Poller(const ServerArguments& given, BlockSpace& shared_space)
        : arguments(given),
          space(shared_space),
          lane(threadIdx.x % WarpTeam::width),
          blocks(gridDim.x),
          epoch(given.epoch),
          cells(given.ring.memory.commands),
          cell_count(given.ring.memory.cells),
          fixed_place(lane == control_lane ? reinterpret_cast<const Piece*>(given.control)
                                           : nullptr),
          next(given.next) {}

    __device__ u32 workers_of_lane() const {
        if (lane >= blocks) return 0;
        return lane == 0 ? 0xfeu : 0xffu;  // warp 0 of block 0 is this one
    }
    __device__ u32& state_of(u32 warp) const {
        return lane == 0 ? space.states[warp]
                         : arguments.memory->states[lane * warps_per_server_block + warp];
    }
};

__device__ u64 shuffle(u64 value, u32 from) {
    return __shfl_sync(~0u, value, static_cast<int>(from));
}

/// Updates `free` from the states of the workers: those of this block, or all.
__device__ void refresh(Poller& at, bool everywhere) {
    if (at.lane == 0 || everywhere) {
        u32 idle = 0;
        const u32 workers = at.workers_of_lane();
        for (u32 warp = 0; warp < warps_per_server_block; ++warp) {
            if ((workers >> warp & 1) == 0) continue;
            const u32 state = device_atomic<u32>(at.state_of(warp)).load(hd::memory_order_relaxed);
            if (state == box_idle) idle |= 1u << warp;
        }
        at.free = idle & ~at.claimed;
    }
    // Together with the loads above this is an acquire: pairs with the release in work().
    if (everywhere) {
        cuda::atomic_thread_fence(cuda::memory_order_acquire, cuda::thread_scope_device);
    } else {
        cuda::atomic_thread_fence(cuda::memory_order_acquire, cuda::thread_scope_block);
    }
    __syncwarp();
}

__device__ bool all_are_idle(const Poller& at) {
    return __ballot_sync(~0u, at.free != at.workers_of_lane()) == 0;
}

/// Chooses an idle worker and returns its number. Requires: there is one.
__device__ u32 claim_worker(Poller& at) {
    const u32 lanes = __ballot_sync(~0u, at.free != 0);
    const u32 block = static_cast<u32>(__ffs(static_cast<int>(lanes)) - 1);
    u32 warp = static_cast<u32>(__ffs(static_cast<int>(at.free)) - 1);
    warp = __shfl_sync(~0u, warp, static_cast<int>(block));
    if (at.lane == block) {
        at.free &= ~(1u << warp);
        at.claimed |= 1u << warp;
    }
    return block * warps_per_server_block + warp;
}

/// Commands that were written to mailboxes but not published to the workers yet: the first
/// counts[i] of load i.
struct Posted {
    u32 workers[loads_in_burst];  // of the lane's cell
    u32 counts[loads_in_burst] = {};
};

/// Publishes the commands to the workers, by setting the states of the mailboxes.
__device__ void publish(Poller& at, Posted& posted) {
    const u32 mine = at.lane / pieces_per_cell;
    bool is_far = false;
#pragma unroll
    for (u32 i = 0; i < loads_in_burst; ++i)
        is_far = is_far || (mine < posted.counts[i] && posted.workers[i] >= warps_per_server_block);
    __syncwarp();
    // Together with the stores below this is a release: pairs with the acquire in wait_for_mail().
    if (__ballot_sync(~0u, is_far) != 0) {
        cuda::atomic_thread_fence(cuda::memory_order_release, cuda::thread_scope_device);
    } else {
        cuda::atomic_thread_fence(cuda::memory_order_release, cuda::thread_scope_block);
    }
#pragma unroll
    for (u32 i = 0; i < loads_in_burst; ++i) {
        if (mine < posted.counts[i] && at.lane % pieces_per_cell == 0) {
            const u32 worker = posted.workers[i];
            u32& state = worker < warps_per_server_block ? at.space.states[worker]
                                                         : at.arguments.memory->states[worker];
            device_atomic<u32>(state).store(box_full, hd::memory_order_relaxed);
        }
        posted.counts[i] = 0;
    }
    at.claimed = 0;
    __syncwarp();  // orders these stores before the loads of other lanes in refresh()
}

/// Writes the first `count` of the cells in `piece`, which are spread over the lanes, to mailboxes,
/// as load `load` of `posted`. If too few workers are idle, waits for them until the end of the
/// epoch; then it returns false, and all these commands stay in the ring.
__device__ bool post(Poller& at, const Piece& piece, u32 count, u32 load, Posted& posted) {
    for (u32 look = 1; __reduce_add_sync(~0u, static_cast<u32>(__popc(at.free))) < count; ++look) {
        publish(at, posted);
        refresh(at, true);
        if (look % turns_per_clock != 0) continue;
        at.now = shuffle(device_nanoseconds(), 0);
        if (at.now - at.start <= at.arguments.epoch_ns) continue;
        at.end = EpochEnd::time;
        return false;
    }
    const u32 mine = at.lane / pieces_per_cell;
    const u64 ticket = at.next + mine;
    u32 worker = 0;
    for (u32 i = 0; i < count; ++i) {
        const u32 claimed = claim_worker(at);
        if (mine == i) worker = claimed;
    }
    Mailbox& box = worker < warps_per_server_block ? at.space.boxes[worker]
                                                   : at.arguments.memory->boxes[worker];
    if (mine < count) {
        box.cell.pieces[at.lane % pieces_per_cell] = piece;
        if (at.lane % pieces_per_cell == 0) box.ticket = ticket;
    }
#pragma unroll
    for (u32 i = 0; i < loads_in_burst; ++i) {
        if (i != load) continue;
        posted.workers[i] = worker;
        posted.counts[i] = count;
    }
    at.next += count;
    at.last_work = at.now;  // the last reading of the clock, because reading it is slow
    return true;
}

/// Whether cell `cell` of those in `piece` has arrived completely. `right`: the lanes whose piece
/// has the expected phase.
__device__ bool is_complete(const Piece& piece, u32 right, u32 cell) {
    const u32 word =
        __shfl_sync(~0u, static_cast<u32>(piece.low), static_cast<int>(cell * pieces_per_cell));
    const bool has_name = (word >> 16 & ring::head_has_name) != 0;
    const u32 wanted = has_name ? 0xffu : 0xfu;
    return (right >> cell * pieces_per_cell & wanted) == wanted;
}

/// How many of the cells in `piece`, from the first on, have arrived completely. `is_right`: the
/// lane's piece has the expected phase.
__device__ u32 count_complete(const Piece& piece, bool is_right) {
    const u32 right = __ballot_sync(~0u, is_right);
    u32 count = 0;
    while (count < cells_per_load && is_complete(piece, right, count))
        ++count;
    return count;
}

/// Hands one command, whose pieces are in the first lanes, to a worker: of this block if one is
/// idle there.
__device__ void post_one(Poller& at, const Piece& piece) {
    u32 free = __shfl_sync(~0u, at.free, 0);
    if (free == 0) {
        refresh(at, false);
        free = __shfl_sync(~0u, at.free, 0);
    }
    if (free == 0) {
        Posted posted;
        static_cast<void>(post(at, piece, 1, 0, posted));
        publish(at, posted);
        return;
    }
    const u32 warp = static_cast<u32>(__ffs(static_cast<int>(free)) - 1);
    Mailbox& box = at.space.boxes[warp];
    if (at.lane < pieces_per_cell) box.cell.pieces[at.lane] = piece;
    if (at.lane == 0) {
        at.free = free & (free - 1);
        box.ticket = at.next;
    }
    __syncwarp();
    if (at.lane == 0) {
        // Release: pairs with the acquire in wait_for_mail().
        block_atomic<u32>(at.space.states[warp]).store(box_full, hd::memory_order_release);
    }
    ++at.next;
    at.last_work = at.now;
}

/// The address that the lane reads in a quiet turn, or null. Computed without divergence, because
/// divergent paths would run one after the other.
__device__ const Piece* quiet_place(const Poller& at) {
    const bool is_behind = at.lane >= behind_lane;
    const u32 piece = is_behind ? at.lane - behind_lane : at.lane;
    const u64 cell = ring::cell_of(at.next + (is_behind ? 1 : 0), at.cell_count);
    const bool has_cell = at.lane < control_lane || (is_behind && piece < ring::pieces_per_slot);
    return has_cell ? &at.cells[cell].pieces[piece] : at.fixed_place;
}

/// Polls the ring and the host's control words once, and hands out at most one command; returns
/// whether another one follows.
__device__ bool quiet_turn(Poller& at) {
    const Piece* from = quiet_place(at);
    Piece piece;
    if (from != nullptr) piece = ring::load_block_piece(*from);
    // While that load is in flight, evaluate the control words of the turn before.
    if (shuffle(at.heard.low, control_lane) >= at.epoch) at.end = EpochEnd::asked;
    const bool is_next = at.lane < control_lane;
    const bool is_behind = at.lane >= behind_lane;
    const u32 phase = ring::phase_of(at.next + (is_behind ? 1 : 0), at.cell_count);
    const bool is_right = from != nullptr && (is_next || is_behind) && piece.phase() == phase;
    const u32 right = __ballot_sync(~0u, is_right);
    at.heard = piece;
    if (!is_complete(piece, right, 0)) return false;
    post_one(at, piece);
    constexpr u32 whole = (1u << ring::pieces_per_slot) - 1;
    return (right >> behind_lane & whole) == whole;
}

/// Takes up to sixteen commands; returns whether there were sixteen.
__device__ bool burst_turn(Poller& at) {
    const u64 first = at.next;
    Piece pieces[loads_in_burst];
    const auto ticket_of = [&](u32 load) {
        return first + load * cells_per_load + at.lane / pieces_per_cell;
    };
#pragma unroll
    for (u32 i = 0; i < loads_in_burst; ++i) {
        pieces[i] = ring::load_block_piece(
            at.cells[ring::cell_of(ticket_of(i), at.cell_count)].pieces[at.lane % pieces_per_cell]);
    }
    Posted posted;
    bool is_full = true;
#pragma unroll
    for (u32 i = 0; i < loads_in_burst; ++i) {
        const bool is_right = pieces[i].phase() == ring::phase_of(ticket_of(i), at.cell_count);
        const u32 count = count_complete(pieces[i], is_right);
        if (is_full && count != 0) is_full = post(at, pieces[i], count, i, posted);
        is_full = is_full && count == cells_per_load;
    }
    publish(at, posted);
    return is_full;
}

/// Answers ResidentServer::settle() if no command is running. The host submits no command until it
/// has the answer.
__device__ void answer_settle(Poller& at) {
    const u64 asked = shuffle(at.heard.high, control_lane);
    if (asked == at.settled) return;
    refresh(at, true);
    if (!all_are_idle(at)) return;
    at.settled = asked;
    if (at.lane == 0) {
        // Release: pairs with the acquire in ResidentServer::settle(), and passes on what refresh()
        // has acquired from the workers.
        system_atomic<u64>(at.arguments.report->settled).store(asked, hd::memory_order_release);
    }
}

/// Answers a settle request, reads the clock, and ends the epoch if it is time.
__device__ void consult_clock(Poller& at) {
    answer_settle(at);
    at.now = shuffle(device_nanoseconds(), 0);
    if (at.end != EpochEnd::none) return;
    if (at.now - at.start > at.arguments.epoch_ns) {
        at.end = EpochEnd::time;
    } else if (at.now > at.last_work && at.now - at.last_work > at.arguments.idle_ns) {
        refresh(at, true);
        if (all_are_idle(at)) at.end = EpochEnd::idle;
    }
}

/// Waits until all workers are idle, makes them leave, and reports the end of the epoch.
__device__ void close_epoch(Poller& at) {
    do {
        refresh(at, true);
    } while (!all_are_idle(at));
    const u32 workers = at.workers_of_lane();
    for (u32 warp = 0; warp < warps_per_server_block; ++warp) {
        if ((workers >> warp & 1) == 0) continue;
        // Release: pairs with the acquire in wait_for_mail().
        device_atomic<u32>(at.state_of(warp)).store(box_leave, hd::memory_order_release);
    }
    ServerReport& report = *at.arguments.report;
    if (at.lane == 0) {
        report.next = at.next;
        report.end = at.end;
    }
    __threadfence_system();
    __syncwarp();
    if (at.lane == 0) {
        // Release: pairs with the acquire in ResidentServer::epoch_has_ended().
        system_atomic<u64>(report.ended_epoch).store(at.arguments.epoch, hd::memory_order_release);
    }
}

/// The polling warp: takes commands from the ring until the epoch ends.
__device__ __noinline__ void dispatch(const ServerArguments& arguments, BlockSpace& space) {
    Poller at(arguments, in_shared_memory(space));
    at.free = at.workers_of_lane();
    at.start = at.now = at.last_work = shuffle(device_nanoseconds(), 0);
    bool is_burst = false;
    for (u64 turn = 1; at.end == EpochEnd::none; ++turn) {
        if (is_burst && turn % turns_per_clock != 0) {
            is_burst = burst_turn(at);
            continue;
        }
        is_burst = quiet_turn(at);
        if (turn % turns_per_clock == 0) consult_clock(at);
    }
    close_epoch(at);
}

__global__ void __launch_bounds__(warps_per_server_block* WarpTeam::width, 1)
    serve_epoch(const __grid_constant__ ServerArguments arguments) {
    __shared__ alignas(128) std::byte memory[sizeof(BlockSpace)];
    auto& space = *reinterpret_cast<BlockSpace*>(memory);
    const u32 warp = threadIdx.x / WarpTeam::width;
    if (threadIdx.x == 0) {
        space.store = arguments.store;
        space.ring = arguments.ring;
    }
    if (threadIdx.x < warps_per_server_block) space.states[threadIdx.x] = box_idle;
    for (u32 i = threadIdx.x; i < core::VersionNotes::count; i += blockDim.x)
        space.notes.notes[i] = 0;
    __syncthreads();
    if (blockIdx.x == 0 && warp == 0) {
        dispatch(arguments, space);
    } else {
        work(arguments, space, blockIdx.x, warp);
    }
}

}  // namespace

Errc launch_epoch(const ServerArguments& arguments, u32 blocks, cudaStream_t stream) {
    serve_epoch<<<blocks, warps_per_server_block * WarpTeam::width, 0, stream>>>(arguments);
    return gpu::check(cudaGetLastError(), "serve_epoch");
}

}  // namespace warren::cuda_engine
