#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/protocol/reason_words.h"
#include "core/spec/model_spec_json.h"
#include "core/wire/control_codec.h"
#include "core/wire/model_spec_codec.h"
#include "tests/unit/core/wire/wire_samples.h"

namespace dslide::wire {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::EndsWith;
using ::testing::IsEmpty;
using ::testing::StartsWith;

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
  spec.tables[2].linear = {.cost = 0.5, .passes = 3, .drop_below = 0.25, .refit = true};
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
  drawing.tables[2].head.fixed_bias = true;
  EXPECT_EQ(DecodeModelSpec(Encoded(drawing), true).value(), drawing);
}

// The names of all fields, of nested messages too, that are absent.
void ListAbsent(const google::protobuf::Message& message, std::vector<std::string>& absent) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const google::protobuf::FieldDescriptor* const field = message.GetDescriptor()->field(i);
    if (field->is_repeated()) continue;
    if (!reflection.HasField(message, field)) absent.emplace_back(field->full_name());
    if (field->message_type() != nullptr) ListAbsent(reflection.GetMessage(message, field), absent);
  }
}

TEST(ModelSpecCodecTest, EveryFieldIsWritten) {
  ModelSpec spec;
  for (const TableSpec& table : SampleSpec().tables) spec.tables.push_back(table);
  for (const TableSpec& table : WireRecordSpec().tables) spec.tables.push_back(table);
  const v1::ModelSpec wire = Encoded(spec);
  v1::TableSpec tables;  // what all of them have together
  for (const v1::TableSpec& table : wire.tables()) tables.MergeFrom(table);
  std::vector<std::string> absent;
  ListAbsent(wire, absent);
  ListAbsent(tables, absent);
  EXPECT_THAT(absent, IsEmpty());
}

TEST(ModelSpecCodecTest, AbsentFieldsTakeTheDefaults) {
  v1::ModelSpec wire;
  wire.set_name("m");
  wire.add_tables()->set_name("a");
  wire.mutable_tables(0)->set_rows(3);
  wire.mutable_tables(0)->set_dim(4);
  *wire.add_tables() = wire.tables(0);
  wire.mutable_tables(1)->set_name("b");
  wire.mutable_tables(1)->set_role("head");
  wire.mutable_tables(1)->mutable_head()->set_max_active(0);
  wire.mutable_tables(1)->mutable_optimizer()->set_beta1(0);
  const auto decoded = DecodeModelSpec(wire, true);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  ModelSpec expected;
  expected.name = "m";
  expected.tables.resize(2);
  expected.tables[0].name = "a";
  expected.tables[0].rows = 3;
  expected.tables[0].dim = 4;
  expected.tables[1] = expected.tables[0];
  expected.tables[1].name = "b";
  expected.tables[1].role = TableRole::kHead;
  expected.tables[1].head.max_active = 0;  // there, and 0
  expected.tables[1].optimizer.beta1 = 0;
  EXPECT_EQ(*decoded, expected);
}

TEST(ModelSpecCodecTest, ShippedSpecsAreReadAsTheyStand) {
  int64_t specs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(DSLIDE_SOURCE_DIR "/docs/models")) {
    if (entry.path().extension() != ".json") continue;
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    v1::ModelSpec wire;
    const auto parsed = google::protobuf::util::JsonStringToMessage(text, &wire);
    ASSERT_TRUE(parsed.ok()) << entry.path() << ": " << parsed.ToString();
    const auto decoded = DecodeModelSpec(wire, /*sizes_known=*/false);
    ASSERT_TRUE(decoded.ok()) << entry.path() << ": " << decoded.status();
    EXPECT_EQ(*decoded, ModelSpecFromJson(text, "file").value()) << entry.path();
    ++specs;
  }
  EXPECT_GE(specs, 6);
}

TEST(ModelSpecCodecTest, UnknownWordsAreRefusedByName) {
  using Spoil = void (*)(v1::ModelSpec&);
  const std::vector<std::pair<const char*, Spoil>> cases = {
      {"tables[0].role", [](auto& s) { s.mutable_tables(0)->set_role("zebra"); }},
      {"tables[0].init.kind",
       [](auto& s) { s.mutable_tables(0)->mutable_init()->set_kind("zebra"); }},
      {"tables[1].optimizer.kind",
       [](auto& s) { s.mutable_tables(1)->mutable_optimizer()->set_kind("zebra"); }},
      {"tables[0].optimizer.schedule.kind",
       [](auto& s) {
         s.mutable_tables(0)->mutable_optimizer()->mutable_schedule()->set_kind("zebra");
       }},
      {"tables[1].precision", [](auto& s) { s.mutable_tables(1)->set_precision("zebra"); }},
      {"tables[2].head.loss",
       [](auto& s) { s.mutable_tables(2)->mutable_head()->set_loss("zebra"); }},
      {"tables[2].head.hash.family",
       [](auto& s) { s.mutable_tables(2)->mutable_head()->mutable_hash()->set_family("zebra"); }},
      {"activations", [](auto& s) { s.set_activations("zebra"); }},
      {"training.transform", [](auto& s) { s.mutable_training()->set_transform("zebra"); }},
  };
  for (const auto& [field, spoil] : cases) {
    v1::ModelSpec wire = Encoded(SampleSpec());
    spoil(wire);
    const auto decoded = DecodeModelSpec(wire, true);
    EXPECT_EQ(ReasonOf(decoded.status()), reason::kBadEnum) << field;
    EXPECT_THAT(std::string(decoded.status().message()),
                AllOf(StartsWith(std::string(field) + ": expected one of \""),
                      EndsWith(", found \"zebra\"")));
  }
  v1::ModelSpec wire = Encoded(SampleSpec());
  wire.set_activations("");
  EXPECT_EQ(DecodeModelSpec(wire, true).status().message(),
            "activations: expected one of \"f32\", \"bf16\", found \"\"");
  wire.set_activations(std::string(5000, 'x'));
  EXPECT_LT(DecodeModelSpec(wire, true).status().message().size(), 200u);
}

// What one form of a spec refuses, the other one refuses in the same words.
TEST(ModelSpecCodecTest, BothFormsRefuseTheSame) {
  for (const char* table :
       {R"("role": "heed")", R"("optimizer": {"schedule": {"kind": "Linear"}})", R"("head": {})",
        R"("role": "dense", "bias_row": false)", R"("role": "linear", "trees": {"depth": 0})",
        R"("role": "memory", "dim": 4)", R"("role": "fusion", "precision": "f32")",
        R"("role": "memory", "memory": {"search": "best"})", R"("dim": -1)"}) {
    const std::string text =
        absl::StrCat(R"({"name": "m", "tables": [{"name": "t", )", table, "}]}");
    v1::ModelSpec wire;
    ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(text, &wire).ok()) << text;
    const absl::Status refused = DecodeModelSpec(wire, /*sizes_known=*/false).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << text;
    EXPECT_THAT(ReasonOf(refused), AnyOf(reason::kBadEnum, reason::kBadModel)) << text;
    EXPECT_EQ(absl::StrCat("m.json: ", refused.message()),
              ModelSpecFromJson(text, "m.json").status().message());
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
  response.mutable_spec()->set_activations("f8");
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
