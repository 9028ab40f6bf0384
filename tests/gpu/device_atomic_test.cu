// SPDX-License-Identifier: Apache-2.0
// Words that many warps change at once: nothing is lost, whatever the width and the order asked
// for. What the words must hold is counted on the host.
#include <gtest/gtest.h>

#include "base/host_device.hpp"
#include "gpu/buffer.hpp"
#include "gpu/device.hpp"
#include "gpu/stream.hpp"

namespace warren::device_atomic_test {
namespace {

constexpr u32 blocks = 64;
constexpr u32 threads_a_block = 256;
constexpr u32 threads = blocks * threads_a_block;

template <class T>
struct Words {
    T relaxed;
    T acquired;
    T released;
    T ordered;
    T total;
    T set;
    T kept;
    T swapped;
    T locked;  // by compare-and-swap around plain additions
    T plain;
};

template <class T>
__global__ void change_words(Words<T>* words) {
    const T number = blockIdx.x * blockDim.x + threadIdx.x;
    device_atomic<T>(words->relaxed).fetch_add(number, hd::memory_order_relaxed);
    device_atomic<T>(words->acquired).fetch_add(number, hd::memory_order_acquire);
    device_atomic<T>(words->released).fetch_sub(number, hd::memory_order_release);
    device_atomic<T>(words->ordered).fetch_sub(number, hd::memory_order_acq_rel);
    device_atomic<T>(words->total).fetch_add(1);
    device_atomic<T>(words->set)
        .fetch_or(T{1} << number % (sizeof(T) * 8), hd::memory_order_relaxed);
    device_atomic<T>(words->kept).fetch_and(~(T{1} << number % 8), hd::memory_order_relaxed);
    T seen = device_atomic<T>(words->swapped).load(hd::memory_order_relaxed);
    while (!device_atomic<T>(words->swapped)
                .compare_exchange_weak(seen, seen + 3, hd::memory_order_relaxed)) {
    }
    if (threadIdx.x % 32 != 0) return;
    device_atomic<T> lock(words->locked);
    for (T free = 0; !lock.compare_exchange_strong(free, 1, hd::memory_order_acquire,
                                                   hd::memory_order_relaxed);)
        free = 0;
    words->plain += 1;
    lock.fetch_sub(1, hd::memory_order_release);
}

__global__ void store_bytes(u8* bytes) {
    const u32 number = blockIdx.x * blockDim.x + threadIdx.x;
    device_atomic<u8> byte(bytes[number]);
    for (u32 i = 0; i <= number % 7; ++i)
        byte.store(static_cast<u8>(number + i), hd::memory_order_relaxed);
}

template <class T>
void change_and_check() {
    if (gpu::device_count() == 0) GTEST_SKIP() << "no GPU";
    ASSERT_EQ(gpu::use_device(0), Errc::ok);
    gpu::PinnedBuffer<Words<T>> words;
    gpu::DeviceBuffer<Words<T>> on_device;
    gpu::Stream stream;
    ASSERT_EQ(words.allocate(1), Errc::ok);
    ASSERT_EQ(on_device.allocate(1), Errc::ok);
    ASSERT_EQ(stream.open(), Errc::ok);
    *words.data() = {};
    words.data()->kept = ~T{0};
    ASSERT_EQ(stream.copy(on_device.data(), words.data(), sizeof(Words<T>)), Errc::ok);
    change_words<<<blocks, threads_a_block, 0, stream.get()>>>(on_device.data());
    ASSERT_EQ(stream.copy(words.data(), on_device.data(), sizeof(Words<T>)), Errc::ok);
    ASSERT_EQ(stream.wait(), Errc::ok);
    const T sum = T{threads} * (threads - 1) / 2;
    const Words<T>& found = *words.data();
    EXPECT_EQ(found.relaxed, sum);
    EXPECT_EQ(found.acquired, sum);
    EXPECT_EQ(found.released, T{0} - sum);
    EXPECT_EQ(found.ordered, T{0} - sum);
    EXPECT_EQ(found.total, T{threads});
    EXPECT_EQ(found.set, ~T{0});
    EXPECT_EQ(found.kept, ~T{0xff});
    EXPECT_EQ(found.swapped, T{3} * threads);
    EXPECT_EQ(found.locked, T{0});
    EXPECT_EQ(found.plain, T{threads / 32});
}

TEST(DeviceAtomic, losesNoChangeOf32Bits) {
    change_and_check<u32>();
}
TEST(DeviceAtomic, losesNoChangeOf64Bits) {
    change_and_check<u64>();
}

// Each thread stores a byte of its own several times, in words that it shares with three others.
TEST(DeviceAtomic, storesBytesBesideEachOther) {
    if (gpu::device_count() == 0) GTEST_SKIP() << "no GPU";
    ASSERT_EQ(gpu::use_device(0), Errc::ok);
    gpu::PinnedBuffer<u8> bytes;
    gpu::DeviceBuffer<u8> on_device;
    gpu::Stream stream;
    ASSERT_EQ(bytes.allocate(threads), Errc::ok);
    ASSERT_EQ(on_device.allocate(threads), Errc::ok);
    ASSERT_EQ(stream.open(), Errc::ok);
    store_bytes<<<blocks, threads_a_block, 0, stream.get()>>>(on_device.data());
    ASSERT_EQ(stream.copy(bytes.data(), on_device.data(), threads), Errc::ok);
    ASSERT_EQ(stream.wait(), Errc::ok);
    for (u32 i = 0; i < threads; ++i)
        ASSERT_EQ(bytes.data()[i], static_cast<u8>(i + i % 7)) << i;
}

}  // namespace
}  // namespace warren::device_atomic_test
