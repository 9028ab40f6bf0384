// SPDX-License-Identifier: Apache-2.0
// Cuts many items, which are to have the effect of one after the other, into waves whose items may
// run in any order: those of one wave touch different names.
//
// Invariant: an item runs after all before it that touch one of its names.
#pragma once

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <span>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "warren/volume.hpp"

namespace warren {

/// Stands for a name in a directory, as items of a batch depend on each other by it. Two names may
/// have one key; then a wave ends early, no more.
inline u64 name_key(u64 directory, std::string_view name) {
    constexpr u64 odd_factor = 0x9e37'79b9'7f4a'7c15;
    return std::hash<std::string_view>{}(name) ^ (directory + 1) * odd_factor;
}

/// The wave that is being put together.
class Waves {
 public:
    explicit Waves(u64 items_max) : items_max_(items_max) {}

    /// Whether an item on these names may join the wave; if not, the wave must run first.
    bool admits(std::initializer_list<u64> keys) const {
        return items_.size() < items_max_ && std::none_of(keys.begin(), keys.end(), [&](u64 key) {
                   return taken_.contains(key);
               });
    }
    void add(u64 item, std::initializer_list<u64> keys) {
        taken_.insert(keys);
        items_.push_back(item);
    }
    /// The items of the wave; the next one starts empty.
    std::vector<u64> take() {
        taken_.clear();
        return std::exchange(items_, {});
    }

 private:
    const u64 items_max_;
    std::unordered_set<u64> taken_;
    std::vector<u64> items_;
};

/// The names that item i touches, of items with one name each.
template <class Item>
auto keys_of(std::span<const Item> items) {
    return [items](u64 i) {
        const u64 key = name_key(items[i].directory.inode, items[i].name);
        return std::pair(key, key);
    };
}

/// Calls `run(begin, count)` for each row of removals that are all of directories, or none.
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

/// Cuts items into waves and runs each; `keys(i)` are the two names that item i touches.
template <class Keys, class RunWave>
void run_in_waves(u64 count, u64 items_max, const Keys& keys, const RunWave& run_wave) {
    Waves wave(items_max);
    for (u64 i = 0; i < count; ++i) {
        const auto [first, second] = keys(i);
        if (!wave.admits({first, second})) run_wave(wave.take());
        wave.add(i, {first, second});
    }
    run_wave(wave.take());
}

}  // namespace warren
