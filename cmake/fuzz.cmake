# SPDX-License-Identifier: Apache-2.0
# Fuzzing by libFuzzer: in the preset `asan` the target `fuzz_targets` builds fuzz_NAME of each
# tests/fuzz/fuzz_NAME.cpp; tools/fuzz.sh runs them, each on its corpus, tests/fuzz/corpus/NAME.
#
# Included before the libraries: all code is compiled with the counters that lead the fuzzer.
option(WARREN_FUZZ "Build the fuzz targets of tests/fuzz (needs clang)" OFF)
if(NOT WARREN_FUZZ)
    return()
endif()
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "WARREN_FUZZ needs clang with libFuzzer, not ${CMAKE_CXX_COMPILER}: "
                        "install clang-19 and libclang-rt-19-dev, use the preset `asan`")
endif()
add_compile_options(-fsanitize=fuzzer-no-link)

find_package(GTest REQUIRED)

# The code that the targets share, and the test code that they build on.
add_library(fuzz_support STATIC EXCLUDE_FROM_ALL
    tests/fuzz/image.cpp tests/support/image_builder.cpp tests/support/memory_disk.cpp)
target_include_directories(fuzz_support PUBLIC "${PROJECT_SOURCE_DIR}")
target_link_libraries(fuzz_support PUBLIC warren_all GTest::gtest)

add_custom_target(fuzz_targets)
warren_sources(fuzz_sources "${PROJECT_SOURCE_DIR}/tests/fuzz" .cpp)
list(FILTER fuzz_sources INCLUDE REGEX "/fuzz_[a-z]+\\.cpp$")
foreach(source IN LISTS fuzz_sources)
    cmake_path(GET source STEM target)
    add_executable(${target} EXCLUDE_FROM_ALL "${source}" tests/fuzz/target.cpp)
    target_link_libraries(${target} PRIVATE fuzz_support)
    # libFuzzer brings libstdc++, which a shared runtime of the sanitizers would have to precede.
    target_link_options(${target} PRIVATE -fsanitize=fuzzer -static-libsan)
    set_target_properties(${target} PROPERTIES UNITY_BUILD OFF
                          RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/fuzz")
    add_dependencies(fuzz_targets ${target})
endforeach()
foreach(target fuzz_control fuzz_ring)
    target_sources(${target} PRIVATE tests/apps/fake_kernel.cpp)
    target_link_libraries(${target} PRIVATE warren_mount)
endforeach()
target_sources(fuzz_control PRIVATE tests/apps/served_control.cpp)
# Options of `warren chunk`, and lists of `warren hash`, are read by the program, which has a main()
# of its own.
set(program_objects "$<FILTER:$<TARGET_OBJECTS:warren>,EXCLUDE,/main\\.cpp>")
foreach(target fuzz_rule fuzz_digests)
    target_link_libraries(${target} PRIVATE "${program_objects}" warren_mount)
endforeach()
