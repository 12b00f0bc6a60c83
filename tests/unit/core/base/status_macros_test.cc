#include "core/base/status_macros.h"

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"

namespace dslide {
namespace {

absl::Status FailIf(bool fail) { return fail ? absl::AbortedError("no luck") : absl::OkStatus(); }

absl::StatusOr<std::unique_ptr<int>> Make(bool fail) {
  RETURN_IF_ERROR(FailIf(fail));
  return std::make_unique<int>(7);
}

absl::StatusOr<int> Twice(bool fail_first, bool fail_second) {
  ASSIGN_OR_RETURN(const std::unique_ptr<int> first, Make(fail_first));
  std::unique_ptr<int> second;
  ASSIGN_OR_RETURN(second, Make(fail_second));
  return *first + *second;
}

TEST(StatusMacrosTest, ValuesPassAndErrorsReturn) {
  EXPECT_EQ(Twice(false, false).value(), 14);
  EXPECT_EQ(Twice(true, false).status(), absl::AbortedError("no luck"));
  EXPECT_EQ(Twice(false, true).status(), absl::AbortedError("no luck"));
}

}  // namespace
}  // namespace dslide
