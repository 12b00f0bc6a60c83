# dslide_script_test(NAME [THOROUGH|LONG] [LABEL LABEL] [ENVIRONMENT NAME=VALUE...] [ARGUMENTS ARGUMENT...])
# registers NAME_test.py of this folder as <folder>.NAME, where there is a Python; a status of 77 means
# skipped. The label is the folder's name unless told otherwise. What is THOROUGH takes longer than the
# quick tier has (docs/contribute/checks.md); it begins early, like what is LONG, which waits most
# of its time. The time limit is the same for all and is of a script that hangs itself: waiting has
# its own, smaller one (tests/integration/processes.py).
function(dslide_script_test name)
  if(NOT DSLIDE_PYTHON)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 script "THOROUGH;LONG" "LABEL" "ENVIRONMENT;ARGUMENTS")
  cmake_path(GET CMAKE_CURRENT_SOURCE_DIR FILENAME part)
  if(NOT script_LABEL)
    set(script_LABEL ${part})
  endif()
  if(script_THOROUGH)
    list(APPEND script_LABEL thorough)
  endif()
  list(APPEND script_ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")
  add_test(NAME ${part}.${name} COMMAND ${DSLIDE_PYTHON}
    "${CMAKE_CURRENT_SOURCE_DIR}/${name}_test.py" ${script_ARGUMENTS})
  set_tests_properties(${part}.${name} PROPERTIES LABELS "${script_LABEL}" TIMEOUT 3600
    SKIP_RETURN_CODE 77 ENVIRONMENT "${script_ENVIRONMENT}")
  if(script_THOROUGH OR script_LONG)
    set_tests_properties(${part}.${name} PROPERTIES COST 100)
  endif()
endfunction()

# What a test needs that runs the programs.
set(DSLIDE_BIN_DIR ARGUMENTS --bin-dir $<TARGET_FILE_DIR:dslide>)
