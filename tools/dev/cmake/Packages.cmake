# Packages by CPack, for Debian: `cpack` in a build makes one of each component
# of Install.cmake, and `cmake --workflow --preset package` does it from the
# sources. What a package needs of Debian's libraries, dpkg-shlibdeps finds out.

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME mpcomm)
set(CPACK_PACKAGE_VENDOR mpcomm)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "The mpcomm authors <mpcomm@localhost>" CACHE STRING
    "Maintainer named in packages")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY
    "compiler for distributed mixed-precision training")
set(CPACK_PACKAGE_DESCRIPTION_FILE ${CMAKE_CURRENT_LIST_DIR}/description.txt)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/BeforePackage.cmake)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS
    ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS ON)

# mpcomm_package(<component> <section> <what it has> [ARCH_ALL]
#   [NAME <of the package>] [NEEDS <components>…] [DEPENDS <packages>…]
#   [RECOMMENDS <packages>…] [SUGGESTS <packages>…])
function(mpcomm_package component section summary)
  cmake_parse_arguments(PARSE_ARGV 3 arg ARCH_ALL NAME
                        "NEEDS;DEPENDS;RECOMMENDS;SUGGESTS")
  string(TOUPPER ${component} upper)
  set(deb CPACK_DEBIAN_${upper})
  if(NOT arg_NAME)
    set(arg_NAME mpcomm-${component})
  endif()
  set(${deb}_PACKAGE_NAME ${arg_NAME} PARENT_SCOPE)
  set(${deb}_PACKAGE_SECTION ${section} PARENT_SCOPE)
  set(CPACK_COMPONENT_${upper}_DESCRIPTION "${summary}" PARENT_SCOPE)
  set(CPACK_COMPONENT_${upper}_DEPENDS ${arg_NEEDS} PARENT_SCOPE)
  foreach(relation DEPENDS RECOMMENDS SUGGESTS)
    list(JOIN arg_${relation} ", " packages)
    set(${deb}_PACKAGE_${relation} "${packages}" PARENT_SCOPE)
  endforeach()
  if(arg_ARCH_ALL)
    set(${deb}_PACKAGE_ARCHITECTURE all PARENT_SCOPE)
    set(${deb}_PACKAGE_SHLIBDEPS OFF PARENT_SCOPE)
  endif()
  list(APPEND CPACK_COMPONENTS_ALL ${component})
  set(CPACK_COMPONENTS_ALL ${CPACK_COMPONENTS_ALL} PARENT_SCOPE)
endfunction()

set(CPACK_COMPONENTS_ALL)
if(MPCOMM_BUILD_RUNTIME)
  mpcomm_package(runtime science "runner and runtime of training steps"
    RECOMMENDS mpcomm-runtime-dnnl
    SUGGESTS mpcomm-compiler mpcomm-runtime-gloo mpcomm-runtime-mpi)
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_GENERATE_SHLIBS ON)
  set(recommends_runtime-mpi openmpi-bin)
  foreach(component ${MPCOMM_RUNTIME_MODULES})
    string(REPLACE runtime- "" library ${component})
    mpcomm_package(${component} science "what the runtime needs to use ${library}"
                   NEEDS runtime RECOMMENDS ${recommends_${component}})
  endforeach()
  mpcomm_package(runtime-dev libdevel "headers of the runtime" NEEDS runtime)
endif()
if(MPCOMM_BUILD_COMPILER)
  # step.so is linked by what is found in PATH.
  mpcomm_package(compiler science "compiler, simulator and tools on IR"
    DEPENDS "lld-${LLVM_VERSION_MAJOR} | lld | binutils"
    RECOMMENDS mpcomm-runtime SUGGESTS python3-mpcomm mlir-${LLVM_VERSION_MAJOR}-tools)
  set(needs)
  if(MPCOMM_BUILD_RUNTIME)
    set(needs runtime-dev)
  endif()
  mpcomm_package(compiler-dev libdevel "libraries of the compiler"
    NEEDS ${needs} DEPENDS libmlir-${LLVM_VERSION_MAJOR}-dev llvm-${LLVM_VERSION_MAJOR}-dev)
  set(CPACK_DEBIAN_COMPILER-DEV_PACKAGE_SHLIBDEPS OFF)
endif()
mpcomm_package(python python "importer, report and Python package"
  NAME python3-mpcomm ARCH_ALL DEPENDS python3 python3-numpy
  RECOMMENDS mpcomm-compiler mpcomm-runtime python3-torch)
mpcomm_package(doc doc "documentation" ARCH_ALL)

include(CPack)

set(MPCOMM_WHEEL_PYTHON python3 CACHE STRING
    "A Python with auditwheel, for the target `wheel`")
add_custom_target(wheel
  COMMAND ${MPCOMM_WHEEL_PYTHON} ${PROJECT_SOURCE_DIR}/tools/dev/wheel.py
          --build ${PROJECT_BINARY_DIR} --cmake ${CMAKE_COMMAND}
          --output ${PROJECT_BINARY_DIR}/packages
  DEPENDS mpcomm-cli-docs
  USES_TERMINAL VERBATIM)
