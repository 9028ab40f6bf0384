# SPDX-License-Identifier: Apache-2.0
# What libwarren_hash needs besides its sources: well-kept libraries that hash one stream. It is
# complete without them, but slower.

find_package(OpenSSL 3.0 QUIET COMPONENTS Crypto)
if(OPENSSL_FOUND)
    # The other files compile to the same code without it.
    set_source_files_properties(
        "${PROJECT_SOURCE_DIR}/src/hash/alone.cpp" PROPERTIES COMPILE_DEFINITIONS
        "WARREN_HASH_OPENSSL=1;OPENSSL_API_COMPAT=30000;OPENSSL_NO_DEPRECATED")
    target_link_libraries(warren_hash PRIVATE OpenSSL::Crypto)
else()
    message(STATUS "OpenSSL is not installed: one stream of SHA-1 or SHA-256 will be slower on "
                   "processors without SHA instructions")
endif()
# Files for one kind of processor begin with a pragma that holds to the end of what is compiled.
set_target_properties(warren_hash PROPERTIES UNITY_BUILD OFF)
# Headers only: it is compiled for each vector width.
find_path(WARREN_XXHASH_INCLUDE xxhash.h)
if(WARREN_XXHASH_INCLUDE)
    target_compile_definitions(warren_hash PRIVATE WARREN_HASH_XXHASH=1)
    target_include_directories(warren_hash SYSTEM PRIVATE "${WARREN_XXHASH_INCLUDE}")
else()
    message(STATUS "xxHash is not installed: XXH3 will be slow on the CPU")
endif()

# All rounds of a digest are straight-line code: more optimization makes it a fifth faster. A build
# with sanitizers chooses its own level.
if(NOT WARREN_SANITIZE)
    foreach(lanes 4 8 16)
        set_source_files_properties("${PROJECT_SOURCE_DIR}/src/hash/lanes_${lanes}.cpp"
                                    "${PROJECT_SOURCE_DIR}/src/hash/xxh3_library_${lanes}.cpp"
                                    PROPERTIES COMPILE_OPTIONS -O3)
    endforeach()
endif()
