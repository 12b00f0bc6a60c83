// The labels of a sample's neighbours as the active rows of a network that learns beside a memory.
//
// A row's logit offset is log((n + 1 + 10 p N) / (m + 1)), where n points carry the label, the
// neighbours' share of it is p, N points are in the memory and m is the mean of n. The network then
// begins as a smoothed vote of the neighbours, and learns what that lacks.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "client/components/candidate_source.h"
#include "client/components/component_shards.h"
#include "client/components/point_labels.h"
#include "core/engine/memory/neighbour_votes.h"

namespace dslide {

class MemoryCandidates : public CandidateSource {
 public:
  // known: of the points of the dataset, which have the same numbers in the memory; or of none.
  // label_points: [labels], of the points in the memory. `shards` is used by nobody else while a
  // function runs. Everything passed in outlives it.
  MemoryCandidates(const MemorySpec& memory, ComponentShards& shards, PointLabels known,
                   std::vector<uint32_t> label_points, int64_t points, uint64_t seed);

  // The sample's labels, the best candidates, and some of the others, which stand for the rest.
  // Points are their own neighbours nowhere. Their neighbours are looked for once, as long as there
  // is room to remember them.
  absl::StatusOr<ExplicitRows<RowId>> ForTraining(const SparseBatch& samples,
                                                  absl::Span<const int64_t> points,
                                                  int64_t epoch) override;
  absl::StatusOr<ExplicitRows<RowId>> ForEvaluation(const SparseBatch& samples,
                                                    absl::Span<const int64_t> points) override;

 private:
  // Of one sample, best first.
  struct Candidates {
    std::vector<RowId> labels;
    std::vector<float> offsets;  // of the logits
  };
  struct Row {
    RowId row;
    float logit_offset;
    float weight;
  };

  float OffsetOf(RowId label, float share) const;
  // `left_out`: [samples], or empty.
  absl::StatusOr<std::vector<Candidates>> Find(const SparseBatch& samples,
                                               const std::vector<uint32_t>& left_out)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The same for points of the dataset, remembered or found. Valid until the next call.
  absl::StatusOr<std::vector<const Candidates*>> FindPoints(const SparseBatch& samples,
                                                            absl::Span<const int64_t> points)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ChooseSome(const Candidates& candidates, absl::Span<const RowId> labels, uint64_t key)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AddMissing(absl::Span<const RowId> labels) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ChooseAll(const Candidates& candidates) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Sorts the chosen rows and appends them as one sample.
  void Append(ExplicitRows<RowId>& rows) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const MemorySpec memory_;
  const PointLabels known_;
  const std::vector<uint32_t> label_points_;
  const double points_;
  const double mean_points_;  // of a label
  const uint64_t key_;

  absl::Mutex mu_;
  ComponentShards& shards_;  // used under mu_
  VoteCounter votes_ ABSL_GUARDED_BY(mu_);
  std::vector<std::unique_ptr<const Candidates>> remembered_ ABSL_GUARDED_BY(mu_);  // by point
  int64_t remembered_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<std::unique_ptr<const Candidates>> passing_ ABSL_GUARDED_BY(mu_);  // of one call
  std::vector<Row> chosen_ ABSL_GUARDED_BY(mu_);  // scratch, as the next
  std::vector<uint32_t> rest_ ABSL_GUARDED_BY(mu_);
};

}  // namespace dslide
