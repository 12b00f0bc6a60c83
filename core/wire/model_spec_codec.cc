#include "core/wire/model_spec_codec.h"

#include <array>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/wire/array_codec.h"
#include "core/wire/reason_words.h"

namespace dslide::wire {
namespace {

// The two forms of an enumeration side by side.
template <typename Wire, typename Core, size_t n>
using EnumPairs = std::array<std::pair<Wire, Core>, n>;

constexpr EnumPairs<v1::TableRole, TableRole, 7> kRoles = {{
    {v1::TABLE_ROLE_EMBEDDING, TableRole::kEmbedding},
    {v1::TABLE_ROLE_DENSE, TableRole::kDense},
    {v1::TABLE_ROLE_HEAD, TableRole::kHead},
    {v1::TABLE_ROLE_MEMORY, TableRole::kMemory},
    {v1::TABLE_ROLE_LABEL_TREES, TableRole::kLabelTrees},
    {v1::TABLE_ROLE_LINEAR, TableRole::kLinear},
    {v1::TABLE_ROLE_FUSION, TableRole::kFusion},
}};
constexpr EnumPairs<v1::InitKind, InitKind, 3> kInits = {{
    {v1::INIT_KIND_ZERO, InitKind::kZero},
    {v1::INIT_KIND_UNIFORM, InitKind::kUniform},
    {v1::INIT_KIND_GAUSSIAN, InitKind::kGaussian},
}};
constexpr EnumPairs<v1::OptimizerKind, OptimizerKind, 4> kOptimizers = {{
    {v1::OPTIMIZER_KIND_SGD, OptimizerKind::kSgd},
    {v1::OPTIMIZER_KIND_ADAGRAD, OptimizerKind::kAdagrad},
    {v1::OPTIMIZER_KIND_ROW_WISE_ADAGRAD, OptimizerKind::kRowWiseAdagrad},
    {v1::OPTIMIZER_KIND_ADAM, OptimizerKind::kAdam},
}};
constexpr EnumPairs<v1::StoragePrecision, RowPrecision, 3> kPrecisions = {{
    {v1::STORAGE_PRECISION_F32, RowPrecision::kF32},
    {v1::STORAGE_PRECISION_BF16_WEIGHTS, RowPrecision::kBf16Weights},
    {v1::STORAGE_PRECISION_BF16, RowPrecision::kBf16},
}};
constexpr EnumPairs<v1::ScheduleKind, ScheduleKind, 3> kSchedules = {{
    {v1::SCHEDULE_KIND_CONSTANT, ScheduleKind::kConstant},
    {v1::SCHEDULE_KIND_LINEAR, ScheduleKind::kLinear},
    {v1::SCHEDULE_KIND_COSINE, ScheduleKind::kCosine},
}};
constexpr EnumPairs<v1::HashFamily, HashFamilyKind, 2> kFamilies = {{
    {v1::HASH_FAMILY_SIMHASH, HashFamilyKind::kSimHash},
    {v1::HASH_FAMILY_DWTA, HashFamilyKind::kDwta},
}};
constexpr EnumPairs<v1::NeighbourSearch, NeighbourSearch, 4> kSearches = {{
    {v1::NEIGHBOUR_SEARCH_UNSPECIFIED, NeighbourSearch::kAuto},
    {v1::NEIGHBOUR_SEARCH_EXACT, NeighbourSearch::kExact},
    {v1::NEIGHBOUR_SEARCH_IMPACT, NeighbourSearch::kImpact},
    {v1::NEIGHBOUR_SEARCH_HASHED, NeighbourSearch::kHashed},
}};
constexpr EnumPairs<v1::HeadLoss, HeadLoss, 2> kLosses = {{
    {v1::HEAD_LOSS_SOFTMAX, HeadLoss::kSoftmax},
    {v1::HEAD_LOSS_SIGMOID, HeadLoss::kSigmoid},
}};
constexpr EnumPairs<v1::InputTransform, InputTransform, 3> kTransforms = {{
    {v1::INPUT_TRANSFORM_RAW, InputTransform::kRaw},
    {v1::INPUT_TRANSFORM_L2, InputTransform::kL2},
    {v1::INPUT_TRANSFORM_TF_IDF, InputTransform::kTfIdf},
}};

template <typename Wire, typename Core, size_t n>
absl::Status DecodeEnum(absl::string_view field, const EnumPairs<Wire, Core, n>& pairs, Wire wire,
                        Core& core) {
  for (const auto& [from, to] : pairs) {
    if (from == wire) {
      core = to;
      return absl::OkStatus();
    }
  }
  return Refusal(reason::kBadEnum, field,
                 absl::StrCat("is ", static_cast<int>(wire),
                              ", which is unspecified or unknown to this version"));
}

template <typename Wire, typename Core, size_t n>
Wire EncodeEnum(const EnumPairs<Wire, Core, n>& pairs, Core core) {
  for (const auto& [to, from] : pairs) {
    if (from == core) return to;
  }
  return Wire();
}

absl::StatusOr<OptimizerSpec> DecodeOptimizer(const std::string& path,
                                              const v1::OptimizerSpec& wire) {
  OptimizerSpec spec;
  RETURN_IF_ERROR(DecodeEnum(path + "kind", kOptimizers, wire.kind(), spec.kind));
  spec.learning_rate = wire.learning_rate();
  spec.beta1 = wire.beta1();
  spec.beta2 = wire.beta2();
  spec.epsilon = wire.epsilon();
  spec.weight_decay = wire.weight_decay();
  spec.average_decay = wire.average_decay();
  if (!wire.has_schedule()) return spec;
  const v1::ScheduleSpec& schedule = wire.schedule();
  RETURN_IF_ERROR(
      DecodeEnum(path + "schedule.kind", kSchedules, schedule.kind(), spec.schedule.kind));
  spec.schedule.warmup_steps = schedule.warmup_steps();
  spec.schedule.decay_steps = schedule.decay_steps();
  spec.schedule.final_fraction = schedule.final_fraction();
  return spec;
}

void EncodeOptimizer(const OptimizerSpec& spec, v1::OptimizerSpec* out) {
  out->set_kind(EncodeEnum(kOptimizers, spec.kind));
  out->set_learning_rate(spec.learning_rate);
  out->set_beta1(spec.beta1);
  out->set_beta2(spec.beta2);
  out->set_epsilon(spec.epsilon);
  out->set_weight_decay(spec.weight_decay);
  out->set_average_decay(spec.average_decay);
  v1::ScheduleSpec* schedule = out->mutable_schedule();
  schedule->set_kind(EncodeEnum(kSchedules, spec.schedule.kind));
  schedule->set_warmup_steps(spec.schedule.warmup_steps);
  schedule->set_decay_steps(spec.schedule.decay_steps);
  schedule->set_final_fraction(spec.schedule.final_fraction);
}

absl::StatusOr<HashSpec> DecodeHash(const std::string& path, const v1::HashSpec& wire) {
  HashSpec spec;
  RETURN_IF_ERROR(DecodeEnum(path + "family", kFamilies, wire.family(), spec.family));
  spec.codes_per_table = wire.codes_per_table();
  spec.num_tables = wire.num_tables();
  spec.bin_size = wire.bin_size();
  spec.rebuild_every_steps = wire.rebuild_every_steps();
  spec.bucket_read_cap = wire.bucket_read_cap();
  spec.ranked_per_active = wire.ranked_per_active();
  spec.searched_tables = wire.searched_tables();
  spec.proposed_per_sample = wire.proposed_per_sample();
  spec.center = wire.center();
  spec.norm_coordinate = wire.norm_coordinate();
  spec.norm_quantile = wire.norm_quantile();
  spec.seed = wire.seed();
  return spec;
}

void EncodeHash(const HashSpec& spec, v1::HashSpec* out) {
  out->set_family(EncodeEnum(kFamilies, spec.family));
  out->set_codes_per_table(spec.codes_per_table);
  out->set_num_tables(spec.num_tables);
  out->set_bin_size(spec.bin_size);
  out->set_rebuild_every_steps(spec.rebuild_every_steps);
  out->set_bucket_read_cap(spec.bucket_read_cap);
  out->set_ranked_per_active(spec.ranked_per_active);
  out->set_searched_tables(spec.searched_tables);
  out->set_proposed_per_sample(spec.proposed_per_sample);
  out->set_center(spec.center);
  out->set_norm_coordinate(spec.norm_coordinate);
  out->set_norm_quantile(spec.norm_quantile);
  out->set_seed(spec.seed);
}

absl::StatusOr<HeadSpec> DecodeHead(const std::string& path, const v1::HeadSpec& wire) {
  HeadSpec spec;
  RETURN_IF_ERROR(DecodeEnum(path + "loss", kLosses, wire.loss(), spec.loss));
  spec.max_active = wire.max_active();
  spec.tail_rows = wire.tail_rows();
  spec.sampled_candidates = wire.sampled_candidates();
  spec.recall_samples = wire.recall_samples();
  spec.recall_every_steps = wire.recall_every_steps();
  if (wire.has_hash()) {
    ASSIGN_OR_RETURN(spec.hash, DecodeHash(path + "hash.", wire.hash()));
  }
  return spec;
}

void EncodeHead(const HeadSpec& spec, v1::HeadSpec* out) {
  out->set_loss(EncodeEnum(kLosses, spec.loss));
  out->set_max_active(spec.max_active);
  out->set_tail_rows(spec.tail_rows);
  out->set_sampled_candidates(spec.sampled_candidates);
  out->set_recall_samples(spec.recall_samples);
  out->set_recall_every_steps(spec.recall_every_steps);
  EncodeHash(spec.hash, out->mutable_hash());
}

// What tables of floats have and tables of records have not.
absl::Status DecodeFloats(const std::string& path, const v1::TableSpec& wire, TableSpec& spec) {
  spec.dim = wire.dim();
  spec.bias_row = wire.bias_row();
  if (wire.has_init()) {
    RETURN_IF_ERROR(DecodeEnum(path + "init.kind", kInits, wire.init().kind(), spec.init.kind));
    spec.init.scale = wire.init().scale();
  }
  if (wire.has_optimizer()) {
    ASSIGN_OR_RETURN(spec.optimizer, DecodeOptimizer(path + "optimizer.", wire.optimizer()));
  }
  // Absent from clients that were made before there was a choice.
  if (wire.precision() != v1::STORAGE_PRECISION_UNSPECIFIED) {
    RETURN_IF_ERROR(DecodeEnum(path + "precision", kPrecisions, wire.precision(), spec.precision));
  }
  return absl::OkStatus();
}

absl::Status DecodeRecordSettings(const std::string& path, const v1::TableSpec& wire,
                                  TableSpec& spec) {
  if (wire.has_memory()) {
    RETURN_IF_ERROR(
        DecodeEnum(path + "memory.search", kSearches, wire.memory().search(), spec.memory.search));
    spec.memory.neighbours = wire.memory().neighbours();
    spec.memory.similarity_power = wire.memory().similarity_power();
    spec.memory.candidates = wire.memory().candidates();
    spec.memory.labels = wire.memory().labels();
  }
  if (wire.has_trees()) {
    spec.trees.trees = wire.trees().trees();
    spec.trees.leaf_labels = wire.trees().leaf_labels();
    spec.trees.depth = wire.trees().depth();
    spec.trees.level_step = wire.trees().level_step();
  }
  if (wire.has_linear()) {
    spec.linear.cost = wire.linear().cost();
    spec.linear.passes = wire.linear().passes();
    spec.linear.drop_below = wire.linear().drop_below();
  }
  return absl::OkStatus();
}

void EncodeRecordSettings(const TableSpec& spec, v1::TableSpec* out) {
  if (spec.role == TableRole::kMemory) {
    out->mutable_memory()->set_neighbours(spec.memory.neighbours);
    out->mutable_memory()->set_similarity_power(spec.memory.similarity_power);
    out->mutable_memory()->set_candidates(spec.memory.candidates);
    out->mutable_memory()->set_labels(spec.memory.labels);
    out->mutable_memory()->set_search(EncodeEnum(kSearches, spec.memory.search));
  }
  if (spec.role == TableRole::kLabelTrees) {
    out->mutable_trees()->set_trees(spec.trees.trees);
    out->mutable_trees()->set_leaf_labels(spec.trees.leaf_labels);
    out->mutable_trees()->set_depth(spec.trees.depth);
    out->mutable_trees()->set_level_step(spec.trees.level_step);
  }
  if (spec.role == TableRole::kLinear) {
    out->mutable_linear()->set_cost(spec.linear.cost);
    out->mutable_linear()->set_passes(spec.linear.passes);
    out->mutable_linear()->set_drop_below(spec.linear.drop_below);
  }
}

absl::StatusOr<TableSpec> DecodeTable(const std::string& path, const v1::TableSpec& wire) {
  TableSpec spec;
  spec.name = wire.name();
  RETURN_IF_ERROR(DecodeEnum(path + "role", kRoles, wire.role(), spec.role));
  spec.rows = wire.rows();
  spec.num_slots = wire.num_slots();
  if (!IsRecordRole(spec.role)) RETURN_IF_ERROR(DecodeFloats(path, wire, spec));
  if (wire.has_head()) {
    ASSIGN_OR_RETURN(spec.head, DecodeHead(path + "head.", wire.head()));
  }
  RETURN_IF_ERROR(DecodeRecordSettings(path, wire, spec));
  return spec;
}

void EncodeTable(const TableSpec& spec, v1::TableSpec* out) {
  out->set_name(spec.name);
  out->set_role(EncodeEnum(kRoles, spec.role));
  out->set_rows(spec.rows);
  out->set_num_slots(spec.num_slots);
  if (IsRecordRole(spec.role)) return EncodeRecordSettings(spec, out);
  out->set_dim(spec.dim);
  out->set_bias_row(spec.bias_row);
  out->mutable_init()->set_kind(EncodeEnum(kInits, spec.init.kind));
  out->mutable_init()->set_scale(spec.init.scale);
  EncodeOptimizer(spec.optimizer, out->mutable_optimizer());
  out->set_precision(EncodeEnum(kPrecisions, spec.precision));
  if (spec.role == TableRole::kHead) EncodeHead(spec.head, out->mutable_head());
}

absl::StatusOr<TrainingSpec> DecodeTraining(const v1::TrainingSpec& wire) {
  TrainingSpec spec;
  RETURN_IF_ERROR(DecodeEnum("training.transform", kTransforms, wire.transform(), spec.transform));
  spec.input_dropout = wire.input_dropout();
  spec.hidden_dropout = wire.hidden_dropout();
  spec.batch_size = wire.batch_size();
  spec.in_flight_steps = wire.in_flight_steps();
  spec.max_epochs = wire.max_epochs();
  spec.chunk_samples = wire.chunk_samples();
  spec.validation_fraction = wire.validation_fraction();
  spec.validation_max_samples = wire.validation_max_samples();
  spec.patience_epochs = wire.patience_epochs();
  spec.propensity_strength = wire.propensity_strength();
  return spec;
}

void EncodeTraining(const TrainingSpec& spec, v1::TrainingSpec* out) {
  out->set_transform(EncodeEnum(kTransforms, spec.transform));
  out->set_input_dropout(spec.input_dropout);
  out->set_hidden_dropout(spec.hidden_dropout);
  out->set_batch_size(spec.batch_size);
  out->set_in_flight_steps(spec.in_flight_steps);
  out->set_max_epochs(spec.max_epochs);
  out->set_chunk_samples(spec.chunk_samples);
  out->set_validation_fraction(spec.validation_fraction);
  out->set_validation_max_samples(spec.validation_max_samples);
  out->set_patience_epochs(spec.patience_epochs);
  out->set_propensity_strength(spec.propensity_strength);
}

}  // namespace

absl::StatusOr<ModelSpec> DecodeModelSpec(const v1::ModelSpec& wire, bool sizes_known) {
  ModelSpec spec;
  spec.name = wire.name();
  spec.seed = wire.seed();
  if (wire.tables_size() > kMaxModelTables) {
    return Refusal(
        reason::kOverLimit, "tables",
        absl::StrCat("has ", wire.tables_size(), " entries, may have ", kMaxModelTables));
  }
  for (int i = 0; i < wire.tables_size(); ++i) {
    ASSIGN_OR_RETURN(TableSpec table,
                     DecodeTable(absl::StrCat("tables[", i, "]."), wire.tables(i)));
    spec.tables.push_back(std::move(table));
  }
  ASSIGN_OR_RETURN(spec.activations, DecodeElementType("activations", wire.activations()));
  spec.magnitude_bound = wire.magnitude_bound();
  if (wire.has_training()) {
    ASSIGN_OR_RETURN(spec.training, DecodeTraining(wire.training()));
  }
  if (const absl::Status valid = spec.Validate(sizes_known); !valid.ok()) {
    return StatusWithReason(absl::StatusCode::kInvalidArgument, reason::kBadModel, valid.message());
  }
  return spec;
}

void EncodeModelSpec(const ModelSpec& spec, v1::ModelSpec* out) {
  out->set_name(spec.name);
  out->set_seed(spec.seed);
  out->clear_tables();
  for (const TableSpec& table : spec.tables) EncodeTable(table, out->add_tables());
  out->set_activations(EncodeElementType(spec.activations));
  out->set_magnitude_bound(spec.magnitude_bound);
  EncodeTraining(spec.training, out->mutable_training());
}

}  // namespace dslide::wire
