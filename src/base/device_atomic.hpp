// SPDX-License-Identifier: Apache-2.0
// Atomic access to words that all threads of one engine share, in a CUDA build. libcu++ accepts an
// address in any address space, so each of its read-modify-writes also handles a word in a block's
// shared memory: a warp waits for the old value even if it is unused, and executes four times the
// instructions. The functions here assume that the word is not in shared memory.
//
// Invariant: a read-modify-write is never used on shared or local memory. Loads and stores may be.
#pragma once

#if defined(WARREN_CUDA)

#include <cuda/atomic>
#include <type_traits>

#include "warren/types.hpp"

namespace warren {

template <class T>
class device_atomic : public cuda::atomic_ref<T, cuda::thread_scope_device> {
    using Base = cuda::atomic_ref<T, cuda::thread_scope_device>;
    using Order = cuda::std::memory_order;

    /// Types for which PTX has a single instruction.
    static constexpr bool is_word =
        std::is_integral_v<T> && (sizeof(T) == sizeof(u32) || sizeof(T) == sizeof(u64));

 public:
    WARREN_HD explicit device_atomic(T& word) : Base(word), at_(&word) {}

    WARREN_HD void store(T value, Order order = Order::seq_cst) const {
#if defined(__CUDA_ARCH__)
        // libcu++ changes the word that contains the byte by two accesses, and waits for each.
        if constexpr (std::is_integral_v<T> && sizeof(T) == sizeof(u8)) {
            if (order == Order::relaxed) {
                const u16 byte = static_cast<u8>(value);
                asm volatile("st.relaxed.gpu.u8 [%0], %1;" : : "l"(at_), "h"(byte) : "memory");
                return;
            }
        }
#endif
        Base::store(value, order);
    }
    WARREN_HD T fetch_add(T by, Order order = Order::seq_cst) const {
#if defined(__CUDA_ARCH__)
        if constexpr (is_word) {
            if (order != Order::seq_cst) return change<Change::add>(by, order);
        }
#endif
        return Base::fetch_add(by, order);
    }
    WARREN_HD T fetch_sub(T by, Order order = Order::seq_cst) const {
#if defined(__CUDA_ARCH__)
        if constexpr (is_word) {
            const T negative = static_cast<T>(T{0} - by);
            if (order != Order::seq_cst) return change<Change::add>(negative, order);
        }
#endif
        return Base::fetch_sub(by, order);
    }
    WARREN_HD T fetch_and(T mask, Order order = Order::seq_cst) const {
#if defined(__CUDA_ARCH__)
        if constexpr (is_word) {
            if (order != Order::seq_cst) return change<Change::keep>(mask, order);
        }
#endif
        return Base::fetch_and(mask, order);
    }
    WARREN_HD T fetch_or(T bits, Order order = Order::seq_cst) const {
#if defined(__CUDA_ARCH__)
        if constexpr (is_word) {
            if (order != Order::seq_cst) return change<Change::set>(bits, order);
        }
#endif
        return Base::fetch_or(bits, order);
    }

    WARREN_HD bool compare_exchange_strong(T& expected, T wanted, Order success,
                                           Order failure) const {
#if defined(__CUDA_ARCH__)
        const bool is_total = success == Order::seq_cst || failure == Order::seq_cst;
        if constexpr (is_word) {
            if (!is_total) return exchange_if(expected, wanted, both(success, failure));
        }
#endif
        return Base::compare_exchange_strong(expected, wanted, success, failure);
    }
    WARREN_HD bool compare_exchange_strong(T& expected, T wanted,
                                           Order order = Order::seq_cst) const {
        return compare_exchange_strong(expected, wanted, order, on_failure(order));
    }
    WARREN_HD bool compare_exchange_weak(T& expected, T wanted, Order success,
                                         Order failure) const {
        return compare_exchange_strong(expected, wanted, success, failure);
    }
    WARREN_HD bool compare_exchange_weak(T& expected, T wanted,
                                         Order order = Order::seq_cst) const {
        return compare_exchange_strong(expected, wanted, order);
    }

 private:
    enum class Change { add, keep, set };

    /// The order of the load in a failed exchange whose success has `order`.
    static WARREN_HD constexpr Order on_failure(Order order) {
        return order == Order::acq_rel   ? Order::acquire
               : order == Order::release ? Order::relaxed
                                         : order;
    }
    /// An order at least as strong as both.
    static WARREN_HD constexpr Order both(Order success, Order failure) {
        if (failure != Order::acquire) return success;
        return success == Order::release   ? Order::acq_rel
               : success == Order::relaxed ? Order::acquire
                                           : success;
    }

#if defined(__CUDA_ARCH__)
#define WARREN_WITH_ORDER(action) \
    switch (order) {              \
        case Order::relaxed:      \
            action("relaxed");    \
            break;                \
        case Order::acquire:      \
        case Order::consume:      \
            action("acquire");    \
            break;                \
        case Order::release:      \
            action("release");    \
            break;                \
        default:                  \
            action("acq_rel");    \
            break;                \
    }
#define WARREN_CHANGE(name, letter)                                  \
    asm volatile("atom." name " %0, [%1], %2;"                       \
                 : "=" letter(before)                                \
                 : "l"(__cvta_generic_to_global(at_)), letter(value) \
                 : "memory")
#define WARREN_ADD_32(sem) WARREN_CHANGE(sem ".gpu.global.add.u32", "r")
#define WARREN_AND_32(sem) WARREN_CHANGE(sem ".gpu.global.and.b32", "r")
#define WARREN_OR_32(sem) WARREN_CHANGE(sem ".gpu.global.or.b32", "r")
#define WARREN_ADD_64(sem) WARREN_CHANGE(sem ".gpu.global.add.u64", "l")
#define WARREN_AND_64(sem) WARREN_CHANGE(sem ".gpu.global.and.b64", "l")
#define WARREN_OR_64(sem) WARREN_CHANGE(sem ".gpu.global.or.b64", "l")

    template <Change change_to>
    __device__ T change(T by, Order order) const {
        if constexpr (sizeof(T) == sizeof(u32)) {
            const auto value = static_cast<u32>(by);
            u32 before = 0;
            if constexpr (change_to == Change::add) WARREN_WITH_ORDER(WARREN_ADD_32)
            if constexpr (change_to == Change::keep) WARREN_WITH_ORDER(WARREN_AND_32)
            if constexpr (change_to == Change::set) WARREN_WITH_ORDER(WARREN_OR_32)
            return static_cast<T>(before);
        } else {
            const auto value = static_cast<u64>(by);
            u64 before = 0;
            if constexpr (change_to == Change::add) WARREN_WITH_ORDER(WARREN_ADD_64)
            if constexpr (change_to == Change::keep) WARREN_WITH_ORDER(WARREN_AND_64)
            if constexpr (change_to == Change::set) WARREN_WITH_ORDER(WARREN_OR_64)
            return static_cast<T>(before);
        }
    }

#define WARREN_SWAP(name, letter)                                                       \
    asm volatile("atom." name " %0, [%1], %2, %3;"                                      \
                 : "=" letter(before)                                                   \
                 : "l"(__cvta_generic_to_global(at_)), letter(old_value), letter(value) \
                 : "memory")
#define WARREN_SWAP_32(sem) WARREN_SWAP(sem ".gpu.global.cas.b32", "r")
#define WARREN_SWAP_64(sem) WARREN_SWAP(sem ".gpu.global.cas.b64", "l")

    __device__ bool exchange_if(T& expected, T wanted, Order order) const {
        using Word = std::conditional_t<sizeof(T) == sizeof(u32), u32, u64>;
        const auto old_value = static_cast<Word>(expected);
        const auto value = static_cast<Word>(wanted);
        Word before = 0;
        if constexpr (sizeof(T) == sizeof(u32)) {
            WARREN_WITH_ORDER(WARREN_SWAP_32)
        } else {
            WARREN_WITH_ORDER(WARREN_SWAP_64)
        }
        expected = static_cast<T>(before);
        return before == old_value;
    }

#undef WARREN_SWAP_64
#undef WARREN_SWAP_32
#undef WARREN_SWAP
#undef WARREN_OR_64
#undef WARREN_AND_64
#undef WARREN_ADD_64
#undef WARREN_OR_32
#undef WARREN_AND_32
#undef WARREN_ADD_32
#undef WARREN_CHANGE
#undef WARREN_WITH_ORDER
#endif

    T* at_;
};

}  // namespace warren

#endif
