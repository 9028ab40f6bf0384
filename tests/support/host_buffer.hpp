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
        const u64 bytes = count * sizeof(T);
        u64 room = bytes + alignof(T);
        memory_.reset(std::calloc(room, 1));
        void* at = memory_.get();
        items_ = static_cast<T*>(std::align(alignof(T), bytes, at, room));
        count_ = items_ == nullptr ? 0 : count;
        return items_ == nullptr ? Errc::no_memory : Errc::ok;
    }
    Errc grow(u64 count) { return count <= count_ ? Errc::ok : allocate(count); }
    T* data() const { return items_; }
    u64 count() const { return count_; }

 private:
    struct Free {
        void operator()(void* memory) const { std::free(memory); }
    };
    std::unique_ptr<void, Free> memory_;
    T* items_ = nullptr;
    u64 count_ = 0;
};

}  // namespace warren
