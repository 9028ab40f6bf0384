# SPDX-License-Identifier: Apache-2.0
# The plug-ins by which a walk spans the ranks of an MPI job: libwarren-mpi-openmpi.so, and
# libwarren-mpi-mpich.so for MPICH and what shares its ABI (Intel MPI, MVAPICH). Each is built if
# the wrapper of that MPI's C compiler is found (WARREN_MPICC_OPENMPI, WARREN_MPICC_MPICH). The
# program loads one only when mpirun has started it, so neither the build nor the program needs MPI.

# The folder where the program looks for them.
set_source_files_properties("${PROJECT_SOURCE_DIR}/src/walk/mpi_plugin.cpp" PROPERTIES
    COMPILE_DEFINITIONS
    "WARREN_LIBRARY_ARCHITECTURE=\"${CMAKE_LIBRARY_ARCHITECTURE}\";\
WARREN_LIBRARY_FOLDER=\"${CMAKE_INSTALL_FULL_LIBDIR}\"")

# All wrappers know -show; only Open MPI's know -showme:version.
function(warren_mpi_plugin mpi)
    string(TOUPPER "${mpi}" key)
    find_program(WARREN_MPICC_${key} NAMES mpicc.${mpi} mpicc)
    set(words "")
    if(WARREN_MPICC_${key})
        execute_process(COMMAND "${WARREN_MPICC_${key}}" -showme:version
                        RESULT_VARIABLE not_open_mpi OUTPUT_QUIET ERROR_QUIET)
        if((mpi STREQUAL "mpich" AND not_open_mpi) OR (mpi STREQUAL "openmpi" AND NOT not_open_mpi))
            execute_process(COMMAND "${WARREN_MPICC_${key}}" -show OUTPUT_VARIABLE words
                            ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
        endif()
    endif()
    separate_arguments(words UNIX_COMMAND "${words}")
    set(folders "")
    set(library_folders "")
    set(libraries "")
    foreach(word IN LISTS words)
        if(word MATCHES "^-I(.+)")
            list(APPEND folders "${CMAKE_MATCH_1}")
        elseif(word MATCHES "^-L(.+)")
            list(APPEND library_folders "${CMAKE_MATCH_1}")
        elseif(word MATCHES "^-l(.+)")
            list(APPEND libraries "${CMAKE_MATCH_1}")
        endif()
    endforeach()
    # The wrapper may be installed without the header.
    if(words)
        find_path(WARREN_MPI_HEADER_${key} mpi.h HINTS ${folders})
    endif()
    if(NOT WARREN_MPI_HEADER_${key})
        message(STATUS "${mpi} is not installed: no plug-in for walks over its ranks")
        return()
    endif()

    set(plugin warren_mpi_${mpi})
    add_library(${plugin} MODULE "${PROJECT_SOURCE_DIR}/src/walk/mpi/plugin.cpp")
    target_include_directories(${plugin} PRIVATE "${PROJECT_SOURCE_DIR}/src")
    target_include_directories(${plugin} SYSTEM PRIVATE ${folders})
    # The C++ bindings of MPI are not used.
    target_compile_definitions(${plugin} PRIVATE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
    foreach(library IN LISTS libraries)
        find_library(WARREN_MPI_${key}_${library} ${library} HINTS ${library_folders} REQUIRED)
        target_link_libraries(${plugin} PRIVATE "${WARREN_MPI_${key}_${library}}")
    endforeach()
    set_target_properties(${plugin} PROPERTIES OUTPUT_NAME warren-mpi-${mpi}
                          CXX_VISIBILITY_PRESET hidden
                          LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
    # The program refuses a plug-in of another version.
    if(TARGET warren)
        add_dependencies(warren ${plugin})
    endif()
    install(TARGETS ${plugin} COMPONENT mpi
            LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/warren")
endfunction()
warren_mpi_plugin(openmpi)
warren_mpi_plugin(mpich)
