// SPDX-License-Identifier: Apache-2.0
// Host memory with the interface of gpu::DeviceBuffer, for tests that run a GPU's code on threads.
#pragma once

#include <vector>

#include "warren/result.hpp"
#include "warren/types.hpp"

namespace warren {

template <class T>
class HostBuffer {
 public:
    Errc allocate(u64 count) {
        items_.assign(count, T{});
        return Errc::ok;
    }
    Errc grow(u64 count) { return count <= items_.size() ? Errc::ok : allocate(count); }
    T* data() const { return const_cast<T*>(items_.data()); }
    u64 count() const { return items_.size(); }

 private:
    std::vector<T> items_;
};

}  // namespace warren
