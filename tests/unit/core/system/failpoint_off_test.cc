// What is shipped: without DSLIDE_FAILPOINTS a failpoint is nothing.
#undef DSLIDE_FAILPOINTS
#include <gtest/gtest.h>

#include <string_view>

#include "core/system/failpoint.h"

#define TEXT_OF(text) #text
#define EXPANSION_OF(text) TEXT_OF(text)

namespace dslide {
namespace {

constexpr std::string_view kExpansion = EXPANSION_OF(DSLIDE_FAILPOINT("test.off"));
static_assert(kExpansion == "static_cast<void>(0)", "not even its name is left");

TEST(FailpointOffTest, NotEvenTheNameIsLeft) {
  EXPECT_EQ(kExpansion.find("test.off"), kExpansion.npos);
}

}  // namespace
}  // namespace dslide
