#include "core/system/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace dslide {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

const absl::Time kTime = absl::FromUnixMicros(1'714'564'800'123'456);
constexpr char kTimeText[] = "2024-05-01T12:00:00.123456Z ";

std::string Text(LogLevel level, absl::string_view message,
                 std::initializer_list<LogField> fields) {
  const std::string line = FormatLogLine(LogFormat::kText, kTime, level, message, fields);
  EXPECT_EQ(line.substr(0, sizeof(kTimeText) - 1), kTimeText);
  return line.substr(sizeof(kTimeText) - 1);
}

nlohmann::json Json(absl::string_view message, std::initializer_list<LogField> fields) {
  const std::string line =
      FormatLogLine(LogFormat::kJson, kTime, LogLevel::kWarning, message, fields);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  return nlohmann::json::parse(line);
}

// What Log() writes at `level`, with the settings given.
std::string Written(const char* least, const char* format, LogLevel level) {
  EXPECT_TRUE(SetLog(least, format).ok());
  ::testing::internal::CaptureStderr();
  Log(level, "said", {{"a", 1}});
  EXPECT_TRUE(SetLog("info", "text").ok());
  return ::testing::internal::GetCapturedStderr();
}

TEST(LogTest, FieldsFollowTheMessage) {
  EXPECT_EQ(Text(LogLevel::kInfo, "shard registered",
                 {{"shard", 2}, {"address", "10.0.0.7:7010"}, {"note", "two words"}}),
            "INFO shard registered shard=2 address=10.0.0.7:7010 note=\"two words\"");
}

TEST(LogTest, ForeignTextCannotForgeALine) {
  const std::string line =
      Text(LogLevel::kWarning, "client", {{"name", "x\n2024 ERROR forged=\"1\"\x1b[2J"}});
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_EQ(line.find('\x1b'), std::string::npos);
  EXPECT_EQ(line, "WARNING client name=\"x\\n2024 ERROR forged=\\\"1\\\"\\x1b[2J\"");
}

TEST(LogTest, QuotesAndBackslashesStayUnambiguous) {
  EXPECT_EQ(EscapeForLog("it's \"x\" \\' \\n"), "it's \\\"x\\\" \\\\' \\\\n");
}

TEST(LogTest, LongTextIsCut) {
  const std::string line = Text(LogLevel::kInfo, "client", {{"name", std::string(100000, 'a')}});
  EXPECT_LT(line.size(), kMaxLogValueBytes + 64);
  EXPECT_NE(line.find("...\""), std::string::npos);
}

TEST(LogTest, EmptyValuesAreVisible) {
  EXPECT_EQ(Text(LogLevel::kError, "x", {{"why", ""}}), "ERROR x why=\"\"");
}

TEST(LogTest, AJsonLineIsOneObject) {
  EXPECT_EQ(Json("shard registered", {{"shard", 2}, {"note", "two words"}}),
            (nlohmann::json{{"time", "2024-05-01T12:00:00.123456Z"},
                            {"level", "warning"},
                            {"msg", "shard registered"},
                            {"shard", "2"},
                            {"note", "two words"}}));
}

TEST(LogTest, ForeignTextIsAlwaysJson) {
  const std::string text = "\"x\"\\ \n\x1b\x7f \xc3\xa9";
  EXPECT_EQ(Json(text, {{"name", text}})["name"], text);
  EXPECT_EQ(Json(text, {})["msg"], text);
  EXPECT_EQ(Json("x", {{"name", "a\xff\xc3"}})["name"], "a\xef\xbf\xbd\xef\xbf\xbd");
  const std::string cut = Json("x", {{"name", std::string(100000, 'a')}})["name"];
  EXPECT_EQ(cut, std::string(kMaxLogValueBytes, 'a') + "...");
}

TEST(LogTest, LinesBelowTheLeastLevelAreDropped) {
  EXPECT_THAT(Written("warning", "text", LogLevel::kInfo), IsEmpty());
  EXPECT_THAT(Written("warning", "text", LogLevel::kWarning), HasSubstr(" WARNING said a=1\n"));
  EXPECT_THAT(Written("info", "text", LogLevel::kDebug), IsEmpty());
  EXPECT_THAT(Written("debug", "json", LogLevel::kDebug),
              HasSubstr(R"("level":"debug","msg":"said","a":"1"})"));
}

TEST(LogTest, UnknownWordsAreRefusedAndSetNothing) {
  EXPECT_THAT(std::string(SetLog("loud", "json").message()),
              HasSubstr("\"loud\", not one of debug, info, warning, error"));
  EXPECT_EQ(CurrentLogFormat(), LogFormat::kText);
  EXPECT_THAT(std::string(SetLog("debug", "xml").message()), HasSubstr("not one of text, json"));
  EXPECT_FALSE(LogEnabled(LogLevel::kDebug));
}

}  // namespace
}  // namespace dslide
