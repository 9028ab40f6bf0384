// SPDX-License-Identifier: Apache-2.0
// The replaced functions of the standard library call malloc, so that sanitizers still see each
// allocation.
#include "tests/support/failing_allocations.hpp"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <utility>

namespace {

std::atomic<bool> is_armed{false};
std::atomic<warren::u64> counted{0};
std::atomic<warren::u64> failing{0};
thread_local bool is_uncounted = false;
std::atomic<bool> is_measured{false};
std::atomic<warren::i64> held{0};
std::atomic<warren::i64> most_held{0};

bool fails_now() {
    if (!is_armed.load(std::memory_order_relaxed) || is_uncounted) return false;
    return counted.fetch_add(1, std::memory_order_relaxed) + 1 ==
           failing.load(std::memory_order_relaxed);
}

void* measured(void* memory) {
    if (memory == nullptr || !is_measured.load(std::memory_order_relaxed)) return memory;
    const auto size = static_cast<warren::i64>(::malloc_usable_size(memory));
    const warren::i64 now = held.fetch_add(size, std::memory_order_relaxed) + size;
    warren::i64 most = most_held.load(std::memory_order_relaxed);
    while (most < now && !most_held.compare_exchange_weak(most, now, std::memory_order_relaxed)) {
    }
    return memory;
}

void* allocate(std::size_t bytes) {
    return fails_now() ? nullptr : measured(std::malloc(bytes == 0 ? 1 : bytes));
}
void* allocate(std::size_t bytes, std::align_val_t alignment) {
    const auto unit = static_cast<std::size_t>(alignment);
    if (fails_now()) return nullptr;
    return measured(std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit));
}
void release(void* memory) {
    if (memory != nullptr && is_measured.load(std::memory_order_relaxed)) {
        held.fetch_sub(static_cast<warren::i64>(::malloc_usable_size(memory)),
                       std::memory_order_relaxed);
    }
    std::free(memory);
}
void* checked(void* memory) {
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
}

}  // namespace

// All allocations of the program pass here. Not inlined: a compiler that saw malloc on one side and
// delete on the other would warn of a mismatch.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
    return checked(allocate(bytes));
}
[[gnu::noinline]] void* operator new[](std::size_t bytes) {
    return checked(allocate(bytes));
}
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
    return checked(allocate(bytes, alignment));
}
[[gnu::noinline]] void* operator new[](std::size_t bytes, std::align_val_t alignment) {
    return checked(allocate(bytes, alignment));
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
    return allocate(bytes);
}
[[gnu::noinline]] void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
    return allocate(bytes);
}
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment,
                                     const std::nothrow_t&) noexcept {
    return allocate(bytes, alignment);
}
[[gnu::noinline]] void* operator new[](std::size_t bytes, std::align_val_t alignment,
                                       const std::nothrow_t&) noexcept {
    return allocate(bytes, alignment);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
    release(memory);
}
[[gnu::noinline]] void operator delete[](void* memory) noexcept {
    release(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
    release(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, std::size_t) noexcept {
    release(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
    release(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, std::align_val_t) noexcept {
    release(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
    release(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
    release(memory);
}

namespace warren {

FailingAllocation::FailingAllocation(u64 nth) : nth_(nth) {
    counted = 0;
    failing = nth;
    is_armed = true;
}
FailingAllocation::~FailingAllocation() {
    is_armed = false;
}
u64 FailingAllocation::count() const {
    return counted;
}

PeakMemory::PeakMemory() {
    held = 0;
    most_held = 0;
    is_measured = true;
}
PeakMemory::~PeakMemory() {
    is_measured = false;
}
u64 PeakMemory::bytes() const {
    return static_cast<u64>(most_held.load());
}

UncountedAllocations::UncountedAllocations() : before_(std::exchange(is_uncounted, true)) {}
UncountedAllocations::~UncountedAllocations() {
    is_uncounted = before_;
}

}  // namespace warren
