// Trains a model's memory, trees, linear rows and fusion.
//
// Points go to the shards once, in the order of the data; trees are built here from the centroids
// of the labels; the shards solve the rows; the fusion is fitted on points that were held out until
// then and join the memory afterwards. Every operation may be repeated: training that was cut off
// is run again from its beginning and ends in the same bits.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/components/component_scorer.h"
#include "client/components/component_shards.h"
#include "client/components/component_spec.h"
#include "core/base/parallel.h"
#include "core/data/dataset.h"
#include "core/data/transform.h"
#include "core/fusion/fusion_fit.h"

namespace dslide {

// What the trainer works with. Everything must outlive it.
struct ComponentTrainerParts {
  const ModelSpec& spec;
  const ComponentTables& tables;
  ComponentShards& shards;
  ComponentScorer& scorer;
  const Dataset& data;
  // [points]: 1 for those that the fusion is fitted on and that join the memory afterwards.
  absl::Span<const uint8_t> held_out;
  ValueTransform transform;
  absl::Span<const float> idf;  // [features], for tf-idf only
  Parallelism parallelism;
  // Hears what is being done, in a few words.
  std::function<void(const std::string&)> say;
  // Asked between operations; true ends the training. May be null.
  std::function<bool()> stop_requested;
};

// How well one component alone ranks the held-out points.
struct ComponentQuality {
  std::string name;
  double quality = 0;  // mean of the precisions at 1, 3 and 5
  float weight = 0;    // in the fusion
};

struct ComponentReport {
  int64_t points = 0;    // in the memory
  int64_t held_out = 0;  // of these, the fusion was fitted on
  int64_t entries = 0;   // of the linear rows
  double fused_quality = 0;
  std::vector<ComponentQuality> components;
  std::string alone;  // the component that is better than the fusion and decides; "" mostly
  bool interrupted = false;
};

// Thread safety: one thread.
class ComponentTrainer {
 public:
  explicit ComponentTrainer(ComponentTrainerParts parts) : parts_(std::move(parts)) {}

  // Call once. Errors: those of the data and the shards.
  absl::StatusOr<ComponentReport> Run();

 private:
  absl::Status Check() const;  // Cancelled when somebody asked to stop
  absl::StatusOr<SparseBatch> Read(absl::Span<const int64_t> ids) const;
  absl::Status Append(const std::vector<int64_t>& ids);
  absl::Status BuildTrees();
  absl::Status SolveLevels(int64_t tree);
  absl::StatusOr<FusionSamples> ScoreHeldOut(const std::vector<int64_t>& ids);
  absl::StatusOr<std::vector<float>> FitWeights(const std::vector<int64_t>& ids);
  absl::Status PutNumbers(int64_t tree, absl::Span<const uint32_t> numbers);
  absl::Status RunAll();

  const ComponentTrainerParts parts_;
  std::vector<std::string> records_;  // of the points, by id; "": not in the memory yet
  std::vector<uint32_t> label_points_;
  std::vector<std::vector<uint32_t>> leaves_;
  ComponentReport report_;
};

}  // namespace dslide
