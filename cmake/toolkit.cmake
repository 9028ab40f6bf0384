# SPDX-License-Identifier: Apache-2.0
# Enables CUDA with a compiler that supports C++20. Afterwards the INTERFACE target warren_toolkit
# carries what every file of a CUDA build needs, .cpp and .cu alike: the headers of the runtime and
# of libcu++, as system includes.

include(find_nvcc)

if(NOT CMAKE_CUDA_COMPILER)
    warren_find_nvcc(nvcc)
    set(CMAKE_CUDA_COMPILER "${nvcc}" CACHE FILEPATH "CUDA compiler")
endif()
# A release is for A100, H100 and H200, B200, RTX 50, each with its successors of the same major
# number, and by PTX for later GPUs. Other builds compile for fewer, to save time.
if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(processors 90)
    if(CMAKE_BUILD_TYPE STREQUAL "Release")
        set(processors 80-real 90-real 100-real 120)
    endif()
    set(CMAKE_CUDA_ARCHITECTURES ${processors} CACHE STRING "GPU architectures to compile for")
endif()
if(NOT CMAKE_CUDA_HOST_COMPILER)
    set(CMAKE_CUDA_HOST_COMPILER "${CMAKE_CXX_COMPILER}" CACHE FILEPATH "nvcc's host compiler")
endif()
enable_language(CUDA)
# CMake 3.25 does not know that nvcc supports C++20.
if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)

find_path(WARREN_TOOLKIT_INCLUDE cuda_runtime_api.h
          HINTS ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES} NO_DEFAULT_PATH REQUIRED)
find_path(WARREN_LIBCUXX_INCLUDE cuda/atomic
          HINTS "${WARREN_TOOLKIT_INCLUDE}/cccl" "${WARREN_TOOLKIT_INCLUDE}"
                ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES} NO_DEFAULT_PATH REQUIRED)

add_library(warren_toolkit INTERFACE)
# nvcc finds its own headers; naming them again would only change their order.
target_include_directories(warren_toolkit SYSTEM INTERFACE
    $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:${WARREN_LIBCUXX_INCLUDE}>>
    $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:${WARREN_TOOLKIT_INCLUDE}>>)
target_compile_definitions(warren_toolkit INTERFACE WARREN_CUDA=1)
message(STATUS "CUDA engine: ${CMAKE_CUDA_COMPILER} ${CMAKE_CUDA_COMPILER_VERSION}, "
               "libcu++ in ${WARREN_LIBCUXX_INCLUDE}")
