#include "client/cli/console/operation_display.h"

#include <gtest/gtest.h>

#include <csignal>

namespace dslide::cli {
namespace {

OperationStatus Writing() {
  return {.operation_id = "12ab",
          .kind = "create-cluster-checkpoint",
          .target = "",
          .elapsed = absl::Milliseconds(12'900),
          .stage = "writing",
          .shards_done = 2,
          .shards = 3};
}

TEST(OperationDisplayTest, SaysHowFarItIs) {
  EXPECT_EQ(DescribeProgress(Writing()), "writing, 2 of 3 shards, 12s");
  OperationStatus operation = Writing();
  operation.cancel_requested = true;
  EXPECT_EQ(DescribeProgress(operation), "cancelled, still writing, 2 of 3 shards, 12s");
  operation = Writing();
  operation.stage = "committing";
  operation.shards = 0;
  EXPECT_EQ(DescribeProgress(operation), "committing, 12s");
  operation.stage = "";
  EXPECT_EQ(DescribeProgress(operation), "waiting for its turn, 12s");
}

TEST(OperationDisplayTest, CtrlCStopsIt) {
  GlobalOptions global;
  global.quiet = true;
  OperationDisplay display(global);
  const OperationWatch watch = display.watch();
  watch.on_progress(Writing());
  EXPECT_FALSE(watch.stop_requested());
  ASSERT_EQ(std::raise(SIGINT), 0);
  EXPECT_TRUE(watch.stop_requested());
}

}  // namespace
}  // namespace dslide::cli
