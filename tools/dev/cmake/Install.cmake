# What `cmake --install` puts where, and the packages that find_package(MPComm)
# and pkg-config find. Included last by the top level, when every target is
# known; nothing is listed by hand that CMake knows, so a new library is
# installed too. Packages.cmake makes packages of the components:
#
#   runtime       bin/mpcomm-run, bin/mpcomm-checkpoint, the shared libraries
#   runtime-dnnl  lib/libmprt_dnnl.so, which is loaded where oneDNN is wanted;
#                 in the same way runtime-mpi and runtime-gloo
#   runtime-dev   include/mpcomm/Runtime, lib/cmake/MPComm, lib/pkgconfig
#   compiler      the tools on LLVM, lib/MPCommPlugin.so
#   compiler-dev  all other headers, .td files and static libraries
#   python        mpcomm-import, mpcomm-report, the package mpcomm
#   doc           share/doc/mpcomm
#
# A tool's man page and completions are in the component of the tool.

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
set(MPCOMM_INSTALL_DOCDIR ${CMAKE_INSTALL_DATAROOTDIR}/doc/mpcomm)
# Where Debian's Python looks for modules of packages, below /usr.
set(MPCOMM_INSTALL_PYTHONDIR lib/python3/dist-packages CACHE STRING
    "Where the Python package is installed, below the prefix")
set(zsh_folder site-functions)
if(EXISTS /etc/debian_version)
  set(zsh_folder vendor-completions)
endif()
set(MPCOMM_INSTALL_ZSHDIR ${CMAKE_INSTALL_DATAROOTDIR}/zsh/${zsh_folder}
    CACHE STRING "Where completions for zsh are installed, below the prefix")
set(rpath "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}" "$ORIGIN")
include(${CMAKE_CURRENT_LIST_DIR}/CliDocs.cmake)

# mpcomm_install_tools(<component> <target or path>…)
function(mpcomm_install_tools component)
  foreach(tool ${ARGN})
    if(TARGET ${tool})
      install(TARGETS ${tool} DESTINATION ${CMAKE_INSTALL_BINDIR}
              COMPONENT ${component})
    endif()
    mpcomm_cli_docs(${component} ${tool})
  endforeach()
endfunction()

# mpcomm_install_library(<target> <name> <description>): a shared library that
# others link with, as MPComm::<name> or as mpcomm-<name> of pkg-config.
function(mpcomm_install_library target name description)
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name}
                        INSTALL_RPATH "${rpath}")
  target_include_directories(${target} INTERFACE
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  install(TARGETS ${target} EXPORT MPCommRuntimeTargets
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime
          NAMELINK_COMPONENT runtime-dev)
  set(PC_NAME ${target})
  set(PC_DESCRIPTION "${description}")
  file(RELATIVE_PATH PC_PREFIX
       /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  string(TOLOWER mpcomm-${name} file)
  configure_file(${PROJECT_SOURCE_DIR}/tools/dev/cmake/mpcomm.pc.in
                 ${PROJECT_BINARY_DIR}/${file}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${file}.pc
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT runtime-dev)
endfunction()

if(MPCOMM_BUILD_RUNTIME)
  mpcomm_install_library(MPCommRuntime Runtime
    "runtime of compiled training steps: the functions that programs call")
  mpcomm_install_library(mpcomm_session Session
    "sessions: training with compiled programs, from C")
  mpcomm_collect(tools EXECUTABLE ${PROJECT_SOURCE_DIR}/tools/mpcomm-run
                 ${PROJECT_SOURCE_DIR}/tools/mpcomm-checkpoint)
  mpcomm_collect(modules MODULE_LIBRARY ${PROJECT_SOURCE_DIR}/runtime)
  set_target_properties(${tools} ${modules} PROPERTIES INSTALL_RPATH "${rpath}")
  mpcomm_install_tools(runtime ${tools})
  foreach(module ${modules})
    string(REPLACE mprt_ runtime- component ${module})
    install(TARGETS ${module} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
            COMPONENT ${component})
    list(APPEND MPCOMM_RUNTIME_MODULES ${component})
  endforeach()
  install(EXPORT MPCommRuntimeTargets NAMESPACE MPComm::
          DESTINATION ${MPCOMM_INSTALL_CMAKEDIR} COMPONENT runtime-dev)
endif()
install(DIRECTORY include/mpcomm/Runtime
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/mpcomm COMPONENT runtime-dev
        FILES_MATCHING PATTERN "*.h")

if(MPCOMM_BUILD_COMPILER)
  # mpcomm-opt carries the passes of test/lib where tests are built; they stay
  # in the build tree's copy of it, for they are linked statically.
  set(tools mpcomm-opt mpcomm-lsp-server mpcomm-reduce)
  foreach(tool mpcomm-compile mpcomm-sim)
    if(TARGET ${tool})
      list(APPEND tools ${tool})
    endif()
  endforeach()
  set_target_properties(${tools} MPCommPlugin PROPERTIES
                        INSTALL_RPATH "${rpath};${LLVM_LIBRARY_DIR}")
  mpcomm_install_tools(compiler ${tools})
  install(TARGETS MPCommPlugin LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
          COMPONENT compiler)

  mpcomm_collect(libraries STATIC_LIBRARY ${PROJECT_SOURCE_DIR}/dialects
                 ${PROJECT_SOURCE_DIR}/lib)
  foreach(library ${libraries})
    target_include_directories(${library} INTERFACE
      $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  endforeach()
  install(TARGETS ${libraries} EXPORT MPCommTargets
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT compiler-dev)
  install(EXPORT MPCommTargets NAMESPACE MPComm::
          DESTINATION ${MPCOMM_INSTALL_CMAKEDIR} COMPONENT compiler-dev)
  install(DIRECTORY include/mpcomm ${PROJECT_BINARY_DIR}/include/mpcomm
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT compiler-dev
          FILES_MATCHING PATTERN "*.h" PATTERN "*.td" PATTERN "*.inc"
          PATTERN Runtime EXCLUDE)
  foreach(dialect MPComm MPRT)
    install(DIRECTORY dialects/${dialect}/IR
            DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/mpcomm/Dialect/${dialect}
            COMPONENT compiler-dev FILES_MATCHING PATTERN "*.td")
  endforeach()
endif()

# Scripts, which install themselves.
foreach(tool mpcomm-import mpcomm-report)
  mpcomm_install_tools(python ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${tool})
endforeach()
install(DIRECTORY lib/Bindings/Python/mpcomm COMPONENT python OPTIONAL
        DESTINATION ${MPCOMM_INSTALL_PYTHONDIR}
        FILES_MATCHING PATTERN "*.py" PATTERN "py.typed"
        PATTERN "__pycache__" EXCLUDE)

install(FILES LICENSE README.md DESTINATION ${MPCOMM_INSTALL_DOCDIR}
        COMPONENT doc)
install(DIRECTORY docs DESTINATION ${MPCOMM_INSTALL_DOCDIR} COMPONENT doc)
install(DIRECTORY ${PROJECT_BINARY_DIR}/docs/ OPTIONAL COMPONENT doc
        DESTINATION ${MPCOMM_INSTALL_DOCDIR}/docs/Reference
        FILES_MATCHING PATTERN "*.md")

# Named so that find_package finds it as MPComm and as mpcomm; not in the build
# folder itself, where it would be found and name what is not there.
configure_package_config_file(tools/dev/cmake/mpcomm-config.cmake.in
  ${PROJECT_BINARY_DIR}/install/mpcomm-config.cmake
  INSTALL_DESTINATION ${MPCOMM_INSTALL_CMAKEDIR})
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/install/mpcomm-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/install/mpcomm-config.cmake
              ${PROJECT_BINARY_DIR}/install/mpcomm-config-version.cmake
        DESTINATION ${MPCOMM_INSTALL_CMAKEDIR} COMPONENT runtime-dev)

mpcomm_make_cli_docs()
include(${CMAKE_CURRENT_LIST_DIR}/Packages.cmake)
