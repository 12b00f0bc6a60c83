#include "client/trainer/softmax_combine.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>

#include "absl/strings/str_cat.h"

namespace dslide {
namespace {

constexpr size_t kTop = 10;

struct Probe {
  float logit;
  RowId row;
  bool found;
};

}  // namespace

absl::StatusOr<CombinedLoss> CombineLoss(HeadLoss loss,
                                         absl::Span<const HeadForwardOutput* const> parts,
                                         absl::Span<const RaggedSlice> labels,
                                         absl::Span<const float> targets) {
  const size_t batch = targets.size();
  for (size_t s = 0; s < parts.size(); ++s) {
    if (parts[s]->max_logits.size() != batch || parts[s]->exp_sums.size() != batch ||
        parts[s]->label_logits.size() != labels[s].rows.size()) {
      return absl::InternalError(absl::StrCat("shard ", s, " answered ", parts[s]->exp_sums.size(),
                                              " samples and ", parts[s]->label_logits.size(),
                                              " labels; ", batch, " and ", labels[s].rows.size(),
                                              " were asked for"));
    }
  }
  CombinedLoss combined;
  const bool softmax = loss == HeadLoss::kSoftmax;
  if (softmax) combined.log_partitions.resize(batch);
  for (size_t i = 0; i < batch; ++i) {
    float highest = -std::numeric_limits<float>::infinity();
    for (const HeadForwardOutput* part : parts) highest = std::max(highest, part->max_logits[i]);
    double sum = 0;
    for (const HeadForwardOutput* part : parts) {
      const double weight = softmax ? std::exp(double{part->max_logits[i]} - double{highest}) : 1.0;
      // A shard without rows for the sample answers (-inf, 0).
      if (part->exp_sums[i] != 0) sum += weight * double{part->exp_sums[i]};
    }
    const double partition = softmax ? double{highest} + std::log(sum) : sum;
    double of_labels = 0;
    double target_sum = 0;
    bool weighted = false;
    for (size_t s = 0; s < parts.size(); ++s) {
      const std::vector<float>& weights = labels[s].values;
      for (uint32_t l = labels[s].offsets[i]; l < labels[s].offsets[i + 1]; ++l) {
        const double target = double{targets[i]} * (weights.empty() ? 1.0 : double{weights[l]});
        weighted = weighted || !weights.empty();
        of_labels += target * double{parts[s]->label_logits[l]};
        target_sum += target;
      }
    }
    const double sample_loss = (softmax ? target_sum * partition : partition) - of_labels;
    if (!std::isfinite(sample_loss)) {
      return absl::InvalidArgumentError(absl::StrCat("the loss of sample ", i,
                                                     " of a batch is not finite: training has ",
                                                     "diverged; lower the learning rate"));
    }
    combined.loss_sum += sample_loss;
    if (!softmax) continue;
    const double shift = weighted ? std::log(target_sum) : 0.0;
    combined.log_partitions[i] = static_cast<float>(partition - shift);
  }
  return combined;
}

void RecallCount::Add(const RecallCount& other) {
  samples += other.samples;
  top_1_found += other.top_1_found;
  top_10 += other.top_10;
  top_10_found += other.top_10_found;
}

RecallCount CountRecall(absl::Span<const HeadForwardOutput* const> parts) {
  std::map<uint32_t, std::vector<Probe>> by_sample;
  for (const HeadForwardOutput* part : parts) {
    for (const RecallTop& top : part->recall) {
      std::vector<Probe>& probes = by_sample[top.sample];
      const size_t n = std::min({top.rows.size(), top.logits.size(), top.found.size()});
      for (size_t i = 0; i < n; ++i) {
        probes.push_back({top.logits[i], top.rows[i], top.found[i] != 0});
      }
    }
  }
  RecallCount count;
  for (auto& [sample, probes] : by_sample) {
    if (probes.empty()) continue;
    std::sort(probes.begin(), probes.end(), [](const Probe& a, const Probe& b) {
      return a.logit != b.logit ? a.logit > b.logit : a.row < b.row;
    });
    probes.resize(std::min(probes.size(), kTop));
    ++count.samples;
    count.top_1_found += probes.front().found ? 1 : 0;
    count.top_10 += static_cast<int64_t>(probes.size());
    for (const Probe& probe : probes) count.top_10_found += probe.found ? 1 : 0;
  }
  return count;
}

}  // namespace dslide
