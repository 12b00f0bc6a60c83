#include "core/system/log.h"

#include <gtest/gtest.h>

namespace dslide {
namespace {

TEST(LogTest, FieldsFollowTheMessage) {
  EXPECT_EQ(FormatLogLine(LogLevel::kInfo, "shard registered",
                          {{"shard", 2}, {"address", "10.0.0.7:7010"}, {"note", "two words"}}),
            "INFO shard registered shard=2 address=10.0.0.7:7010 note=\"two words\"");
}

TEST(LogTest, ForeignTextCannotForgeALine) {
  const std::string line =
      FormatLogLine(LogLevel::kWarning, "client", {{"name", "x\n2024 ERROR forged=\"1\"\x1b[2J"}});
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_EQ(line.find('\x1b'), std::string::npos);
  EXPECT_EQ(line, "WARNING client name=\"x\\n2024 ERROR forged=\\\"1\\\"\\x1b[2J\"");
}

TEST(LogTest, QuotesAndBackslashesStayUnambiguous) {
  EXPECT_EQ(EscapeForLog("it's \"x\" \\' \\n"), "it's \\\"x\\\" \\\\' \\\\n");
}

TEST(LogTest, LongTextIsCut) {
  const std::string line =
      FormatLogLine(LogLevel::kInfo, "client", {{"name", std::string(100000, 'a')}});
  EXPECT_LT(line.size(), kMaxLogValueBytes + 64);
  EXPECT_NE(line.find("...\""), std::string::npos);
}

TEST(LogTest, EmptyValuesAreVisible) {
  EXPECT_EQ(FormatLogLine(LogLevel::kError, "x", {{"why", ""}}), "ERROR x why=\"\"");
}

}  // namespace
}  // namespace dslide
