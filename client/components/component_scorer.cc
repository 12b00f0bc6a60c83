#include "client/components/component_scorer.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/engine/fusion/fusion_fit.h"

namespace dslide {
namespace {

// A label that no tree knows has neither row nor path, and 0 would be better than what most labels
// have: it takes the mean of the others, so that the tree says nothing of it.
void FillUnknown(const std::vector<RowId>& labels, const std::vector<uint32_t>& leaf_of,
                 std::vector<float>& scores) {
  double sum = 0;
  int64_t known = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (leaf_of[labels[i].value()] == kNoLeaf) continue;
    sum += static_cast<double>(scores[i]);
    ++known;
  }
  if (known == 0) return;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (leaf_of[labels[i].value()] != kNoLeaf) continue;
    scores[i] = static_cast<float>(sum / static_cast<double>(known));
  }
}

}  // namespace

ComponentScorer::ComponentScorer(const ComponentTables& tables, ComponentShards& shards,
                                 NetworkLogits network)
    : tables_(tables),
      shards_(shards),
      network_(std::move(network)),
      votes_(tables.memory->memory.labels, tables.memory->memory.similarity_power,
             tables.memory->memory.candidates),
      label_points_(static_cast<size_t>(tables.memory->memory.labels)) {
  // Without a fusion neighbours alone decide.
  fusion_.weights.resize(kFusionInputs);
  fusion_.weights[static_cast<size_t>(FusionInput::kShare)] = 1;
  if (tables.shape.has_value()) row_scores_.resize(static_cast<size_t>(tables.shape->num_rows()));
}

void ComponentScorer::SetTrees(std::vector<std::vector<uint32_t>> leaves,
                               std::vector<uint32_t> label_points) {
  leaves_ = std::move(leaves);
  label_points_ = std::move(label_points);
}

absl::Status ComponentScorer::Load() {
  if (tables_.shape.has_value()) {
    std::vector<std::vector<uint32_t>> leaves;
    for (int64_t tree = 0; tree < tables_.shape->trees(); ++tree) {
      ASSIGN_OR_RETURN(leaves.emplace_back(), shards_.GetNumbers(tree));
    }
    ASSIGN_OR_RETURN(std::vector<uint32_t> points, shards_.GetNumbers(tables_.shape->trees()));
    SetTrees(std::move(leaves), std::move(points));
  }
  if (tables_.fusion == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string record, shards_.GetRecord(*tables_.fusion, RowId(0)));
  if (record.empty()) {
    return absl::FailedPreconditionError(
        "the model has no fusion yet: its training did not come to its end; train it again");
  }
  ASSIGN_OR_RETURN(fusion_, DecodeFusion(record));
  return absl::OkStatus();
}

void ComponentScorer::ListRows(const std::vector<RowId>& labels, std::vector<RowId>& rows) {
  const TreeShape& shape = *tables_.shape;
  // Rows are in the order of labels and leaves: to sort these is less than to sort the rows.
  const auto first = static_cast<std::ptrdiff_t>(rows.size());
  sorted_labels_ = labels;
  std::sort(sorted_labels_.begin(), sorted_labels_.end());
  for (const RowId label : sorted_labels_) rows.push_back(shape.CentroidRow(label));
  for (int64_t tree = 0; tree < shape.trees(); ++tree) {
    const std::vector<uint32_t>& leaf_of = leaves_[static_cast<size_t>(tree)];
    sorted_leaves_.clear();
    for (const RowId label : sorted_labels_) {
      rows.push_back(shape.LabelRow(tree, label));
      const uint32_t leaf = leaf_of[label.value()];
      if (leaf != kNoLeaf) sorted_leaves_.push_back(leaf);
    }
    std::sort(sorted_leaves_.begin(), sorted_leaves_.end());
    for (int64_t level = 0; level < shape.label_level(); ++level) {
      int64_t last = -1;
      for (const uint32_t leaf : sorted_leaves_) {
        const int64_t cluster = shape.ClusterOf(level, leaf);
        if (cluster != last) rows.push_back(shape.ClusterRow(tree, level, cluster));
        last = cluster;
      }
    }
  }
  // Labels that the model has grown by have their rows behind all others.
  if (!std::is_sorted(rows.begin() + first, rows.end())) {
    std::sort(rows.begin() + first, rows.end());
  }
}

void ComponentScorer::FillScores(absl::Span<const RowId> rows, absl::Span<const float> values,
                                 ComponentScores& scores) {
  const TreeShape& shape = *tables_.shape;
  for (size_t i = 0; i < rows.size(); ++i) row_scores_[rows[i].value()] = values[i];
  const auto score_of = [&](RowId row) { return row_scores_[row.value()]; };
  for (const RowId label : scores.labels) {
    scores.centroids.push_back(score_of(shape.CentroidRow(label)));
  }
  for (int64_t tree = 0; tree < shape.trees(); ++tree) {
    std::vector<float>& own = scores.label_rows.emplace_back();
    std::vector<float>& paths = scores.paths.emplace_back();
    for (const RowId label : scores.labels) {
      own.push_back(score_of(shape.LabelRow(tree, label)));
      const uint32_t leaf = leaves_[static_cast<size_t>(tree)][label.value()];
      float path = MarginLoss(own.back());
      for (int64_t level = 0; level < shape.label_level(); ++level) {
        const float margin =
            leaf == kNoLeaf ? 0
                            : score_of(shape.ClusterRow(tree, level, shape.ClusterOf(level, leaf)));
        path += MarginLoss(margin);
      }
      paths.push_back(path);
    }
    FillUnknown(scores.labels, leaves_[static_cast<size_t>(tree)], own);
    FillUnknown(scores.labels, leaves_[static_cast<size_t>(tree)], paths);
  }
}

absl::Status ComponentScorer::AddLogits(const CandidateLogits& network,
                                        std::vector<ComponentScores>& all) const {
  ExplicitRows<RowId> candidates;
  candidates.offsets = {0};
  for (const ComponentScores& mine : all) {
    const auto first = static_cast<std::ptrdiff_t>(candidates.rows.size());
    candidates.rows.insert(candidates.rows.end(), mine.labels.begin(), mine.labels.end());
    std::sort(candidates.rows.begin() + first, candidates.rows.end());
    candidates.offsets.push_back(static_cast<uint32_t>(candidates.rows.size()));
  }
  const ExplicitRows<RowId> asked = candidates;
  ASSIGN_OR_RETURN(const std::vector<float> logits, network(std::move(candidates)));
  for (size_t s = 0; s < all.size(); ++s) {
    const auto first = asked.rows.begin() + asked.offsets[s];
    const auto end = asked.rows.begin() + asked.offsets[s + 1];
    for (const RowId label : all[s].labels) {
      const auto place = std::lower_bound(first, end, label);
      all[s].logits.push_back(logits[static_cast<size_t>(place - asked.rows.begin())]);
    }
  }
  return absl::OkStatus();
}

std::vector<ComponentScores> ComponentScorer::CountVotes(const FoundNeighbours& found,
                                                         int64_t batch) {
  std::vector<ComponentScores> all(static_cast<size_t>(batch));
  LabelVotes votes;
  for (int64_t i = 0; i < batch; ++i) {
    votes_.Count(found.Of(i), votes);
    ComponentScores& mine = all[static_cast<size_t>(i)];
    mine.labels = votes.labels;
    mine.shares = votes.shares;
    mine.divided_shares = votes.divided_shares;
    mine.near_shares = votes.near_shares;
    mine.nearest = votes.nearest;
    for (const RowId label : mine.labels) {
      mine.label_points.push_back(static_cast<float>(label_points_[label.value()]));
    }
  }
  return all;
}

// The search of neighbours and the network's first layer are asked for together.
absl::StatusOr<std::vector<ComponentScores>> ComponentScorer::FindCandidates(
    const SparseInputs& inputs) {
  CandidateLogits network;
  if (network_ != nullptr) network = network_(inputs);
  ASSIGN_OR_RETURN(const FoundNeighbours found,
                   shards_.FindNeighbours(inputs, tables_.memory->memory.neighbours));
  std::vector<ComponentScores> all = CountVotes(found, inputs.batch());
  if (network != nullptr) RETURN_IF_ERROR(AddLogits(network, all));
  return all;
}

absl::Status ComponentScorer::AddRows(const SparseInputs& inputs,
                                      std::vector<ComponentScores>& all) {
  if (!tables_.shape.has_value()) return absl::OkStatus();
  std::vector<uint32_t> offsets = {0};
  std::vector<RowId> rows;
  for (const ComponentScores& mine : all) {
    ListRows(mine.labels, rows);
    offsets.push_back(static_cast<uint32_t>(rows.size()));
  }
  ASSIGN_OR_RETURN(const std::vector<float> scores, shards_.ScoreRows(inputs, offsets, rows));
  for (size_t i = 0; i < all.size(); ++i) {
    const uint32_t first = offsets[i];
    const uint32_t size = offsets[i + 1] - first;
    FillScores(absl::MakeConstSpan(rows).subspan(first, size),
               absl::MakeConstSpan(scores).subspan(first, size), all[i]);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ComponentScores>> ComponentScorer::Score(const SparseInputs& inputs) {
  ASSIGN_OR_RETURN(std::vector<ComponentScores> all, FindCandidates(inputs));
  RETURN_IF_ERROR(AddRows(inputs, all));
  return all;
}

absl::StatusOr<std::vector<Prediction>> ComponentScorer::Rank(const SparseInputs& inputs,
                                                              int64_t k) {
  ASSIGN_OR_RETURN(std::vector<ComponentScores> all, FindCandidates(inputs));
  for (ComponentScores& mine : all) {
    fusion_.preselection.Apply(k, static_cast<double>(fusion_.points), mine);
  }
  RETURN_IF_ERROR(AddRows(inputs, all));
  std::vector<Prediction> ranked;
  std::vector<float> fusion_inputs;
  std::vector<float> scores;
  std::vector<size_t> order;
  for (const ComponentScores& mine : all) {
    fusion_inputs.clear();
    AppendFusionInputs(mine, static_cast<double>(fusion_.points), fusion_inputs);
    FuseScores(fusion_inputs, fusion_.weights, scores);
    order.resize(scores.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const size_t top = std::min(static_cast<size_t>(k), order.size());
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(top), order.end(),
                      [&](size_t a, size_t b) {
                        return scores[a] != scores[b] ? scores[a] > scores[b]
                                                      : mine.labels[a] < mine.labels[b];
                      });
    Prediction& best = ranked.emplace_back();
    best.scored_rows = static_cast<int64_t>(mine.labels.size());
    for (size_t i = 0; i < top; ++i) {
      best.labels.push_back(mine.labels[order[i]]);
      best.logits.push_back(scores[order[i]]);
    }
  }
  return ranked;
}

}  // namespace dslide
