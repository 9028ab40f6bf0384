// SPDX-License-Identifier: Apache-2.0
// Storage for what exceeds a memory limit: a temporary file, addressed by byte offset, or a test's
// substitute.
//
// Invariant: a call writes or reads everything that was asked for, or returns an error.
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
    /// Releases the space beyond `bytes`, if possible.
    virtual void truncate(u64 bytes) = 0;
};

/// An unnamed file in temporary_folder(), created at the first write.
std::unique_ptr<SpillStore> temporary_store();

}  // namespace warren::walk
