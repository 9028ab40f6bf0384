// SPDX-License-Identifier: Apache-2.0
// Host memory with the interface of gpu::DeviceBuffer, for tests that run a GPU's code on threads.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <type_traits>

#include "warren/result.hpp"
#include "warren/types.hpp"

namespace warren {

template <class T>
class HostBuffer {
 public:
    /// Zeros. If malloc() aligns for T, the system takes no memory for them until they are used.
    Errc allocate(u64 count) {
        static_assert(std::is_trivially_copyable_v<T>);
        constexpr bool is_over_aligned = alignof(T) > alignof(std::max_align_t);
        const u64 bytes = count * sizeof(T);
        void* const fresh =
            is_over_aligned ? std::aligned_alloc(alignof(T), bytes) : std::calloc(count, sizeof(T));
        if (is_over_aligned && fresh != nullptr) std::memset(fresh, 0, bytes);
        items_.reset(static_cast<T*>(fresh));
        count_ = fresh == nullptr ? 0 : count;
        return fresh == nullptr ? Errc::no_memory : Errc::ok;
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
