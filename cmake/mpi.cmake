# SPDX-License-Identifier: Apache-2.0
# The plug-in by which a walk spans the ranks of an MPI job. The program loads it only when mpirun
# has started it, so neither the build nor the program needs MPI.

find_package(MPI QUIET COMPONENTS CXX)
if(MPI_CXX_FOUND)
    add_library(warren_walk_mpi MODULE "${PROJECT_SOURCE_DIR}/src/walk/mpi/mpi_group.cpp")
    target_include_directories(warren_walk_mpi PRIVATE "${PROJECT_SOURCE_DIR}/src"
                                                       "${PROJECT_SOURCE_DIR}/include")
    # The C++ bindings of MPI are not used.
    target_compile_definitions(warren_walk_mpi PRIVATE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
    target_link_libraries(warren_walk_mpi PRIVATE MPI::MPI_CXX)
    set_target_properties(warren_walk_mpi PROPERTIES
                          LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
    # The program refuses a plug-in of another version.
    if(TARGET warren)
        add_dependencies(warren warren_walk_mpi)
    endif()
    install(TARGETS warren_walk_mpi
            LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/warren")
else()
    message(STATUS "MPI is not installed: walks are of one process")
endif()
