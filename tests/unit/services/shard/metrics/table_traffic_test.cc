#include "services/shard/metrics/table_traffic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "core/net/metrics/metrics_text.h"
#include "services/shard/metrics/shard_metrics.h"

namespace dslide::shard {
namespace {

TEST(TableTrafficTest, AddsUpByTableOperationAndDirection) {
  Metrics metrics;
  TableLabels labels;
  TableTraffic traffic(metrics, labels);
  for (int i = 0; i < 3; ++i) {
    traffic.Record(
        {"head", "gather"},
        {.received_messages = 1, .received_bytes = 10, .sent_messages = 2, .sent_bytes = 100});
  }
  traffic.Record({}, {.received_messages = 1, .received_bytes = 99});  // works on no table
  const MetricsText page = *MetricsText::Parse(metrics.Expose());
  const MetricLabels sent = {{"table", "head"}, {"operation", "gather"}, {"direction", "sent"}};
  EXPECT_EQ(page.Sum("dslide_shard_table_traffic_bytes_total", sent), 300);
  EXPECT_EQ(page.Sum("dslide_shard_table_messages_total", sent), 6);
  EXPECT_EQ(page.Sum("dslide_shard_table_traffic_bytes_total"), 330);
}

TEST(TableTrafficTest, ManyTablesShareOneSeries) {
  Metrics metrics;
  TableLabels labels;
  TableTraffic traffic(metrics, labels);
  for (size_t i = 0; i < 10 * TableLabels::kMaxTables; ++i) {
    traffic.Record({absl::StrCat("table", i), "gather"}, {.sent_messages = 1, .sent_bytes = 1});
  }
  const MetricsText page = *MetricsText::Parse(metrics.Expose());
  EXPECT_EQ(page.Series("dslide_shard_table_messages_total").size(),
            2 * (TableLabels::kMaxTables + 1));
  EXPECT_EQ(page.Sum("dslide_shard_table_messages_total", {{"table", TableLabels::kOther}}),
            9.0 * TableLabels::kMaxTables);
}

TEST(TableTrafficTest, OperationsHaveTheNamesOfTheCommands) {
  StepCommand step;
  const std::vector<StepOp> ops = {
      EmbedForwardOp(),   HeadForwardOp(),  HeadBackwardOp(), EmbedBackwardOp(), DenseGatherOp(),
      DenseScatterOp(),   AppendPointsOp(), PutRecordOp(),    GetRecordOp(),     SolveRowsOp(),
      FindNeighboursOp(), ScoreRowsOp(),    LoadRowsOp()};
  for (const StepOp& op : ops) {
    step.op = op;
    std::visit([](auto& any) { any.table = "t"; }, step.op);
    EXPECT_EQ(OperationOf(step).operation, CommandNames()[CommandKind(step)]);
    EXPECT_EQ(OperationOf(step).table, "t");
  }
  for (const Command& command :
       std::vector<Command>{ScatterCommand(), GatherCommand(), TopKCommand(), ReadRowsCommand()}) {
    EXPECT_EQ(OperationOf(command).operation, CommandNames()[CommandKind(command)]);
  }
  EXPECT_EQ(OperationOf(CloseClientCommand()).operation, "");
}

}  // namespace
}  // namespace dslide::shard
