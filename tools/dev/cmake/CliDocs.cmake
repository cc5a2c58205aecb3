# Man pages and completions, made by cli_docs.py from what each tool prints for
# --help. The target mpcomm-cli-docs is part of `all`; an installation that was
# made without it goes without them.

find_program(MPCOMM_PYTHON NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH)
if(NOT MPCOMM_PYTHON)
  set(MPCOMM_PYTHON python3)
endif()
set(MPCOMM_CLI_DOCS_DIR ${PROJECT_BINARY_DIR}/cli-docs)

# mpcomm_cli_docs(<component> <target or path>): makes and installs those of a
# tool.
function(mpcomm_cli_docs component tool)
  get_filename_component(name ${tool} NAME)
  set_property(GLOBAL APPEND PROPERTY MPCOMM_CLI_TOOLS ${tool})
  install(FILES ${MPCOMM_CLI_DOCS_DIR}/man/man1/${name}.1.gz
          DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
          COMPONENT ${component} OPTIONAL)
  install(FILES ${MPCOMM_CLI_DOCS_DIR}/bash-completion/completions/${name}
          DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/bash-completion/completions
          COMPONENT ${component} OPTIONAL)
  install(FILES ${MPCOMM_CLI_DOCS_DIR}/zsh/_${name}
          DESTINATION ${MPCOMM_INSTALL_ZSHDIR} COMPONENT ${component} OPTIONAL)
endfunction()

# mpcomm_make_cli_docs(): the target that makes them, once all are known.
function(mpcomm_make_cli_docs)
  get_property(tools GLOBAL PROPERTY MPCOMM_CLI_TOOLS)
  set(commands)
  set(depends ${PROJECT_SOURCE_DIR}/tools/dev/cli_docs.py)
  foreach(tool ${tools})
    if(TARGET ${tool})
      list(APPEND commands $<TARGET_FILE:${tool}>)
      list(APPEND depends ${tool})
    else()
      list(APPEND commands ${tool})
      get_filename_component(name ${tool} NAME)
      file(GLOB sources ${PROJECT_SOURCE_DIR}/tools/${name}/*/cli.py)
      list(APPEND depends ${sources})
    endif()
  endforeach()
  set(stamp ${MPCOMM_CLI_DOCS_DIR}/stamp)
  add_custom_command(OUTPUT ${stamp}
    COMMAND ${MPCOMM_PYTHON} ${PROJECT_SOURCE_DIR}/tools/dev/cli_docs.py
            --output ${MPCOMM_CLI_DOCS_DIR} --version ${PROJECT_VERSION}
            ${commands}
    COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
    DEPENDS ${depends}
    COMMENT "Making man pages and completions" VERBATIM)
  add_custom_target(mpcomm-cli-docs ALL DEPENDS ${stamp})
endfunction()
