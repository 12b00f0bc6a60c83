# Cheaper compilation, of `./run` and CI: most of the time to compile a source goes into headers.
#
# Sources are compiled several at a time (unity builds): neighbours share headers and what templates
# become. Names without linkage must differ within a target, then; that no source lacks an include
# which a neighbour brings along is seen by `./run nightly includes`.
# Tests see the large headers precompiled, and their assertions are optimised little.

option(DSLIDE_QUICK_BUILD "Compile several sources at a time and precompile headers of tests" OFF)

# Five large test programs are linked again after each change of a library.
find_program(DSLIDE_MOLD mold)
if(DSLIDE_QUICK_BUILD AND DSLIDE_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

# Sources of one unit: enough to share, few enough that a change costs seconds.
function(dslide_quick_units name)
  if(DSLIDE_QUICK_BUILD)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
    # GCC takes the sources of a unit for headers, whose types should not depend on unnamed namespaces.
    target_compile_options(${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

# Declares the target that holds the precompiled headers of the tests.
function(dslide_quick_setup)
  if(NOT DSLIDE_QUICK_BUILD OR NOT DSLIDE_BUILD_TESTS)
    return()
  endif()
  file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/precompiled.cc" CONTENT "")
  add_library(dslide_test_precompiled OBJECT "${CMAKE_BINARY_DIR}/precompiled.cc")
  target_link_libraries(dslide_test_precompiled PRIVATE dslide_proto OpenMP::OpenMP_CXX
    Threads::Threads GTest::gmock)
  # As an executable is compiled.
  target_compile_options(dslide_test_precompiled PRIVATE -fPIE)
  dslide_quick_test_flags(dslide_test_precompiled)
  target_precompile_headers(dslide_test_precompiled PRIVATE <algorithm> <functional> <map> <memory>
    <string> <vector> <absl/status/statusor.h> <absl/strings/str_cat.h> <absl/strings/str_format.h>
    <absl/synchronization/mutex.h> <absl/time/time.h> <absl/types/span.h>
    <absl/container/flat_hash_map.h> <grpcpp/grpcpp.h> <dslide/v1/shard.grpc.pb.h>
    <dslide/v1/coordinator.grpc.pb.h> <gmock/gmock.h> <gtest/gtest.h>)
endfunction()

function(dslide_quick_test_flags name)
  if(DSLIDE_SANITIZE)
    # The libraries are what undefined behaviour and coverage are looked for in.
    target_compile_options(${name} PRIVATE -O0 -fno-sanitize=undefined)
    if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
      target_compile_options(${name} PRIVATE -fno-sanitize=fuzzer-no-link)
    endif()
  else()
    target_compile_options(${name} PRIVATE -O1)
  endif()
endfunction()

# Called for each test binary. A precompiled header is used with the flags it was made with alone:
# -pthread, and what gRPC brings along, such as -DNOMINMAX of newer abseil.
function(dslide_quick_test name)
  dslide_quick_units(${name})
  if(DSLIDE_QUICK_BUILD)
    dslide_quick_test_flags(${name})
    target_compile_options(${name} PRIVATE
      -pthread $<TARGET_PROPERTY:dslide_proto,INTERFACE_COMPILE_OPTIONS>)
    target_precompile_headers(${name} REUSE_FROM dslide_test_precompiled)
  endif()
endfunction()
