# SPDX-License-Identifier: Apache-2.0
# Finds a CUDA compiler that takes C++20 with the host compiler at hand, and turns the language on.
#
# A toolkit of the machine (PATH, then /usr/local/cuda) is preferred; one too old is passed over in
# favour of the private one that `./dev bootstrap cuda` puts into .toolchain/cuda. Afterwards the
# INTERFACE target warren_toolkit carries what every file of a CUDA build needs, .cpp and .cu
# alike: the headers of the runtime and of libcu++, as system includes.

set(WARREN_TOOLKIT_MINIMUM 13.0)

function(warren_find_nvcc result)
    set(tried "")
    find_program(nvcc_on_path nvcc NO_CACHE)
    foreach(candidate "$ENV{CUDACXX}" "${nvcc_on_path}" /usr/local/cuda/bin/nvcc
                      "${PROJECT_SOURCE_DIR}/.toolchain/cuda/bin/nvcc")
        if(NOT candidate OR NOT EXISTS "${candidate}")
            continue()
        endif()
        execute_process(COMMAND "${candidate}" --version
                        OUTPUT_VARIABLE answer ERROR_QUIET RESULT_VARIABLE failed)
        if(NOT failed AND answer MATCHES "release ([0-9]+\\.[0-9]+)"
           AND CMAKE_MATCH_1 VERSION_GREATER_EQUAL WARREN_TOOLKIT_MINIMUM)
            set(${result} "${candidate}" PARENT_SCOPE)
            return()
        endif()
        string(APPEND tried "\n  ${candidate} (release ${CMAKE_MATCH_1})")
    endforeach()
    message(FATAL_ERROR
            "No nvcc of CUDA ${WARREN_TOOLKIT_MINIMUM} or later.\n"
            "Run './dev bootstrap cuda', which fetches one into .toolchain/cuda, or set CUDACXX."
            "\nTried and found unfit:${tried}")
endfunction()

if(NOT CMAKE_CUDA_COMPILER)
    warren_find_nvcc(nvcc)
    set(CMAKE_CUDA_COMPILER "${nvcc}" CACHE FILEPATH "CUDA compiler")
endif()
if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 90 CACHE STRING "GPU architectures to compile for")
endif()
if(NOT CMAKE_CUDA_HOST_COMPILER)
    set(CMAKE_CUDA_HOST_COMPILER "${CMAKE_CXX_COMPILER}" CACHE FILEPATH "nvcc's host compiler")
endif()
enable_language(CUDA)
# CMake 3.25 does not know that nvcc takes C++20.
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
