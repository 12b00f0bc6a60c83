# The tests in Python: pytest in an environment of its own (tools/common/test_environment.py), which the test
# python.environment makes before the others, where it is not there.
set(DSLIDE_TEST_PYTHON "${CMAKE_BINARY_DIR}/python/bin/python")
if(DSLIDE_PYTHON)
  add_test(NAME python.environment COMMAND ${DSLIDE_PYTHON} -B
    "${PROJECT_SOURCE_DIR}/tools/common/test_environment.py" "${CMAKE_BINARY_DIR}/python")
  set_tests_properties(python.environment PROPERTIES FIXTURES_SETUP python TIMEOUT 3600)
endif()

# dslide_pytest(NAME [THOROUGH|NIGHTLY|LONG] [LABEL LABEL] [ENVIRONMENT NAME=VALUE...] [ARGUMENTS ARGUMENT...])
# registers NAME_test.py of this folder as <folder>.NAME, where there is a Python; a status of 77 means
# that all of it was skipped. The label is the folder's name unless told otherwise. What is THOROUGH
# takes longer than the quick tier has (docs/contribute/checks.md); it begins early, like what is LONG,
# which waits most of its time. What is NIGHTLY is no part of a check and runs when it is named. The time
# limit is the same for all and is of a test that hangs itself: waiting has its own, smaller one
# (tools/common/processes.py).
function(dslide_pytest name)
  if(NOT DSLIDE_PYTHON)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 script "THOROUGH;NIGHTLY;LONG" "LABEL" "ENVIRONMENT;ARGUMENTS")
  cmake_path(GET CMAKE_CURRENT_SOURCE_DIR FILENAME part)
  if(NOT script_LABEL)
    set(script_LABEL ${part})
  endif()
  if(script_THOROUGH)
    list(APPEND script_LABEL thorough)
  endif()
  if(script_NIGHTLY)
    list(APPEND script_LABEL nightly)
  endif()
  add_test(NAME ${part}.${name} COMMAND ${DSLIDE_TEST_PYTHON} -m pytest
    --config-file "${PROJECT_SOURCE_DIR}/tests/pyproject.toml"
    --junit-xml "${CMAKE_BINARY_DIR}/reports/${part}.${name}.xml"
    "${CMAKE_CURRENT_SOURCE_DIR}/${name}_test.py" ${script_ARGUMENTS})
  set_tests_properties(${part}.${name} PROPERTIES LABELS "${script_LABEL}" TIMEOUT 3600
    SKIP_RETURN_CODE 77 ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1;${script_ENVIRONMENT}"
    FIXTURES_REQUIRED python)
  if(script_THOROUGH OR script_LONG)
    set_tests_properties(${part}.${name} PROPERTIES COST 100)
  endif()
endfunction()

# What a test needs that runs the programs.
set(DSLIDE_BIN_DIR ARGUMENTS --bin-dir $<TARGET_FILE_DIR:dslide>)
