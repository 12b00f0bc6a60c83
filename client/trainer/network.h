// The arithmetic that a trainer does itself: what lies between the wide input and the wide output.
//
// Conventions: matrices are row-major, [rows, cols], compact; B samples; H[0] is the width of the
// embedding, H[i] that of the i-th dense layer, H.back() the dim of the head.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/base/parallel.h"
#include "core/engine/lsh/hash_family.h"
#include "core/protocol/commands.h"
#include "core/spec/model_spec.h"
#include "core/spec/table_rows.h"

namespace dslide {

// The tables of a model in the order of the forward pass. Immutable and thread-safe.
class Network {
 public:
  // Errors: those of ModelSpec::Validate(); InvalidArgument unless the model is one embedding
  // table, any number of dense tables and one head, beside which there may be tables of records.
  static absl::StatusOr<Network> Create(ModelSpec spec);

  const ModelSpec& spec() const { return spec_; }
  const TableSpec& embedding() const { return spec_.tables.front(); }
  absl::Span<const TableSpec> dense() const {
    return absl::MakeConstSpan(spec_.tables).subspan(1, num_tables_ - 2);
  }
  const TableSpec& head() const { return spec_.tables[num_tables_ - 1]; }
  int64_t num_features() const { return NumFeatures(embedding()); }
  int64_t num_labels() const { return head().rows; }

  // Weights and biases of all its tables.
  int64_t parameters() const;
  // Bytes that dense data-parallel training moves per step and worker for this model: a ring
  // all-reduce sends and receives every gradient about once, 4 bytes each:
  // 2 * parameters * 4 (Patarasuk and Yuan 2009, for many workers; the exact factor is 2 (n-1)/n).
  int64_t dense_bytes_per_step() const { return 2 * parameters() * 4; }

  // Null when every row is active: nothing is hashed.
  const HashFamily* hash_family() const { return hash_.get(); }

 private:
  Network(ModelSpec spec, size_t num_tables) : spec_(std::move(spec)), num_tables_(num_tables) {}

  ModelSpec spec_;
  size_t num_tables_;  // from the embedding to the head; those of records follow
  std::shared_ptr<const HashFamily> hash_;  // shared by copies of the Network; immutable
};

// A dense layer as it was gathered for one step.
struct DenseLayer {
  int64_t in = 0;
  int64_t out = 0;
  std::vector<float> weights;  // [out, in]
  std::vector<float> biases;   // [out]
};

// Puts the shards' parts of a small table together.
// Errors: Internal unless each of the table's rows arrives exactly once.
absl::StatusOr<DenseLayer> JoinDenseLayer(const TableSpec& table,
                                          absl::Span<const RowBlock* const> parts);

// Which hidden units are left out of a step: a pure function of (seed, epoch, point, layer, unit).
struct HiddenDropout {
  double probability = 0;  // [0, 1)
  uint64_t seed = 0;
  int64_t epoch = 0;
  absl::Span<const int64_t> points;  // [B] indices in the dataset
};

// The units of a layer that dropout keeps: [B, BytesOfBits(width)] (bit_rows.h).
// Empty without dropout: all.
std::vector<uint8_t> KeptUnits(const HiddenDropout& dropout, int64_t layer, int64_t width,
                               Parallelism parallelism);

// x = max(x, 0), then dropout with kept units scaled by 1 / (1 - p), then rounding to bf16 and back
// when `round`. x: [B, width]; kept: of KeptUnits(). A unit that is 0 afterwards has no gradient.
void Activate(absl::Span<const uint8_t> kept, double dropout_probability, int64_t width, bool round,
              Parallelism parallelism, std::vector<float>& x);

// gradient = gradient where `activated` > 0, times 1 / (1 - p); else 0. Both [B, width].
void MaskGradient(absl::Span<const float> activated, double dropout_probability,
                  std::vector<float>& gradient);

// y = x W^T + b. x: [B, in]; returns [B, out].
std::vector<float> DenseForward(const DenseLayer& layer, absl::Span<const float> x, int64_t batch,
                                Parallelism parallelism);

// Gradients of a dense layer. x: [B, in] its input, dy: [B, out] the loss's gradient by its output
// (before the activation). Writes dx: [B, in] and returns the gradients of all rows, ids ascending.
RowBlock DenseBackward(const DenseLayer& layer, absl::Span<const float> x,
                       absl::Span<const float> dy, int64_t batch, Parallelism parallelism,
                       std::vector<float>& dx);

}  // namespace dslide
