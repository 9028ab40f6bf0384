# SPDX-License-Identifier: Apache-2.0
# Headers of other libraries that a target parses once, in builds for tests.

if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND WARREN_CCACHE_PROGRAM)
    # If the compiler is told of the header as well, ccache includes the build folder in its hash;
    # the precompiled header does not need that.
    set(CMAKE_CXX_COMPILE_OPTIONS_USE_PCH -Xclang -include-pch -Xclang <PCH_FILE>)
endif()

# warren_precompile(TARGET HEADER...), each header as <name>.
function(warren_precompile target)
    set(headers ${ARGN})
    list(TRANSFORM headers REPLACE "^(.*)>$" "$<$<COMPILE_LANGUAGE:CXX>:\\1$<ANGLE-R>>")
    target_precompile_headers(${target} PRIVATE ${headers})
    if(NOT WARREN_CCACHE_PROGRAM)
        return()
    endif()
    # With CCACHE_PCH_EXTSUM ccache hashes this file instead of the precompiled header, which has
    # up to 90 MB; and Clang writes times and folders into it, so that no object would be found from
    # another folder.
    set(folder "${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${target}.dir")
    set(sum_file "${folder}/cmake_pch.hxx${CMAKE_PCH_EXTENSION}.sum")
    string(MD5 key "${ARGN}")
    get_property(sum GLOBAL PROPERTY warren_sum_${key})
    if(NOT sum)
        list(TRANSFORM ARGN PREPEND "#include " OUTPUT_VARIABLE lines)
        list(JOIN lines "\n" text)
        set(source "${PROJECT_BINARY_DIR}/CMakeFiles/headers_${key}.cpp")
        file(WRITE "${source}" "${text}\n")
        execute_process(COMMAND "${CMAKE_CXX_COMPILER}" -std=c++20 -P -E -dD "${source}"
                        OUTPUT_VARIABLE text RESULT_VARIABLE failed ERROR_QUIET)
        if(failed)
            # The headers are in no usual place: ccache hashes the precompiled header itself.
            file(REMOVE "${sum_file}")
            return()
        endif()
        string(SHA256 sum "${text}")
        set_property(GLOBAL PROPERTY warren_sum_${key} "${sum}")
    endif()
    file(WRITE "${sum_file}" "${sum}\n")
endfunction()
