#include "client/cli/train/spec_options.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/console/global_options.h"
#include "client/cli/console/text_file.h"
#include "client/cli/train/default_spec.h"
#include "client/components/component_spec.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/engine/data/dataset_info.h"
#include "core/protocol/reason_words.h"
#include "core/spec/model_spec_json.h"
#include "core/spec/table_rows.h"

namespace dslide::cli {
namespace {

template <typename T>
void Override(const std::optional<T>& flag, T& field) {
  if (flag.has_value()) field = *flag;
}

absl::StatusOr<ModelSpec> ReadSpec(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadTextFile(path);
  if (!text.ok()) return absl::NotFoundError(absl::StrCat("--model ", text.status().message()));
  return ModelSpecFromJson(*text, path);
}

void SetOptimizer(const SpecOptions& options, OptimizerSpec& optimizer) {
  Override(options.learning_rate, optimizer.learning_rate);
  Override(options.weight_decay, optimizer.weight_decay);
  if (!options.optimizer.has_value()) return;
  optimizer.kind = *options.optimizer == "sgd"                ? OptimizerKind::kSgd
                   : *options.optimizer == "adagrad"          ? OptimizerKind::kAdagrad
                   : *options.optimizer == "row-wise-adagrad" ? OptimizerKind::kRowWiseAdagrad
                                                              : OptimizerKind::kAdam;
}

void ApplyFlags(const SpecOptions& options, ModelSpec& spec) {
  Override(options.seed, spec.seed);
  Override(options.name, spec.name);
  if (options.activations.has_value()) {
    spec.activations =
        *options.activations == "bf16" ? ActivationType::kBf16 : ActivationType::kF32;
  }
  TrainingSpec& training = spec.training;
  Override(options.order_seed, training.order_seed);
  Override(options.epochs, training.max_epochs);
  Override(options.batch_size, training.batch_size);
  Override(options.in_flight, training.in_flight_steps);
  Override(options.patience, training.patience_epochs);
  Override(options.validation_fraction, training.validation_fraction);
  Override(options.input_dropout, training.input_dropout);
  Override(options.hidden_dropout, training.hidden_dropout);
  if (options.transform.has_value()) {
    training.transform = *options.transform == "raw"  ? InputTransform::kRaw
                         : *options.transform == "l2" ? InputTransform::kL2
                                                      : InputTransform::kTfIdf;
  }
  for (TableSpec& table : spec.tables) {
    if (IsRecordRole(table.role)) continue;
    SetOptimizer(options, table.optimizer);
    if (options.precision.has_value()) {
      table.precision = *options.precision == "bf16"           ? RowPrecision::kBf16
                        : *options.precision == "bf16_weights" ? RowPrecision::kBf16Weights
                                                               : RowPrecision::kF32;
    }
    if (table.role == TableRole::kEmbedding || table.role == TableRole::kHead) {
      // With dense layers between them the two widths are different things: the flag sets the
      // embedding's, and Validate() says so when a layer does not fit.
      if (spec.tables.size() == 2 || table.role == TableRole::kEmbedding) {
        Override(options.dim, table.dim);
      }
    }
    if (table.role != TableRole::kHead) continue;
    Override(options.max_active, table.head.max_active);
    Override(options.tail_rows, table.head.tail_rows);
    Override(options.tables, table.head.hash.num_tables);
    Override(options.codes, table.head.hash.codes_per_table);
    Override(options.rebuild_every, table.head.hash.rebuild_every_steps);
  }
}

// What a table has to be large enough for.
struct DataRows {
  int64_t rows = 0;
  int64_t headroom = 0;
  std::string what;  // "4,000 labels"
  const std::string& path;
};

// The table of a model that is there already; null for a new one, or for smaller data than it was
// made for, which is other data.
const TableSpec* FindKnown(const SpecOptions& options, const ModelSpec& spec,
                           const TableSpec& table, const DataRows& data) {
  for (const ModelSpec& model : options.known) {
    if (model.name != spec.name) continue;
    const TableSpec* const known = model.FindTable(table.name);
    if (known == nullptr || known->role != table.role) continue;
    if (data.rows >= BaseRows(*known)) return known;
  }
  return nullptr;
}

// Null: none of the models that are there.
const ModelSpec* FindNamed(const SpecOptions& options, const std::string& name) {
  for (const ModelSpec& model : options.known) {
    if (model.name == name) return &model;
  }
  return nullptr;
}

absl::Status FillSize(const SpecOptions& options, const ModelSpec& spec, const DataRows& data,
                      TableSpec& table) {
  const TableSpec* const known = FindKnown(options, spec, table, data);
  if (known != nullptr && (table.rows == 0 || table.rows == known->rows ||
                           table.rows == BaseRows(*known) || table.rows == data.rows)) {
    if (data.rows > known->rows && !options.grow) {
      return StatusWithReason(
          absl::StatusCode::kFailedPrecondition, reason::kModelDiffers,
          absl::StrCat("table \"", table.name, "\" of model \"", spec.name, "\" has ", known->rows,
                       " rows, but ", data.path, " has ", data.what, ", which makes ", data.rows,
                       ": --grow gives it the rows, and so does dslide model grow ", spec.name,
                       " --table ", table.name, " --rows ", data.rows));
    }
    table.rows = data.rows > known->rows ? data.rows + data.headroom : known->rows;
    table.base_rows = table.rows > BaseRows(*known) ? BaseRows(*known) : 0;
    return absl::OkStatus();
  }
  if (table.rows == 0) {
    table.rows = data.rows + data.headroom;
    table.base_rows = data.headroom > 0 ? data.rows : 0;
  }
  if (BaseRows(table) == data.rows) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("table \"", table.name, "\" of the model has ",
                                                 BaseRows(table), " rows, but ", data.path, " has ",
                                                 data.what, ", which makes ", data.rows,
                                                 "; set \"rows\" to 0 to take it from the data"));
}

absl::Status FillSizes(const SpecOptions& options, const Dataset& data, ModelSpec& spec) {
  for (TableSpec& table : spec.tables) {
    if (table.role == TableRole::kEmbedding) {
      RETURN_IF_ERROR(FillSize(options, spec,
                               {.rows = data.num_features() + (table.bias_row ? 1 : 0),
                                .headroom = options.feature_headroom,
                                .what = absl::StrCat(data.num_features(), " features",
                                                     table.bias_row ? " and a bias row" : ""),
                                .path = data.path()},
                               table));
    } else if (table.role == TableRole::kHead) {
      RETURN_IF_ERROR(FillSize(options, spec,
                               {.rows = data.num_labels(),
                                .headroom = options.label_headroom,
                                .what = absl::StrCat(data.num_labels(), " labels"),
                                .path = data.path()},
                               table));
    }
  }
  return absl::OkStatus();
}

// Shards leave out an update that takes a weight beyond the bound. At such a rate that is every
// one, and nothing would be learned.
absl::Status CheckRates(const ModelSpec& spec) {
  for (const TableSpec& table : spec.tables) {
    if (IsRecordRole(table.role) || table.optimizer.learning_rate < spec.magnitude_bound) continue;
    return StatusWithReason(
        absl::StatusCode::kInvalidArgument, reason::kOverMagnitude,
        absl::StrCat("the learning rate of table \"", table.name, "\" is ",
                     table.optimizer.learning_rate, ", and no weight may pass magnitude_bound, ",
                     spec.magnitude_bound,
                     ": no update would be applied; lower the learning rate"));
  }
  return absl::OkStatus();
}

absl::Status Missing(absl::string_view table, absl::string_view flag) {
  return absl::InvalidArgumentError(absl::StrCat("table \"", table,
                                                 "\" takes its rows from the data: say how many "
                                                 "with ",
                                                 flag, ", or name the data with --data"));
}

// What data of such sizes would get if labels repeat often enough for a network, which is not
// known.
absl::StatusOr<ModelSpec> PlannedComponents(const PlannedSizes& sizes, std::string* explanation) {
  if (!sizes.rows.has_value()) return Missing("labels", "--rows");
  if (!sizes.features.has_value()) return Missing("input", "--features");
  const DataShape shape = {.points = *sizes.points,
                           .features = *sizes.features,
                           .labels = *sizes.rows,
                           .used_labels = *sizes.rows};
  ModelSpec spec = DefaultComponents(shape);
  const bool network = spec.FindRole(TableRole::kHead) != nullptr;
  if (explanation != nullptr) {
    *explanation = absl::StrCat(
        "Without a spec: a memory, label trees and their fusion",
        network ? ", and a network, which training leaves out where labels repeat too seldom" : "",
        ". --data FILE says more.");
  }
  return spec;
}

// The sizes of tables of records. Errors: InvalidArgument naming the flag of a missing one.
absl::Status FillPlannedRecords(const PlannedSizes& sizes, ModelSpec& spec) {
  for (TableSpec& table : spec.tables) {
    if (table.role != TableRole::kMemory) continue;
    if (sizes.points.has_value()) table.rows = *sizes.points;
    if (sizes.rows.has_value()) table.memory.labels = *sizes.rows;
    if (table.rows == 0) return Missing(table.name, "--points");
    if (table.memory.labels == 0) return Missing(table.name, "--rows");
    const ComponentSizes known = {
        .points = table.rows, .labels = table.memory.labels, .used_labels = table.memory.labels};
    return FillComponentSizes(known, nullptr, /*grow=*/false, spec);
  }
  return absl::OkStatus();
}

}  // namespace

void AddSpecOptions(CliCommand app, SpecOptions& options) {
  AddOption(app, "--model", options.model_file,
            "Model spec (JSON, see docs/models); without it one is derived from the data");
  AddOption(app, "--seed", options.seed, "Seed of first weights, order of points and dropout");
  AddOption(app, "--order-seed", options.order_seed,
            "Seed of the order of points and of dropout alone, which a further job of a model may "
            "change; 0: --seed");
  AddOption(app, "--name", options.name, "Name of the model in the cluster");
  AddOption(app, "--epochs", options.epochs, "Epochs at most");
  AddOption(app, "--batch,--batch-size", options.batch_size, "Points of one step");
  AddOption(app, "--in-flight", options.in_flight, "Steps that a trainer keeps moving at once");
  AddOption(app, "--dim", options.dim, "Width of the hidden layer");
  AddOption(app, "--learning-rate", options.learning_rate, "Learning rate of all tables");
  AddOption(app, "--weight-decay", options.weight_decay, "Decoupled weight decay of all tables");
  AddOption(app, "--optimizer", options.optimizer, "Optimizer of all tables")
      .OneOf({"adam", "adagrad", "row-wise-adagrad", "sgd"});
  AddOption(app, "--precision", options.precision,
            "Storage of the rows of all tables: bf16_weights halves the weights, bf16 the "
            "optimizer's state too")
      .OneOf({"f32", "bf16_weights", "bf16"});
  AddOption(app, "--max-active", options.max_active,
            "Active rows of a point at most; 0: all rows, no hashing");
  AddOption(app, "--tail-rows", options.tail_rows,
            "Random rows that a step shares to estimate the rest of the softmax; 0: plain SLIDE");
  AddOption(app, "--tables", options.tables, "Hash tables (L); 0: chosen");
  AddOption(app, "--codes", options.codes, "Codes of a table address (K); 0: from the rows");
  AddOption(app, "--rebuild-every", options.rebuild_every,
            "Steps between builds of the tables; 0: from the rows");
  AddOption(app, "--patience", options.patience,
            "Epochs without a better held-out P@1 before training ends; 0: never");
  AddOption(app, "--validation-fraction", options.validation_fraction,
            "Part of the training points held out to choose the best epoch; 0: none");
  AddOption(app, "--input-dropout", options.input_dropout,
            "Probability that a feature is left out");
  AddOption(app, "--hidden-dropout", options.hidden_dropout,
            "Probability that a hidden unit is left out");
  AddOption(app, "--transform", options.transform, "What happens to the values of a point")
      .OneOf({"raw", "l2", "tf-idf"});
  AddOption(app, "--activations", options.activations,
            "Floats between trainer and shards; bf16 halves the bytes of a step")
      .OneOf({"f32", "bf16"});
}

void AddGrowthOptions(CliCommand app, SpecOptions& options) {
  app.AddSwitch("--grow", options.grow,
                "Give the model, which is there already, the rows that the data needs");
  AddOption(app, "--label-headroom", options.label_headroom,
            "Rows of the head beyond the labels of the data: room for later ones");
  AddOption(app, "--feature-headroom", options.feature_headroom,
            "Rows of the embedding beyond the features of the data");
}

absl::Status CheckGrowthOptions(const SpecOptions& options, bool may_continue) {
  if (options.grow && !may_continue) {
    return absl::InvalidArgumentError(
        "--grow is for a model that is there: give --cluster, or --resume and --model-dir; a new "
        "one has rows for its data, and more with --label-headroom");
  }
  for (const int64_t rows : {options.label_headroom, options.feature_headroom}) {
    if (rows >= 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("headroom of ", rows, " rows: must be at least 0"));
  }
  return absl::OkStatus();
}

bool SpecOptions::wants_network() const {
  return network || epochs || batch_size || in_flight || dim || learning_rate || weight_decay ||
         max_active || tail_rows || label_headroom > 0 || feature_headroom > 0 || tables || codes ||
         rebuild_every || patience || input_dropout || hidden_dropout || activations || optimizer ||
         precision;
}

absl::StatusOr<std::string> ResolveName(const SpecOptions& options) {
  if (options.name.has_value()) return *options.name;
  if (options.model_file.empty()) return DefaultNetwork(0).name;
  ASSIGN_OR_RETURN(ModelSpec spec, ReadSpec(options.model_file));
  return std::move(spec.name);
}

absl::StatusOr<ModelSpec> ResolveSpec(const SpecOptions& options, const Dataset& data,
                                      std::string* explanation) {
  ASSIGN_OR_RETURN(const std::string name, ResolveName(options));
  // What would be chosen for the data of now is not what was chosen for the model's.
  const ModelSpec* const grown = options.grow ? FindNamed(options, name) : nullptr;
  const bool goes_on = grown != nullptr && HasComponents(*grown) && !options.network;
  const bool choose = options.model_file.empty() && !options.base.has_value() && !goes_on &&
                      !options.wants_network();
  ModelSpec spec;
  if (!options.model_file.empty()) {
    ASSIGN_OR_RETURN(spec, ReadSpec(options.model_file));
  } else if (options.base.has_value()) {
    spec = *options.base;
  } else if (goes_on) {
    spec = *grown;
  } else if (!choose) {
    spec = DefaultNetwork(data.num_labels());
  }
  DataShape shape;
  if (choose || HasComponents(spec)) {
    ASSIGN_OR_RETURN(const LabelCounts counts, CountLabels(data, Parallelism{}));
    ASSIGN_OR_RETURN(shape, ShapeOf(data, counts));
  }
  if (choose) {
    spec = DefaultComponents(shape);
    if (explanation != nullptr) *explanation = ExplainComponents(shape, spec);
  }
  ApplyFlags(options, spec);
  RETURN_IF_ERROR(FillSizes(options, data, spec));
  if (HasComponents(spec) && (options.label_headroom > 0 || options.feature_headroom > 0)) {
    return absl::InvalidArgumentError(
        "--label-headroom and --feature-headroom give a network room; a model with tables of "
        "records "
        "needs none and grows when it has to (--grow, dslide model grow): leave them out, or "
        "choose "
        "a network with --model or --dim");
  }
  if (HasComponents(spec)) {
    RETURN_IF_ERROR(FillComponentSizes({.points = data.num_points(),
                                        .labels = data.num_labels(),
                                        .used_labels = shape.used_labels,
                                        .path = data.path()},
                                       FindNamed(options, spec.name), options.grow, spec));
  }
  for (const ModelSpec& known : options.known) {
    const bool fits = known.name == spec.name && known.num_labels() <= spec.num_labels();
    if (fits) spec.retired_labels = known.retired_labels;
  }
  RETURN_IF_ERROR(spec.Validate(/*sizes_known=*/true));
  RETURN_IF_ERROR(CheckRates(spec));
  // A kept model stays what it is when a later version chooses otherwise.
  for (TableSpec& table : spec.tables) {
    if (table.role == TableRole::kHead) table.head = ResolvedHead(table);
  }
  return spec;
}

absl::StatusOr<ModelSpec> ResolveSpec(const SpecOptions& options, const PlannedSizes& sizes,
                                      std::string* explanation) {
  ModelSpec spec = DefaultNetwork(sizes.rows.value_or(kExactHeadRows + 1));
  if (!options.model_file.empty()) {
    ASSIGN_OR_RETURN(spec, ReadSpec(options.model_file));
  } else if (sizes.points.has_value() && !options.wants_network()) {
    ASSIGN_OR_RETURN(spec, PlannedComponents(sizes, explanation));
  }
  ApplyFlags(options, spec);
  if (HasComponents(spec)) RETURN_IF_ERROR(FillPlannedRecords(sizes, spec));
  for (TableSpec& table : spec.tables) {
    if (table.role == TableRole::kDense || IsRecordRole(table.role)) continue;
    const bool embedding = table.role == TableRole::kEmbedding;
    const std::optional<int64_t>& wanted = embedding ? sizes.features : sizes.rows;
    if (wanted.has_value()) {
      table.rows = *wanted + (embedding && table.bias_row ? 1 : 0);
    } else if (table.rows == 0) {
      return Missing(table.name, embedding ? "--features" : "--rows");
    }
  }
  RETURN_IF_ERROR(spec.Validate(/*sizes_known=*/true));
  RETURN_IF_ERROR(CheckRates(spec));
  return spec;
}

}  // namespace dslide::cli
