#include "client/cli/conformance/layers/hidden_layers.h"

#include <algorithm>
#include <utility>

#include "core/base/status_macros.h"

namespace dslide::cli {

HiddenLayers::HiddenLayers(const Network& network, uint64_t seed, int64_t epoch,
                           std::vector<int64_t> points, size_t shards)
    : network_(network),
      seed_(seed),
      epoch_(epoch),
      points_(std::move(points)),
      all_shards_((1u << shards) - 1),
      layers_(network.dense().size()) {
  for (Layer& layer : layers_) layer.parts.resize(shards);
}

HiddenDropout HiddenLayers::dropout() const {
  return {network_.spec().training.hidden_dropout, seed_, epoch_, points_};
}

std::optional<size_t> HiddenLayers::Find(absl::string_view table) const {
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (network_.dense()[i].name == table) return i;
  }
  return std::nullopt;
}

bool HiddenLayers::Asked(Kind kind, size_t layer, int shard) {
  uint32_t& asked =
      kind == Kind::kGather ? layers_[layer].gather_asked : layers_[layer].scatter_asked;
  const uint32_t before = asked;
  asked |= 1u << shard;
  return asked != before;
}

void HiddenLayers::Gathered(size_t layer, int shard, RowBlock rows) {
  layers_[layer].parts[static_cast<size_t>(shard)] = std::move(rows);
  layers_[layer].gathered |= 1u << shard;
}

absl::Span<const RowId> HiddenLayers::RowsOf(size_t layer, int shard) const {
  return layers_[layer].parts[static_cast<size_t>(shard)].rows;
}

std::optional<size_t> HiddenLayers::FirstUngathered() const {
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (layers_[i].gathered != all_shards_) return i;
  }
  return std::nullopt;
}

std::optional<size_t> HiddenLayers::FirstUnsent(int shard) const {
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (!RowsOf(i, shard).empty() && (layers_[i].scatter_asked >> shard & 1) == 0) return i;
  }
  return std::nullopt;
}

bool HiddenLayers::done() const {
  return std::all_of(layers_.begin(), layers_.end(), [](const Layer& layer) {
    for (size_t shard = 0; shard < layer.parts.size(); ++shard) {
      if (!layer.parts[shard].rows.empty() && (layer.scattered >> shard & 1) == 0) return false;
    }
    return true;
  });
}

absl::Status HiddenLayers::Forward(Bounds sums) {
  activations_.clear();
  int64_t width = network_.embedding().dim;
  ActivateBounds(dropout(), 0, width, sums);
  activations_.push_back(std::move(sums));
  for (size_t i = 0; i < layers_.size(); ++i) {
    Layer& layer = layers_[i];
    std::vector<const RowBlock*> parts;
    for (const RowBlock& part : layer.parts) parts.push_back(&part);
    ASSIGN_OR_RETURN(layer.weights, JoinDenseLayer(network_.dense()[i], parts));
    width = layer.weights.out;
    Bounds next = DenseBounds(layer.weights, activations_.back());
    ActivateBounds(dropout(), static_cast<int64_t>(i) + 1, width, next);
    activations_.push_back(std::move(next));
  }
  hidden_ = activations_.back();
  RoundBounds(network_.spec().activations, hidden_);
  if (dropout().probability > 0) {
    last_factors_.assign(hidden_.size(), 1.0f);
    const auto last = static_cast<int64_t>(layers_.size());
    Activate(KeptUnits(dropout(), last, width, Parallelism{1}), dropout().probability, width,
             /*round=*/false, Parallelism{1}, last_factors_);
  }
  return absl::OkStatus();
}

void HiddenLayers::Backward(absl::Span<const float> hidden, Bounds bounds) {
  activations_.back() = Exactly(hidden);
  MaskBounds(activations_.back(), dropout().probability, bounds);
  for (size_t i = layers_.size(); i-- > 0;) {
    Layer& layer = layers_[i];
    layer.gradients = GradientBounds(layer.weights, activations_[i], bounds);
    bounds = BelowBounds(layer.weights, bounds);
    MaskBounds(activations_[i], dropout().probability, bounds);
  }
  embedding_gradient_ = std::move(bounds);
}

}  // namespace dslide::cli
