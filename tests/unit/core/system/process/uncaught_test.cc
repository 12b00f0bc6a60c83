#include "core/system/process/uncaught.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <new>
#include <stdexcept>
#include <system_error>
#include <thread>

namespace dslide {
namespace {

using ::testing::ExitedWithCode;
using ::testing::HasSubstr;

TEST(UncaughtTest, SaysWhatIsMissingAndWhatHelps) {
  EXPECT_THAT(DescribeException(std::make_exception_ptr(std::bad_alloc())),
              HasSubstr("out of memory"));
  EXPECT_THAT(DescribeException(std::make_exception_ptr(std::length_error("vector"))),
              HasSubstr("out of memory"));
  EXPECT_THAT(DescribeException(std::make_exception_ptr(std::system_error(
                  std::make_error_code(std::errc::resource_unavailable_try_again)))),
              HasSubstr("cannot start a thread: Resource temporarily unavailable"));
  EXPECT_THAT(DescribeException(std::make_exception_ptr(std::runtime_error("odd"))),
              HasSubstr("odd: this is a bug"));
}

using UncaughtDeathTest = ::testing::Test;

TEST(UncaughtDeathTest, AnExceptionOfAnyThreadEndsTheProcessWithOneLine) {
  EXPECT_EXIT(
      {
        ExitOnUncaught("program");
        std::thread([] { throw std::bad_alloc(); }).join();
      },
      ExitedWithCode(1), "^program: out of memory: [^\n]*\n$");
  EXPECT_EXIT(
      {
        ExitOnUncaught("program");
        raise(SIGBUS);
      },
      ExitedWithCode(1), "^program: a file has become shorter [^\n]*\n$");
}

}  // namespace
}  // namespace dslide
