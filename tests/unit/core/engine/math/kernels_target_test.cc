#include <cstdlib>
#include <string>

#include "core/engine/math/kernels.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dslide {
namespace {

// Sets the variable for one test. The limit itself is read once per process, so what it does to the
// choice is tested in child processes.
class KernelTargetTest : public testing::Test {
 protected:
  void TearDown() override { unsetenv("DSLIDE_MAX_ISA"); }
};

// Prints the target that this process chooses, and exits.
[[noreturn]] void TellTarget() {
  const float x[3] = {1.0f, 2.0f, 3.0f};
  const bool right = Dot(x, x, 3) == 14.0f;
  std::fprintf(stderr, "target=%s. right=%d", std::string(KernelTarget()).c_str(), right);
  std::exit(0);
}

TEST_F(KernelTargetTest, TheVariableForbidsWiderTargets) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  // A "threadsafe" death test starts the binary anew, with the environment of this moment.
  setenv("DSLIDE_MAX_ISA", "sse4", 1);
  EXPECT_EXIT(TellTarget(), testing::ExitedWithCode(0), "target=SSE4. right=1");
  setenv("DSLIDE_MAX_ISA", "avx2", 1);
  EXPECT_EXIT(TellTarget(), testing::ExitedWithCode(0), "target=(AVX2|SSE4). right=1");
}

TEST_F(KernelTargetTest, AnUnknownNameIsToldAndIgnored) {
  EXPECT_TRUE(CheckKernelEnvironment().ok());
  setenv("DSLIDE_MAX_ISA", "avx512", 1);
  EXPECT_TRUE(CheckKernelEnvironment().ok());
  setenv("DSLIDE_MAX_ISA", "avx3", 1);
  const absl::Status status = CheckKernelEnvironment();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(testing::HasSubstr("DSLIDE_MAX_ISA"), testing::HasSubstr("avx3"),
                             testing::HasSubstr("avx512")));
}

}  // namespace
}  // namespace dslide
