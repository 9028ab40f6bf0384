// SPDX-License-Identifier: Apache-2.0
// Where goes what does not fit in the memory that it may take: a temporary file, as bytes by their
// place, or a test's double of it.
//
// Invariant: all of what was asked for is written or read, or there is an error.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "warren/result.hpp"
#include "warren/types.hpp"

namespace warren::walk {

class SpillStore {
 public:
    virtual ~SpillStore() = default;
    virtual Errc write(u64 offset, std::string_view bytes) = 0;
    virtual Errc read(u64 offset, std::span<char> target) = 0;
    /// Gives back the room of what lies behind so many bytes, as far as it can.
    virtual void truncate(u64 bytes) = 0;
};

/// A file without a name in temporary_folder(), made when the first byte is written.
std::unique_ptr<SpillStore> temporary_store();

}  // namespace warren::walk
