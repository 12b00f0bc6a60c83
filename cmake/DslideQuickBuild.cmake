# Cheaper compilation for runs of the test suite (`./run test`, CI): most of the time to compile a
# source goes into the headers of gRPC and GoogleTest, and optimising assertions helps nobody.
# Tests, and in sanitizer builds the libraries too, get precompiled headers. The libraries of other
# builds are compiled as ever, which also keeps missing includes visible.

option(DSLIDE_QUICK_BUILD "Precompile headers for tests and optimise their sources little" OFF)

# Declares the targets that hold the precompiled headers: one for the libraries, one for the tests,
# whose flags differ.
function(dslide_quick_setup)
  if(NOT DSLIDE_QUICK_BUILD OR NOT DSLIDE_BUILD_TESTS)
    return()
  endif()
  file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/precompiled.cc" CONTENT "")
  set(headers <algorithm> <functional> <map> <memory> <string> <vector>
    <absl/status/statusor.h> <absl/strings/str_cat.h> <absl/strings/str_format.h>
    <absl/synchronization/mutex.h> <absl/time/time.h> <absl/types/span.h>
    <absl/container/flat_hash_map.h> <grpcpp/grpcpp.h>
    <dslide/v1/shard.grpc.pb.h> <dslide/v1/coordinator.grpc.pb.h>)
  set(names dslide_test_precompiled)
  if(DSLIDE_SANITIZE)
    list(APPEND names dslide_precompiled)
  endif()
  foreach(name IN LISTS names)
    add_library(${name} OBJECT "${CMAKE_BINARY_DIR}/precompiled.cc")
    target_link_libraries(${name} PRIVATE dslide_proto OpenMP::OpenMP_CXX Threads::Threads)
    target_precompile_headers(${name} PRIVATE ${headers})
  endforeach()
  target_link_libraries(dslide_test_precompiled PRIVATE GTest::gmock)
  dslide_quick_test_flags(dslide_test_precompiled)
  # As an executable is compiled.
  target_compile_options(dslide_test_precompiled PRIVATE -fPIE)
  target_precompile_headers(dslide_test_precompiled PRIVATE <gmock/gmock.h> <gtest/gtest.h>)
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

# A precompiled header is used with the flags it was made with alone: -pthread, and what gRPC brings
# along, such as -DNOMINMAX of newer abseil. Not everything links threads and gRPC.
function(dslide_quick_flags name)
  target_compile_options(${name} PRIVATE
    -pthread $<TARGET_PROPERTY:dslide_proto,INTERFACE_COMPILE_OPTIONS>)
endfunction()

# Called for each library and each test binary.
function(dslide_quick_library name)
  if(DSLIDE_QUICK_BUILD AND DSLIDE_SANITIZE AND DSLIDE_BUILD_TESTS)
    dslide_quick_flags(${name})
    target_precompile_headers(${name} REUSE_FROM dslide_precompiled)
  endif()
endfunction()

function(dslide_quick_test name)
  if(DSLIDE_QUICK_BUILD)
    dslide_quick_test_flags(${name})
    dslide_quick_flags(${name})
    target_precompile_headers(${name} REUSE_FROM dslide_test_precompiled)
  endif()
endfunction()
