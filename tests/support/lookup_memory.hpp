// SPDX-License-Identifier: Apache-2.0
// The memory of a slot of a lookup stream (fs/engine/lookup_stream.hpp), on the host.
//
// Invariant: it has room for as much as the stream's shape allows.
#pragma once

#include <vector>

#include "fs/engine/lookup_stream.hpp"

namespace warren {

struct LookupMemory {
    explicit LookupMemory(const LookupStreamShape& shape)
        : operands(shape.items_max),
          names(shape.words_max),
          codes(shape.items_max),
          attributes(shape.items_max) {}

    /// In the form that LookupStream::memory() returns.
    ops::BatchMemory shown() {
        ops::BatchMemory memory;
        memory.operands = operands.data();
        memory.names = names.data();
        memory.codes = codes.data();
        memory.attributes = attributes.data();
        return memory;
    }

    std::vector<ops::BatchOperand> operands;
    std::vector<u64> names;
    std::vector<Errc> codes;
    std::vector<Attributes> attributes;
};

}  // namespace warren
