# SPDX-License-Identifier: Apache-2.0
# What is installed with the program: the names under which mount(8), mkfs(8) and fsck(8) look for
# it, manual pages and completions, which the program itself generates, and examples.
if(NOT TARGET warren)
    return()
endif()

set(WARREN_BASH_COMPLETIONS "${CMAKE_INSTALL_DATADIR}/bash-completion/completions"
    CACHE STRING "Where bash finds completions")
set(WARREN_ZSH_COMPLETIONS "${CMAKE_INSTALL_DATADIR}/zsh/site-functions"
    CACHE STRING "Where zsh finds completions")
set(WARREN_FISH_COMPLETIONS "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d"
    CACHE STRING "Where fish finds completions")

file(RELATIVE_PATH from_sbin "/${CMAKE_INSTALL_SBINDIR}" "/${CMAKE_INSTALL_BINDIR}/warren")
foreach(name mkfs.warren fsck.warren mount.warren mount.fuse.warren umount.warren
             umount.fuse.warren)
    add_custom_command(TARGET warren POST_BUILD
        COMMAND "${CMAKE_COMMAND}" -E create_symlink warren "${PROJECT_BINARY_DIR}/bin/${name}")
    install(CODE "
        set(folder \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_SBINDIR}\")
        file(MAKE_DIRECTORY \"\${folder}\")
        file(CREATE_LINK ${from_sbin} \"\${folder}/${name}\" SYMBOLIC)" COMPONENT program)
endforeach()

set(manual "${PROJECT_BINARY_DIR}/manual")
# A program with sanitizers is for tests, and may need a launcher that only the tests know.
if(NOT CMAKE_CROSSCOMPILING AND NOT WARREN_SANITIZE)
    add_custom_command(TARGET warren POST_BUILD COMMAND warren --manual "${manual}")
    foreach(section 1 5 8)
        install(DIRECTORY "${manual}/man${section}" DESTINATION "${CMAKE_INSTALL_MANDIR}"
                COMPONENT program)
    endforeach()
    install(DIRECTORY "${manual}/bash/" DESTINATION "${WARREN_BASH_COMPLETIONS}"
            COMPONENT program)
    install(DIRECTORY "${manual}/zsh/" DESTINATION "${WARREN_ZSH_COMPLETIONS}" COMPONENT program)
    install(DIRECTORY "${manual}/fish/" DESTINATION "${WARREN_FISH_COMPLETIONS}"
            COMPONENT program)
endif()

install(FILES "${PROJECT_SOURCE_DIR}/docs/FORMAT.md" DESTINATION "${CMAKE_INSTALL_DOCDIR}"
        COMPONENT program)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs/examples" DESTINATION "${CMAKE_INSTALL_DOCDIR}"
        COMPONENT program)
