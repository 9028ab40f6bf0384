// SPDX-License-Identifier: Apache-2.0
// A hash map that is given a new key after something has happened that cannot be undone (a file was
// made, a byte was written) must not find that there is no memory. So a thread takes the memory for
// one more element first, and what does not have it by then does not begin.
//
// Invariant: insert() after take() asks for no memory that it needs. A map that could not grow only
// gets slower.
#pragma once

#include <unordered_map>
#include <utility>

#include "base/out_of_memory.hpp"

namespace warren::fuse {

/// This thread's memory for one more element of maps of type `Map`, a std::unordered_map.
template <class Map>
class Spare {
 public:
    /// Takes the memory unless it is there. Throws std::bad_alloc.
    static void take() {
        if (!spare.empty()) return;
        Map one;
        one.max_load_factor(crowded);
        one.try_emplace(typename Map::key_type());
        spare = one.extract(one.begin());
    }

    /// The value of `key` in `map`, a new one if there is none. Requires: take() since this
    /// thread's last insert().
    static typename Map::mapped_type& insert(Map& map, const typename Map::key_type& key) {
        if (const auto found = map.find(key); found != map.end()) return found->second;
        // The map would grow when it must; here it does when it can.
        if (map.max_load_factor() != crowded) map.max_load_factor(crowded);
        spare.key() = key;
        spare.mapped() = typename Map::mapped_type();
        auto& value = map.insert(std::move(spare)).position->second;
        if (map.size() > map.bucket_count()) {
            static_cast<void>(or_no_memory([&] {
                map.rehash(2 * map.size());
                return Errc::ok;
            }));
        }
        return value;
    }

 private:
    static constexpr float crowded = 1e6f;  // elements a bucket: no map gets there
    static inline thread_local typename Map::node_type spare;
};

}  // namespace warren::fuse
