# Run by CPack when the files of all packages lie where it takes them from: adds
# the copyright, which Debian wants in each.

foreach(component ${CPACK_COMPONENTS_ALL})
  string(TOUPPER ${component} upper)
  set(doc ${CPACK_TEMPORARY_DIRECTORY}/${component}${CPACK_PACKAGING_INSTALL_PREFIX}/share/doc)
  configure_file(${CPACK_RESOURCE_FILE_LICENSE}
                 ${doc}/${CPACK_DEBIAN_${upper}_PACKAGE_NAME}/copyright COPYONLY)
endforeach()
