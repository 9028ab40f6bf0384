// SPDX-License-Identifier: Apache-2.0
// The contents of a file as seen by code that runs on an engine: a kernel that receives a FileView
// reads and writes the bytes in place, without a copy or a call. On the CPU engine the view is in
// host memory, so the same source works on both.
//
// Invariant: all bytes of a view can be read as long as the MappedFile that returned it exists.
#pragma once

#include "warren/types.hpp"

namespace warren {

/// Contiguous bytes [offset, offset + bytes) of a file. Passed to kernels by value.
struct FileView {
    std::byte* data = nullptr;  // aligned to 4 KiB
    u64 bytes = 0;
    u64 offset = 0;  // in the file

    /// The bytes as values of T. A partial value at the end is not counted by count().
    template <class T>
    WARREN_HD T* as() const {
        return reinterpret_cast<T*>(data);
    }
    /// The number of complete values of T.
    template <class T>
    WARREN_HD u64 count() const {
        return bytes / sizeof(T);
    }
};

}  // namespace warren
