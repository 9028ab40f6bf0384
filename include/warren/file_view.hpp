// SPDX-License-Identifier: Apache-2.0
// The contents of a file as an engine's code sees them: a kernel that is given a FileView reads and
// writes the bytes in place, without a copy or a call. On the CPU engine the view is host memory,
// so one source serves both.
//
// Invariant: all bytes of a view can be read for as long as the MappedFile that gave it lives.
#pragma once

#include "warren/types.hpp"

namespace warren {

/// Contiguous bytes [offset, offset + bytes) of a file. Passed to kernels by value.
struct FileView {
    std::byte* data = nullptr;  // aligned to 4 KiB
    u64 bytes = 0;
    u64 offset = 0;  // in the file

    /// The bytes as values of T, without a partial one at the end.
    template <class T>
    WARREN_HD T* as() const {
        return reinterpret_cast<T*>(data);
    }
    /// How many values of T there are.
    template <class T>
    WARREN_HD u64 count() const {
        return bytes / sizeof(T);
    }
};

}  // namespace warren
