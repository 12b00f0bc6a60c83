#include "client/cli/cluster/model_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "client/cli/commands/command_line.h"
#include "client/cli/console/exit_codes.h"
#include "core/spec/tree_shape.h"

namespace dslide::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

PlanInput Input(int64_t rows = 100'000, int64_t shards = 4) {
  PlanInput input;
  TableSpec in;
  in.name = "input";
  in.rows = 5001;
  in.dim = 128;
  in.bias_row = true;
  TableSpec out;
  out.name = "labels";
  out.role = TableRole::kHead;
  out.rows = rows;
  out.dim = 128;
  input.spec.name = "model";
  input.spec.tables = {in, out};
  input.shards = shards;
  return input;
}

TEST(ModelPlanTest, AddsUpTheFullestShard) {
  const auto plan = MakePlan(Input());
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->shard.tables.size(), 2u);
  // 5,001 rows in 1,024 slots of which each shard has 256: 256 x 4 rows and up to 256 more.
  EXPECT_GE(plan->shard.tables[0].rows, 5001 / 4);
  EXPECT_LE(plan->shard.tables[0].rows, 256 * 5);
  EXPECT_EQ(plan->shard.tables[1].record_bytes, 1600);
  EXPECT_EQ(plan->parameters, 5001 * 128 + 100'000 * 129);
  int64_t sum = plan->shard.step_bytes + plan->shard.process_bytes;
  for (const TablePlan& table : plan->shard.tables) {
    sum += table.rows * table.record_bytes + table.bytes.hash_tables + table.bytes.hash_codes +
           table.bytes.dirty + table.working_bytes;
  }
  EXPECT_EQ(plan->shard.total(), sum);
  EXPECT_EQ(plan->all_shards_bytes, 4 * sum);
  EXPECT_FALSE(plan->fits.has_value());
}

// With tables of records of a million points and 100,000 labels beside the network.
PlanInput WithRecords() {
  PlanInput input = Input();
  const auto add = [&](const char* name, TableRole role, int64_t rows) {
    TableSpec& table = input.spec.tables.emplace_back();
    table.name = name;
    table.role = role;
    table.rows = rows;
  };
  add("points", TableRole::kMemory, 1'000'000);
  add("trees", TableRole::kLabelTrees, 10);
  input.spec.tables[2].memory.labels = 100'000;
  input.spec.tables[3].trees.depth = 11;
  const TreeShape shape = ShapeOfTrees(input.spec.tables[2].memory, input.spec.tables[3].trees);
  add("linear", TableRole::kLinear, shape.num_rows());
  add("fusion", TableRole::kFusion, 1);
  input.content = ComponentContent{.points = 1'000'000,
                                   .features = 5000,
                                   .features_per_point = 20,
                                   .labels_per_point = 5,
                                   .record_bytes = 156,
                                   .index_bytes = 4e8,
                                   .centroids = {.rows = 100'000, .weights = 4e6},
                                   .clusters = {.rows = 8'000, .weights = 16e6},
                                   .labels = {.rows = 400'000, .weights = 40e6}};
  return input;
}

TEST(ModelPlanTest, TablesOfRecordsHoldTheirContent) {
  const auto plan = MakePlan(WithRecords());
  ASSERT_TRUE(plan.ok()) << plan.status();
  const std::vector<TablePlan>& tables = plan->shard.tables;
  // Where rows are solved each shard has all points; it looks for neighbours among its own.
  EXPECT_EQ(tables[2].records, 1'000'000);
  EXPECT_EQ(tables[2].bytes.weights, 1'000'000 * 176);  // with size, malloc's word and rounding
  EXPECT_EQ(tables[2].bytes.overhead, 1'000'000 * 8);
  EXPECT_EQ(tables[2].index_bytes, 100'000'000 + 1'000'000 * (8 + 5 * 4) + 8 * 100'000);
  // Four trees and the labels' points, each 65,536 labels and the rest.
  EXPECT_EQ(tables[3].records, 10);
  EXPECT_NEAR(tables[3].bytes.weights, 5 * 4 * 100'000, 5 * 64);
  // A quarter of the sparse rows: 8 bytes, 6 a weight, and rounding up.
  const double rows = 508'000 / 4.0;
  EXPECT_NEAR(tables[4].records, rows, rows / 100);
  EXPECT_NEAR(tables[4].bytes.weights, 60e6 * 6 / 4 + rows * 30, 60e6 * 6 / 4 * .02);
  EXPECT_EQ(tables[4].index_bytes, 0);
  EXPECT_EQ(tables[5].records, 1);
  EXPECT_EQ(plan->parameters, MakePlan(Input())->parameters);
}

TEST(ModelPlanTest, SaysWhatATrainingOfRecordsSends) {
  PlanInput input = WithRecords();
  const auto plan = MakePlan(input);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_TRUE(plan->records.has_value());
  const RecordPlan& records = *plan->records;
  // To each of four shards: a value and an id of at most 2 bytes for each feature, an id of 3 bytes
  // for each label, and number and counts.
  EXPECT_NEAR(records.points_sent, 4e6 * (20 * 6 + 5 * 3 + 6), 4e6 * 10);
  EXPECT_NEAR(records.trees_sent, 4 * 5 * 4 * 100'000, 1e5);
  // The steps, and 2,000 held-out points of at most 3 kB after each epoch.
  const double steps = 4.0 * static_cast<double>(plan->wire.request_bytes) * 998'000 / 256;
  const auto epochs = static_cast<double>(input.spec.training.max_epochs);
  EXPECT_GT(records.network_sent, epochs * steps);
  EXPECT_LT(records.network_sent, epochs * (steps + 2'000 * 4'000));
  EXPECT_GT(records.queries_sent, 4e6 * 120);
  // All points on every shard, the sparse rows once, and the network.
  const double rows = 508'000 * 8 + 60e6 * 6 + 5001 * 1600.0 + 100'000 * 1600.0;
  EXPECT_NEAR(records.checkpoint_bytes, 4e6 * 156 + rows, (4e6 + 608'000) * 20);

  // Neighbours alone: no network, no rows to solve, each point on one shard.
  input.spec.tables = {input.spec.tables[2]};
  const auto alone = MakePlan(input);
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_EQ(alone->shard.tables[0].records, 250'000);
  EXPECT_EQ(alone->wire.step_bytes, 0);
  EXPECT_NEAR(alone->records->points_sent, records.points_sent / 4, 1e5);
  EXPECT_EQ(alone->records->trees_sent, 0);
  EXPECT_EQ(alone->records->queries_sent, 0);
}

TEST(ModelPlanTest, CountsTheBytesOfAStep) {
  PlanInput input = Input();
  const auto f32 = MakePlan(input);
  input.spec.activations = ActivationType::kBf16;
  const auto bf16 = MakePlan(input);
  ASSERT_TRUE(f32.ok() && bf16.ok());
  // Matrices of 256 x 128: two to the shard, of which half is 0, and two back, of which half of one
  // is. The rest stays in f32.
  constexpr int64_t kMatrix = 256 * 128;
  EXPECT_NEAR(f32->wire.request_bytes - bf16->wire.request_bytes, kMatrix * 2, 16);
  EXPECT_NEAR(f32->wire.reply_bytes - bf16->wire.reply_bytes, kMatrix * 3, 16);
  // 65 features a sample over 4 shards, each a value and an id packed in 2 bytes; 12 fingerprints
  // of 2 bytes; 4 labels over 4 shards, in 3 bytes; two counts, target, log-partition; and
  // less than 400 bytes of framing.
  const int64_t arrays = 256 * 65 * (4 + 2) / 4 + 256 * (12 * 2 + 3 + 2 + 4 + 4);
  constexpr int64_t kBits = kMatrix / 8;
  EXPECT_NEAR(bf16->wire.request_bytes, kMatrix * 2 + 2 * kBits + arrays, 400);
  EXPECT_NEAR(bf16->wire.reply_bytes, kMatrix * 3 + kBits + 256 * (4 + 4 + 4), 400);
  EXPECT_EQ(bf16->wire.step_bytes, 4 * (bf16->wire.request_bytes + bf16->wire.reply_bytes));
  EXPECT_EQ(bf16->wire.dense_step_bytes, 8 * bf16->parameters);
  EXPECT_NEAR(bf16->wire.max_steps_per_second,
              1e9 / 8 / (4.0 * static_cast<double>(bf16->wire.request_bytes)), 1e-6);
  // Dropout halves what is there; the sums that it keeps are asked for and come back with bits.
  input.spec.training.hidden_dropout = 0.5;
  const auto dropped = MakePlan(input);
  ASSERT_TRUE(dropped.ok()) << dropped.status();
  EXPECT_NEAR(bf16->wire.request_bytes - dropped->wire.request_bytes, kMatrix - kBits, 16);
  EXPECT_NEAR(bf16->wire.reply_bytes - dropped->wire.reply_bytes, kMatrix * 3 / 2 - kBits, 16);
  // What a message may hold is counted whole.
  EXPECT_GE(dropped->wire.largest_message_bytes, bf16->wire.largest_message_bytes);
}

TEST(ModelPlanTest, SaysWhichBatchCanBeSent) {
  PlanInput input = Input();
  auto wire = PlanWire(input);
  ASSERT_TRUE(wire.ok()) << wire.status();
  EXPECT_EQ(wire->sendable_batch, input.spec.training.batch_size);
  input.spec.training.batch_size = 16384;
  input.features_per_sample = 400;
  wire = PlanWire(input);
  ASSERT_TRUE(wire.ok()) << wire.status();
  EXPECT_GT(wire->largest_message_bytes, 4 << 20);
  input.spec.training.batch_size = wire->sendable_batch;
  wire = PlanWire(input);
  ASSERT_TRUE(wire.ok()) << wire.status();
  EXPECT_LE(wire->largest_message_bytes, 4 << 20);
  EXPECT_EQ(wire->sendable_batch, input.spec.training.batch_size);
}

TEST(ModelPlanTest, SaysWhatWouldMakeItFit) {
  PlanInput input = Input(7'800'000, 4);
  input.memory_bytes = int64_t{2} << 30;
  const auto plan = MakePlan(input);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->fits, false);
  ASSERT_FALSE(plan->remedies.empty());
  EXPECT_THAT(plan->remedies[0], HasSubstr("use 7 shards"));
  // Taking the advice helps, and one shard less does not.
  input.shards = 7;
  EXPECT_EQ(MakePlan(input)->fits, true);
  EXPECT_THAT(MakePlan(input)->remedies, IsEmpty());
  input.shards = 6;
  EXPECT_EQ(MakePlan(input)->fits, false);
  input.memory_bytes = int64_t{1} << 20;
  EXPECT_THAT(MakePlan(input)->remedies, ElementsAre(HasSubstr("no number of shards")));
}

// The two goals: a billion parameters in f32, four billion in bf16, on 24 GB of four shards.
TEST(ModelPlanTest, TheLargestModelsFit) {
  PlanInput input = Input(7'800'000, 4);
  input.memory_bytes = int64_t{6'000'000'000};
  const auto billion = MakePlan(input);
  EXPECT_GT(billion->parameters, 1'000'000'000);
  EXPECT_EQ(billion->fits, true) << billion->shard.total();
  input = Input(31'000'000, 4);
  input.memory_bytes = int64_t{6'000'000'000};
  for (TableSpec& table : input.spec.tables) {
    table.precision = RowPrecision::kBf16Weights;
    table.optimizer.kind = OptimizerKind::kRowWiseAdagrad;
  }
  const auto four = MakePlan(input);
  EXPECT_GT(four->parameters, 3'990'000'000);
  EXPECT_EQ(four->fits, true) << four->shard.total();
}

struct PlanOutcome {
  int code = 0;
  std::string out;
  std::string err;
};

PlanOutcome Plan(std::vector<std::string> args) {
  args.insert(args.begin(), "plan");
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  PlanOutcome outcome;
  outcome.code = RunCommandLine(args);
  outcome.err = testing::internal::GetCapturedStderr();
  outcome.out = testing::internal::GetCapturedStdout();
  return outcome;
}

TEST(PlanCommandTest, SpeaksToMachinesAndPeople) {
  const std::vector<std::string> args = {"--rows",      "100000", "--features", "5000",
                                         "--shards",    "2",      "--memory",   "1GiB",
                                         "--precision", "bf16",   "--batch",    "128"};
  const PlanOutcome text = Plan(args);
  EXPECT_EQ(text.code, kExitOk) << text.err;
  EXPECT_THAT(text.out, HasSubstr("It fits into"));
  std::vector<std::string> json_args = args;
  json_args.insert(json_args.end(), {"-o", "json"});
  const PlanOutcome outcome = Plan(json_args);
  ASSERT_EQ(outcome.code, kExitOk) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["fits"], true);
  EXPECT_EQ(json["tables"][1]["precision"], "bf16");
  EXPECT_EQ(json["tables"][1]["record_bytes"], 832);
  EXPECT_EQ(json["wire"]["batch"], 128);
  EXPECT_EQ(json["memory_bytes"], int64_t{1} << 30);
  EXPECT_THAT(json["remedies"], IsEmpty());
}

TEST(PlanCommandTest, PlansWhatDataWouldGet) {
  const std::vector<std::string> sizes = {"--points",
                                          "100000",
                                          "--features",
                                          "50000",
                                          "--rows",
                                          "20000",
                                          "--features-per-sample",
                                          "20",
                                          "--shards",
                                          "2",
                                          "--labels-per-sample",
                                          "5"};
  std::vector<std::string> json_args = sizes;
  json_args.insert(json_args.end(), {"-o", "json"});
  const PlanOutcome outcome = Plan(json_args);
  ASSERT_EQ(outcome.code, kExitOk) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("Without a spec: a memory"));
  const auto json = nlohmann::json::parse(outcome.out);
  ASSERT_EQ(json["tables"].size(), 6u);
  EXPECT_EQ(json["tables"][2]["records"], 100'000);
  EXPECT_EQ(json["components"]["from_data"], false);
  EXPECT_EQ(json["components"]["centroids"]["rows"], 20'000);
  EXPECT_EQ(json["components"]["label_rows"]["rows"], 80'000);
  EXPECT_GT(json["components"]["checkpoint_bytes"], 2 * 100'000 * 156);
  const PlanOutcome text = Plan(sizes);
  EXPECT_EQ(text.code, kExitOk) << text.err;
  EXPECT_THAT(text.out, HasSubstr("A checkpoint takes"));
  // More of everything takes more.
  std::vector<std::string> more = json_args;
  more[1] = "200000";
  EXPECT_GT(nlohmann::json::parse(Plan(more).out)["shard_bytes"], json["shard_bytes"]);
}

TEST(PlanCommandTest, WrongFlagsAreNamed) {
  EXPECT_THAT(Plan({"--points", "5"}).err, HasSubstr("--rows"));
  EXPECT_THAT(Plan({"--points", "5", "--rows", "5"}).err, HasSubstr("--features"));
  EXPECT_THAT(Plan({"--data", "nowhere.txt"}).err, HasSubstr("nowhere.txt"));
  EXPECT_THAT(Plan({"--data", "nowhere.txt", "--rows", "5"}).err, HasSubstr("leave them out"));
  EXPECT_THAT(Plan({"--features", "5"}).err, HasSubstr("--rows"));
  EXPECT_THAT(Plan({"--rows", "5"}).err, HasSubstr("--features"));
  const std::vector<std::string> sizes = {"--rows", "5000", "--features", "5"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), sizes.begin(), sizes.end());
    const PlanOutcome outcome = Plan(more);
    EXPECT_EQ(outcome.code, kExitUsage);
    EXPECT_THAT(outcome.out, IsEmpty());
    return outcome.err;
  };
  EXPECT_THAT(with({"--link", "fast"}), HasSubstr("--link fast"));
  EXPECT_THAT(with({"--link", "0gbit"}), HasSubstr("--link"));
  EXPECT_THAT(with({"--memory", "much"}), HasSubstr("--memory"));
  EXPECT_THAT(with({"--shards", "0"}), HasSubstr("--shards"));
  EXPECT_THAT(with({"--precision", "f16"}), HasSubstr("--precision"));
  EXPECT_THAT(with({"--features-per-sample", "-1"}), HasSubstr("--features-per-sample"));
}

}  // namespace
}  // namespace dslide::cli
