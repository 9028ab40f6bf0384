# SPDX-License-Identifier: Apache-2.0
# What a wheel holds beside the modules. auditwheel adds libfuse3 (tools/wheel.sh).
if(NOT TARGET warren)
    message(FATAL_ERROR "The Python package holds the program 'warren', which needs libfuse3 and "
                        "its headers (Debian: libfuse3-dev).")
endif()

# A libstdc++ of another age may be in the process or on the machine already.
foreach(target warren warren_python)
    target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc)
endforeach()
install(TARGETS warren_python LIBRARY DESTINATION warren COMPONENT python)
install(PROGRAMS "$<TARGET_FILE:warren>" DESTINATION warren/bin COMPONENT python)
install(DIRECTORY "${package}/_distributions" DESTINATION warren COMPONENT python)

set(licences "${SKBUILD_METADATA_DIR}/licenses")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/NOTICE"
        DESTINATION "${licences}" COMPONENT python)
# Of libfuse3, as Debian and Ubuntu keep them.
install(FILES /usr/share/common-licenses/LGPL-2.1 DESTINATION "${licences}/libfuse3"
        COMPONENT python OPTIONAL)
install(FILES /usr/share/doc/libfuse3-3/copyright DESTINATION "${licences}/libfuse3"
        COMPONENT python OPTIONAL)
