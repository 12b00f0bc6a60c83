# Every library comes from a package; nothing is downloaded by the build.
#
# Protobuf must be found before gRPC, whose config file expects its imported targets to exist. From
# release 22 on only its own config file knows that it needs abseil; Debian's 3.21 has none, and
# CMake's module finds it.

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(Protobuf CONFIG QUIET)
if(NOT Protobuf_FOUND)
  find_package(Protobuf MODULE REQUIRED)
endif()
find_package(absl CONFIG REQUIRED)
if(absl_VERSION VERSION_GREATER_EQUAL 20260107)
  # It warns of locks of pointers; that of Debian 12 and 13 knows no others.
  add_compile_options(-Wno-deprecated-declarations)
endif()
find_package(gRPC CONFIG REQUIRED)
find_package(RocksDB CONFIG REQUIRED)
find_package(OpenSSL 3 REQUIRED)
find_package(prometheus-cpp CONFIG REQUIRED)
find_package(civetweb CONFIG REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
# The first that signs requests to object stores as they want it.
find_package(CURL 7.88 REQUIRED)
find_package(LibArchive REQUIRED)
find_package(ZLIB REQUIRED)
find_package(CLI11 CONFIG REQUIRED)
find_package(nlohmann_json CONFIG REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(HWY REQUIRED IMPORTED_TARGET libhwy)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)

if(DSLIDE_BUILD_TESTS)
  find_package(GTest CONFIG REQUIRED)
endif()
if(DSLIDE_BUILD_BENCH)
  find_package(benchmark CONFIG REQUIRED)
endif()
