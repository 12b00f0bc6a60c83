#include "core/engine/data/import/csv_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "absl/strings/str_join.h"
#include "tests/reference/data_reference.h"

namespace dslide {
namespace {

using Rows = std::vector<std::vector<std::string>>;

absl::StatusOr<Rows> ParseAll(const std::string& text, const CsvOptions& options) {
  CsvParser parser("t.csv", text, options);
  Rows rows;
  std::vector<CsvField> row;
  while (true) {
    const auto has_row = parser.Next(&row);
    if (!has_row.ok()) return has_row.status();
    if (!*has_row) return rows;
    std::vector<std::string>& values = rows.emplace_back();
    for (const CsvField& field : row) values.push_back(field.value);
  }
}

// "a|b;c": fields by '|', rows by ';'.
std::string Shown(const absl::StatusOr<Rows>& rows) {
  if (!rows.ok()) return std::string(rows.status().message());
  std::vector<std::string> lines;
  for (const auto& row : *rows) lines.push_back(absl::StrJoin(row, "|"));
  return absl::StrJoin(lines, ";");
}

TEST(CsvParserTest, OddFiles) {
  const CsvOptions commas;
  const CsvOptions tabs = {.delimiter = '\t', .has_quotes = false};
  for (const auto& [options, text, rows] :
       std::vector<std::tuple<CsvOptions, std::string, std::string>>{
           {commas, "", ""},
           {commas, "\n\r\n\n", ""},
           {commas, "a", "a"},
           {commas, "a,b\r\n1,2\r\n", "a|b;1|2"},
           {commas, ",\n,,\n", "|;||"},
           {commas, "\"\"\n\"\",\n", ";|"},  // an empty field in quotes is a row
           {commas, "\"a,b\",\"say \"\"hi\"\"\",\"\"\"\"", "a,b|say \"hi\"|\""},
           {commas, "\"two\nlines\",\"and\r\nmore\"\nx,y", "two\nlines|and\r\nmore;x|y"},
           {commas, " a , \tb", " a | \tb"},  // blanks belong to fields
           {{.delimiter = ';'}, "1,5;\"a;b\"\n", "1,5|a;b"},
           {tabs, "5\" nail\t\"x\n", "5\" nail|\"x"},
           {commas, "ok\na \"b\"\n", "t.csv:2:3: found \"\\\"\""},
           {commas, "a\n\n\"b\"c", "t.csv:3:4: found \"c\", expected the delimiter \",\""},
           {commas, "a\n\"b\nc", "t.csv:2:1: found a \" that is never closed"},
           {commas, "\"x\ny\",z\"", "t.csv:2:5: found \"\\\"\""},
           {commas, "a\rb", "t.csv:1:2: found \"\\r\", expected a line feed"},
           {commas, "a\r", "t.csv:1:2: found \"\\r\""}}) {
    EXPECT_THAT(Shown(ParseAll(text, options)), testing::StartsWith(rows)) << text;
  }
}

TEST(CsvParserTest, PlacesOfFieldsAreTold) {
  const std::string text = "a,\"x\ny\",b\nc\n";
  CsvParser parser("t", text, {});
  std::vector<CsvField> row;
  ASSERT_TRUE(*parser.Next(&row));
  EXPECT_EQ(row[1].line, 1);
  EXPECT_EQ(row[1].column, 3);
  EXPECT_EQ(row[2].line, 2);
  EXPECT_EQ(row[2].column, 4);
  EXPECT_EQ(parser.row_text(), "a,\"x\ny\",b\n");
  ASSERT_TRUE(*parser.Next(&row));
  EXPECT_EQ(parser.row_line(), 3);
  EXPECT_EQ(parser.bytes_read(), static_cast<int64_t>(text.size()));
}

// Every text of up to seven of the bytes that matter.
TEST(CsvParserTest, AgreesWithTheSlowReader) {
  const std::string bytes = "a,\"\r\n";
  std::vector<std::string> texts = {""};
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string text = texts[i];
    for (const bool has_quotes : {true, false}) {
      const auto expected = reference::ParseCsv(text, ',', has_quotes);
      const auto rows = ParseAll(text, {.has_quotes = has_quotes});
      ASSERT_EQ(rows.ok(), expected.has_value()) << testing::PrintToString(text) << rows.status();
      ASSERT_EQ(rows.value_or(Rows()), expected.value_or(Rows())) << testing::PrintToString(text);
    }
    for (const char byte : bytes) {
      if (text.size() < 7) texts.push_back(text + byte);
    }
  }
}

}  // namespace
}  // namespace dslide
