# dslide_script_test(NAME SECONDS [LABEL LABEL] [ENVIRONMENT NAME=VALUE...] [ARGUMENTS ARGUMENT...])
# registers NAME_test.py of this folder as <folder>.NAME, where there is a Python; a status of 77 means
# skipped. The label is the folder's name unless told otherwise. Tests that run sanitized programs get
# ten times the seconds, and are told so by DSLIDE_TEST_SLOWDOWN.
function(dslide_script_test name seconds)
  if(NOT DSLIDE_PYTHON)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 2 script "" "LABEL" "ENVIRONMENT;ARGUMENTS")
  cmake_path(GET CMAKE_CURRENT_SOURCE_DIR FILENAME part)
  if(NOT script_LABEL)
    set(script_LABEL ${part})
  endif()
  list(APPEND script_ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")
  if(DSLIDE_SANITIZE)
    math(EXPR seconds "${seconds} * 10")
    list(APPEND script_ENVIRONMENT "DSLIDE_TEST_SLOWDOWN=10")
  endif()
  add_test(NAME ${part}.${name} COMMAND ${DSLIDE_PYTHON}
    "${CMAKE_CURRENT_SOURCE_DIR}/${name}_test.py" ${script_ARGUMENTS})
  set_tests_properties(${part}.${name} PROPERTIES LABELS ${script_LABEL} TIMEOUT ${seconds}
    SKIP_RETURN_CODE 77 ENVIRONMENT "${script_ENVIRONMENT}")
endfunction()

# What a test needs that runs the programs.
set(DSLIDE_BIN_DIR ARGUMENTS --bin-dir $<TARGET_FILE_DIR:dslide>)
