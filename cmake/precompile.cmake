# SPDX-License-Identifier: Apache-2.0
# Builds with sanitizers, which only tests use, read the usual headers of the standard library once
# a target: that is a third of the compiler's time. Plain builds do not, and so find the file that
# lacks an include.
get_property(targets DIRECTORY "${PROJECT_SOURCE_DIR}" PROPERTY BUILDSYSTEM_TARGETS)
foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    if(type MATCHES "STATIC_LIBRARY|EXECUTABLE")
        target_precompile_headers(${target} PRIVATE
            <algorithm> <array> <atomic> <bit> <chrono> <condition_variable> <cstring> <functional>
            <memory> <mutex> <optional> <span> <string> <string_view> <thread> <unordered_map>
            <utility> <vector>)
    endif()
endforeach()
