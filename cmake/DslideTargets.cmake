# Functions that declare this project's targets. Sources are globbed: a file on disk is a file in
# the build, so that a forgotten registration cannot hide a test.

# dslide_library(NAME DEPS ...) makes library NAME of every .cc in the current folder.
# ROOMS lists folders below whose sources belong to it as well.
# EXCLUDE lists file names that belong to another target (a binary's main.cc, for example).
function(dslide_library name)
  cmake_parse_arguments(ARG "" "" "DEPS;EXCLUDE;ROOMS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cc")
  foreach(room IN LISTS ARG_ROOMS)
    file(GLOB found CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${room}/*.cc")
    list(APPEND sources ${found})
  endforeach()
  foreach(excluded IN LISTS ARG_EXCLUDE)
    list(REMOVE_ITEM sources "${CMAKE_CURRENT_SOURCE_DIR}/${excluded}")
  endforeach()
  if(sources)
    add_library(${name} STATIC ${sources})
    target_include_directories(${name} PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>")
    target_link_libraries(${name} PUBLIC ${ARG_DEPS})
    dslide_quick_units(${name})
  else()
    add_library(${name} INTERFACE)
    target_include_directories(${name} INTERFACE "${PROJECT_SOURCE_DIR}")
    target_link_libraries(${name} INTERFACE ${ARG_DEPS})
  endif()
endfunction()

# dslide_ordered_locks(EXECUTABLE): where ThreadSanitizer looks, it also knows what abseil's locks
# order. Needed by every program that may run under it.
function(dslide_ordered_locks name)
  if(DSLIDE_SANITIZE STREQUAL "thread")
    target_sources(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests/race/abseil_synchronization.cc")
    target_link_libraries(${name} PRIVATE absl::synchronization ${CMAKE_DL_LIBS})
  endif()
endfunction()

# dslide_test(NAME FOLDERS FOLDER... DEPS TARGET... [SHARDS N] [LABEL LABEL]) makes one GoogleTest
# program of every *_test.cc in these folders and below. ctest runs it in N parts beside each other:
# a process for each case would cost more than most cases. Each part writes what became of its cases
# to reports/ in the build folder. The time limit is of a part that hangs; cases that wait for
# something give it up earlier (tests/unit/patience.h).
function(dslide_test name)
  cmake_parse_arguments(ARG "" "SHARDS;LABEL" "FOLDERS;DEPS" ${ARGN})
  set(sources "")
  foreach(folder IN LISTS ARG_FOLDERS)
    file(GLOB_RECURSE found CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*_test.cc")
    list(APPEND sources ${found})
  endforeach()
  if(NOT ARG_SHARDS)
    set(ARG_SHARDS 1)
  endif()
  if(NOT ARG_LABEL)
    set(ARG_LABEL unit)
  endif()
  add_executable(${name} ${sources} "${PROJECT_SOURCE_DIR}/tests/unit/test_main.cc")
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gmock)
  dslide_ordered_locks(${name})
  dslide_quick_test(${name})
  math(EXPR last "${ARG_SHARDS} - 1")
  foreach(shard RANGE ${last})
    add_test(NAME ${name}.${shard} COMMAND ${name})
    set_tests_properties(${name}.${shard} PROPERTIES TIMEOUT 1800 LABELS "${ARG_LABEL};cases"
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${ARG_SHARDS};GTEST_SHARD_INDEX=${shard};GTEST_BRIEF=1;\
GTEST_OUTPUT=xml:${CMAKE_BINARY_DIR}/reports/${name}.${shard}.xml")
  endforeach()
endfunction()

# dslide_fuzzer(NAME FILE DEPS ...) makes a libFuzzer binary, a part of the target `fuzzers`; only
# clang has it.
function(dslide_fuzzer name file)
  cmake_parse_arguments(ARG "" "" "DEPS" ${ARGN})
  if(NOT DSLIDE_BUILD_FUZZERS)
    return()
  endif()
  add_executable(${name} ${file})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
  target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  if(NOT TARGET fuzzers)
    add_custom_target(fuzzers)
  endif()
  add_dependencies(fuzzers ${name})
endfunction()

# dslide_failpoints(SOURCE...) compiles the failpoints of these sources in (core/system/failpoint.h), in
# builds with DSLIDE_FAILPOINTS. Source by source, so that builds with and without share all other
# objects.
function(dslide_failpoints)
  set_property(SOURCE ${ARGN} PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
  if(DSLIDE_FAILPOINTS)
    set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_DEFINITIONS DSLIDE_FAILPOINTS)
  endif()
endfunction()
