#include "client/components/memory_candidates.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/base/counter_rng.h"
#include "core/base/status_macros.h"

namespace dslide {
namespace {

// Active candidates of a step: those that have the most of the softmax, and a sample of the others.
// More bring nothing measurable (docs/understand/learning.md).
constexpr size_t kBest = 20;
constexpr size_t kSampled = 10;
constexpr double kLiftWeight = 10;
constexpr int64_t kMostRememberedBytes = int64_t{256} << 20;
constexpr uint64_t kChoiceKey = 0x63686f696365;

double MeanOf(const std::vector<uint32_t>& counts) {
  const double sum = std::accumulate(counts.begin(), counts.end(), 0.0);
  return sum / static_cast<double>(std::max<size_t>(counts.size(), 1));
}

// Most points have so few labels that to look at all of them is the fastest.
bool Contains(absl::Span<const RowId> labels, RowId label) {
  constexpr size_t kFew = 16;
  if (labels.size() > kFew) return std::binary_search(labels.begin(), labels.end(), label);
  bool found = false;
  for (const RowId mine : labels) found |= mine == label;
  return found;
}

SparseInputs PartOf(const SparseBatch& samples, int64_t first, int64_t count) {
  SparseInputs part;
  part.offsets = {0};
  for (int64_t s = first; s < first + count; ++s) {
    const absl::Span<const RowId> features = samples.FeaturesOf(s);
    const absl::Span<const float> values = samples.ValuesOf(s);
    part.features.insert(part.features.end(), features.begin(), features.end());
    part.values.insert(part.values.end(), values.begin(), values.end());
    part.offsets.push_back(static_cast<uint32_t>(part.features.size()));
  }
  return part;
}

}  // namespace

MemoryCandidates::MemoryCandidates(const MemorySpec& memory, ComponentShards& shards,
                                   PointLabels known, std::vector<uint32_t> label_points,
                                   int64_t points, uint64_t seed)
    : memory_(memory),
      known_(std::move(known)),
      label_points_(std::move(label_points)),
      points_(static_cast<double>(points)),
      mean_points_(MeanOf(label_points_)),
      key_(DeriveKey(seed, kChoiceKey)),
      shards_(shards),
      votes_(static_cast<int64_t>(label_points_.size()), memory.similarity_power,
             memory.candidates) {}

float MemoryCandidates::OffsetOf(RowId label, float share) const {
  const double seen = label_points_[label.value()] + 1 + kLiftWeight * share * points_;
  return static_cast<float>(std::log(seen / (mean_points_ + 1)));
}

absl::StatusOr<std::vector<MemoryCandidates::Candidates>> MemoryCandidates::Find(
    const SparseBatch& samples, const std::vector<uint32_t>& left_out) {
  std::vector<Candidates> found;
  LabelVotes votes;
  for (int64_t first = 0; first < samples.samples(); first += ComponentShards::kQueriesAtOnce) {
    const int64_t count = std::min(ComponentShards::kQueriesAtOnce, samples.samples() - first);
    std::vector<uint32_t> part;
    if (!left_out.empty()) {
      part.assign(left_out.begin() + first, left_out.begin() + first + count);
    }
    ASSIGN_OR_RETURN(
        const FoundNeighbours neighbours,
        shards_.FindNeighbours(PartOf(samples, first, count), memory_.neighbours, part, &known_));
    for (int64_t i = 0; i < count; ++i) {
      votes_.Count(neighbours.Of(i), votes);
      Candidates& mine = found.emplace_back();
      mine.labels = votes.labels;
      for (size_t c = 0; c < votes.labels.size(); ++c) {
        mine.offsets.push_back(OffsetOf(votes.labels[c], votes.shares[c]));
      }
    }
  }
  return found;
}

absl::StatusOr<std::vector<const MemoryCandidates::Candidates*>> MemoryCandidates::FindPoints(
    const SparseBatch& samples, absl::Span<const int64_t> points) {
  std::vector<const Candidates*> known(points.size());
  SparseBatch unknown;
  std::vector<uint32_t> left_out;
  std::vector<size_t> places;
  for (size_t s = 0; s < points.size(); ++s) {
    const auto point = static_cast<size_t>(points[s]);
    if (point >= remembered_.size()) remembered_.resize(point + 1);
    known[s] = remembered_[point].get();
    if (known[s] != nullptr) continue;
    const absl::Span<const RowId> features = samples.FeaturesOf(static_cast<int64_t>(s));
    const absl::Span<const float> values = samples.ValuesOf(static_cast<int64_t>(s));
    unknown.features.insert(unknown.features.end(), features.begin(), features.end());
    unknown.values.insert(unknown.values.end(), values.begin(), values.end());
    unknown.FinishSample();
    left_out.push_back(static_cast<uint32_t>(point));
    places.push_back(s);
  }
  passing_.clear();
  if (left_out.empty()) return known;
  ASSIGN_OR_RETURN(std::vector<Candidates> found, Find(unknown, left_out));
  for (size_t i = 0; i < found.size(); ++i) {
    auto mine = std::make_unique<const Candidates>(std::move(found[i]));
    known[places[i]] = mine.get();
    remembered_bytes_ += static_cast<int64_t>(sizeof(Candidates) + 8 * mine->labels.size());
    const bool room = remembered_bytes_ <= kMostRememberedBytes;
    (room ? remembered_[left_out[i]] : passing_.emplace_back()) = std::move(mine);
  }
  return known;
}

void MemoryCandidates::ChooseSome(const Candidates& candidates, absl::Span<const RowId> labels,
                                  uint64_t key) {
  chosen_.clear();
  rest_.resize(candidates.labels.size());
  size_t best = 0;
  size_t rest = 0;
  for (uint32_t i = 0; i < candidates.labels.size(); ++i) {
    const bool is_label = Contains(labels, candidates.labels[i]);
    rest_[rest] = i;
    if (is_label || best < kBest) {
      chosen_.push_back({candidates.labels[i], candidates.offsets[i], 1.0f});
      best += is_label ? 0 : 1;
    } else {
      ++rest;
    }
  }
  rest_.resize(rest);
  if (chosen_.size() - best < labels.size()) AddMissing(labels);
  const size_t sampled = std::min(kSampled, rest_.size());
  const float weight = rest_.size() > kSampled ? static_cast<float>(rest_.size()) / kSampled : 1.0f;
  CounterRng rng(key);
  for (size_t i = 0; i < sampled; ++i) {
    std::swap(rest_[i], rest_[i + rng.NextBelow(rest_.size() - i)]);
    const uint32_t candidate = rest_[i];
    chosen_.push_back({candidates.labels[candidate], candidates.offsets[candidate], weight});
  }
}

void MemoryCandidates::AddMissing(absl::Span<const RowId> labels) {
  const size_t known = chosen_.size();
  for (const RowId label : labels) {
    const auto end = chosen_.begin() + static_cast<std::ptrdiff_t>(known);
    const auto is_there = [label](const Row& row) { return row.row == label; };
    if (std::any_of(chosen_.begin(), end, is_there)) continue;
    chosen_.push_back({label, OffsetOf(label, 0.0f), 1.0f});
  }
}

void MemoryCandidates::Append(ExplicitRows<RowId>& rows) {
  std::sort(chosen_.begin(), chosen_.end(),
            [](const Row& a, const Row& b) { return a.row < b.row; });
  for (const Row& row : chosen_) {
    rows.rows.push_back(row.row);
    rows.logit_offsets.push_back(row.logit_offset);
    rows.weights.push_back(row.weight);
  }
  rows.offsets.push_back(static_cast<uint32_t>(rows.rows.size()));
}

absl::StatusOr<ExplicitRows<RowId>> MemoryCandidates::ForTraining(const SparseBatch& samples,
                                                                  absl::Span<const int64_t> points,
                                                                  int64_t epoch) {
  const absl::MutexLock lock(&mu_);
  ASSIGN_OR_RETURN(const std::vector<const Candidates*> found, FindPoints(samples, points));
  ExplicitRows<RowId> rows;
  rows.offsets = {0};
  const uint64_t key = DeriveKey(key_, static_cast<uint64_t>(epoch));
  for (int64_t s = 0; s < samples.samples(); ++s) {
    const auto at = static_cast<size_t>(s);
    ChooseSome(*found[at], samples.LabelsOf(s), DeriveKey(key, static_cast<uint64_t>(points[at])));
    Append(rows);
  }
  return rows;
}

void MemoryCandidates::ChooseAll(const Candidates& candidates) {
  chosen_.clear();
  for (size_t i = 0; i < candidates.labels.size(); ++i) {
    chosen_.push_back({candidates.labels[i], candidates.offsets[i], 1.0f});
  }
}

absl::StatusOr<ExplicitRows<RowId>> MemoryCandidates::ForEvaluation(
    const SparseBatch& samples, absl::Span<const int64_t> points) {
  const absl::MutexLock lock(&mu_);
  ExplicitRows<RowId> rows;
  rows.offsets = {0};
  if (points.empty()) {
    ASSIGN_OR_RETURN(const std::vector<Candidates> found, Find(samples, {}));
    for (const Candidates& candidates : found) {
      ChooseAll(candidates);
      Append(rows);
    }
  } else {
    ASSIGN_OR_RETURN(const std::vector<const Candidates*> found, FindPoints(samples, points));
    for (const Candidates* candidates : found) {
      ChooseAll(*candidates);
      Append(rows);
    }
  }
  rows.weights.clear();
  return rows;
}

}  // namespace dslide
