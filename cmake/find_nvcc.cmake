# SPDX-License-Identifier: Apache-2.0
# Chooses the CUDA compiler of a build: one of the machine (PATH, then /usr/local/cuda) is
# preferred; if it is too old, the private one that `./dev bootstrap cuda` puts into .toolchain/cuda
# is used. `cmake -P cmake/find_nvcc.cmake` fails if there is none.

set(WARREN_TOOLKIT_MINIMUM 13.0)

function(warren_find_nvcc result)
    cmake_path(GET CMAKE_CURRENT_FUNCTION_LIST_DIR PARENT_PATH root)
    set(tried "")
    find_program(nvcc_on_path nvcc NO_CACHE)
    foreach(candidate "$ENV{CUDACXX}" "${nvcc_on_path}" /usr/local/cuda/bin/nvcc
                      "${root}/.toolchain/cuda/bin/nvcc")
        if(NOT candidate OR NOT EXISTS "${candidate}")
            continue()
        endif()
        execute_process(COMMAND "${candidate}" --version
                        OUTPUT_VARIABLE answer ERROR_QUIET RESULT_VARIABLE failed)
        if(NOT failed AND answer MATCHES "release ([0-9]+\\.[0-9]+)"
           AND CMAKE_MATCH_1 VERSION_GREATER_EQUAL WARREN_TOOLKIT_MINIMUM)
            set(${result} "${candidate}" PARENT_SCOPE)
            return()
        endif()
        string(APPEND tried "\n  ${candidate} (release ${CMAKE_MATCH_1})")
    endforeach()
    message(FATAL_ERROR
            "No nvcc of CUDA ${WARREN_TOOLKIT_MINIMUM} or later.\n"
            "Run './dev bootstrap cuda', which fetches one into .toolchain/cuda, or set CUDACXX."
            "\nTried and found unfit:${tried}")
endfunction()

if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
    warren_find_nvcc(nvcc)
    message(STATUS "${nvcc}")
endif()
