// Predictions of a model's memory, trees and linear rows: candidates from the neighbours, their
// scores from all components, ranked by the fusion.

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/components/component_shards.h"
#include "client/components/component_spec.h"
#include "client/components/ranking.h"
#include "core/engine/fusion/fusion_inputs.h"
#include "core/engine/fusion/fusion_record.h"
#include "core/engine/memory/neighbour_votes.h"
#include "core/protocol/explicit_rows.h"

namespace dslide {

// The logits of a network for candidates of samples that it knows: [candidates]. Rows ascend within
// a sample, and their logit offsets are added.
using CandidateLogits =
    std::function<absl::StatusOr<std::vector<float>>(ExplicitRows<RowId> candidates)>;
// Asks a network that learns beside the components for the hidden vectors of samples, and returns
// at once: the search for candidates goes on beside it. Inputs are transformed already. The logits
// are asked for once.
using NetworkLogits = std::function<CandidateLogits(const SparseInputs& inputs)>;

// Thread safety: one thread.
class ComponentScorer {
 public:
  // Everything passed in outlives it. network: null where the model has none.
  ComponentScorer(const ComponentTables& tables, ComponentShards& shards, NetworkLogits network);

  // What predictions need and shards keep: trees, numbers of points and the fusion.
  // Errors: FailedPrecondition when the model was not trained to its end.
  absl::Status Load();
  // The same by hand, while it is trained. leaves: [trees][labels]; label_points: [labels].
  void SetTrees(std::vector<std::vector<uint32_t>> leaves, std::vector<uint32_t> label_points);
  void SetFusion(FusionWeights fusion) { fusion_ = std::move(fusion); }

  // What the components say of all candidates of each sample. Inputs are transformed already.
  absl::StatusOr<std::vector<ComponentScores>> Score(const SparseInputs& inputs);

  // The k best labels of each sample; fewer where neighbours have fewer. Trees and linear rows are
  // asked about the candidates that the fusion's preselection keeps.
  absl::StatusOr<std::vector<Prediction>> Rank(const SparseInputs& inputs, int64_t k);

 private:
  // The labels of each sample's neighbours, as far as the neighbours know them.
  std::vector<ComponentScores> CountVotes(const FoundNeighbours& found, int64_t batch);
  // The candidates of each sample, with what neighbours and the network say of them.
  absl::StatusOr<std::vector<ComponentScores>> FindCandidates(const SparseInputs& inputs);
  // Adds what trees and linear rows say.
  absl::Status AddRows(const SparseInputs& inputs, std::vector<ComponentScores>& all);
  absl::Status AddLogits(const CandidateLogits& network, std::vector<ComponentScores>& all) const;
  // Appends the rows that score one sample's candidates, ascending, each once.
  void ListRows(const std::vector<RowId>& labels, std::vector<RowId>& rows);
  // Reads them back; `values` are the scores of ListRows().
  void FillScores(absl::Span<const RowId> rows, absl::Span<const float> values,
                  ComponentScores& scores);

  const ComponentTables& tables_;
  ComponentShards& shards_;
  const NetworkLogits network_;
  VoteCounter votes_;
  std::vector<std::vector<uint32_t>> leaves_;  // [trees][labels]
  std::vector<uint32_t> label_points_;         // [labels]
  FusionWeights fusion_;
  std::vector<float> row_scores_;  // [rows of the linear table]; a sample's scratch, as the next
  std::vector<RowId> sorted_labels_;
  std::vector<uint32_t> sorted_leaves_;
};

}  // namespace dslide
