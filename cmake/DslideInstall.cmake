# Installs what a C++ program needs to be a client of a cluster, as the component `client`: headers,
# static libraries, a CMake package and a file for pkg-config.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(client_libraries client wire protocol spec partition math metrics tls trace system base proto)
set(client_folders client/cpp core/base core/net/tls core/partition core/protocol core/spec)
set(internal_headers ${CMAKE_INSTALL_INCLUDEDIR}/dslide/internal)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/dslide)

foreach(library IN LISTS client_libraries)
  set_target_properties(dslide_${library} PROPERTIES EXPORT_NAME ${library})
  install(TARGETS dslide_${library} EXPORT dslide COMPONENT client
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} ${internal_headers})
endforeach()
install(FILES include/dslide/client.h COMPONENT client
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/dslide)
foreach(folder IN LISTS client_folders)
  install(DIRECTORY ${folder}/ COMPONENT client DESTINATION ${internal_headers}/${folder}
    FILES_MATCHING PATTERN "*.h")
endforeach()
install(EXPORT dslide NAMESPACE dslide:: COMPONENT client DESTINATION ${package_folder})

configure_package_config_file(cmake/dslideConfig.cmake.in
  "${PROJECT_BINARY_DIR}/dslideConfig.cmake" INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file("${PROJECT_BINARY_DIR}/dslideConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/dslideConfig.cmake"
  "${PROJECT_BINARY_DIR}/dslideConfigVersion.cmake" COMPONENT client DESTINATION ${package_folder})

list(TRANSFORM client_libraries PREPEND "-ldslide_" OUTPUT_VARIABLE client_flags)
list(JOIN client_flags " " DSLIDE_PKG_LIBRARIES)
configure_file(cmake/dslide-client.pc.in "${PROJECT_BINARY_DIR}/dslide-client.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/dslide-client.pc" COMPONENT client
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
