#include "core/model/model_spec_json.h"

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/model/json_archive.h"

namespace dslide {
namespace {

template <typename Archive>
void VisitInit(Archive& archive, InitSpec& init) {
  archive.Word("kind", init.kind,
               JsonWords<InitKind>{{"zero", InitKind::kZero},
                                   {"uniform", InitKind::kUniform},
                                   {"gaussian", InitKind::kGaussian}});
  archive.Field("scale", init.scale);
}

template <typename Archive>
void VisitSchedule(Archive& archive, ScheduleSpec& schedule) {
  archive.Word("kind", schedule.kind,
               JsonWords<ScheduleKind>{{"constant", ScheduleKind::kConstant},
                                       {"linear", ScheduleKind::kLinear},
                                       {"cosine", ScheduleKind::kCosine}});
  archive.Field("warmup_steps", schedule.warmup_steps);
  archive.Field("decay_steps", schedule.decay_steps);
  archive.Field("final_fraction", schedule.final_fraction);
}

template <typename Archive>
void VisitOptimizer(Archive& archive, OptimizerSpec& optimizer) {
  archive.Word("kind", optimizer.kind,
               JsonWords<OptimizerKind>{{"sgd", OptimizerKind::kSgd},
                                        {"adagrad", OptimizerKind::kAdagrad},
                                        {"row_wise_adagrad", OptimizerKind::kRowWiseAdagrad},
                                        {"adam", OptimizerKind::kAdam}});
  archive.Field("learning_rate", optimizer.learning_rate);
  archive.Field("beta1", optimizer.beta1);
  archive.Field("beta2", optimizer.beta2);
  archive.Field("epsilon", optimizer.epsilon);
  archive.Field("weight_decay", optimizer.weight_decay);
  archive.LaterField("average_decay", optimizer.average_decay);
  archive.Object("schedule", [&](auto& nested) { VisitSchedule(nested, optimizer.schedule); });
}

template <typename Archive>
void VisitHash(Archive& archive, HashSpec& hash) {
  archive.Word("family", hash.family,
               JsonWords<HashFamilyKind>{{"simhash", HashFamilyKind::kSimHash},
                                         {"dwta", HashFamilyKind::kDwta}});
  archive.Field("codes_per_table", hash.codes_per_table);
  archive.Field("num_tables", hash.num_tables);
  archive.Field("bin_size", hash.bin_size);
  archive.Field("rebuild_every_steps", hash.rebuild_every_steps);
  archive.Field("bucket_read_cap", hash.bucket_read_cap);
  archive.LaterField("ranked_per_active", hash.ranked_per_active);
  archive.LaterField("searched_tables", hash.searched_tables);
  archive.LaterField("proposed_per_sample", hash.proposed_per_sample);
  archive.Field("center", hash.center);
  archive.Field("norm_coordinate", hash.norm_coordinate);
  archive.Field("norm_quantile", hash.norm_quantile);
  archive.Field("seed", hash.seed);
}

template <typename Archive>
void VisitHead(Archive& archive, HeadSpec& head) {
  archive.Word(
      "loss", head.loss,
      JsonWords<HeadLoss>{{"softmax", HeadLoss::kSoftmax}, {"sigmoid", HeadLoss::kSigmoid}});
  archive.Field("max_active", head.max_active);
  archive.Field("tail_rows", head.tail_rows);
  archive.LaterField("sampled_candidates", head.sampled_candidates);
  archive.Object("hash", [&](auto& nested) { VisitHash(nested, head.hash); });
  archive.Field("recall_samples", head.recall_samples);
  archive.Field("recall_every_steps", head.recall_every_steps);
}

template <typename Archive>
void VisitMemory(Archive& archive, MemorySpec& memory) {
  archive.Field("neighbours", memory.neighbours);
  archive.Field("similarity_power", memory.similarity_power);
  archive.Field("candidates", memory.candidates);
  archive.Field("labels", memory.labels);
  archive.LaterWord("search", memory.search,
                    JsonWords<NeighbourSearch>{{"auto", NeighbourSearch::kAuto},
                                               {"exact", NeighbourSearch::kExact},
                                               {"impact", NeighbourSearch::kImpact},
                                               {"hashed", NeighbourSearch::kHashed}});
}

template <typename Archive>
void VisitTrees(Archive& archive, LabelTreesSpec& trees) {
  archive.Field("trees", trees.trees);
  archive.Field("leaf_labels", trees.leaf_labels);
  archive.Field("level_step", trees.level_step);
  archive.Field("depth", trees.depth);
}

template <typename Archive>
void VisitLinear(Archive& archive, LinearSpec& linear) {
  archive.Field("cost", linear.cost);
  archive.Field("passes", linear.passes);
  archive.Field("drop_below", linear.drop_below);
}

// What tables of floats have and tables of records have not.
template <typename Archive>
void VisitFloats(Archive& archive, TableSpec& table) {
  archive.Object("init", [&](auto& nested) { VisitInit(nested, table.init); });
  archive.Object("optimizer", [&](auto& nested) { VisitOptimizer(nested, table.optimizer); });
  archive.Word("precision", table.precision,
               JsonWords<RowPrecision>{{"f32", RowPrecision::kF32},
                                       {"bf16_weights", RowPrecision::kBf16Weights},
                                       {"bf16", RowPrecision::kBf16}});
}

// The settings that one role alone has.
template <typename Archive, typename Visit>
void VisitSettings(Archive& archive, const char* name, TableRole table, TableRole role,
                   const Visit& visit) {
  if (table == role) return archive.Object(name, visit);
  archive.Forbid(name,
                 absl::StrCat("only a table of the role \"", RoleName(role), "\" has this field"));
}

template <typename Archive>
void VisitTable(Archive& archive, TableSpec& table) {
  archive.Field("name", table.name);
  archive.Word("role", table.role,
               JsonWords<TableRole>{{"embedding", TableRole::kEmbedding},
                                    {"dense", TableRole::kDense},
                                    {"head", TableRole::kHead},
                                    {"memory", TableRole::kMemory},
                                    {"label_trees", TableRole::kLabelTrees},
                                    {"linear", TableRole::kLinear},
                                    {"fusion", TableRole::kFusion}});
  const bool has_floats = !IsRecordRole(table.role);
  archive.Field("rows", table.rows);
  if (has_floats) archive.Field("dim", table.dim);
  if (table.role == TableRole::kEmbedding) {
    archive.Field("bias_row", table.bias_row);
  } else {
    archive.Forbid("bias_row", "only a table of the role \"embedding\" has this field");
  }
  archive.Field("num_slots", table.num_slots);
  if (has_floats) VisitFloats(archive, table);
  for (const char* field : {"dim", "init", "optimizer", "precision"}) {
    if (!has_floats) archive.Forbid(field, "a table of records has none");
  }
  const TableRole role = table.role;
  VisitSettings(archive, "head", role, TableRole::kHead,
                [&](auto& nested) { VisitHead(nested, table.head); });
  VisitSettings(archive, "memory", role, TableRole::kMemory,
                [&](auto& nested) { VisitMemory(nested, table.memory); });
  VisitSettings(archive, "trees", role, TableRole::kLabelTrees,
                [&](auto& nested) { VisitTrees(nested, table.trees); });
  VisitSettings(archive, "linear", role, TableRole::kLinear,
                [&](auto& nested) { VisitLinear(nested, table.linear); });
}

template <typename Archive>
void VisitTraining(Archive& archive, TrainingSpec& training) {
  archive.Word("transform", training.transform,
               JsonWords<InputTransform>{{"raw", InputTransform::kRaw},
                                         {"l2", InputTransform::kL2},
                                         {"tf_idf", InputTransform::kTfIdf}});
  archive.Field("input_dropout", training.input_dropout);
  archive.Field("hidden_dropout", training.hidden_dropout);
  archive.Field("batch_size", training.batch_size);
  archive.Field("in_flight_steps", training.in_flight_steps);
  archive.Field("max_epochs", training.max_epochs);
  archive.Field("chunk_samples", training.chunk_samples);
  archive.Field("validation_fraction", training.validation_fraction);
  archive.Field("validation_max_samples", training.validation_max_samples);
  archive.Field("patience_epochs", training.patience_epochs);
  archive.LaterField("propensity_strength", training.propensity_strength);
}

template <typename Archive>
void VisitModel(Archive& archive, ModelSpec& spec) {
  archive.Field("name", spec.name);
  archive.Field("seed", spec.seed);
  archive.Objects("tables", spec.tables,
                  [](auto& nested, TableSpec& table) { VisitTable(nested, table); });
  archive.Word(
      "activations", spec.activations,
      JsonWords<ActivationType>{{"f32", ActivationType::kF32}, {"bf16", ActivationType::kBf16}});
  archive.Field("magnitude_bound", spec.magnitude_bound);
  archive.Object("training", [&](auto& nested) { VisitTraining(nested, spec.training); });
}

absl::StatusOr<ModelSpec> Parse(absl::string_view text) {
  Json document;
  RETURN_IF_ERROR(ParseJson(text, document));
  ModelSpec spec;
  absl::Status status;
  JsonReader reader(document, "", &status);
  VisitModel(reader, spec);
  reader.Finish();
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(spec.Validate(/*sizes_known=*/false));
  return spec;
}

}  // namespace

absl::StatusOr<ModelSpec> ModelSpecFromJson(absl::string_view text, absl::string_view origin) {
  absl::StatusOr<ModelSpec> spec = Parse(text);
  if (spec.ok()) return spec;
  return absl::Status(spec.status().code(), absl::StrCat(origin, ": ", spec.status().message()));
}

std::string ModelSpecToJson(const ModelSpec& spec) {
  ModelSpec copy = spec;  // the visitors fill or read through one reference type
  Json document;
  JsonWriter writer(&document);
  VisitModel(writer, copy);
  return document.dump(2) + "\n";
}

}  // namespace dslide
