# What `cmake --install` puts where, and the CMake package that
# find_package(MPComm) finds. Included last by the top level, when every target
# is known; nothing is listed by hand, so a new library is installed too.
#
#   bin/              tools
#   lib/              libraries, runtime, MPCommPlugin.so
#   lib/cmake/MPComm  MPCommConfig.cmake, targets MPComm::MPCommIR, …
#   include/mpcomm    headers, with those generated, and .td files

include(CMakePackageConfigHelpers)

# mpcomm_collect(<variable> <type> <folders…>): the targets of a type that are
# made in these folders and below.
function(mpcomm_collect result type)
  set(found)
  foreach(folder ${ARGN})
    if(NOT EXISTS ${folder}/CMakeLists.txt)
      continue()
    endif()
    get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
    foreach(target ${targets})
      get_target_property(kind ${target} TYPE)
      if(kind STREQUAL type)
        list(APPEND found ${target})
      endif()
    endforeach()
    get_property(below DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
    if(below)
      mpcomm_collect(more ${type} ${below})
      list(APPEND found ${more})
    endif()
  endforeach()
  set(${result} ${found} PARENT_SCOPE)
endfunction()

set(MPCOMM_INSTALL_CMAKEDIR ${CMAKE_INSTALL_LIBDIR}/cmake/MPComm)

install(DIRECTORY include/mpcomm DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h" PATTERN "*.td")
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# Tools and shared objects; the importer installs itself.
if(MPCOMM_BUILD_RUNTIME)
  mpcomm_collect(tools EXECUTABLE ${PROJECT_SOURCE_DIR}/tools/mpcomm-run)
  mpcomm_collect(shared SHARED_LIBRARY ${PROJECT_SOURCE_DIR}/runtime)
  mpcomm_collect(modules MODULE_LIBRARY ${PROJECT_SOURCE_DIR}/runtime)
endif()
set(libraries)
if(MPCOMM_BUILD_COMPILER)
  list(APPEND tools mpcomm-opt mpcomm-lsp-server mpcomm-reduce)
  foreach(tool mpcomm-compile mpcomm-sim)
    if(TARGET ${tool})
      list(APPEND tools ${tool})
    endif()
  endforeach()
  list(APPEND modules MPCommPlugin)
  mpcomm_collect(libraries STATIC_LIBRARY ${PROJECT_SOURCE_DIR}/dialects
                 ${PROJECT_SOURCE_DIR}/lib)
endif()
set(rpath "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}" "$ORIGIN")
if(MPCOMM_BUILD_COMPILER)
  list(APPEND rpath ${LLVM_LIBRARY_DIR})
endif()
set_target_properties(${tools} ${shared} ${modules} PROPERTIES
                      INSTALL_RPATH "${rpath}")
install(TARGETS ${tools} ${shared} ${modules}
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})

if(MPCOMM_BUILD_COMPILER)
  # mpcomm-opt carries the passes of test/lib where tests are built; they stay
  # in the build tree's copy of it, for they are linked statically.
  foreach(library ${libraries})
    target_include_directories(${library} INTERFACE
      $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  endforeach()
  install(TARGETS ${libraries} EXPORT MPCommTargets
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT MPCommTargets NAMESPACE MPComm::
          DESTINATION ${MPCOMM_INSTALL_CMAKEDIR})
  install(DIRECTORY ${PROJECT_BINARY_DIR}/include/mpcomm
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
          FILES_MATCHING PATTERN "*.inc")
  foreach(dialect MPComm MPRT)
    install(DIRECTORY dialects/${dialect}/IR
            DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/mpcomm/Dialect/${dialect}
            FILES_MATCHING PATTERN "*.td")
  endforeach()
endif()

configure_package_config_file(tools/dev/cmake/MPCommConfig.cmake.in
  ${PROJECT_BINARY_DIR}/MPCommConfig.cmake
  INSTALL_DESTINATION ${MPCOMM_INSTALL_CMAKEDIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/MPCommConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/MPCommConfig.cmake
              ${PROJECT_BINARY_DIR}/MPCommConfigVersion.cmake
        DESTINATION ${MPCOMM_INSTALL_CMAKEDIR})
