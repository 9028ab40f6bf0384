# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` gives to authors of other programs: the public headers, the libraries, a
# CMake package (find_package(warren), target warren::warren) and warren.pc for pkg-config.
include(CMakePackageConfigHelpers)

get_property(libraries GLOBAL PROPERTY WARREN_LIBRARIES)
set(exported ${libraries} warren_all)
if(WARREN_CUDA)
    list(APPEND exported warren_toolkit)
endif()
install(TARGETS ${exported} EXPORT warren-targets
        ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/warren"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/warren")
install(EXPORT warren-targets NAMESPACE warren:: DESTINATION "${package_folder}")

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/warren-config.cmake.in"
    "${PROJECT_BINARY_DIR}/warren-config.cmake" INSTALL_DESTINATION "${package_folder}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/warren-config-version.cmake"
    COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/warren-config.cmake"
              "${PROJECT_BINARY_DIR}/warren-config-version.cmake"
        DESTINATION "${package_folder}")

# Static libraries are named from the top down, as a linker reads them.
set(WARREN_PC_LIBRARIES "")
foreach(library IN LISTS libraries)
    get_target_property(type ${library} TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
        string(PREPEND WARREN_PC_LIBRARIES "-l${library} ")
    endif()
endforeach()
if(WARREN_CUDA)
    string(APPEND WARREN_PC_LIBRARIES "-lcudart_static -lstdc++ -lrt -ldl ")
endif()
if(OPENSSL_FOUND)
    string(APPEND WARREN_PC_LIBRARIES "-lcrypto ")
endif()
if(WARREN_URING_LIBRARY)
    string(APPEND WARREN_PC_LIBRARIES "-luring ")
endif()
file(RELATIVE_PATH WARREN_PC_PREFIX "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
configure_file("${PROJECT_SOURCE_DIR}/cmake/warren.pc.in" "${PROJECT_BINARY_DIR}/warren.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/warren.pc"
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
