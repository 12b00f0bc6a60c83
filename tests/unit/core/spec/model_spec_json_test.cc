#include "core/spec/model_spec_json.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/reference/model_samples.h"

namespace dslide {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kSmall[] = R"({
  "name": "small",
  "tables": [
    {"name": "in", "role": "embedding", "dim": 8, "bias_row": true},
    {"name": "out", "role": "head", "dim": 8, "head": {"max_active": 10, "hash": {"family": "dwta"}}}
  ]
})";

// Everything differs from its default.
ModelSpec UnusualSpec() {
  ModelSpec spec;
  spec.name = "unusual-1";
  spec.seed = 0xfedcba9876543210ULL;
  TableSpec input;
  input.name = "in";
  input.rows = 1234567;
  input.dim = 17;
  input.bias_row = true;
  input.num_slots = 99;
  input.init = {InitKind::kUniform, 0.1};
  input.optimizer = {OptimizerKind::kRowWiseAdagrad,        1.0 / 3.0, 0.8, 0.99, 1e-7, 0.01,
                     {ScheduleKind::kCosine, 10, 20, 0.125}};
  TableSpec dense = input;
  dense.name = "mid";
  dense.role = TableRole::kDense;
  dense.rows = 33;
  dense.bias_row = false;
  dense.init.kind = InitKind::kZero;
  dense.optimizer.kind = OptimizerKind::kSgd;
  dense.optimizer.schedule.kind = ScheduleKind::kLinear;
  TableSpec head = dense;
  head.name = "out";
  head.role = TableRole::kHead;
  head.dim = 33;
  head.optimizer.kind = OptimizerKind::kAdagrad;
  head.head.loss = HeadLoss::kSigmoid;
  head.head.max_active = 11;
  head.head.tail_rows = 12;
  head.head.recall_samples = 13;
  head.head.recall_every_steps = 14;
  head.head.hash = {HashFamilyKind::kDwta, 3, 5, 16, 7, 9, 6, 2, 8, false, false, 0.7, 42};
  dense.precision = RowPrecision::kBf16Weights;
  head.precision = RowPrecision::kBf16;
  spec.tables = {input, dense, head};
  spec.activations = ActivationType::kBf16;
  spec.magnitude_bound = 123.456;
  spec.training = {InputTransform::kTfIdf, 0.1, 0.2, 3, 4, 5, 6, 0.3, 7, 8};
  return spec;
}

TableSpec RecordTable(const char* name, TableRole role, int64_t rows, int64_t num_slots) {
  TableSpec table;
  table.name = name;
  table.role = role;
  table.rows = rows;
  table.num_slots = num_slots;
  return table;
}

// Tables of records; no setting has its default.
ModelSpec SpecOfRecords() {
  ModelSpec spec;
  spec.name = "records";
  spec.tables.resize(4);
  spec.tables[0] = RecordTable("memory", TableRole::kMemory, 7, 3);
  spec.tables[0].memory = {.neighbours = 9,
                           .similarity_power = 1.5,
                           .candidates = 11,
                           .labels = 5,
                           .search = NeighbourSearch::kImpact};
  spec.tables[1] = RecordTable("trees", TableRole::kLabelTrees, 5, 9);
  spec.tables[1].trees = {.trees = 4, .leaf_labels = 6, .level_step = 2, .depth = 3};
  spec.tables[2] = RecordTable("linear", TableRole::kLinear, 57, 5);
  spec.tables[2].linear = {.cost = 0.5, .passes = 3, .drop_below = 0.25};
  spec.tables[3] = RecordTable("fusion", TableRole::kFusion, 1, 2);
  return spec;
}

TEST(ModelSpecJsonTest, MissingFieldsTakeTheirDefaults) {
  const auto spec = ModelSpecFromJson(kSmall, "small.json");
  ASSERT_TRUE(spec.ok()) << spec.status();
  ModelSpec expected;
  expected.name = "small";
  expected.tables.resize(2);
  expected.tables[0].name = "in";
  expected.tables[0].dim = 8;
  expected.tables[0].bias_row = true;
  expected.tables[1].name = "out";
  expected.tables[1].role = TableRole::kHead;
  expected.tables[1].dim = 8;
  expected.tables[1].head.max_active = 10;
  expected.tables[1].head.hash.family = HashFamilyKind::kDwta;
  EXPECT_EQ(*spec, expected);
}

TEST(ModelSpecJsonTest, RoundTripIsExact) {
  for (const ModelSpec& spec :
       {UnusualSpec(), *ModelSpecFromJson(kSmall, "x"), reference::MakeSpec({}), SpecOfRecords()}) {
    ASSERT_TRUE(spec.Validate(false).ok()) << spec.Validate(false);
    const std::string text = ModelSpecToJson(spec);
    const auto back = ModelSpecFromJson(text, "round-trip");
    ASSERT_TRUE(back.ok()) << back.status() << "\n" << text;
    EXPECT_EQ(*back, spec) << text;
    EXPECT_EQ(ModelSpecToJson(*back), text);
  }
}

TEST(ModelSpecJsonTest, WritesEveryFieldOfAHead) {
  const std::string text = ModelSpecToJson(UnusualSpec());
  for (const char* field :
       {"seed", "bias_row", "num_slots", "scale", "final_fraction", "weight_decay", "tail_rows",
        "bucket_read_cap", "norm_quantile", "recall_every_steps", "magnitude_bound",
        "patience_epochs", "hidden_dropout"}) {
    EXPECT_THAT(text, HasSubstr(std::string("\"") + field + "\": "));
  }
  EXPECT_THAT(text, HasSubstr("\n  \"name\": \"unusual-1\"")) << "two spaces";
}

// An older version reads what has no use for a newer field.
TEST(ModelSpecJsonTest, WritesALaterFieldOnlyWhereItIsUsed) {
  ModelSpec spec = UnusualSpec();
  HashSpec& hash = spec.tables.back().head.hash;
  hash.ranked_per_active = hash.searched_tables = hash.proposed_per_sample = 0;
  EXPECT_THAT(ModelSpecToJson(spec), Not(HasSubstr("ranked_per_active")));
  EXPECT_THAT(ModelSpecToJson(spec), Not(HasSubstr("searched_tables")));
  EXPECT_THAT(ModelSpecToJson(spec), Not(HasSubstr("proposed_per_sample")));
  hash.ranked_per_active = 5;
  hash.searched_tables = 3;
  hash.proposed_per_sample = 12;
  const std::string text = ModelSpecToJson(spec);
  EXPECT_THAT(text, HasSubstr("\"ranked_per_active\": 5"));
  EXPECT_THAT(text, HasSubstr("\"searched_tables\": 3"));
  EXPECT_THAT(text, HasSubstr("\"proposed_per_sample\": 12"));
  EXPECT_THAT(text, Not(HasSubstr("sampled_candidates")));
  EXPECT_THAT(text, Not(HasSubstr("average_decay")));
  EXPECT_THAT(text, Not(HasSubstr("propensity_strength")));
  const auto back = ModelSpecFromJson(text, "text");
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, spec);
  hash.proposed_per_sample = 0;
  spec.tables.back().head.sampled_candidates = 6;
  EXPECT_THAT(ModelSpecToJson(spec), Not(HasSubstr("fixed_bias")));
  spec.tables.back().head.fixed_bias = true;
  const std::string drawing = ModelSpecToJson(spec);
  EXPECT_THAT(drawing, HasSubstr("\"sampled_candidates\": 6"));
  EXPECT_THAT(drawing, HasSubstr("\"fixed_bias\": true"));
  const auto drawing_back = ModelSpecFromJson(drawing, "text");
  ASSERT_TRUE(drawing_back.ok()) << drawing_back.status();
  EXPECT_EQ(*drawing_back, spec);
  ModelSpec averaging = UnusualSpec();
  averaging.tables[0].optimizer.average_decay = 0.999;
  averaging.tables.back().head.loss = HeadLoss::kSoftmax;
  averaging.training.propensity_strength = 0.5;
  const std::string averages = ModelSpecToJson(averaging);
  EXPECT_THAT(averages, HasSubstr("\"average_decay\": 0.999"));
  EXPECT_THAT(averages, HasSubstr("\"propensity_strength\": 0.5"));
  EXPECT_EQ(*ModelSpecFromJson(averages, "text"), averaging);
}

// Replaces the first `from` in kSmall; returns the error.
std::string ErrorAfter(const std::string& from, const std::string& to) {
  std::string text = kSmall;
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  const auto spec = ModelSpecFromJson(text, "small.json");
  EXPECT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument) << text;
  EXPECT_THAT(std::string(spec.status().message()), testing::StartsWith("small.json: "));
  return std::string(spec.status().message());
}

TEST(ModelSpecJsonTest, ErrorsNameThePathAndTheRemedy) {
  const std::vector<std::pair<std::pair<std::string, std::string>, std::string>> cases = {
      {{"\"max_active\"", "\"max_activ\""},
       "tables[1].head.max_activ: unknown field; did you mean \"max_active\"?"},
      {{"\"max_active\"", "\"zebra\""},
       "tables[1].head.zebra: unknown field; known fields: fixed_bias, hash, loss"},
      {{"\"name\": \"small\"", "\"nam\": \"small\""}, "nam: unknown field; did you mean \"name\"?"},
      {{"\"max_active\": 10", "\"max_active\": \"10\""},
       "tables[1].head.max_active: expected an integer of 64 bits, found \"10\""},
      {{"\"max_active\": 10", "\"max_active\": 10.5"}, "found 10.5"},
      {{"\"max_active\": 10", "\"max_active\": 99999999999999999999"}, "found 1e+20"},
      {{"\"max_active\": 10", "\"max_active\": 18446744073709551615"},
       "found 18446744073709551615"},
      {{"\"max_active\": 10", "\"max_active\": -1"},
       "tables[1].head.max_active is -1, must be in [0, 2147483648]"},
      {{"\"small\"", "7"}, "name: expected a string, found 7"},
      {{"true", "1"}, "tables[0].bias_row: expected true or false, found 1"},
      {{"\"dwta\"", "\"minhash\""},
       "tables[1].head.hash.family: expected one of \"simhash\", \"dwta\", found \"minhash\""},
      {{"{\"family\": \"dwta\"}", "[]"}, "tables[1].head.hash: expected an object, found []"},
      {{"{\"family\": \"dwta\"}", "{\"norm_quantile\": \"x\"}"},
       "tables[1].head.hash.norm_quantile: expected a number, found \"x\""},
      {{"{\"family\": \"dwta\"}", "{\"seed\": -1}"},
       "tables[1].head.hash.seed: expected an integer in [0, 18446744073709551615], found -1"},
      {{"\"bias_row\": true", "\"head\": {}"},
       "tables[0].head: only a table of the role \"head\" has this field"},
      {{"\"role\": \"embedding\"", "\"role\": \"dense\""},
       "tables[0].bias_row: only a table of the role \"embedding\" has this field"},
      {{"\"name\": \"small\",", "\"name\": \"small\", \"name\": \"other\","},
       "the field \"name\" is twice in one object"},
      {{"\"small\",", "\"small\" \"tables\""}, "line 2, column"},
      {{"\"tables\": [", "\"tables\": 3, \"seed\": ["},
       "seed: expected an integer in [0, 18446744073709551615], found [{"},
      {{"{\"name\": \"in\"", "3, {\"name\": \"in\""}, "tables[0]: expected an object, found 3"},
  };
  for (const auto& [change, message] : cases) {
    EXPECT_THAT(ErrorAfter(change.first, change.second), HasSubstr(message)) << change.second;
  }
}

TEST(ModelSpecJsonTest, ATableOfRecordsHasNoFieldsOfFloats) {
  const std::string text = ModelSpecToJson(SpecOfRecords());
  for (const char* field : {"dim", "init", "optimizer", "precision", "bias_row", "head"}) {
    EXPECT_THAT(text, Not(HasSubstr(std::string("\"") + field + "\":")));
  }
  const auto error_with = [](const std::string& fields) {
    return std::string(ModelSpecFromJson(R"({"name": "m", "tables": [{"name": "memory", "role": )"
                                         R"("memory", )" +
                                             fields + "}]}",
                                         "m.json")
                           .status()
                           .message());
  };
  EXPECT_EQ(error_with("\"rows\": 3"), "");
  for (const char* field :
       {"\"dim\": 8", "\"init\": {}", "\"optimizer\": {}", "\"precision\": \"f32\""}) {
    EXPECT_THAT(error_with(field), HasSubstr(": a table of records has none")) << field;
  }
  EXPECT_THAT(error_with("\"head\": {}"),
              HasSubstr("tables[0].head: only a table of the role \"head\" has this field"));
  EXPECT_THAT(error_with("\"trees\": {}"),
              HasSubstr("tables[0].trees: only a table of the role \"label_trees\" has"));
  EXPECT_THAT(error_with("\"memory\": {\"neighbors\": 3}"),
              HasSubstr("tables[0].memory.neighbors: unknown field; did you mean \"neighbours\"?"));
}

TEST(ModelSpecJsonTest, RefusesWhatIsNoObject) {
  for (const char* text : {"", "[]", "3", "{", "null", "\"x\"", "{\"a\":1}}", "\xff\xfe"}) {
    EXPECT_EQ(ModelSpecFromJson(text, "f").status().code(), absl::StatusCode::kInvalidArgument)
        << text;
  }
}

TEST(ModelSpecJsonTest, ShippedSpecsAreGood) {
  int64_t specs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(DSLIDE_SOURCE_DIR "/docs/models")) {
    if (entry.path().extension() != ".json") continue;
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    const auto spec = ModelSpecFromJson(text, entry.path().filename().string());
    EXPECT_TRUE(spec.ok()) << spec.status();
    ++specs;
  }
  EXPECT_GE(specs, 6);
}

}  // namespace
}  // namespace dslide
