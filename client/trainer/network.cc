#include "client/trainer/network.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/bfloat16.h"
#include "core/base/bit_rows.h"
#include "core/base/counter_rng.h"
#include "core/base/status_macros.h"
#include "core/engine/math/kernels.h"

namespace dslide {
namespace {

constexpr uint64_t kHiddenDropoutStream = 0x68646f;
constexpr int64_t kSamplesPerTask = 8;

// The number of the network's tables, which stand first.
absl::StatusOr<size_t> CountTables(const ModelSpec& spec) {
  const auto records = std::find_if(spec.tables.begin(), spec.tables.end(),
                                    [](const auto& table) { return IsRecordRole(table.role); });
  const auto n = static_cast<size_t>(records - spec.tables.begin());
  bool chain = n >= 2 && spec.tables.front().role == TableRole::kEmbedding &&
               spec.tables[n - 1].role == TableRole::kHead;
  for (size_t i = 1; chain && i + 1 < n; ++i) chain = spec.tables[i].role == TableRole::kDense;
  if (chain) return n;
  return absl::InvalidArgumentError(absl::StrCat(
      "model \"", spec.name, "\" cannot be trained: the first ", n,
      " of its tables must be one embedding, any number of dense layers and one head"));
}

}  // namespace

absl::StatusOr<Network> Network::Create(ModelSpec spec) {
  RETURN_IF_ERROR(spec.Validate(/*sizes_known=*/true));
  ASSIGN_OR_RETURN(const size_t num_tables, CountTables(spec));
  Network network(std::move(spec), num_tables);
  const TableSpec& head = network.head();
  if (head.head.max_active > 0) {
    ASSIGN_OR_RETURN(network.hash_, HashFamily::Create(ResolvedHead(head).hash, head.dim));
  }
  return network;
}

int64_t Network::parameters() const {
  int64_t count = 0;
  for (const TableSpec& table : absl::MakeConstSpan(spec_.tables).first(num_tables_)) {
    const bool has_bias = table.role != TableRole::kEmbedding;
    count += table.rows * (table.dim + (has_bias ? 1 : 0));
  }
  return count;
}

absl::StatusOr<DenseLayer> JoinDenseLayer(const TableSpec& table,
                                          absl::Span<const RowBlock* const> parts) {
  DenseLayer layer;
  layer.in = table.dim;
  layer.out = table.rows;
  layer.weights.resize(static_cast<size_t>(table.rows * table.dim));
  layer.biases.resize(static_cast<size_t>(table.rows));
  int64_t seen = 0;
  for (const RowBlock* part : parts) {
    const size_t n = part->rows.size();
    const auto dim = static_cast<size_t>(table.dim);
    if (part->values.size() != n * dim || part->biases.size() != n) {
      return absl::InternalError(absl::StrCat("table \"", table.name, "\": a shard sent ", n,
                                              " rows with ", part->values.size(), " values and ",
                                              part->biases.size(), " biases"));
    }
    for (size_t i = 0; i < n; ++i) {
      const size_t row = part->rows[i].value();
      if (row >= static_cast<size_t>(table.rows) || (i > 0 && part->rows[i] <= part->rows[i - 1])) {
        return absl::InternalError(
            absl::StrCat("table \"", table.name, "\": a shard sent row ", row, " out of order"));
      }
      std::copy_n(part->values.data() + i * dim, dim, layer.weights.data() + row * dim);
      layer.biases[row] = part->biases[i];
    }
    seen += static_cast<int64_t>(n);
  }
  if (seen != table.rows) {
    return absl::InternalError(absl::StrCat("table \"", table.name, "\": the shards sent ", seen,
                                            " rows, it has ", table.rows));
  }
  return layer;
}

std::vector<uint8_t> KeptUnits(const HiddenDropout& dropout, int64_t layer, int64_t width,
                               Parallelism parallelism) {
  const auto p = static_cast<float>(dropout.probability);
  if (p <= 0) return {};
  const uint64_t layer_key = DeriveKey(
      DeriveKey(DeriveKey(dropout.seed, kHiddenDropoutStream), static_cast<uint64_t>(layer)),
      static_cast<uint64_t>(dropout.epoch));
  const auto batch = static_cast<int64_t>(dropout.points.size());
  const int64_t stride = BytesOfBits(width);
  std::vector<uint8_t> kept(static_cast<size_t>(batch * stride));
  ParallelFor(parallelism, batch, kSamplesPerTask, [&](int64_t sample, int) {
    const auto point = static_cast<uint64_t>(dropout.points[static_cast<size_t>(sample)]);
    CounterRng rng(DeriveKey(layer_key, point));
    uint8_t* const bits = kept.data() + sample * stride;
    for (int64_t i = 0; i < width; ++i) {
      bits[i / 8] |= static_cast<uint8_t>((rng.NextUniform() < p ? 0 : 1) << (i % 8));
    }
  });
  return kept;
}

void Activate(absl::Span<const uint8_t> kept, double dropout_probability, int64_t width, bool round,
              Parallelism parallelism, std::vector<float>& x) {
  const int64_t batch = static_cast<int64_t>(x.size()) / width;
  const int64_t stride = BytesOfBits(width);
  const float scale = 1.0f / (1.0f - static_cast<float>(dropout_probability));
  ParallelFor(parallelism, batch, kSamplesPerTask, [&](int64_t sample, int) {
    float* row = x.data() + sample * width;
    for (int64_t i = 0; i < width; ++i) row[i] = std::max(row[i], 0.0f);
    if (!kept.empty()) {
      const uint8_t* const bits = kept.data() + sample * stride;
      for (int64_t i = 0; i < width; ++i) {
        row[i] = BitAt(bits, i) ? row[i] * scale : 0.0f;
      }
    }
    if (!round) return;
    for (int64_t i = 0; i < width; ++i) row[i] = ToFloat(ToBFloat16(row[i]));
  });
}

void MaskGradient(absl::Span<const float> activated, double dropout_probability,
                  std::vector<float>& gradient) {
  const float scale = 1.0f / (1.0f - static_cast<float>(dropout_probability));
  for (size_t i = 0; i < gradient.size(); ++i) {
    gradient[i] = activated[i] > 0 ? gradient[i] * scale : 0.0f;
  }
}

std::vector<float> DenseForward(const DenseLayer& layer, absl::Span<const float> x, int64_t batch,
                                Parallelism parallelism) {
  std::vector<float> y(static_cast<size_t>(batch * layer.out));
  ParallelFor(parallelism, batch, kSamplesPerTask, [&](int64_t sample, int) {
    const float* in = x.data() + sample * layer.in;
    float* out = y.data() + sample * layer.out;
    for (int64_t o = 0; o < layer.out; ++o) {
      out[o] = layer.biases[static_cast<size_t>(o)] +
               Dot(layer.weights.data() + o * layer.in, in, layer.in);
    }
  });
  return y;
}

RowBlock DenseBackward(const DenseLayer& layer, absl::Span<const float> x,
                       absl::Span<const float> dy, int64_t batch, Parallelism parallelism,
                       std::vector<float>& dx) {
  RowBlock gradients;
  gradients.dim = layer.in;
  gradients.values.resize(static_cast<size_t>(layer.out * layer.in));
  gradients.biases.resize(static_cast<size_t>(layer.out));
  for (int64_t o = 0; o < layer.out; ++o) gradients.rows.emplace_back(static_cast<uint32_t>(o));
  // One output unit, one thread, samples in order: equal bits for any number of threads.
  ParallelFor(parallelism, layer.out, 4, [&](int64_t o, int) {
    float* row = gradients.values.data() + o * layer.in;
    float bias = 0;
    for (int64_t sample = 0; sample < batch; ++sample) {
      const float g = dy[static_cast<size_t>(sample * layer.out + o)];
      if (g == 0) continue;
      Axpy(g, x.data() + sample * layer.in, row, layer.in);
      bias += g;
    }
    gradients.biases[static_cast<size_t>(o)] = bias;
  });
  dx.assign(static_cast<size_t>(batch * layer.in), 0.0f);
  ParallelFor(parallelism, batch, kSamplesPerTask, [&](int64_t sample, int) {
    for (int64_t o = 0; o < layer.out; ++o) {
      const float g = dy[static_cast<size_t>(sample * layer.out + o)];
      if (g != 0)
        Axpy(g, layer.weights.data() + o * layer.in, dx.data() + sample * layer.in, layer.in);
    }
  });
  return gradients;
}

}  // namespace dslide
