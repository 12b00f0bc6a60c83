#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/reason.h"
#include "core/wire/control_codec.h"
#include "core/wire/model_spec_codec.h"
#include "core/wire/reason_words.h"
#include "tests/unit/core/wire/wire_samples.h"

namespace dslide::wire {
namespace {

using ::testing::HasSubstr;

TableSpec SampleInput() {
  TableSpec input;
  input.name = "input";
  input.role = TableRole::kEmbedding;
  input.rows = 101;
  input.dim = 8;
  input.bias_row = true;
  input.num_slots = 16;
  input.init = {.kind = InitKind::kUniform, .scale = 0.5};
  input.optimizer.kind = OptimizerKind::kAdagrad;
  input.optimizer.learning_rate = 0.25;
  input.optimizer.epsilon = 1e-3;
  input.optimizer.weight_decay = 0.01;
  input.optimizer.average_decay = 0.99;
  input.optimizer.schedule = {.kind = ScheduleKind::kCosine,
                              .warmup_steps = 5,
                              .decay_steps = 100,
                              .final_fraction = 0.125};
  return input;
}

TableSpec SampleHidden() {
  TableSpec hidden;
  hidden.name = "hidden";
  hidden.role = TableRole::kDense;
  hidden.rows = 6;
  hidden.dim = 8;
  hidden.num_slots = 4;
  hidden.precision = RowPrecision::kBf16Weights;
  hidden.optimizer.kind = OptimizerKind::kSgd;
  return hidden;
}

TableSpec SampleHead() {
  TableSpec head;
  head.name = "head";
  head.role = TableRole::kHead;
  head.rows = 50;
  head.dim = 6;
  head.num_slots = 16;
  head.init.kind = InitKind::kZero;
  head.precision = RowPrecision::kBf16;
  head.optimizer.beta1 = 0.8;
  head.optimizer.beta2 = 0.95;
  head.head = {.loss = HeadLoss::kSigmoid,
               .max_active = 20,
               .tail_rows = 10,
               .hash = {.family = HashFamilyKind::kDwta,
                        .codes_per_table = 3,
                        .num_tables = 5,
                        .bin_size = 4,
                        .rebuild_every_steps = 9,
                        .bucket_read_cap = 33,
                        .ranked_per_active = 4,
                        .searched_tables = 2,
                        .proposed_per_sample = 7,
                        .center = false,
                        .norm_coordinate = false,
                        .norm_quantile = 0.5,
                        .seed = 99},
               .recall_samples = 2,
               .recall_every_steps = 11};
  return head;
}

// No field has its default.
ModelSpec SampleSpec() {
  ModelSpec spec;
  spec.name = "model-1";
  spec.seed = 0xfeedfacecafebeefULL;
  spec.activations = ActivationType::kBf16;
  spec.magnitude_bound = 123.5;
  spec.training = {.transform = InputTransform::kTfIdf,
                   .input_dropout = 0.1,
                   .hidden_dropout = 0.2,
                   .batch_size = 64,
                   .in_flight_steps = 3,
                   .max_epochs = 7,
                   .chunk_samples = 640,
                   .validation_fraction = 0.01,
                   .validation_max_samples = 77,
                   .patience_epochs = 2};
  spec.tables = {SampleInput(), SampleHidden(), SampleHead()};
  return spec;
}

TableSpec WireRecordTable(const char* name, TableRole role, int64_t rows, int64_t num_slots) {
  TableSpec table;
  table.name = name;
  table.role = role;
  table.rows = rows;
  table.num_slots = num_slots;
  return table;
}

// As SampleSpec(), of records.
ModelSpec WireRecordSpec() {
  ModelSpec spec = SampleSpec();
  spec.tables.assign(4, TableSpec());
  spec.tables[0] = WireRecordTable("memory", TableRole::kMemory, 7, 3);
  spec.tables[0].memory = {.neighbours = 9,
                           .similarity_power = 1.5,
                           .candidates = 11,
                           .labels = 5,
                           .search = NeighbourSearch::kImpact};
  spec.tables[1] = WireRecordTable("trees", TableRole::kLabelTrees, 5, 9);
  spec.tables[1].trees = {.trees = 4, .leaf_labels = 6, .level_step = 2, .depth = 3};
  spec.tables[2] = WireRecordTable("linear", TableRole::kLinear, 57, 5);
  spec.tables[2].linear = {.cost = 0.5, .passes = 3, .drop_below = 0.25};
  spec.tables[3] = WireRecordTable("fusion", TableRole::kFusion, 1, 2);
  return spec;
}

v1::ModelSpec Encoded(const ModelSpec& spec) {
  v1::ModelSpec wire;
  EncodeModelSpec(spec, &wire);
  v1::ModelSpec parsed;
  EXPECT_TRUE(parsed.ParseFromString(wire.SerializeAsString()));
  return parsed;
}

TEST(ModelSpecCodecTest, EveryFieldComesBack) {
  const auto decoded = DecodeModelSpec(Encoded(SampleSpec()), /*sizes_known=*/true);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, SampleSpec());
  const auto records = DecodeModelSpec(Encoded(WireRecordSpec()), /*sizes_known=*/true);
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_EQ(*records, WireRecordSpec());
  // Samples that share candidates draw none.
  ModelSpec drawing = SampleSpec();
  drawing.tables[2].head.hash.proposed_per_sample = 0;
  drawing.tables[2].head.sampled_candidates = 3;
  EXPECT_EQ(DecodeModelSpec(Encoded(drawing), true).value(), drawing);
}

TEST(ModelSpecCodecTest, WhatTablesOfRecordsHaveNotIsIgnored) {
  v1::ModelSpec wire = Encoded(WireRecordSpec());
  for (v1::TableSpec& table : *wire.mutable_tables()) {
    table.set_dim(8);
    table.set_bias_row(true);
    table.mutable_optimizer()->set_learning_rate(-1);
    table.set_precision(v1::STORAGE_PRECISION_BF16);
  }
  const auto decoded = DecodeModelSpec(wire, true);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, WireRecordSpec());
  wire.mutable_tables(0)->mutable_head()->set_loss(v1::HEAD_LOSS_SOFTMAX);
  EXPECT_THAT(std::string(DecodeModelSpec(wire, true).status().message()),
              HasSubstr("tables[0].head is set"));
}

TEST(ModelSpecCodecTest, AbsentMessagesTakeTheDefaults) {
  v1::ModelSpec wire = Encoded(SampleSpec());
  wire.clear_training();
  wire.mutable_tables(0)->clear_optimizer();
  wire.mutable_tables(0)->clear_init();
  wire.mutable_tables(2)->clear_head();
  wire.mutable_tables(2)->clear_precision();
  const auto decoded = DecodeModelSpec(wire, true);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->training, TrainingSpec());
  EXPECT_EQ(decoded->tables[0].optimizer, OptimizerSpec());
  EXPECT_EQ(decoded->tables[0].init, InitSpec());
  EXPECT_EQ(decoded->tables[2].head, HeadSpec());
  EXPECT_EQ(decoded->tables[2].precision, RowPrecision::kF32);
}

TEST(ModelSpecCodecTest, UnspecifiedEnumerationsAreRefusedByName) {
  using Spoil = void (*)(v1::ModelSpec&);
  const std::vector<std::pair<const char*, Spoil>> cases = {
      {"tables[0].role", [](auto& s) { s.mutable_tables(0)->clear_role(); }},
      {"tables[0].init.kind", [](auto& s) { s.mutable_tables(0)->mutable_init()->clear_kind(); }},
      {"tables[1].optimizer.kind",
       [](auto& s) { s.mutable_tables(1)->mutable_optimizer()->clear_kind(); }},
      {"tables[0].optimizer.schedule.kind",
       [](auto& s) { s.mutable_tables(0)->mutable_optimizer()->mutable_schedule()->clear_kind(); }},
      {"tables[2].head.loss", [](auto& s) { s.mutable_tables(2)->mutable_head()->clear_loss(); }},
      {"tables[2].head.hash.family",
       [](auto& s) { s.mutable_tables(2)->mutable_head()->mutable_hash()->clear_family(); }},
      {"activations", [](auto& s) { s.clear_activations(); }},
      {"training.transform", [](auto& s) { s.mutable_training()->clear_transform(); }},
      {"tables[0].role",
       [](auto& s) { s.mutable_tables(0)->set_role(static_cast<v1::TableRole>(77)); }},
      {"tables[1].precision",
       [](auto& s) { s.mutable_tables(1)->set_precision(static_cast<v1::StoragePrecision>(9)); }},
  };
  for (const auto& [field, spoil] : cases) {
    v1::ModelSpec wire = Encoded(SampleSpec());
    spoil(wire);
    const auto decoded = DecodeModelSpec(wire, true);
    EXPECT_EQ(ReasonOf(decoded.status()), reason::kBadEnum) << field;
    EXPECT_THAT(std::string(decoded.status().message()), HasSubstr(field));
  }
}

TEST(ModelSpecCodecTest, InvalidSpecsAreRefused) {
  v1::ModelSpec wire = Encoded(SampleSpec());
  wire.mutable_tables(0)->set_rows(0);
  EXPECT_EQ(ReasonOf(DecodeModelSpec(wire, true).status()), reason::kBadModel);
  EXPECT_TRUE(DecodeModelSpec(wire, false).ok());
  wire = Encoded(SampleSpec());
  for (int i = 0; i < 70; ++i) *wire.add_tables() = wire.tables(0);
  EXPECT_EQ(ReasonOf(DecodeModelSpec(wire, true).status()), reason::kOverLimit);
}

CreateModelCommand SampleCreate() {
  CreateModelCommand command;
  command.spec = SampleSpec();
  command.shard = ShardId(1);
  command.topology_version = 5;
  command.slot_maps = {*SlotMap::Deal(16, {1.0, 2.0}), *SlotMap::Deal(4, {1.0, 2.0})};
  return command;
}

v1::CreateModelRequest EncodedCreate() {
  v1::CreateModelRequest request;
  EncodeCreateModel(SampleCreate(), &request);
  return request;
}

TEST(ControlCodecTest, CreateModelComesBack) {
  const auto decoded = DecodeCreateModel(EncodedCreate());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->spec, SampleSpec());
  EXPECT_EQ(decoded->shard, ShardId(1));
  EXPECT_EQ(decoded->topology_version, 5u);
  EXPECT_EQ(decoded->slot_maps, SampleCreate().slot_maps);
}

TEST(ControlCodecTest, SlotMapsMustBeThoseOfTheTables) {
  v1::CreateModelRequest bad = EncodedCreate();
  bad.mutable_slots()->RemoveLast();
  EXPECT_EQ(ReasonOf(DecodeCreateModel(bad).status()), reason::kMissingField);
  bad = EncodedCreate();
  *bad.add_slots() = bad.slots(0);
  EXPECT_EQ(ReasonOf(DecodeCreateModel(bad).status()), reason::kOutOfRange);
  bad = EncodedCreate();
  bad.mutable_slots(0)->set_num_slots(15);
  EXPECT_EQ(ReasonOf(DecodeCreateModel(bad).status()), reason::kBadSize);
  bad = EncodedCreate();
  bad.mutable_slots(0)->set_num_slots(int64_t{1} << 40);
  EXPECT_EQ(ReasonOf(DecodeCreateModel(bad).status()), reason::kOutOfRange);
  bad = EncodedCreate();
  bad.mutable_slots(0)->set_num_shards(1);  // an owner is beyond it
  EXPECT_EQ(ReasonOf(DecodeCreateModel(bad).status()), reason::kOutOfRange);
  bad = EncodedCreate();
  bad.set_shard_id(2);
  EXPECT_EQ(ReasonOf(DecodeCreateModel(bad).status()), reason::kOutOfRange);
  bad.set_shard_id(-1);
  EXPECT_EQ(ReasonOf(DecodeCreateModel(bad).status()), reason::kOutOfRange);
}

TEST(ControlCodecTest, DescriptionsComeBack) {
  DescribeModelReply reply;
  reply.spec = SampleSpec();
  reply.tables = {{.name = "input",
                   .shard_rows = 51,
                   .applied_steps = 9,
                   .memory_bytes = 1000,
                   .digest = 0xffffffffffffffffULL}};
  v1::DescribeModelResponse response;
  EncodeDescribeModel(reply, &response);
  const auto decoded = DecodeDescribeModel(response);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->spec, reply.spec);
  ASSERT_EQ(decoded->tables.size(), 1u);
  EXPECT_EQ(decoded->tables[0].digest, reply.tables[0].digest);
  EXPECT_EQ(decoded->tables[0].applied_steps, 9);
  response.mutable_spec()->clear_activations();
  EXPECT_TRUE(absl::IsInternal(DecodeDescribeModel(response).status()));
}

TEST(ControlCodecTest, HelloAndByeComeBack) {
  HelloCommand hello;
  hello.job = "j";
  hello.client = SampleEnvelope().client;
  hello.acknowledged_sequence = 17;
  v1::HelloRequest request;
  EncodeHello(hello, &request);
  const auto got = DecodeHello(request);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->client, hello.client);
  EXPECT_EQ(got->acknowledged_sequence, 17u);
  request.set_client_id("x");
  EXPECT_EQ(ReasonOf(DecodeHello(request).status()), reason::kBadClientId);

  v1::HelloResponse response;
  EncodeHello(HelloReply{.generation = 3, .topology_version = 4, .next_sequence = 5}, &response);
  EXPECT_EQ(DecodeHello(response).next_sequence, 5u);
  EXPECT_EQ(DecodeHello(response).generation, 3u);

  v1::CloseClientRequest bye;
  EncodeCloseClient({.job = "j", .client = hello.client}, &bye);
  EXPECT_EQ(DecodeCloseClient(bye)->client, hello.client);
  bye.set_job("");
  EXPECT_EQ(ReasonOf(DecodeCloseClient(bye).status()), reason::kBadName);
}

TEST(ControlCodecTest, DropAndDescribeCheckTheName) {
  v1::DropModelRequest drop;
  drop.set_model("m/../x");
  EXPECT_EQ(ReasonOf(DecodeDropModel(drop).status()), reason::kBadName);
  v1::DescribeModelRequest describe;
  EXPECT_EQ(ReasonOf(DecodeDescribeModel(describe).status()), reason::kBadName);
}

}  // namespace
}  // namespace dslide::wire
