// SPDX-License-Identifier: Apache-2.0
// One source for CPU and GPU: this is the only file that depends on what the build is for.
//
// CMake sets WARREN_CUDA for the whole build, .cpp and .cu alike. It must not be replaced by
// __CUDACC__: a .cpp and a .cu of one program would then see different definitions of every type
// that contains an atomic, and the linker does not report that.
#pragma once

#include <bit>

#include "warren/types.hpp"

#if defined(WARREN_CUDA)
#include <cuda/atomic>
#include <cuda/std/bit>

#include "base/device_atomic.hpp"
#else
#include <atomic>
#endif

// Inlining everything makes a kernel slow to compile, and its stack as large as all lanes need. So
// on a GPU each verb of a command stays a function. A compiler for the CPU may inline as it likes.
#if defined(__CUDACC__)
#define WARREN_NOINLINE __noinline__
#else
#define WARREN_NOINLINE
#endif

namespace warren {

#if defined(WARREN_CUDA)
namespace hd = cuda::std;
// device_atomic<T> is an atomic seen by all threads of one engine: the CPU's threads, or all warps
// of one GPU.
/// An atomic shared between the host and a GPU (only in command rings).
template <class T>
using system_atomic = cuda::atomic_ref<T, cuda::thread_scope_system>;
#else
namespace hd = std;
template <class T>
using device_atomic = std::atomic_ref<T>;
template <class T>
using system_atomic = std::atomic_ref<T>;
#endif

// The disk format is little-endian and is used in place, on the CPU and on the GPU.
static_assert(std::endian::native == std::endian::little, "Warren needs a little-endian machine");

}  // namespace warren
