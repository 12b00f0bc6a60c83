// From points of a dataset to the parts of a step that do not depend on the model's state.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/components/candidate_source.h"
#include "client/cpp/cluster_client.h"
#include "client/cpp/row_slices.h"
#include "client/trainer/network.h"
#include "core/engine/data/dataset.h"
#include "core/engine/data/transform.h"
#include "core/partition/slot_map.h"

namespace dslide {

// What the model's transform is to a dataset's samples.
ValueTransform ToValueTransform(InputTransform transform);

// A batch, cut by shard.
struct PreparedBatch {
  uint64_t lease = 0;  // of the chunk it belongs to; 0 for none
  int64_t epoch = 0;
  // Its number among the steps of the job, from 1: where the job's learning rates stand.
  Step job_step = Step(1);
  std::vector<int64_t> points;         // [B] indices in the dataset
  std::vector<EmbedForwardOp> inputs;  // by shard
  std::vector<RaggedSlice> labels;     // by shard; values: the labels' weights, where they have any
  std::vector<float> label_targets;    // [B]
  // With a source of candidates: the active rows, by shard, for training; else those to score.
  std::vector<ExplicitRows<RowId>> explicit_rows;
  ExplicitRows<RowId> candidates;

  int64_t samples() const { return static_cast<int64_t>(points.size()); }
};

enum class BatchUse {
  kTraining,    // with input dropout; points without labels are left out
  kValidation,  // of the same dataset, as they are
  kEvaluation,  // of any dataset, as they are
};

struct BatchPreparerOptions {
  uint64_t seed = 1;  // of the dropout
  // [num_features], for tf-idf only; those that the embedding has been given later may be missing,
  // and weigh as much as the heaviest.
  std::vector<float> idf;
  // [num_labels], by which the targets of labels are multiplied in training, where the model's
  // propensity_strength is above 0 (PropensityWeights()). Empty: training is refused then.
  std::vector<float> label_weights = {};
  // Chooses the active rows, where hashing does not; null: none. Outlives the preparer.
  CandidateSource* candidates = nullptr;
};

// Reads, transforms, drops out and slices. The result is a pure function of (options, dataset,
// epoch, points). Immutable and thread-safe; the network must outlive it.
class BatchPreparer {
 public:
  // `embedding_slots` and `head_slots` own the rows of the two wide tables.
  // Errors: InvalidArgument when tf-idf is wanted and idf has another size than the features, or
  // label_weights is not empty and has another size than the labels.
  static absl::StatusOr<std::unique_ptr<BatchPreparer>> Create(const Network& network,
                                                               SlotMap embedding_slots,
                                                               SlotMap head_slots,
                                                               BatchPreparerOptions options);

  // The same with the slots that the cluster deals. Errors: those of the cluster, too.
  static absl::StatusOr<std::unique_ptr<BatchPreparer>> Open(ClusterClient& cluster,
                                                             const Network& network,
                                                             BatchPreparerOptions options);

  // Errors: those of Dataset::ReadSamples() and of the source of candidates; InvalidArgument naming
  // the point when a feature or label is beyond the model's tables.
  absl::StatusOr<PreparedBatch> Prepare(const Dataset& data, BatchUse use, int64_t epoch,
                                        absl::Span<const int64_t> points) const;

  // The same on samples that are in memory already. `points` ([samples]) only feed the dropout.
  absl::StatusOr<PreparedBatch> PrepareSamples(SparseBatch samples, BatchUse use, int64_t epoch,
                                               absl::Span<const int64_t> points) const;

  // The inputs alone of transformed samples, whose features the model may not know: those are left
  // out.
  PreparedBatch PrepareInputs(const SparseInputs& samples) const;

 private:
  BatchPreparer(const Network& network, SlotMap embedding_slots, SlotMap head_slots,
                BatchPreparerOptions options);

  absl::Status CheckIds(const SparseBatch& samples, absl::Span<const int64_t> points) const;
  absl::Status AddCandidates(const SparseBatch& samples, BatchUse use, int64_t epoch,
                             absl::Span<const int64_t> points, PreparedBatch& batch) const;
  std::vector<EmbedForwardOp> SliceInputs(const std::vector<int64_t>& offsets,
                                          const std::vector<RowId>& rows,
                                          const std::vector<float>& values, BatchUse use) const;
  void AppendInputs(const SparseBatch& samples, size_t sample, BatchUse use, int64_t epoch,
                    int64_t point, std::vector<RowId>& rows, std::vector<float>& values) const;
  // Makes rows of a sample's features, rows[first..], and adds the bias row in its place.
  void AddBias(size_t first, std::vector<RowId>& rows, std::vector<float>& values) const;

  bool weighs_labels() const { return network_.spec().training.propensity_strength > 0.0; }

  const Network& network_;
  const SlotMap embedding_slots_;
  const SlotMap head_slots_;
  const BatchPreparerOptions options_;
};

}  // namespace dslide
