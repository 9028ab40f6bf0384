# SPDX-License-Identifier: Apache-2.0
# The libraries that other programs link.
#
#   libwarren_NAME.so   the functions of include/warren/NAME.h and no other symbol. Its interface is
#                       C, so its SONAME has the major version only.
#   libwarren.so        all of C++. What C++ exports can change with any version, so its SONAME is
#                       the full version.
#   *.a                 one for each part, both interfaces; libwarren.a stands for all of them.
#
# A version script, not the compiler, hides the rest: the archives and libwarren.so are made of the
# same objects.

file(RELATIVE_PATH WARREN_PC_PREFIX "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")

# Libraries that a program needs if it links an archive.
set(system_all -pthread -lstdc++ -lm)
set(system_cuda "")
set(system_crypto "")
set(system_uring "")
if(WARREN_CUDA)
    set(system_cuda -lcudart_static -lrt -ldl)
endif()
if(OPENSSL_FOUND)
    set(system_crypto -lcrypto)
endif()
if(WARREN_URING_LIBRARY)
    set(system_uring -luring)
endif()

# Writes the pkg-config file of lib<name>.
function(warren_pc name)
    cmake_parse_arguments(pc "" "DESCRIPTION;COMPONENT" "PRIVATE" ${ARGN})
    list(APPEND pc_PRIVATE ${system_all})
    list(JOIN pc_PRIVATE " " pc_PRIVATE)
    configure_file("${PROJECT_SOURCE_DIR}/cmake/warren.pc.in" "${PROJECT_BINARY_DIR}/${name}.pc"
                   @ONLY)
    install(FILES "${PROJECT_BINARY_DIR}/${name}.pc" COMPONENT ${pc_COMPONENT}
            DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endfunction()

# Makes libwarren_<name>.so of the objects of the target warren_<name>. The component <name> is what
# a program needs that uses this library and no other part of Warren.
#   SYMBOLS  patterns of the functions in include/warren/<name>.h
#   HEADERS  what the component holds of include/warren
#   BELOW    the archives that libwarren_<name>.a needs, from the top down, if they are built
#   SYSTEM   what else it needs, from the lists above
function(warren_c_library name)
    cmake_parse_arguments(arg "" "DESCRIPTION" "SYMBOLS;HEADERS;BELOW;SYSTEM" ${ARGN})
    set(shared warren_${name}_shared)
    string(TOUPPER "WARREN_${name}_${PROJECT_VERSION_MAJOR}" node)
    list(JOIN arg_SYMBOLS "; " symbols)
    set(map "${PROJECT_BINARY_DIR}/warren_${name}.map")
    file(CONFIGURE OUTPUT "${map}" CONTENT "@node@ { global: @symbols@; local: *; };\n" @ONLY)
    add_library(${shared} SHARED $<TARGET_OBJECTS:warren_${name}>)
    get_target_property(needs warren_${name} LINK_LIBRARIES)
    target_link_libraries(${shared} PRIVATE ${needs})
    target_include_directories(${shared} INTERFACE
        $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    target_link_options(${shared} PRIVATE "LINKER:--as-needed,--version-script=${map}")
    set_target_properties(${shared} PROPERTIES OUTPUT_NAME warren_${name} EXPORT_NAME ${name}
        LINKER_LANGUAGE CXX LINK_DEPENDS "${map}"
        VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})

    set(pc_libraries "-lwarren_${name}")
    set_property(GLOBAL APPEND PROPERTY WARREN_C_SYMBOLS ${arg_SYMBOLS})

    set(private "")
    foreach(part IN LISTS arg_BELOW)
        if(TARGET warren_${part})
            list(APPEND private -lwarren_${part})
            install(TARGETS warren_${part}
                    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT ${name})
        endif()
    endforeach()
    install(TARGETS warren_${name}
            ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT ${name})
    install(TARGETS ${shared} EXPORT warren-targets
            LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT ${name})
    warren_pc(warren_${name} DESCRIPTION "${arg_DESCRIPTION}" COMPONENT ${name}
              PRIVATE ${private} ${arg_SYSTEM})
    list(TRANSFORM arg_HEADERS PREPEND "${PROJECT_SOURCE_DIR}/include/warren/")
    install(FILES ${arg_HEADERS} "${PROJECT_BINARY_DIR}/include/warren/version.h"
            DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/warren" COMPONENT ${name})
endfunction()

warren_c_library(hash
    DESCRIPTION "Digests of many pieces of data at once, on the CPU and on a GPU"
    SYMBOLS warren_hash_* storegpu_*
    HEADERS hash.hpp hash.h hash_device.hpp result.hpp types.hpp
    BELOW gpu base
    SYSTEM ${system_crypto} ${system_cuda})
warren_c_library(chunk
    DESCRIPTION "Content-defined chunking as LBFS, restic, FastCDC, Xet, borg and StoreGPU do it"
    SYMBOLS rabin_* compute_rabin_*
    HEADERS chunk.hpp chunk.h chunk_gpu.hpp result.hpp types.hpp
    BELOW hash gpu base
    SYSTEM ${system_crypto} ${system_cuda})
warren_c_library(walk
    DESCRIPTION "Walks of large trees of files on all cores and on the ranks of an MPI job"
    SYMBOLS warren_walk warren_walk_*
    HEADERS walk.hpp walk.h walk_group.hpp result.hpp types.hpp
    BELOW base
    SYSTEM ${system_uring})
if(TARGET warren_mount_ring)
    warren_c_library(mount_ring
        DESCRIPTION "Many names of a mounted Warren volume at once, without a system call for each"
        SYMBOLS warren_mount_ring_*
        HEADERS mount_ring.hpp mount_ring.h volume.hpp volume_modes.hpp volume_results.hpp
                mapped_file.hpp file_view.hpp failure.hpp disk_refusal.hpp held_contents.hpp
                result.hpp types.hpp
        BELOW fs gpu base
        SYSTEM ${system_uring} ${system_cuda})
endif()

# libwarren.so. Archives must not add its objects again, along with the libraries that they
# need.
get_property(parts GLOBAL PROPERTY WARREN_LIBRARIES)
set(objects "")
set(archives "")
foreach(part IN LISTS parts)
    get_target_property(type ${part} TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
        list(APPEND objects $<TARGET_OBJECTS:${part}>)
        string(PREPEND archives "lib${part}.a ")
    endif()
endforeach()
get_property(symbols GLOBAL PROPERTY WARREN_C_SYMBOLS)
list(JOIN symbols "; " symbols)
set(map "${PROJECT_BINARY_DIR}/warren.map")
file(CONFIGURE OUTPUT "${map}" @ONLY CONTENT
     "{ global: _ZN6warren*; _ZNK6warren*; _ZT[ISTV]N6warren*; @symbols@; local: *; };\n")
add_library(warren_shared SHARED ${objects})
target_link_libraries(warren_shared PRIVATE warren_all)
target_include_directories(warren_shared INTERFACE
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(warren_shared INTERFACE cxx_std_20)
target_link_options(warren_shared PRIVATE "LINKER:--as-needed,--version-script=${map}")
set_target_properties(warren_shared PROPERTIES OUTPUT_NAME warren EXPORT_NAME warren
    LINKER_LANGUAGE CXX LINK_DEPENDS "${map}"
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION})
install(TARGETS warren_shared EXPORT warren-targets
        LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
file(WRITE "${PROJECT_BINARY_DIR}/installed/libwarren.a"
     "/* For the linker: all of Warren's archives. */\nGROUP ( ${archives})\n")
install(FILES "${PROJECT_BINARY_DIR}/installed/libwarren.a"
        DESTINATION "${CMAKE_INSTALL_LIBDIR}")
warren_pc(warren DESCRIPTION "${PROJECT_DESCRIPTION}" COMPONENT Unspecified
          PRIVATE ${system_crypto} ${system_uring} ${system_cuda})
