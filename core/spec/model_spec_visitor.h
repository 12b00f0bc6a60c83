// The fields of a model spec, each named once for every form that a spec has: JSON text
// (json_archive.h) and dslide.v1.ModelSpec (core/wire/message_archive.h).
//
// VisitFields(archive, spec) reads or writes the fields of a struct, by what the archive is; those
// that it does not find keep their value. An archive has these functions:
//   Field(name, value)            string, bool, double, int64_t or uint64_t
//   LaterField(name, value)       the same; the form on the disk has it only where it is not 0: a
//                                 version that does not know the field reads what has no use for it
//   Word(name, value, words)      an enumeration as a lower-case word
//   LaterWord(name, value, words) the same; on the disk only where it is not the default
//   Object(name, value)           a struct, by its own VisitFields()
//   Objects(name, vector)         any number of structs
//   Forbid(name, reason)          the field has no meaning here

#pragma once

#include "absl/strings/str_cat.h"
#include "core/spec/enum_words.h"
#include "core/spec/model_spec.h"
#include "core/spec/optimizer_visitor.h"

namespace dslide {

template <typename Archive>
void VisitFields(Archive& archive, InitSpec& init) {
  archive.Word("kind", init.kind,
               EnumWords<InitKind>{{"zero", InitKind::kZero},
                                   {"uniform", InitKind::kUniform},
                                   {"gaussian", InitKind::kGaussian}});
  archive.Field("scale", init.scale);
}

template <typename Archive>
void VisitFields(Archive& archive, HashSpec& hash) {
  archive.Word("family", hash.family,
               EnumWords<HashFamilyKind>{{"simhash", HashFamilyKind::kSimHash},
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
void VisitFields(Archive& archive, HeadSpec& head) {
  archive.Word(
      "loss", head.loss,
      EnumWords<HeadLoss>{{"softmax", HeadLoss::kSoftmax}, {"sigmoid", HeadLoss::kSigmoid}});
  archive.Field("max_active", head.max_active);
  archive.Field("tail_rows", head.tail_rows);
  archive.LaterField("sampled_candidates", head.sampled_candidates);
  archive.Object("hash", head.hash);
  archive.Field("recall_samples", head.recall_samples);
  archive.Field("recall_every_steps", head.recall_every_steps);
  archive.LaterField("fixed_bias", head.fixed_bias);
}

template <typename Archive>
void VisitFields(Archive& archive, MemorySpec& memory) {
  archive.Field("neighbours", memory.neighbours);
  archive.Field("similarity_power", memory.similarity_power);
  archive.Field("candidates", memory.candidates);
  archive.Field("labels", memory.labels);
  archive.LaterField("base_labels", memory.base_labels);
  archive.LaterWord("search", memory.search,
                    EnumWords<NeighbourSearch>{{"auto", NeighbourSearch::kAuto},
                                               {"exact", NeighbourSearch::kExact},
                                               {"impact", NeighbourSearch::kImpact},
                                               {"hashed", NeighbourSearch::kHashed}});
}

template <typename Archive>
void VisitFields(Archive& archive, LabelTreesSpec& trees) {
  archive.Field("trees", trees.trees);
  archive.Field("leaf_labels", trees.leaf_labels);
  archive.Field("level_step", trees.level_step);
  archive.Field("depth", trees.depth);
}

template <typename Archive>
void VisitFields(Archive& archive, LinearSpec& linear) {
  archive.Field("cost", linear.cost);
  archive.Field("passes", linear.passes);
  archive.Field("drop_below", linear.drop_below);
  archive.LaterField("refit", linear.refit);
}

// What a table has if its role is `role`.
template <typename Archive, typename Settings>
void VisitSettings(Archive& archive, const char* name, const TableSpec& table, TableRole role,
                   Settings& settings) {
  if (table.role == role) return archive.Object(name, settings);
  archive.Forbid(name,
                 absl::StrCat("only a table of the role \"", RoleName(role), "\" has this field"));
}

template <typename Archive>
void VisitFields(Archive& archive, TableSpec& table) {
  archive.Field("name", table.name);
  archive.Word("role", table.role,
               EnumWords<TableRole>{{"embedding", TableRole::kEmbedding},
                                    {"dense", TableRole::kDense},
                                    {"head", TableRole::kHead},
                                    {"memory", TableRole::kMemory},
                                    {"label_trees", TableRole::kLabelTrees},
                                    {"linear", TableRole::kLinear},
                                    {"fusion", TableRole::kFusion}});
  const bool has_floats = !IsRecordRole(table.role);
  archive.Field("rows", table.rows);
  archive.LaterField("base_rows", table.base_rows);
  if (has_floats) archive.Field("dim", table.dim);
  if (table.role == TableRole::kEmbedding) {
    archive.Field("bias_row", table.bias_row);
  } else {
    archive.Forbid("bias_row", "only a table of the role \"embedding\" has this field");
  }
  archive.Field("num_slots", table.num_slots);
  if (has_floats) {
    archive.Object("init", table.init);
    archive.Object("optimizer", table.optimizer);
    archive.Word("precision", table.precision,
                 EnumWords<RowPrecision>{{"f32", RowPrecision::kF32},
                                         {"bf16_weights", RowPrecision::kBf16Weights},
                                         {"bf16", RowPrecision::kBf16}});
  }
  for (const char* field : {"dim", "init", "optimizer", "precision"}) {
    if (!has_floats) archive.Forbid(field, "a table of records has none");
  }
  VisitSettings(archive, "head", table, TableRole::kHead, table.head);
  VisitSettings(archive, "memory", table, TableRole::kMemory, table.memory);
  VisitSettings(archive, "trees", table, TableRole::kLabelTrees, table.trees);
  VisitSettings(archive, "linear", table, TableRole::kLinear, table.linear);
}

template <typename Archive>
void VisitFields(Archive& archive, TrainingSpec& training) {
  archive.Word("transform", training.transform,
               EnumWords<InputTransform>{{"raw", InputTransform::kRaw},
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
  archive.LaterField("order_seed", training.order_seed);
}

template <typename Archive>
void VisitFields(Archive& archive, ModelSpec& spec) {
  archive.Field("name", spec.name);
  archive.Field("seed", spec.seed);
  archive.Objects("tables", spec.tables);
  archive.Word(
      "activations", spec.activations,
      EnumWords<ActivationType>{{"f32", ActivationType::kF32}, {"bf16", ActivationType::kBf16}});
  archive.Field("magnitude_bound", spec.magnitude_bound);
  archive.Object("training", spec.training);
  archive.LaterField("retired_labels", spec.retired_labels);
}

}  // namespace dslide
