// SPDX-License-Identifier: Apache-2.0
// The memory that a client and an engine share: rings of cells. A cell is a few slots of 64 bytes,
// and a slot is four pieces of 16 bytes. Every piece contains the phase: the number of the lap
// around the ring in which it was written. A reader that finds the expected phase in all pieces
// that it needs has a complete message of that lap, in whatever order the pieces became visible.
//
// Invariant: a piece with the expected phase is complete. On a GPU it is one access of 128 bits; on
// a CPU the half with the phase is written last and read first. There are no read-modify-write
// operations.
#pragma once

#include <cstring>

#include "base/host_device.hpp"

namespace warren::ring {

struct alignas(16) Piece {
    u64 low = 0;
    u64 high = 0;  // 32 bits of payload, then the phase

    WARREN_HD u32 phase() const { return static_cast<u32>(high >> 32); }
    WARREN_HD u32 word(u32 index) const {
        return static_cast<u32>(index == 0 ? low : index == 1 ? low >> 32 : high);
    }
    static WARREN_HD Piece make(const u32* words, u32 phase) {
        return {words[0] | u64{words[1]} << 32, words[2] | u64{phase} << 32};
    }
};

inline constexpr u32 words_per_piece = 3;
inline constexpr u32 pieces_per_slot = 4;
inline constexpr u32 words_per_slot = pieces_per_slot * words_per_piece;
inline constexpr u32 inline_name_max = words_per_slot * 4;  // bytes

/// Slots of a command: the head, and a name of at most 48 bytes.
inline constexpr u32 command_slots = 2;
/// Slots of a completion at most. Only those that the reply needs are written.
inline constexpr u32 completion_slots = 4;

template <u32 slots>
struct alignas(64) Cell {
    Piece pieces[slots * pieces_per_slot];
};
using CommandCell = Cell<command_slots>;
using CompletionCell = Cell<completion_slots>;
static_assert(sizeof(CommandCell) == 128 && sizeof(CompletionCell) == 256);

/// The phase of the cell for ticket number `ticket` in a ring of `cells` cells, a power of two.
/// Memory that was never written has phase 0.
WARREN_HD inline u32 phase_of(u64 ticket, u32 cells) {
    return static_cast<u32>(ticket >> hd::countr_zero(cells)) + 1;
}

/// The index of the cell for ticket number `ticket`. A mask, because a GPU has no instruction for
/// division.
WARREN_HD inline u32 cell_of(u64 ticket, u32 cells) {
    return static_cast<u32>(ticket) & (cells - 1);
}

/// Reads a piece that the other side may be writing. If the phase is the expected one, later reads
/// see everything that the other side wrote before the piece.
WARREN_HD inline Piece load_piece(const Piece& piece) {
    Piece copy;
#if defined(__CUDA_ARCH__)
    asm volatile("{ .reg .b128 both; ld.acquire.sys.b128 both, [%2]; mov.b128 {%0, %1}, both; }"
                 : "=l"(copy.low), "=l"(copy.high)
                 : "l"(&piece)
                 : "memory");
#else
    // Acquire: pairs with the release in store_piece().
    copy.high = system_atomic<u64>(const_cast<u64&>(piece.high)).load(hd::memory_order_acquire);
    copy.low = system_atomic<u64>(const_cast<u64&>(piece.low)).load(hd::memory_order_relaxed);
#endif
    return copy;
}

/// Reads 16 bytes of a block in the arena. Relaxed: the caller orders this after its load of the
/// cell that names the block.
WARREN_HD inline Piece load_block_piece(const Piece& piece) {
    Piece copy;
#if defined(__CUDA_ARCH__)
    asm volatile("{ .reg .b128 both; ld.relaxed.sys.b128 both, [%2]; mov.b128 {%0, %1}, both; }"
                 : "=l"(copy.low), "=l"(copy.high)
                 : "l"(&piece)
                 : "memory");
#else
    copy.low = system_atomic<u64>(const_cast<u64&>(piece.low)).load(hd::memory_order_relaxed);
    copy.high = system_atomic<u64>(const_cast<u64&>(piece.high)).load(hd::memory_order_relaxed);
#endif
    return copy;
}

/// Writes a piece. On a CPU this is a release store; on a GPU it is relaxed, and the caller must
/// put a fence between its other writes and the pieces that publish them.
WARREN_HD inline void store_piece(Piece& piece, const Piece& value) {
#if defined(__CUDA_ARCH__)
    asm volatile(
        "{ .reg .b128 both; mov.b128 both, {%1, %2}; st.relaxed.sys.b128 [%0], both; }" ::"l"(
            &piece),
        "l"(value.low), "l"(value.high)
        : "memory");
#else
    system_atomic<u64>(piece.low).store(value.low, hd::memory_order_relaxed);
    // Release: pairs with the acquire in load_piece().
    system_atomic<u64>(piece.high).store(value.high, hd::memory_order_release);
#endif
}

/// Copies slot `slot` of a cell that the other side may be writing; returns whether all of its
/// pieces have the phase `phase`.
template <u32 slots>
WARREN_HD bool load_slot(const Cell<slots>& cell, u32 slot, u32 phase, Cell<slots>& copy) {
    bool is_complete = true;
    for (u32 i = slot * pieces_per_slot; i < (slot + 1) * pieces_per_slot; ++i) {
        copy.pieces[i] = load_piece(cell.pieces[i]);
        is_complete = is_complete && copy.pieces[i].phase() == phase;
    }
    return is_complete;
}

/// Writes `count` slots of a cell from slot `first` on, the first piece last.
template <u32 slots>
WARREN_HD void store_slots(Cell<slots>& cell, u32 first, u32 count, const u32* words, u32 phase) {
    for (u32 i = count * pieces_per_slot; i-- > 0;) {
        store_piece(cell.pieces[first * pieces_per_slot + i],
                    Piece::make(words + i * words_per_piece, phase));
    }
}

template <u32 slots>
WARREN_HD u32 cell_word(const Cell<slots>& copy, u32 index) {
    // In memory a piece is three words of payload and then the phase.
    static_assert(hd::endian::native == hd::endian::little);
    return reinterpret_cast<const u32*>(copy.pieces)[index + index / words_per_piece];
}

}  // namespace warren::ring
