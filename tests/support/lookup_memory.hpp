// SPDX-License-Identifier: Apache-2.0
// The memory of a slot of a stream of look-ups (fs/engine/lookup_stream.hpp), on the host.
//
// Invariant: there is room for what the stream's shape allows.
#pragma once

#include <vector>

#include "fs/engine/lookup_stream.hpp"

namespace warren {

struct LookupMemory {
    explicit LookupMemory(const LookupStreamShape& shape)
        : ends(shape.items_max),
          names(shape.words_max),
          codes(shape.items_max),
          attributes(shape.items_max) {}

    /// As LookupStream::memory() gives it.
    ops::BatchMemory shown() {
        ops::BatchMemory memory;
        memory.ends = ends.data();
        memory.names = names.data();
        memory.codes = codes.data();
        memory.attributes = attributes.data();
        return memory;
    }

    std::vector<ops::BatchEnd> ends;
    std::vector<u64> names;
    std::vector<Errc> codes;
    std::vector<Attributes> attributes;
};

}  // namespace warren
