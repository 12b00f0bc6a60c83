#include "client/cli/cluster/top_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "client/cli/console/repeat.h"

namespace dslide::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

AdminPage Page(const std::string& address, const std::string& text) {
  return {address, MetricsText::Parse(text)};
}

std::string ShardPage(int samples, int received, int commands) {
  return absl::StrCat("dslide_shard_head_samples_total ", samples,
                      "\ndslide_shard_bytes_total{direction=\"received\",method=\"Step\"} ",
                      received, "\ndslide_shard_bytes_total{direction=\"sent\",method=\"Step\"} 7",
                      "\ndslide_shard_apply_seconds_count{command=\"gather\"} ", commands,
                      "\ndslide_shard_queue_commands 3\ndslide_shard_table_bytes 5000000\n",
                      "process_cpu_seconds_total 1\n");
}

ClusterStatus Status(int64_t samples_done, int64_t commands) {
  ClusterStatus status;
  status.expected_shards = 2;
  status.models = {"m"};
  ShardInfo shard;
  shard.shard = ShardId(0);
  shard.address = "10.0.0.1:7010";
  shard.memory_bytes = 1'000'000;
  shard.applied_commands = commands;
  status.shards = {shard};
  JobStatus job;
  job.job = "run-1";
  job.max_epochs = 5;
  job.samples_per_epoch = 1000;
  job.samples_done = samples_done;
  status.jobs = {job};
  return status;
}

class TopViewTest : public ::testing::Test {
 protected:
  TopSample before_{absl::Seconds(10), Status(100, 50), {}};
  TopSample now_{absl::Seconds(12), Status(500, 70), {}};
};

TEST_F(TopViewTest, RatesAreGrowthOverTime) {
  before_.pages = {Page("a:1", ShardPage(100, 1000, 10))};
  now_.pages = {Page("a:1", ShardPage(300, 5000, 16))};
  const auto rows = MakeTopRows(before_, now_);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].process, "shard");
  EXPECT_EQ(rows[0].samples_per_second, 100);
  EXPECT_EQ(rows[0].received_bytes_per_second, 2000);
  EXPECT_EQ(rows[0].sent_bytes_per_second, 0);
  EXPECT_EQ(rows[0].commands_per_second, 3);
  EXPECT_EQ(rows[0].queue_commands, 3);
  EXPECT_EQ(rows[0].memory_bytes, 5e6);
  EXPECT_LT(rows[0].queue_p99_seconds, 0);  // nothing has waited: not known
}

TEST_F(TopViewTest, ARestartedProcessCountsFromZero) {
  before_.pages = {Page("a:1", ShardPage(1000, 1000, 10))};
  now_.pages = {Page("a:1", ShardPage(20, 5000, 16))};
  EXPECT_EQ(MakeTopRows(before_, now_)[0].samples_per_second, 10);
}

TEST_F(TopViewTest, WithoutPagesTheCoordinatorIsAsked) {
  const auto rows = MakeTopRows(before_, now_);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].process, "shard 0");
  EXPECT_EQ(rows[0].commands_per_second, 10);
  EXPECT_EQ(rows[0].memory_bytes, 1e6);
  const std::string text = TopText(before_, now_, "c:7000");
  EXPECT_THAT(text, HasSubstr("1 of 2 shards alive"));
  EXPECT_THAT(text, HasSubstr("--admin"));
  EXPECT_THAT(text, HasSubstr("200"));  // samples/s of the job
}

TEST_F(TopViewTest, ShardsAreKnownByTheirPages) {
  now_.status->shards[0].admin_address = "a:1";
  before_.pages = {Page("t:1", "dslide_trainer_samples_total 1\n"),
                   Page("a:1", ShardPage(100, 1000, 10))};
  now_.pages = {Page("a:1", ShardPage(300, 5000, 16))};  // the other one is gone
  auto rows = MakeTopRows(before_, now_);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].process, "shard 0");
  EXPECT_EQ(rows[0].address, "a:1");
  EXPECT_EQ(rows[0].commands_per_second, 3);
  // Whose page does not answer is shown as the coordinator knows it.
  now_.pages[0].figures = absl::UnavailableError("nobody there");
  rows = MakeTopRows(before_, now_);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].process, "no answer");
  EXPECT_EQ(rows[1].process, "shard 0");
  EXPECT_EQ(rows[1].commands_per_second, 10);
}

TEST_F(TopViewTest, WhoDoesNotAnswerIsShown) {
  now_.pages = {{"a:1", absl::UnavailableError("nobody there")}, Page("b:1", "up 1\n")};
  before_.pages = now_.pages;
  now_.status = absl::UnavailableError("the coordinator is away");
  const std::string text = TopText(before_, now_, "c:7000");
  EXPECT_THAT(text, HasSubstr("the coordinator is away"));
  EXPECT_THAT(text, HasSubstr("no answer"));
  EXPECT_THAT(text, HasSubstr("unknown"));
  EXPECT_THAT(text, Not(HasSubstr("--admin")));
}

TEST_F(TopViewTest, JsonHasNullForWhatIsNotKnown) {
  before_.pages = {Page("t:1", "dslide_trainer_samples_total 10\n")};
  now_.pages = {Page("t:1", "dslide_trainer_samples_total 30\n")};
  const auto json = nlohmann::json::parse(TopJson(before_, now_));
  EXPECT_EQ(json["seconds"], 2.0);
  EXPECT_EQ(json["jobs"][0]["samples_per_second"], 200.0);
  EXPECT_EQ(json["processes"][0]["process"], "trainer");
  EXPECT_EQ(json["processes"][0]["samples_per_second"], 10.0);
  EXPECT_TRUE(json["processes"][0]["queue_commands"].is_null());
  EXPECT_EQ(json["processes"][1]["process"], "shard 0");
}

TEST(ParseIntervalTest, TakesTimesAndNamesTheFlag) {
  EXPECT_EQ(*ParseInterval("--interval", "1500ms"), absl::Milliseconds(1500));
  for (const char* wrong : {"", "2", "0s", "-1s", "50ms", "48h", "often"}) {
    const auto interval = ParseInterval("--interval", wrong);
    ASSERT_TRUE(absl::IsInvalidArgument(interval.status())) << wrong;
    EXPECT_THAT(std::string(interval.status().message()), HasSubstr("--interval"));
  }
}

}  // namespace
}  // namespace dslide::cli
