// SPDX-License-Identifier: Apache-2.0
// Reserves memory for a hash map element. Inserting a key after something that cannot be undone (a
// file was created, a byte was written) must not fail for lack of memory. So a thread allocates one
// element before; if that fails, the operation does not begin.
//
// Invariant: insert() after take() needs no memory to succeed. A map that could not grow only
// becomes slower.
#pragma once

#include <unordered_map>
#include <utility>

#include "base/out_of_memory.hpp"

namespace warren::fuse {

/// This thread's spare element for maps of type `Map`, a std::unordered_map.
template <class Map>
class Spare {
 public:
    /// Allocates the spare element unless there is one. Throws std::bad_alloc.
    static void take() {
        if (!spare.empty()) return;
        Map one;
        one.max_load_factor(crowded);
        one.try_emplace(typename Map::key_type());
        spare = one.extract(one.begin());
    }

    /// The value of `key` in `map`, inserted if necessary. Requires: take() since this thread's
    /// last insert().
    static typename Map::mapped_type& insert(Map& map, const typename Map::key_type& key) {
        if (const auto found = map.find(key); found != map.end()) return found->second;
        // Automatic growth might throw, so it is disabled; the map grows below if memory allows.
        if (map.max_load_factor() != crowded) map.max_load_factor(crowded);
        spare.key() = key;
        spare.mapped() = typename Map::mapped_type();
        auto& value = map.insert(std::move(spare)).position->second;
        if (map.size() > map.bucket_count()) {
            static_cast<void>(or_no_memory([&] { map.rehash(2 * map.size()); }));
        }
        return value;
    }

 private:
    static constexpr float crowded = 1e6f;  // elements for each bucket: never reached
    static inline thread_local typename Map::node_type spare;
};

}  // namespace warren::fuse
