# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts where: headers, library, the files by which CMake and
# pkg-config find it, the command, its manual pages and shell completions.
include(CMakePackageConfigHelpers)

install(TARGETS weig EXPORT weigTargets)
install(DIRECTORY include/weig TYPE INCLUDE FILES_MATCHING PATTERN "*.h")

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/weig)
install(EXPORT weigTargets NAMESPACE weig:: DESTINATION ${config_dir})
configure_package_config_file(cmake/weigConfig.cmake.in weigConfig.cmake
                              INSTALL_DESTINATION ${config_dir})
# Before 1.0, a minor version may change the interface.
write_basic_package_version_file(weigConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/weigConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/weigConfigVersion.cmake
        DESTINATION ${config_dir})

set(pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
string(REGEX REPLACE "[^/]+" ".." pc_to_prefix ${pc_dir})
if(BUILD_SHARED_LIBS)
  set(pc_private .private)
else()
  set(pc_threads -pthread)
endif()
configure_file(cmake/weig.pc.in weig.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/weig.pc DESTINATION ${pc_dir})

if(WEIG_BUILD_CLI)
  install(TARGETS weig_cli)
  install(DIRECTORY man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
          FILES_MATCHING PATTERN "*.1")
  install(FILES cli/completions/weig.bash RENAME weig
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions OPTIONAL)
  install(FILES cli/completions/_weig
          DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions OPTIONAL)
  install(FILES cli/completions/weig.fish
          DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d OPTIONAL)
endif()
