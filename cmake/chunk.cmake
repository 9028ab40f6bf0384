# SPDX-License-Identifier: Apache-2.0
# What a program needs that links libwarren_chunk and of the rest of Warren only libwarren_hash: the
# component "chunk", with a file for pkg-config of its own. Install "hash" beside it.

set(WARREN_CHUNK_PRIVATE "-pthread -lstdc++")
if(WARREN_CUDA)
    string(PREPEND WARREN_CHUNK_PRIVATE "-lwarren_gpu -lcudart_static -lrt -ldl ")
endif()
file(RELATIVE_PATH WARREN_PC_PREFIX "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
configure_file("${PROJECT_SOURCE_DIR}/cmake/warren_chunk.pc.in"
               "${PROJECT_BINARY_DIR}/warren_chunk.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/warren_chunk.pc"
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT chunk)
install(TARGETS warren_chunk ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT chunk)
foreach(header chunk.hpp chunk.h chunk_gpu.hpp result.hpp types.hpp)
    install(FILES "${PROJECT_SOURCE_DIR}/include/warren/${header}"
            DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/warren" COMPONENT chunk)
endforeach()
