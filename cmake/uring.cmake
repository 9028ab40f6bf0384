# SPDX-License-Identifier: Apache-2.0
# Many disk requests at once by io_uring, through liburing. Linked as an archive where there is one,
# so that a program runs on machines without the library. Without it disks are reached by plain
# reads and writes and nothing is missing.
find_path(WARREN_URING_INCLUDE liburing.h)
find_library(WARREN_URING_LIBRARY NAMES liburing.a uring)
if(WARREN_URING_INCLUDE AND WARREN_URING_LIBRARY)
    set_source_files_properties("${PROJECT_SOURCE_DIR}/src/fs/disk/request_ring.cpp"
                                PROPERTIES COMPILE_DEFINITIONS WARREN_URING=1)
    target_include_directories(warren_fs SYSTEM PRIVATE "${WARREN_URING_INCLUDE}")
    target_link_libraries(warren_fs PRIVATE "${WARREN_URING_LIBRARY}")
else()
    message(STATUS "liburing is not installed: disk requests will go one by one")
endif()
