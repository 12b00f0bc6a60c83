// What a serving shard shows: on its metrics page, and on the page for people.

#include "services/shard/metrics/shard_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "core/net/http/http_client.h"
#include "tests/unit/patience.h"
#include "tests/unit/services/shard/shard_server_fixture.h"

namespace dslide::shard {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::Le;

class ShardPageTest : public ShardServerTest {
 protected:
  void SetUp() override {
    fs::remove_all(directory_);
    Restart(Durability::kCheckpoint);
  }
  void TearDown() override {
    ShardServerTest::TearDown();
    fs::remove_all(directory_);
  }
  void Restart(Durability mode) {
    ShardServerOptions options;
    options.data_dir = directory_.string();
    options.durability.mode = mode;
    options.server.admin = "127.0.0.1:0";
    Start(std::move(options));
  }
  MetricsText Figures() { return *MetricsText::Parse(server_->metrics().Expose()); }
  std::string Html() {
    return HttpGetPage(server_->runtime().admin_address(), "/", kPatience)->body;
  }
  void ScatterOnce() {
    ASSERT_TRUE(
        Scatter(wire::EncodeScatter(trainer_.Scatter(ScatterMode::kGradient), ActivationType::kF32))
            .ok());
  }

  const fs::path directory_ =
      fs::path(::testing::TempDir()) / ("shard_page_test_" + std::to_string(getpid()));
};

TEST_F(ShardPageTest, TablesAndMemoryAreShownByName) {
  Prepare();
  const MetricsText figures = Figures();
  const absl::StatusOr<DescribeModelReply> model = Describe();
  ASSERT_TRUE(model.ok());
  double slots = 0;
  for (const TableStateReply& table : model->tables) {
    EXPECT_EQ(figures.Sum("dslide_shard_rows", {{"table", table.name}}),
              static_cast<double>(table.shard_rows));
    slots += figures.Sum("dslide_shard_slots", {{"table", table.name}});
  }
  EXPECT_GT(slots, 0);
  // All kinds that belong to tables make up what the tables themselves say.
  double kinds = 0;
  for (const char* kind :
       {"weights", "optimizer_state", "row_overhead", "hash_tables", "hash_codes"}) {
    kinds += figures.Sum("dslide_shard_memory_bytes", {{"kind", kind}});
  }
  EXPECT_THAT(kinds, AllOf(Gt(0), Le(figures.Sum("dslide_shard_table_bytes"))));
  EXPECT_GE(figures.Sum("dslide_shard_bucket_rows", {{"table", "head"}}), 1);
  EXPECT_GT(figures.Sum("dslide_shard_bucket_skew_ratio", {{"table", "head"}}), 0);
  EXPECT_EQ(figures.Sum("dslide_server_ready"), 1);
}

TEST_F(ShardPageTest, ServedRequestsCountByTable) {
  Prepare();
  ScatterOnce();
  const MetricsText figures = Figures();
  const MetricLabels received = {{"operation", "scatter"}, {"direction", "received"}};
  EXPECT_EQ(
      figures.Sum("dslide_shard_table_traffic_bytes_total", received),
      figures.Sum("dslide_shard_bytes_total", {{"method", "Scatter"}, {"direction", "received"}}));
  EXPECT_EQ(figures.Sum("dslide_shard_table_messages_total",
                        {{"operation", "scatter"}, {"direction", "sent"}}),
            1);
  // A table that nobody has gives no series.
  ScatterCommand unknown = trainer_.Scatter(ScatterMode::kAdd);
  unknown.table = "made-up";
  EXPECT_FALSE(Scatter(wire::EncodeScatter(unknown, ActivationType::kF32)).ok());
  EXPECT_EQ(Figures().Sum("dslide_shard_table_messages_total", {{"table", "made-up"}}), 0);
}

TEST_F(ShardPageTest, LogAndImagesAreShownInLogModes) {
  EXPECT_FALSE(Figures().Has("dslide_shard_log_newest_lsn"));
  Restart(Durability::kLog);
  Prepare();
  ScatterOnce();
  const MetricsText figures = Figures();
  EXPECT_GT(figures.Sum("dslide_shard_log_newest_lsn"), 2);
  EXPECT_EQ(figures.Sum("dslide_shard_log_durable_lsn"),
            figures.Sum("dslide_shard_log_newest_lsn"));
  EXPECT_GT(figures.Sum("dslide_shard_log_appended_bytes_total"), 0);
  EXPECT_GT(figures.Sum("dslide_shard_log_bytes"), 0);
  EXPECT_GT(figures.Sum("dslide_shard_log_sync_seconds_count"), 0);
  EXPECT_EQ(figures.Sum("dslide_shard_images"), 1);
  EXPECT_GT(figures.Sum("dslide_shard_image_bytes"), 0);
  EXPECT_THAT(figures.Sum("dslide_shard_image_age_seconds"), AllOf(Gt(-2), Le(600)));
  const std::string html = Html();
  EXPECT_THAT(html, HasSubstr("Newest image"));
  EXPECT_THAT(html, HasSubstr("Command log"));

  // A clean stop writes an image, whose lsn the next start finds.
  const double newest = figures.Sum("dslide_shard_log_newest_lsn");
  Restart(Durability::kLog);
  const MetricsText after = Figures();
  EXPECT_GT(after.Sum("dslide_shard_image_lsn"), newest);
  EXPECT_EQ(after.Sum("dslide_shard_images"), 2);
  EXPECT_EQ(after.Sum("dslide_shard_recovery_replayed_records"), 0);
  EXPECT_GT(after.Sum("dslide_shard_recovery_seconds"), 0);
}

TEST_F(ShardPageTest, FootprintOfNothingIsNothing) {
  const DurableFootprint footprint = MeasureFootprint((directory_ / "none").string());
  EXPECT_EQ(footprint.log_bytes, 0);
  EXPECT_EQ(footprint.images, 0);
}

TEST_F(ShardPageTest, CheckpointsLeaveTheirTime) {
  Prepare();
  EXPECT_FALSE(Figures().Has("dslide_shard_checkpoint_timestamp_seconds"));
  v1::WriteCheckpointRequest write;
  write.set_model("m");
  write.set_checkpoint("one");
  v1::WriteCheckpointResponse written;
  ASSERT_TRUE(stub_->WriteCheckpoint(Context().get(), write, &written).ok());
  EXPECT_GT(Figures().Sum("dslide_shard_checkpoint_timestamp_seconds", {{"operation", "write"}}),
            1.6e9);
}

TEST_F(ShardPageTest, ThePageForPeopleHasTheFiguresOfTheMetrics) {
  Prepare();
  ScatterOnce();
  const std::string html = Html();
  for (const char* text : {"&#10003; ready", "Generation", "Durability", ">checkpoint<", "Tables",
                           "Memory", "optimizer_state", "Traffic", ">scatter<", "Bytes saved",
                           "Refused requests", "href=\"/metrics\""}) {
    EXPECT_THAT(html, HasSubstr(text));
  }
}

TEST(ShardFiguresTest, AnEmptyPageOfMetricsGivesNoNonsense) {
  StatusPage page;
  AddShardFigures(MetricsText(), page);
  const std::string html = RenderStatusPage("x", true, "ready", page);
  EXPECT_EQ(html.find("nan"), std::string::npos);
  EXPECT_EQ(html.find("inf"), std::string::npos);
}

}  // namespace
}  // namespace dslide::shard
