// SPDX-License-Identifier: Apache-2.0
// Host memory with the interface of gpu::DeviceBuffer, for tests that run a GPU's code on threads.
#pragma once

#include <cstdlib>
#include <memory>
#include <type_traits>

#include "warren/result.hpp"
#include "warren/types.hpp"

namespace warren {

template <class T>
class HostBuffer {
 public:
    /// Zeros, for which the system takes no memory until they are used.
    Errc allocate(u64 count) {
        static_assert(std::is_trivially_copyable_v<T>);
        items_.reset(static_cast<T*>(std::calloc(count, sizeof(T))));
        count_ = items_ == nullptr ? 0 : count;
        return count_ == count ? Errc::ok : Errc::no_memory;
    }
    Errc grow(u64 count) { return count <= count_ ? Errc::ok : allocate(count); }
    T* data() const { return items_.get(); }
    u64 count() const { return count_; }

 private:
    struct Free {
        void operator()(T* items) const { std::free(items); }
    };
    std::unique_ptr<T[], Free> items_;
    u64 count_ = 0;
};

}  // namespace warren
