// SPDX-License-Identifier: Apache-2.0
// Determines which of many items may run in parallel with the same effect as in order, and
// distributes them over a thread pool.
#pragma once

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "fs/engine/cpu/thread_pool.hpp"
#include "warren/volume.hpp"

namespace warren {

/// A nonzero key for a name in a directory, to find dependencies between items. If two names have
/// the same key, one item needlessly waits for the other.
inline u64 name_key(u64 directory, std::string_view name) {
    constexpr u64 odd_factor = 0x9e37'79b9'7f4a'7c15;
    return (std::hash<std::string_view>{}(name) ^ (directory + 1) * odd_factor) | 1;
}

/// The keys of the names that an item changes.
inline std::pair<u64, u64> keys_of(const Move& item) {
    return {name_key(item.from.inode, item.name), name_key(item.to.inode, item.new_name)};
}
template <class Item>
std::pair<u64, u64> keys_of(const Item& item) {
    const u64 key = name_key(item.directory.inode, item.name);
    return {key, key};
}

/// Calls `run(begin, count)` for each run of consecutive removals that are all of directories or
/// all of other names.
template <class Run>
void for_each_kind(std::span<const Unlink> names, const Run& run) {
    for (u64 begin = 0; begin < names.size();) {
        u64 end = begin + 1;
        while (end < names.size() && names[end].is_directory == names[begin].is_directory)
            ++end;
        run(begin, end - begin);
        begin = end;
    }
}

/// Calls `run(begin, count)` for each run of consecutive items that change different names.
template <class Item, class Run>
void for_each_distinct(std::span<const Item> items, const Run& run) {
    constexpr u64 row_max = 65536;
    for (u64 at = 0; at < items.size(); at += row_max) {
        const u64 end = std::min<u64>(at + row_max, items.size());
        // The keys of all rows before `end`, each mixed with its row: at most three per item.
        std::vector<u64> taken(std::bit_ceil(4 * (end - at)));
        const auto take = [&](u64 key, u64 row) {
            const u64 mixed = key ^ row << 1;
            u64 slot = (mixed >> 1) % taken.size();
            while (taken[slot] != 0 && taken[slot] != mixed)
                slot = (slot + 1) % taken.size();
            return std::exchange(taken[slot], mixed) == 0;
        };
        const auto take_all = [&](u64 i, u64 row) {
            const auto [first, second] = keys_of(items[i]);
            return take(first, row) && (first == second || take(second, row));
        };
        u64 row = at;
        for (u64 i = at; i < end; ++i) {
            if (take_all(i, row)) continue;
            run(row, i - row);
            row = i;
            take_all(i, row);
        }
        run(row, end - row);
    }
}

/// Calls `run(i)` for each item on the workers of the thread pool; items with the same first name
/// run in order. A worker gets whole directories, because neighbouring names share leaves; but if a
/// few directories have most of the items, it gets names.
template <class Item, class Run>
void run_in_parts(ThreadPool& thread_pool, std::span<const Item> items, const Run& run) {
    const auto directory_of = [](const Item& item) {
        if constexpr (requires { item.from; }) {
            return item.from.inode;
        } else {
            return item.directory.inode;
        }
    };
    std::vector<u32> part_of(items.size());
    std::vector<u64> begins;  // at first the sizes
    const auto share_out = [&](u64 parts, const auto& key_of) {
        begins.assign(parts, 0);
        for (u64 i = 0; i < items.size(); ++i) {
            part_of[i] = static_cast<u32>((key_of(items[i]) >> 32) % parts);
            ++begins[part_of[i]];
        }
    };
    share_out(u64{8} * thread_pool.width(),
              [&](const Item& item) { return name_key(directory_of(item), {}); });
    if (std::ranges::max(begins) > items.size() / thread_pool.width()) {
        share_out(thread_pool.width(), [](const Item& item) { return keys_of(item).first; });
    }
    std::inclusive_scan(begins.begin(), begins.end(), begins.begin());
    std::vector<u64> order(items.size());
    for (u64 i = items.size(); i-- > 0;)
        order[--begins[part_of[i]]] = i;
    begins.push_back(items.size());
    thread_pool.for_each(begins.size() - 1, [&](const ThreadTeam&, u64 part) {
        for (u64 i = begins[part]; i < begins[part + 1]; ++i)
            run(order[i]);
    });
}

}  // namespace warren
