# SPDX-License-Identifier: Apache-2.0
# Sources are found by folder, so that adding a file needs no edit here: CMake scans again at the
# start of every build and reconfigures when a folder gained or lost one.

# Sets `result` to the files below `folder` whose names end in one of the further arguments.
# Names beginning with a dot are skipped.
function(warren_sources result folder)
    set(found "")
    foreach(ending IN LISTS ARGN)
        file(GLOB_RECURSE some CONFIGURE_DEPENDS "${folder}/*${ending}")
        list(APPEND found ${some})
    endforeach()
    list(FILTER found EXCLUDE REGEX "/\\.[^/]*$")
    set(${result} "${found}" PARENT_SCOPE)
endfunction()

# A library of all .cpp files below the given folders of src/, and in a CUDA build of the .cu files
# of their cuda/ folders, except the file system's, which warren_cuda_library compiles. A folder
# with headers only gives an INTERFACE library of the same name. The libraries named after LINK are
# passed on to each target that links this one.
function(warren_library name)
    cmake_parse_arguments(arg "" "" "FOLDERS;LINK" ${ARGN})
    set(sources "")
    foreach(folder IN LISTS arg_FOLDERS)
        warren_sources(some "${PROJECT_SOURCE_DIR}/src/${folder}" .cpp .cu)
        list(APPEND sources ${some})
    endforeach()
    # The plug-ins of cmake/mpi.cmake.
    list(FILTER sources EXCLUDE REGEX "/src/walk/mpi/")
    list(FILTER sources EXCLUDE REGEX "/src/fs/.*/cuda/")
    if(NOT WARREN_CUDA)
        list(FILTER sources EXCLUDE REGEX "/cuda/")
    endif()
    if(sources)
        add_library(${name} STATIC ${sources})
        target_link_libraries(${name} PUBLIC ${arg_LINK})
    else()
        add_library(${name} INTERFACE)
        target_link_libraries(${name} INTERFACE ${arg_LINK})
    endif()
    set_property(GLOBAL APPEND PROPERTY WARREN_LIBRARIES ${name})
endfunction()

# src/gpu: the only library that calls the CUDA runtime.
function(warren_gpu_library name)
    warren_sources(sources "${PROJECT_SOURCE_DIR}/src/gpu" .cu .cpp)
    add_library(${name} STATIC ${sources})
    target_link_libraries(${name} PUBLIC ${ARGN})
    set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CUDA)
    set_property(GLOBAL APPEND PROPERTY WARREN_LIBRARIES ${name})
endfunction()

# The CUDA engine in one library: every cuda/ folder of src/fs.
function(warren_cuda_library name)
    warren_sources(sources "${PROJECT_SOURCE_DIR}/src" .cu .cpp)
    list(FILTER sources INCLUDE REGEX "/src/fs/.*/cuda/")
    if(sources)
        add_library(${name} STATIC ${sources})
        target_link_libraries(${name} PUBLIC ${ARGN})
        # The verbs of the file system are spread over files that call each other on the device;
        # their device code is linked here, so that programs need no CUDA linker.
        set_target_properties(${name} PROPERTIES CUDA_SEPARABLE_COMPILATION ON
                              CUDA_RESOLVE_DEVICE_SYMBOLS ON)
    else()
        add_library(${name} INTERFACE)
        target_link_libraries(${name} INTERFACE ${ARGN})
    endif()
    set_property(GLOBAL APPEND PROPERTY WARREN_LIBRARIES ${name})
endfunction()

# A target that compiles .cu files only to PTX: without a GPU this finds all errors of programs that
# run on one, in a fraction of the time.
function(warren_ptx name library)
    add_library(${name} OBJECT EXCLUDE_FROM_ALL ${ARGN})
    target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}"
                                               "${PROJECT_SOURCE_DIR}/tests")
    target_link_libraries(${name} PRIVATE ${library})
    list(GET CMAKE_CUDA_ARCHITECTURES 0 architecture)
    string(REGEX REPLACE "-.*" "" architecture "${architecture}")
    set_target_properties(${name} PROPERTIES CUDA_PTX_COMPILATION ON
                          CUDA_ARCHITECTURES "${architecture}-virtual")
    # The PTX is never run, and optimizing it takes up to four fifths of a file's time.
    target_compile_options(${name} PRIVATE --Ofast-compile=max)
endfunction()

# The target `cuda_sources`: all CUDA code of the libraries as far as a machine without a GPU can
# use it, kernels as PTX and host files as objects. Assembling and linking, half of a library's
# time, are left out.
function(warren_cuda_sources library)
    warren_sources(kernels "${PROJECT_SOURCE_DIR}/src" .cu)
    warren_ptx(library_ptx ${library} ${kernels})
    set_target_properties(library_ptx PROPERTIES CUDA_SEPARABLE_COMPILATION ON)
    warren_sources(callers "${PROJECT_SOURCE_DIR}/src" .cpp)
    list(FILTER callers INCLUDE REGEX "/src/gpu/|/cuda/")
    add_library(cuda_callers OBJECT EXCLUDE_FROM_ALL ${callers})
    set_target_properties(cuda_callers PROPERTIES UNITY_BUILD "${WARREN_UNITY}")
    target_link_libraries(cuda_callers PRIVATE ${library})
    # These objects are only checked. Warnings that need optimization appear in a full build.
    target_compile_options(cuda_callers PRIVATE -O0)
    # Those of the Python package, with the headers that './dev bootstrap python' installs.
    string(JOIN "\n" program "import nanobind, sysconfig"
           "print(nanobind.include_dir(), sysconfig.get_path('include'), sep=';', end='')")
    execute_process(COMMAND "${PROJECT_SOURCE_DIR}/.toolchain/python/bin/python" -c "${program}"
                    OUTPUT_VARIABLE headers ERROR_QUIET)
    if(headers)
        warren_sources(callers "${PROJECT_SOURCE_DIR}/python/src/cuda" .cpp)
        set_source_files_properties(${callers} PROPERTIES COMPILE_OPTIONS -fvisibility=hidden)
        target_sources(cuda_callers PRIVATE ${callers})
        target_include_directories(cuda_callers PRIVATE "${PROJECT_SOURCE_DIR}")
        target_include_directories(cuda_callers SYSTEM PRIVATE ${headers})
    else()
        message(STATUS "cuda_sources leaves out the Python package: nanobind is missing.")
    endif()
    add_custom_target(cuda_sources DEPENDS $<TARGET_OBJECTS:library_ptx>
                                           $<TARGET_OBJECTS:cuda_callers>)
endfunction()
