# SPDX-License-Identifier: Apache-2.0
# Options for every compilation of the tree: the standard, warnings, sanitizers, ccache.
#
# Asserts stay on in every build type: an invariant that is checked only in some builds is not one.
# Source paths are recorded relative to the tree, so that equal sources give equal programs.

if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "build type" FORCE)
endif()
# Line tables are all that stack traces and profilers need; full debug types of the template
# instances would take 40% of the compiler's time. A Debug build has them. Without the tables a
# trace names only functions, and Clang takes 12% less time.
option(WARREN_LINE_TABLES "Record the lines of the sources in a RelWithDebInfo build" ON)
set(debug_option -g0)
if(WARREN_LINE_TABLES)
    set(debug_option -g1)
endif()
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 ${debug_option}")
set(CMAKE_CUDA_FLAGS_RELWITHDEBINFO "-O2 -Xcompiler=${debug_option}")
set(CMAKE_CXX_FLAGS_RELEASE "-O3")
# Kernels for several processors make up most of a program's size.
set(CMAKE_CUDA_FLAGS_RELEASE "-O3 --compress-mode=size")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(WARREN_CCACHE)
    find_program(WARREN_CCACHE_PROGRAM ccache)
    if(NOT WARREN_CCACHE_PROGRAM)
        message(STATUS "ccache is not installed: everything is compiled")
    endif()
    foreach(language CXX CUDA)
        if(WARREN_CCACHE_PROGRAM AND NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER)
            set(CMAKE_${language}_COMPILER_LAUNCHER "${WARREN_CCACHE_PROGRAM}")
            if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
                # Clang lists all included files, those of a precompiled header too, so ccache need
                # not run the preprocessor for what is new. GCC leaves the latter out.
                list(PREPEND CMAKE_${language}_COMPILER_LAUNCHER env CCACHE_DEPEND=1)
            endif()
        endif()
    endforeach()
endif()

# Most of a small file's time goes to the headers that it shares with its neighbours. A CUDA build
# spends its time in kernels, which are compiled one by one. Other exceptions are set where the
# targets are.
if(WARREN_UNITY AND NOT WARREN_CUDA)
    set(CMAKE_UNITY_BUILD ON)
endif()
set(CMAKE_UNITY_BUILD_BATCH_SIZE 12)

find_package(Threads REQUIRED)

# These of g++ 12 report impossible overlaps and overruns inside std::string (GCC bug 105651).
set(warnings_left_out -Wno-restrict -Wno-array-bounds -Wno-stringop-overflow)
set(warren_warnings -Wall -Wextra -Wconversion -Wshadow ${warnings_left_out})
set(warren_cuda_warnings -Xcompiler=-Wall,-Wextra)
if(WARREN_WERROR)
    list(APPEND warren_warnings -Werror)
    list(APPEND warren_cuda_warnings -Werror=all-warnings)
endif()
if(WARREN_UNITY)
    # g++ takes a file that others include for a header.
    list(APPEND warren_warnings -Wno-subobject-linkage)
endif()
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${warren_warnings}>")
# A metadata block is accessed through the structure of its kind and copied as words: the compiler
# must not conclude from the types that these do not alias.
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fno-strict-aliasing>")
add_compile_options(
    "$<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=>")
# The host half of a .cu file passes through nvcc's rewriting, which adds casts and shadowing; the
# same headers get the full set of warnings in the .cpp files.
add_compile_options(
    "$<$<COMPILE_LANGUAGE:CUDA>:${warren_cuda_warnings}>"
    "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=>"
    "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;--extended-lambda>"
    # For profilers; it records the paths of the sources.
    "$<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<NOT:$<CONFIG:Release>>>:-lineinfo>")

if(WARREN_SANITIZE)
    # More optimization doubles the time of the build and saves little test time.
    set(sanitizer_options -fsanitize=${WARREN_SANITIZE} -fno-sanitize-recover=all
        -fno-omit-frame-pointer -O1)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
        # Tests replace operator new, which a static runtime for C++ would define too. Warnings are
        # left to g++.
        list(APPEND sanitizer_options -w)
        if(WARREN_SANITIZE STREQUAL "thread")
            # The static runtime for C: each access calls it, and a call into a shared object
            # makes tests a fifth slower.
            add_link_options(-static-libsan --driver-mode=gcc)
            set(CMAKE_CXX_STANDARD_LIBRARIES "-lstdc++ -lm")
        else()
            add_link_options(-shared-libsan)
            execute_process(
                COMMAND "${CMAKE_CXX_COMPILER}" -print-file-name=libclang_rt.asan-x86_64.so
                OUTPUT_VARIABLE runtime OUTPUT_STRIP_TRAILING_WHITESPACE)
            cmake_path(GET runtime PARENT_PATH runtime)
            add_link_options("LINKER:-rpath,${runtime}")
        endif()
    endif()
    add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${sanitizer_options}>")
    add_link_options(${sanitizer_options})
endif()
