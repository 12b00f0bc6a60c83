# dslide_script_test(NAME [THOROUGH] [LABEL LABEL] [ENVIRONMENT NAME=VALUE...] [ARGUMENTS ARGUMENT...])
# registers NAME_test.py of this folder as <folder>.NAME, where there is a Python; a status of 77 means
# skipped. The label is the folder's name unless told otherwise; what is THOROUGH takes longer than the
# quick tier has (docs/checks.md). Long ones begin early. The time limit is the same for all
# and is of a script that hangs itself: waiting has its own, smaller one (tests/integration/processes.py).
function(dslide_script_test name)
  if(NOT DSLIDE_PYTHON)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 script "THOROUGH" "LABEL" "ENVIRONMENT;ARGUMENTS")
  cmake_path(GET CMAKE_CURRENT_SOURCE_DIR FILENAME part)
  if(NOT script_LABEL)
    set(script_LABEL ${part})
  endif()
  set(cost 10)
  if(script_THOROUGH)
    list(APPEND script_LABEL thorough)
    set(cost 100)
  endif()
  list(APPEND script_ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")
  add_test(NAME ${part}.${name} COMMAND ${DSLIDE_PYTHON}
    "${CMAKE_CURRENT_SOURCE_DIR}/${name}_test.py" ${script_ARGUMENTS})
  set_tests_properties(${part}.${name} PROPERTIES LABELS "${script_LABEL}" TIMEOUT 3600 COST ${cost}
    SKIP_RETURN_CODE 77 ENVIRONMENT "${script_ENVIRONMENT}")
endfunction()

# What a test needs that runs the programs.
set(DSLIDE_BIN_DIR ARGUMENTS --bin-dir $<TARGET_FILE_DIR:dslide>)
