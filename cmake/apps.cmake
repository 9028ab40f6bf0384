# SPDX-License-Identifier: Apache-2.0
# The program `warren`, and the library by which other programs use its mounts.

# What a client of a mount needs, without libfuse: the control socket, and rings
# (warren/mount_ring.hpp). Other programs can link it too.
function(warren_client_library)
    list(TRANSFORM ARGN PREPEND "${PROJECT_SOURCE_DIR}/apps/fuse/")
    add_library(warren_mount_ring STATIC ${ARGN})
    target_include_directories(warren_mount_ring PRIVATE "${PROJECT_SOURCE_DIR}")
    target_link_libraries(warren_mount_ring PUBLIC warren_fs)
    set_property(GLOBAL APPEND PROPERTY WARREN_LIBRARIES warren_mount_ring)
    target_link_libraries(warren_all INTERFACE warren_mount_ring)
endfunction()

# Sets `result` to a text for `warren doctor` that lists what this build supports.
function(warren_build_note result)
    set(note "engine cpu")
    if(WARREN_CUDA)
        string(APPEND note ", engine cuda for")
        foreach(processor IN LISTS CMAKE_CUDA_ARCHITECTURES)
            string(REGEX REPLACE "-.*" "" number "${processor}")
            if(NOT processor MATCHES "-virtual")
                string(APPEND note " sm_${number}")
            endif()
            if(NOT processor MATCHES "-real")
                string(APPEND note " PTX_${number}")
            endif()
        endforeach()
    endif()
    foreach(library FUSE3_FOUND:libfuse3 WARREN_URING_LIBRARY:liburing OPENSSL_FOUND:OpenSSL
                    WARREN_XXHASH_INCLUDE:xxHash)
        string(REPLACE ":" ";" library "${library}")
        list(GET library 0 found)
        list(GET library 1 name)
        if(${found})
            string(APPEND note ", ${name}")
        else()
            string(APPEND note ", no ${name}")
        endif()
    endforeach()
    set(${result} "${note}" PARENT_SCOPE)
endfunction()

# The program, which needs libfuse3 for its mount.
function(warren_program)
    warren_sources(sources "${PROJECT_SOURCE_DIR}/apps" .cpp)
    if(NOT sources)
        return()
    endif()
    find_package(PkgConfig REQUIRED)
    pkg_check_modules(FUSE3 IMPORTED_TARGET fuse3)
    if(NOT FUSE3_FOUND)
        message(WARNING "libfuse3 is not installed: the program 'warren' is left out of this "
                        "build. './dev bootstrap' installs what is missing.")
        return()
    endif()
    # The mount as a library: a test serves one with an engine of its own.
    set(mount_sources "${sources}")
    list(FILTER mount_sources INCLUDE REGEX "/apps/fuse/")
    set(client control.cpp control_place.cpp control_protocol.cpp mount_ring.cpp mount_ring_c.cpp
        mount_table.cpp)
    warren_client_library(${client})
    list(TRANSFORM client PREPEND "${PROJECT_SOURCE_DIR}/apps/fuse/")
    list(REMOVE_ITEM mount_sources ${client})
    add_library(warren_mount STATIC ${mount_sources})
    target_include_directories(warren_mount PUBLIC "${PROJECT_SOURCE_DIR}")
    target_link_libraries(warren_mount PUBLIC warren_all PkgConfig::FUSE3)

    list(FILTER sources EXCLUDE REGEX "/apps/fuse/")
    add_executable(warren ${sources})
    warren_build_note(note)
    set_source_files_properties("${PROJECT_SOURCE_DIR}/apps/warren/main.cpp"
                                "${PROJECT_SOURCE_DIR}/apps/warren/doctor.cpp"
                                "${PROJECT_SOURCE_DIR}/apps/warren/roff_page.cpp" PROPERTIES
                                INCLUDE_DIRECTORIES "${PROJECT_BINARY_DIR}/include"
                                COMPILE_DEFINITIONS "WARREN_BUILD_NOTE=\"${note}\"")
    target_include_directories(warren PRIVATE "${PROJECT_SOURCE_DIR}")
    target_link_libraries(warren PRIVATE warren_mount)
    set_target_properties(warren PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
    install(TARGETS warren RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT program)
endfunction()
