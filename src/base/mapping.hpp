// SPDX-License-Identifier: Apache-2.0
// Memory from mmap(2) that unmaps itself.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <memory>

#include "warren/types.hpp"

namespace warren {

struct Unmap {
    u64 bytes = 0;
    void operator()(std::byte* data) const { ::munmap(data, bytes); }
};
using Mapping = std::unique_ptr<std::byte, Unmap>;

inline u64 bytes_of(const Mapping& memory) {
    return memory == nullptr ? 0 : memory.get_deleter().bytes;
}

/// Maps the first `bytes` of a file. Null after an error, which errno names.
inline Mapping map_file(int descriptor, u64 bytes, int protection, int flags = MAP_SHARED) {
    void* const at = ::mmap(nullptr, bytes, protection, flags, descriptor, 0);
    return at == MAP_FAILED ? Mapping() : Mapping(static_cast<std::byte*>(at), Unmap{bytes});
}

}  // namespace warren
