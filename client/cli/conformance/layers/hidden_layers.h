// What lies between the embedding and the head in one step of a client.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/cli/conformance/layers/bounds.h"
#include "client/trainer/network.h"
#include "core/spec/model_spec.h"

namespace dslide::cli {

// The weights are those that the shards have answered to this step; the activations of all layers
// but the last are nothing that a client sends, so there are bounds of them. Not thread-safe.
class HiddenLayers {
 public:
  enum class Kind { kGather, kScatter };

  // Of a batch of `epoch` with these points, where the job's order has this seed. `network`
  // outlives it.
  HiddenLayers(const Network& network, uint64_t seed, int64_t epoch, std::vector<int64_t> points,
               size_t shards);

  // The number of the dense layer with this table.
  std::optional<size_t> Find(absl::string_view table) const;
  const TableSpec& table(size_t layer) const { return network_.dense()[layer]; }

  // An operation on a layer that arrived for a shard; false: it had come before.
  bool Asked(Kind kind, size_t layer, int shard);
  // Rows that a shard has answered.
  void Gathered(size_t layer, int shard, RowBlock rows);
  void Scattered(size_t layer, int shard) { layers_[layer].scattered |= 1u << shard; }
  // The ids that the shard holds of a layer.
  absl::Span<const RowId> RowsOf(size_t layer, int shard) const;

  // The first layer that was not gathered from every shard.
  std::optional<size_t> FirstUngathered() const;
  // The first layer whose gradients were not sent to the shard; it gets none without rows there.
  std::optional<size_t> FirstUnsent(int shard) const;
  // Every layer's gradients were answered by every shard that has rows of it.
  bool done() const;

  // The input of the head, [B, its dim], of sums of embedding rows; bf16 where it is to be rounded.
  // Every layer was gathered. Errors: Internal where its rows do not make the layer.
  absl::Status Forward(Bounds sums);
  const Bounds& hidden() const { return hidden_; }
  // The same before it was rounded.
  const Bounds& unrounded() const { return activations_.back(); }
  // 0 where the last layer's dropout leaves a unit out; empty without dropout.
  absl::Span<const float> last_factors() const { return last_factors_; }

  // The gradients of all layers, where the head's input was `hidden` and has the gradient `bounds`.
  void Backward(absl::Span<const float> hidden, Bounds bounds);
  // Of the sums of embedding rows, [B, dim], before they are rounded.
  const Bounds& embedding_gradient() const { return embedding_gradient_; }
  const DenseGradientBounds& gradients(size_t layer) const { return layers_[layer].gradients; }

 private:
  struct Layer {
    uint32_t gather_asked = 0;  // shards, as bits
    uint32_t gathered = 0;      // the same
    uint32_t scatter_asked = 0;
    uint32_t scattered = 0;
    std::vector<RowBlock> parts;  // by shard
    DenseLayer weights;
    DenseGradientBounds gradients;
  };

  HiddenDropout dropout() const;

  const Network& network_;
  const uint64_t seed_;
  const int64_t epoch_;
  const std::vector<int64_t> points_;
  const uint32_t all_shards_;
  std::vector<Layer> layers_;
  std::vector<Bounds> activations_;  // [layer + 1]: of the embedding, of each dense layer
  Bounds hidden_;
  std::vector<float> last_factors_;
  Bounds embedding_gradient_;
};

}  // namespace dslide::cli
