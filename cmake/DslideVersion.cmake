# Sets DSLIDE_BUILD_REVISION: the revision given by -DDSLIDE_REVISION, that of the git checkout, or
# "unknown" (a release archive).
set(DSLIDE_REVISION "" CACHE STRING "Source revision, for builds outside a git checkout")
set(DSLIDE_BUILD_REVISION "${DSLIDE_REVISION}")
if(NOT DSLIDE_BUILD_REVISION)
  find_package(Git QUIET)
  if(Git_FOUND)
    execute_process(COMMAND "${GIT_EXECUTABLE}" -c "safe.directory=*" rev-parse --short=12 HEAD
      WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
      OUTPUT_VARIABLE DSLIDE_BUILD_REVISION OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
endif()
if(NOT DSLIDE_BUILD_REVISION)
  set(DSLIDE_BUILD_REVISION "unknown")
endif()
