# SPDX-License-Identifier: Apache-2.0
# The tests of the Python package: each tests/test_*.py by pytest, the types by mypy and pyright.
# Under the address sanitizer, whose runtime must be the first library of the process, Python's own
# leaks are not looked for.
# Each test imports pytest and most of them pandas, of which .toolchain/python has only the sources:
# they are compiled once, outside of the tree.
set(environment "PYTHONPATH=${CMAKE_CURRENT_BINARY_DIR}" "PYTHONDONTWRITEBYTECODE="
                "PYTHONPYCACHEPREFIX=${PROJECT_BINARY_DIR}/bytecode")
set(modification "")
if(WARREN_SANITIZE MATCHES "address")
    execute_process(COMMAND "${CMAKE_CXX_COMPILER}" -print-file-name=libclang_rt.asan-x86_64.so
                    OUTPUT_VARIABLE runtime OUTPUT_STRIP_TRAILING_WHITESPACE)
    list(APPEND environment "LD_PRELOAD=${runtime}" "PYTHONMALLOC=malloc")
    set(modification "ASAN_OPTIONS=string_append:detect_leaks=0")
endif()

# In `folder`, from which the interpreter imports before it looks elsewhere. Where a file lacks what
# all of its tests need, pytest ends with status 5. COST: some wait for seconds, and ctest would
# start them last, a few at a time.
function(warren_python_test name folder)
    add_test(NAME "python/${name}" COMMAND "${Python_EXECUTABLE}" ${ARGN}
             WORKING_DIRECTORY "${folder}")
    set_tests_properties("python/${name}" PROPERTIES
                         LABELS python COST 50 TIMEOUT 600 SKIP_RETURN_CODE 5
                         FAIL_REGULAR_EXPRESSION "nanobind: leaked"
                         ENVIRONMENT "${environment}"
                         ENVIRONMENT_MODIFICATION "${modification}")
endfunction()

warren_sources(cases "${CMAKE_CURRENT_SOURCE_DIR}/tests" .py)
list(FILTER cases INCLUDE REGEX "/test_[^/]*$")
foreach(file IN LISTS cases)
    cmake_path(GET file STEM name)
    warren_python_test("${name}" "${CMAKE_CURRENT_BINARY_DIR}" -m pytest -q -p no:cacheprovider
                       "${file}")
endforeach()
warren_python_test(test_soak.Long "${CMAKE_CURRENT_BINARY_DIR}" -m pytest -q -p no:cacheprovider
                   "${CMAKE_CURRENT_SOURCE_DIR}/tests/test_soak.py")
set_tests_properties("python/test_soak.Long" PROPERTIES
                     LABELS long TIMEOUT 1800
                     ENVIRONMENT "${environment};WARREN_SOAK_SECONDS=600")
if(NOT WARREN_SANITIZE)
    set(checked warren)
    if(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/examples")
        list(APPEND checked examples)
    endif()
    warren_python_test(check_mypy "${CMAKE_CURRENT_SOURCE_DIR}" -m mypy
                       --cache-dir "${CMAKE_CURRENT_BINARY_DIR}/mypy" ${checked})
    warren_python_test(check_pyright "${CMAKE_CURRENT_SOURCE_DIR}" -m pyright
                       --pythonpath "${Python_EXECUTABLE}" ${checked})
endif()
if(TARGET tests)
    add_dependencies(tests warren_python)
endif()
