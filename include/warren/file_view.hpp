// SPDX-License-Identifier: Apache-2.0
// The contents of a file as the code of an engine sees them: a kernel that is given a FileView
// reads and writes the bytes where they lie, without a copy and without a call. On the CPU engine
// the same view is memory of the host, so one source serves both.
//
// Invariant: all bytes of a view can be read for as long as the MappedFile that gave it lives.
#pragma once

#include "warren/types.hpp"

namespace warren {

/// Bytes [offset, offset + bytes) of a file, side by side. Passed to kernels by value.
struct FileView {
    std::byte* data = nullptr;  // on a multiple of 4 KiB
    u64 bytes = 0;
    u64 offset = 0;  // in the file

    /// The bytes as values of T; what is left over at the end is none.
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
