// SPDX-License-Identifier: Apache-2.0
// Reads many shared words in the time of one load: each lane of a team loads its own words, all
// loads are in flight at once, and each lane keeps what it has loaded until the team asks for it.
// On a GPU a load from memory costs hundreds of nanoseconds, a shuffle from another lane a few.
//
// Invariant: loads after read() are ordered after all loads of read(), as after an acquire.
#pragma once

#include "fs/core/fence.hpp"
#include "team/team.hpp"

namespace warren::core {

/// Whether a team is a part of a warp. Such teams diverge from each other anyway, so for them
/// needless work costs more than a branch. A whole warp computes unused values rather than diverge.
template <class Team>
inline constexpr bool parts_freely = requires {
    requires Team::is_part_of_warp;
};

/// Sixteen bytes of shared memory; each half is read as a word of its own.
struct alignas(16) WordPair {
    u64 low = 0;
    u64 high = 0;
};

WARREN_HD inline u64 read_item(const u64& at, hd::memory_order order) {
    return device_atomic<u64>(const_cast<u64&>(at)).load(order);
}

WARREN_HD inline WordPair read_item(const WordPair& at, hd::memory_order order) {
    WordPair pair;
#if defined(__CUDA_ARCH__)
    if (order == hd::memory_order_acquire) {
        asm volatile("ld.acquire.gpu.v2.u64 {%0, %1}, [%2];"
                     : "=l"(pair.low), "=l"(pair.high)
                     : "l"(&at)
                     : "memory");
    } else {
        asm volatile("ld.relaxed.gpu.v2.u64 {%0, %1}, [%2];"
                     : "=l"(pair.low), "=l"(pair.high)
                     : "l"(&at)
                     : "memory");
    }
#else
    pair.low = read_item(at.low, order);
    pair.high = read_item(at.high, order);
#endif
    return pair;
}

/// Copies `words` words that other threads may change. The loads of a batch overlap. Collective.
template <u32 words, class Team>
WARREN_HD void copy_words(const Team& team, u64* to, const u64* from) {
    constexpr u32 each = (words + Team::width - 1) / Team::width;
    constexpr u32 batch = Team::width == 1 ? 1 : each < 16 ? each : 16;
    team.sync();
    for (u32 begin = 0; begin < each; begin += batch) {
        u64 held[batch];
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
        for (u32 i = 0; i < batch; ++i) {
            const u32 at = (begin + i) * Team::width + team.lane();
            held[i] = at < words ? relaxed_load(from[at]) : 0;
        }
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
        for (u32 i = 0; i < batch; ++i) {
            const u32 at = (begin + i) * Team::width + team.lane();
            if (at < words) to[at] = held[i];
        }
    }
    team.sync();
}

/// Up to `count` items (u64 or WordPair). Lane i % W holds item i.
template <class Team, class Item, u32 count>
class Gathered {
    static constexpr u32 rows = (count + Team::width - 1) / Team::width;

 public:
    /// Reads item i from place_of(i), a pointer. Lanes without an item read the last item again,
    /// which is cheaper than a branch. Collective.
    template <class PlaceOf>
    WARREN_HD void read(const Team& team, const PlaceOf& place_of) {
        // Acquire, by these loads or by the fence: pairs with fence_release() and the releases of
        // writers.
        constexpr auto order = rows == 1 ? hd::memory_order_acquire : hd::memory_order_relaxed;
        for (u32 row = 0; row < rows; ++row) {
            const u32 i = row * Team::width + team.lane();
            const Item* at = place_of(i < count ? i : count - 1);
            held_[row] = read_item(*at, order);
        }
        if constexpr (rows > 1) fence_acquire();
        team.sync();
    }

    /// Item i. Only the lane that holds it may call this.
    WARREN_HD const Item& own(u32 i) const { return held_[rows == 1 ? 0 : i / Team::width]; }

    /// `part(item)` of item i, broadcast to all lanes. Collective: all lanes pass the same i.
    template <class Part>
    WARREN_HD auto tell(const Team& team, u32 i, const Part& part) const {
        if constexpr (rows == 1) return team.broadcast(part(held_[0]), i);
        Item item = held_[0];
        for (u32 row = 1; row < rows; ++row) {
            if (row == i / Team::width) item = held_[row];
        }
        return team.broadcast(part(item), i % Team::width);
    }

    /// How many items pass `test(i, item)`. Collective.
    template <class Test>
    WARREN_HD u32 count_of(const Team& team, const Test& test) const {
        u32 found = 0;
        for (u32 row = 0; row < rows; ++row) {
            const u32 i = row * Team::width + team.lane();
            const bool vote = i < count && test(i, held_[row]);
            found += static_cast<u32>(hd::popcount(team.ballot(vote)));
        }
        return found;
    }

    /// Whether all items pass `test(i, item)`. Collective.
    template <class Test>
    WARREN_HD bool all_of(const Team& team, const Test& test) const {
        bool fails = false;
        for (u32 row = 0; row < rows; ++row) {
            const u32 i = row * Team::width + team.lane();
            fails |= (i < count) & !test(i, held_[row]);
        }
        return team.ballot(fails) == 0;
    }

    /// Calls visit(i, item) for the items that this lane holds.
    template <class Visit>
    WARREN_HD void for_each_own(const Team& team, const Visit& visit) const {
        for (u32 row = 0; row < rows; ++row) {
            const u32 i = row * Team::width + team.lane();
            if (i < count) visit(i, held_[row]);
        }
    }

    /// The number of the first item that passes `test(i, item)`, or `count` if none does; sets
    /// `passed` to the number of items that pass. Collective.
    template <class Test>
    WARREN_HD u32 first_of(const Team& team, const Test& test, u32& passed) const {
        u32 found = count;
        passed = 0;
        for (u32 row = 0; row < rows; ++row) {
            const u32 i = row * Team::width + team.lane();
            const u32 votes = team.ballot(i < count && test(i, held_[row]));
            if (votes != 0 && found == count) {
                found = row * Team::width + static_cast<u32>(hd::countr_zero(votes));
            }
            passed += static_cast<u32>(hd::popcount(votes));
        }
        return found;
    }

 private:
    Item held_[rows];
};

/// The pair of words that contains words[index].
WARREN_HD inline const WordPair* pair_around(const u64* words, u64 index) {
    return reinterpret_cast<const WordPair*>(words + index / 2 * 2);
}
WARREN_HD inline u64 word_of(const WordPair& pair, u64 index) {
    return index % 2 == 0 ? pair.low : pair.high;
}

}  // namespace warren::core
