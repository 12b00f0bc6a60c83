// From flags, a spec file and the data's sizes to a complete model spec.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/engine/data/dataset.h"
#include "core/flags/command_line.h"
#include "core/spec/model_spec.h"

namespace dslide::cli {

// Flags that overrule fields of the spec; unset ones leave them.
struct SpecOptions {
  std::string model_file;  // "": derived from the data
  std::optional<uint64_t> seed;
  std::optional<uint64_t> order_seed;
  std::optional<std::string> name;
  std::optional<int64_t> epochs;
  std::optional<int64_t> batch_size;
  std::optional<int64_t> in_flight;
  std::optional<int64_t> dim;
  std::optional<double> learning_rate;
  std::optional<double> weight_decay;
  std::optional<int64_t> max_active;
  std::optional<int64_t> tail_rows;
  std::optional<int64_t> tables;
  std::optional<int64_t> codes;
  std::optional<int64_t> rebuild_every;
  std::optional<int64_t> patience;
  std::optional<double> validation_fraction;
  std::optional<double> input_dropout;
  std::optional<double> hidden_dropout;
  std::optional<std::string> transform;    // raw, l2, tf-idf
  std::optional<std::string> activations;  // f32, bf16
  std::optional<std::string> optimizer;    // of all tables: adam, adagrad, row-wise-adagrad, sgd
  std::optional<std::string> precision;    // of all tables: f32, bf16_weights, bf16
  // What flags overrule where no spec file is named, instead of a spec from the data.
  std::optional<ModelSpec> base;
  // Models that are there already: one of the spec's name says how many rows its tables have, where
  // that is enough for the data.
  std::vector<ModelSpec> known = {};
  // Where it is not, the tables get the rows that the data needs; without it that is an error.
  bool grow = false;
  // Rows beyond those of the data, of a new table or one that grows.
  int64_t label_headroom = 0;
  int64_t feature_headroom = 0;
  // A network is wanted where the spec is derived, as flags that only a network listens to say,
  // too.
  bool network = false;
  bool wants_network() const;
};

void AddSpecOptions(CliCommand app, SpecOptions& options);
// --grow and room to spare, of a training. Errors: InvalidArgument naming the flag.
void AddGrowthOptions(CliCommand app, SpecOptions& options);
absl::Status CheckGrowthOptions(const SpecOptions& options, bool may_continue);

// The name of the model that ResolveSpec() resolves. Errors: those of reading the file.
absl::StatusOr<std::string> ResolveName(const SpecOptions& options);

// Reads the file or derives the spec, applies the flags, and fills in what the data says.
// Errors: NotFound for the file; InvalidArgument naming field or flag, value and range, or both
// sizes where the spec and the data disagree.
// `explanation` (may be null) gets what was chosen without a spec and why; it is left alone
// otherwise.
absl::StatusOr<ModelSpec> ResolveSpec(const SpecOptions& options, const Dataset& data,
                                      std::string* explanation = nullptr);

// The same without data: sizes that the spec leaves out, or that are asked for instead of its own.
struct PlannedSizes {
  std::optional<int64_t> rows;      // of the head: labels
  std::optional<int64_t> features;  // of the embedding, its bias row not counted
  std::optional<int64_t> points;    // of the memory; without a spec: the one that data would get
};
// Errors: InvalidArgument naming the flag that would give a missing size.
absl::StatusOr<ModelSpec> ResolveSpec(const SpecOptions& options, const PlannedSizes& sizes,
                                      std::string* explanation = nullptr);

}  // namespace dslide::cli
