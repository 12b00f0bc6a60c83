// A model of memory, trees and linear rows on a cluster: its streams, its training, its
// predictions.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/components/component_scorer.h"
#include "client/components/component_shards.h"
#include "client/components/component_spec.h"
#include "client/components/component_trainer.h"
#include "client/components/ranking.h"
#include "client/cpp/cluster_client.h"
#include "core/data/dataset.h"
#include "core/data/epoch_order.h"

namespace dslide::cli {

// Thread safety: one thread.
class ComponentSession {
 public:
  // Opens streams to the shards. `cluster` and `spec` outlive it.
  //   idf : [features] for a model that wants it
  // Errors: those of the cluster; InvalidArgument when idf is missing.
  static absl::StatusOr<std::unique_ptr<ComponentSession>> Open(ClusterClient& cluster,
                                                                const ModelSpec& spec,
                                                                std::vector<float> idf);
  ~ComponentSession();

  // held_out: [points], see ComponentTrainerParts.
  absl::StatusOr<ComponentReport> Train(const Dataset& data, absl::Span<const uint8_t> held_out,
                                        Parallelism parallelism,
                                        std::function<void(const std::string&)> say,
                                        std::function<bool()> stop_requested);
  // What predictions need of a model that was trained before.
  absl::Status Load() { return scorer_->Load(); }

  // The k best labels of each sample. Errors: those of the shards.
  absl::StatusOr<std::vector<Prediction>> Rank(SparseBatch samples, int64_t k);

  // Samples that Rank() is best given at once.
  static constexpr int64_t kBatch = 64;

 private:
  ComponentSession(const ModelSpec& spec, std::vector<float> idf);

  const ModelSpec& spec_;
  const std::vector<float> idf_;
  const ComponentTables tables_;
  std::unique_ptr<SlotMap> memory_slots_;
  std::unique_ptr<SlotMap> linear_slots_;
  std::vector<std::unique_ptr<ShardStream>> streams_;
  std::unique_ptr<ComponentShards> shards_;
  std::unique_ptr<ComponentScorer> scorer_;
  int64_t next_step_ = 1;
};

// Which points the fusion is fitted on, [points]: those of the split, or whole groups of a file
// with a line for each point. Errors: those of ReadGroups().
absl::StatusOr<std::vector<uint8_t>> ChooseHeldOut(const std::string& group_file,
                                                   const Dataset& data, const TrainingSplit& split,
                                                   const ModelSpec& spec);

}  // namespace dslide::cli
