// Trains a model's memory, trees, linear rows and fusion.
//
// Points go to the shards once, in the order of the data; a network may be trained then, beside the
// memory; trees are built here from the centroids of the labels; the shards solve the rows; the
// fusion is fitted on points that were held out until then and join the memory afterwards, and
// where the spec says so trees and rows are made again with them. Every operation may be repeated:
// training that was cut off is run again from its beginning and ends in the same bits. A model that
// was trained before is trained on with the points that it has and later ones: its trees are built
// anew, and its fusion keeps its weights.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/components/component_scorer.h"
#include "client/components/component_shards.h"
#include "client/components/component_spec.h"
#include "core/base/parallel.h"
#include "core/engine/data/dataset.h"
#include "core/engine/data/epoch_order.h"
#include "core/engine/data/transform.h"
#include "core/engine/fusion/fusion_fit.h"
#include "core/engine/fusion/fusion_record.h"

namespace dslide {

// What the trainer works with. Everything must outlive it.
struct ComponentTrainerParts {
  const ModelSpec& spec;
  const ComponentTables& tables;
  ComponentShards& shards;
  ComponentScorer& scorer;
  const Dataset& data;
  // Its validation points are those that the fusion is fitted on, where there is one.
  const TrainingSplit& split;
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
  int64_t preselected = 0;  // candidates that trees are asked about where ten labels are wanted
  std::string alone;        // the component that is better than the fusion and decides; "" mostly
};

// Thread safety: one thread.
class ComponentTrainer {
 public:
  explicit ComponentTrainer(ComponentTrainerParts parts) : parts_(std::move(parts)) {}

  // In this order, each as often as wanted; the first may have been done elsewhere. Errors: those
  // of the data and the shards; Cancelled when somebody asked to stop.
  absl::Status Prepare();  // the memory
  absl::StatusOr<ComponentReport> Complete();

 private:
  absl::Status Check() const;  // Cancelled when somebody asked to stop
  absl::StatusOr<SparseBatch> Read(absl::Span<const int64_t> ids) const;
  // Reads the points that are not held out, and sends them.
  absl::Status ReadTraining(bool send);
  absl::Status Append(const std::vector<int64_t>& ids, bool send);
  absl::Status BuildTrees();
  // Builds the trees of the points that there are, and has all rows solved.
  absl::Status SolveRows();
  absl::StatusOr<FusionSamples> ScoreHeldOut(const std::vector<int64_t>& ids);
  absl::StatusOr<FusionWeights> Fit(const std::vector<int64_t>& ids);
  // Those of the model, which are fitted once.
  absl::StatusOr<FusionWeights> MakeFusion();
  // What the report says of the fit.
  void ReportFit(const ComponentReport& fit);

  const ComponentTrainerParts parts_;
  bool read_ = false;                 // what follows is that of the training points
  std::vector<std::string> records_;  // of the points, by id; "": not in the memory yet
  std::vector<uint32_t> label_points_;
  std::vector<int64_t> held_out_;
  std::vector<std::vector<uint32_t>> leaves_;
  ComponentReport report_;
  std::optional<ComponentReport> fit_;  // its own, should the shards be lost after it
};

}  // namespace dslide
