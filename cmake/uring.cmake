# SPDX-License-Identifier: Apache-2.0
# Batched requests by io_uring, through liburing: for disks, and for the statuses of a walk. Linked
# as an archive where available, so that a program runs on machines without the library. Without
# liburing requests go one by one and every function is still there.
find_path(WARREN_URING_INCLUDE liburing.h)
find_library(WARREN_URING_LIBRARY NAMES liburing.a uring)
if(WARREN_URING_INCLUDE AND WARREN_URING_LIBRARY)
    set_source_files_properties("${PROJECT_SOURCE_DIR}/src/fs/disk/request_ring.cpp"
                                "${PROJECT_SOURCE_DIR}/src/walk/status_ahead.cpp"
                                PROPERTIES COMPILE_DEFINITIONS WARREN_URING=1)
    foreach(part warren_fs warren_walk)
        target_include_directories(${part} SYSTEM PRIVATE "${WARREN_URING_INCLUDE}")
        target_link_libraries(${part} PRIVATE "${WARREN_URING_LIBRARY}")
    endforeach()
else()
    message(STATUS "liburing is not installed: disk requests will go one by one")
endif()
