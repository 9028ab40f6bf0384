# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` installs for authors of other programs besides the libraries
# (libraries.cmake): the public headers, the licences, and a CMake package.
#
#   find_package(warren)                    the shared libraries: warren::warren, warren::hash,
#                                           warren::chunk, warren::walk, warren::mount_ring
#   find_package(warren COMPONENTS static)  the archives too: warren::warren_static and so on; a
#                                           program that links them needs what they need
include(CMakePackageConfigHelpers)

install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/warren" "${PROJECT_BINARY_DIR}/include/warren"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/NOTICE"
        DESTINATION "${CMAKE_INSTALL_DOCDIR}")

get_property(archives GLOBAL PROPERTY WARREN_LIBRARIES)
set(archives ${archives} warren_all)
foreach(target IN LISTS archives)
    string(REGEX REPLACE "^warren_" "" name ${target})
    set_target_properties(${target} PROPERTIES EXPORT_NAME ${name}_static)
endforeach()
set_target_properties(warren_all PROPERTIES EXPORT_NAME warren_static)
if(WARREN_CUDA)
    list(APPEND archives warren_toolkit)
endif()
install(TARGETS ${archives} EXPORT warren-static-targets
        ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")

set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/warren")
foreach(targets warren-targets warren-static-targets)
    install(EXPORT ${targets} NAMESPACE warren:: DESTINATION "${package_folder}")
endforeach()
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/warren-config.cmake.in"
    "${PROJECT_BINARY_DIR}/warren-config.cmake" INSTALL_DESTINATION "${package_folder}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/warren-config-version.cmake"
    COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/warren-config.cmake"
              "${PROJECT_BINARY_DIR}/warren-config-version.cmake"
        DESTINATION "${package_folder}")
