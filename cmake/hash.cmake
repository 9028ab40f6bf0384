# SPDX-License-Identifier: Apache-2.0
# What libwarren_hash is beyond its sources: the well-kept libraries that do one stream (it is
# complete without them, and slower), the same code as a shared library, and a file for pkg-config
# of its own, so that it is usable without the rest of Warren.

find_package(OpenSSL 3.0 QUIET COMPONENTS Crypto)
if(OPENSSL_FOUND)
    target_compile_definitions(warren_hash PRIVATE WARREN_HASH_OPENSSL=1)
    target_link_libraries(warren_hash PRIVATE OpenSSL::Crypto)
else()
    message(STATUS "OpenSSL is not installed: one stream of MD5, SHA-1 or SHA-256 will be slow")
endif()
# Headers only: it is compiled for each width of vectors.
find_path(WARREN_XXHASH_INCLUDE xxhash.h)
if(WARREN_XXHASH_INCLUDE)
    target_compile_definitions(warren_hash PRIVATE WARREN_HASH_XXHASH=1)
    target_include_directories(warren_hash SYSTEM PRIVATE "${WARREN_XXHASH_INCLUDE}")
else()
    message(STATUS "xxHash is not installed: XXH3 will be slow on the CPU")
endif()

# All rounds of a digest are one straight line: more optimization makes it a fifth faster. A build
# with sanitizers chooses its own.
if(NOT WARREN_SANITIZE)
    foreach(lanes 4 8 16)
        set_source_files_properties("${PROJECT_SOURCE_DIR}/src/hash/lanes_${lanes}.cpp"
                                    "${PROJECT_SOURCE_DIR}/src/hash/xxh3_library_${lanes}.cpp"
                                    PROPERTIES COMPILE_OPTIONS -O3)
    endforeach()
endif()

add_library(warren_hash_shared SHARED $<TARGET_OBJECTS:warren_hash>)
set_target_properties(warren_hash_shared PROPERTIES OUTPUT_NAME warren_hash LINKER_LANGUAGE CXX
                      VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
get_target_property(needs warren_hash LINK_LIBRARIES)
target_link_libraries(warren_hash_shared PRIVATE ${needs})

# What a program needs that links this library and nothing else of Warren: component "hash".
set(WARREN_HASH_PRIVATE "-pthread -lstdc++")
if(OPENSSL_FOUND)
    string(PREPEND WARREN_HASH_PRIVATE "-lcrypto ")
endif()
if(WARREN_CUDA)
    string(PREPEND WARREN_HASH_PRIVATE "-lwarren_gpu -lcudart_static -lrt -ldl ")
    install(TARGETS warren_gpu ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT hash)
endif()
file(RELATIVE_PATH WARREN_PC_PREFIX "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
configure_file("${PROJECT_SOURCE_DIR}/cmake/warren_hash.pc.in"
               "${PROJECT_BINARY_DIR}/warren_hash.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/warren_hash.pc"
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT hash)
install(TARGETS warren_hash warren_hash_shared
        ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT hash
        LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT hash)
foreach(header hash.hpp hash.h hash_device.hpp result.hpp types.hpp)
    install(FILES "${PROJECT_SOURCE_DIR}/include/warren/${header}"
            DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/warren" COMPONENT hash)
endforeach()
