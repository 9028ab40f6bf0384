// SPDX-License-Identifier: Apache-2.0
// One source for CPU and GPU: this is the only file that knows what the build is for.
//
// WARREN_CUDA is set by CMake for the whole build, .cpp and .cu alike. It must not be __CUDACC__:
// a .cpp and a .cu of one program would then see two definitions of every type that holds an
// atomic, and the linker accepts that in silence.
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

// Inlining everything makes a kernel slow to compile, and its stack as large as all lanes need: on
// a GPU each verb of a command stays a function. A compiler for the CPU may inline as it likes.
#if defined(__CUDACC__)
#define WARREN_NOINLINE __noinline__
#else
#define WARREN_NOINLINE
#endif

namespace warren {

#if defined(WARREN_CUDA)
namespace hd = cuda::std;
// An atomic seen by all threads of one engine, the CPU's threads or all warps of one GPU, is
// device_atomic<T>.
/// An atomic shared between the host and a GPU (command rings only).
template <class T>
using system_atomic = cuda::atomic_ref<T, cuda::thread_scope_system>;
#else
namespace hd = std;
template <class T>
using device_atomic = std::atomic_ref<T>;
template <class T>
using system_atomic = std::atomic_ref<T>;
#endif

// The format is little-endian and is used in place, on the CPU and on the GPU.
static_assert(std::endian::native == std::endian::little, "Warren needs a little-endian machine");

}  // namespace warren
