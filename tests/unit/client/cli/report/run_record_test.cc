#include "client/cli/report/run_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/cli/report/report_page.h"

namespace dslide::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

RunRecord SampleRecord() {
  return {.command = "dslide train --data 'a <b>.txt'",
          .data = "a <b>.txt",
          .eval = "test.txt",
          .training_points = 1234,
          .held_out_points = 56,
          .data_fingerprint = 0xfedcba9876543210,
          .threads = 2,
          .machine = {.processor = "A CPU",
                      .processors = 4,
                      .memory_bytes = 8'000'000'000,
                      .system = "Linux 6",
                      .instruction_set = "AVX2"},
          .epochs = {{0, 2.5, 0.25, 1000.0}, {1, 1.5, {}, {}}},
          .result = {{"seconds", 65.0}, {"p_at_1", 0.5}, {"p_at_3", nullptr}}};
}

TEST(RunRecordTest, IsReadAsItWasWritten) {
  const std::string text = RunRecordToJson(SampleRecord());
  const auto read = RunRecordFromJson(text, "run.json");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(RunRecordToJson(*read), text);
  EXPECT_EQ(read->epochs, SampleRecord().epochs);
  EXPECT_EQ(read->data_fingerprint, SampleRecord().data_fingerprint);
}

TEST(RunRecordTest, AnotherFormatAndOtherTextsAreRefusedByName) {
  for (const auto& [text, said] :
       {std::pair("{\"format\": 2}", "format 2, this program knows 1"),
        std::pair("[]", "the number \"format\""), std::pair("{\"format\": 1}", "command")}) {
    const auto read = RunRecordFromJson(text, "dir/run.json");
    EXPECT_TRUE(absl::IsInvalidArgument(read.status())) << text;
    EXPECT_THAT(std::string(read.status().message()), HasSubstr(said));
    EXPECT_THAT(std::string(read.status().message()), HasSubstr("dir/run.json"));
  }
}

ModelSpec Named() {
  ModelSpec spec;
  spec.name = "m";
  return spec;
}

TEST(ReportPageTest, ShowsWhatIsKnownAndEscapesIt) {
  RunReport report{.spec = Named(), .record = SampleRecord()};
  report.accuracy = report.record->result;
  report.measured_on = "test.txt";
  report.frequency = {{.name = "3 to 10", .labels = 7, .wanted = 4, .found_at_1 = 1}};
  const std::string html = RenderRunReport(report);
  for (const char* text : {"fedcba9876543210", "0.5000", "1,234", "A CPU", "3 to 10", "0.2500",
                           "dslide train --data &#39;a &lt;b&gt;.txt&#39;"}) {
    EXPECT_THAT(html, HasSubstr(text));
  }
  EXPECT_THAT(html, Not(HasSubstr("<b>")));
  for (const char* loads : {"<script", "<img", "<link", "http://", "https://"}) {
    EXPECT_THAT(html, Not(HasSubstr(loads)));
  }
}

TEST(ReportPageTest, SaysWhatIsNotKnown) {
  const std::string html = RenderRunReport({.spec = Named()});
  EXPECT_THAT(html, HasSubstr("Nothing was measured: name a test file with --data."));
  EXPECT_THAT(html, HasSubstr("there are no curves"));
  EXPECT_THAT(html, Not(HasSubstr("<h2>Again</h2>")));
}

}  // namespace
}  // namespace dslide::cli
