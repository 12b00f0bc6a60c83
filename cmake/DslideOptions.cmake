# Build options and the compiler flags that every target shares.

option(DSLIDE_BUILD_TESTS "Build the test suite" ON)
option(DSLIDE_FAILPOINTS "Compile in the places at which tests make a process die (never ship them)"
  ${DSLIDE_BUILD_TESTS})
option(DSLIDE_BUILD_BENCH "Build the micro benchmarks" OFF)
option(DSLIDE_BUILD_FUZZERS "Build the libFuzzer targets (clang only)" OFF)
set(DSLIDE_SANITIZE "" CACHE STRING "Sanitizers for the whole build: '', 'address,undefined' or 'thread'")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")

find_program(DSLIDE_CCACHE ccache)
if(DSLIDE_CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER "${DSLIDE_CCACHE}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${DSLIDE_CCACHE}")
endif()

# The baseline is x86-64-v2: wider instruction sets are chosen at start-up by the kernels themselves.
# Contraction is off because fingerprints must have equal bits in every build and language.
add_compile_options(-Wall -Wextra -Wno-unused-parameter -ffp-contract=off -fno-math-errno
                    -fstack-protector-strong)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  add_compile_options(-march=x86-64-v2 -fcf-protection)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # It warns of copies of strings that cannot overlap (GCC's bug 105651).
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  add_compile_options(-Wthread-safety)
endif()
if(CMAKE_BUILD_TYPE MATCHES "Release|RelWithDebInfo" AND NOT DSLIDE_SANITIZE)
  add_compile_definitions(_FORTIFY_SOURCE=2)
endif()
add_link_options(-Wl,-z,relro,-z,now -Wl,--as-needed)

if(DSLIDE_SANITIZE)
  add_compile_options(-fsanitize=${DSLIDE_SANITIZE} -fno-sanitize-recover=all
                      -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${DSLIDE_SANITIZE})
endif()
