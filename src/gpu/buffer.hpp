// SPDX-License-Identifier: Apache-2.0
// Owned memory: on the device, or pinned on the host, where the device can access it too. Contents
// are not initialized.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include "warren/result.hpp"
#include "warren/types.hpp"

namespace warren::gpu {

namespace detail {

Errc allocate_device(void** at, u64 bytes);
void free_device(void* at);
Errc allocate_pinned(void** at, u64 bytes);
void free_pinned(void* at);

}  // namespace detail

/// The common part of both kinds; `allocate_bytes` and `release` are one of the pairs above.
template <class T, Errc (*allocate_bytes)(void**, u64), void (*release)(void*)>
class Buffer {
    static_assert(std::is_trivially_copyable_v<T>);

 public:
    Buffer() = default;
    ~Buffer() { clear(); }
    Buffer(Buffer&& other) noexcept { swap(other); }
    Buffer& operator=(Buffer&& other) noexcept {
        swap(other);
        return *this;
    }

    /// Allocates room for `count` values; earlier contents are lost. Errc::no_memory.
    Errc allocate(u64 count) {
        clear();
        void* at = nullptr;
        WARREN_TRY(allocate_bytes(&at, count * sizeof(T)));
        data_ = static_cast<T*>(at);
        count_ = count;
        return Errc::ok;
    }
    /// Ensures room for at least `count` values. If it must grow, it grows by half or more, and
    /// earlier contents are lost.
    Errc reserve(u64 count) {
        if (count <= count_) return Errc::ok;
        return allocate(count < count_ * 3 / 2 ? count_ * 3 / 2 : count);
    }
    /// How many bytes room for `count` values takes beyond what there is.
    u64 missing_bytes(u64 count) const {
        return count <= count_ ? 0 : (count - count_) * sizeof(T);
    }
    /// Ensures room for `count` values, not for more; if it must grow, earlier contents are lost.
    Errc grow(u64 count) { return count <= count_ ? Errc::ok : allocate(count); }
    void clear() {
        if (data_ != nullptr) release(data_);
        data_ = nullptr;
        count_ = 0;
    }

    T* data() const { return data_; }
    u64 count() const { return count_; }
    u64 bytes() const { return count_ * sizeof(T); }

 private:
    void swap(Buffer& other) {
        std::swap(data_, other.data_);
        std::swap(count_, other.count_);
    }

    T* data_ = nullptr;
    u64 count_ = 0;
};

/// Device memory.
template <class T>
using DeviceBuffer = Buffer<T, detail::allocate_device, detail::free_device>;

/// Pinned host memory; its address is valid on the device too.
template <class T>
using PinnedBuffer = Buffer<T, detail::allocate_pinned, detail::free_pinned>;

/// Pins a range of host memory that has another owner, so that copies to and from it run at full
/// speed and asynchronously. If the system refuses, copies are only slower.
class PinnedRange {
 public:
    PinnedRange() = default;
    PinnedRange(void* at, u64 bytes);
    ~PinnedRange();
    PinnedRange(PinnedRange&& other) noexcept : at_(std::exchange(other.at_, nullptr)) {}
    PinnedRange& operator=(PinnedRange&& other) noexcept {
        std::swap(at_, other.at_);
        return *this;
    }

    bool is_pinned() const { return at_ != nullptr; }

 private:
    void* at_ = nullptr;
};

}  // namespace warren::gpu
