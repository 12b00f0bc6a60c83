#include "tests/reference/model_sharded_network.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace dslide::reference {
namespace {

using Rows = std::vector<std::vector<float>>;

template <typename T>
T Must(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::fprintf(stderr, "%s\n", value.status().ToString().c_str());
  std::abort();
}

// Calls body(global row, local row) for every row of a store.
template <typename Body>
void ForEachRow(const RowStore& store, const Body& body) {
  for (int64_t i = 0; i < store.num_rows(); ++i) {
    const LocalRow local(static_cast<uint32_t>(i));
    body(store.rows().ToGlobal(local).value(), local);
  }
}

Vector ReadRow(const RowStore& store, LocalRow row) {
  std::vector<float> scratch(store.stride());
  const float* const weights = store.ReadWeights(row, scratch.data());
  return Vector(weights, weights + store.dim());
}

void CopyWeights(const RowStore& store, Matrix& weights, Vector* bias) {
  ForEachRow(store, [&](int64_t row, LocalRow local) {
    weights[row] = ReadRow(store, local);
    if (bias != nullptr) (*bias)[row] = store.Bias(local);
  });
}

std::vector<float> Flatten(const Rows& rows) {
  std::vector<float> flat;
  for (const std::vector<float>& row : rows) flat.insert(flat.end(), row.begin(), row.end());
  return flat;
}

}  // namespace

ShardedNetwork::ShardedNetwork(const ModelSpec& spec, const std::vector<double>& shard_weights,
                               int threads)
    : spec_(spec), parallelism_{threads}, head_spec_(spec_.FindRole(TableRole::kHead)) {
  if (!spec_.Validate(/*sizes_known=*/true).ok()) {
    std::fprintf(stderr, "%s\n", spec_.Validate(true).ToString().c_str());
    std::abort();
  }
  shards_.resize(shard_weights.size());
  for (const TableSpec& table : spec_.tables) {
    const SlotMap map = Must(SlotMap::Deal(table.num_slots, shard_weights));
    for (size_t i = 0; i < shards_.size(); ++i) {
      const ShardRows rows(map, ShardId(static_cast<int32_t>(i)), table.rows);
      Shard& shard = shards_[i];
      if (table.role == TableRole::kEmbedding) {
        shard.embedding = Must(EmbeddingTable::Create(table, spec_.seed, rows, parallelism_));
      } else if (table.role == TableRole::kDense) {
        shard.dense.push_back(Must(RowStore::Create(table, spec_.seed, rows, parallelism_)));
      } else {
        shard.head = Must(HeadTable::Create(table, spec_.seed, rows, parallelism_));
      }
    }
  }
  dense_steps_.assign(shards_[0].dense.size(), 0);
}

double ShardedNetwork::Forward(const std::vector<Sample>& samples, uint64_t tail_key,
                               double scale) {
  samples_ = samples;
  scale_ = static_cast<float>(scale);
  ForwardHidden();
  ForwardHead(tail_key);
  return CombineSoftmax() * scale;
}

double ShardedNetwork::Step(const std::vector<Sample>& samples, uint64_t tail_key, double scale) {
  const double loss = Forward(samples, tail_key, scale);
  Backward();
  return loss;
}

void ShardedNetwork::ForwardHidden() {
  const int64_t width = shards_[0].embedding->store().dim();
  Rows sums(samples_.size(), std::vector<float>(width, 0.0f));
  for (Shard& shard : shards_) {
    const ShardRows& rows = shard.embedding->store().rows();
    shard.features = FeatureBatch();
    shard.features.offsets = {0};
    for (const Sample& sample : samples_) {
      std::vector<std::pair<LocalRow, float>> held;
      for (size_t f = 0; f < sample.features.size(); ++f) {
        const RowId row(static_cast<uint32_t>(sample.features[f]));
        if (rows.Holds(row)) {
          held.emplace_back(rows.ToLocal(row), static_cast<float>(sample.values[f]));
        }
      }
      std::sort(held.begin(), held.end());
      for (const auto& [row, value] : held) {
        shard.features.rows.push_back(row);
        shard.features.values.push_back(value);
      }
      shard.features.offsets.push_back(static_cast<uint32_t>(shard.features.rows.size()));
    }
    std::vector<float> partial(samples_.size() * width);
    shard.embedding->Forward(shard.features, /*averaged=*/false, parallelism_,
                             absl::MakeSpan(partial));
    for (size_t s = 0; s < samples_.size(); ++s) {
      for (int64_t i = 0; i < width; ++i) sums[s][i] += partial[s * width + i];
    }
  }
  for (auto& sum : sums) {
    for (float& value : sum) value = std::max(0.0f, value);
  }
  activations_ = {sums};
  for (size_t layer = 0; layer < dense_steps_.size(); ++layer) {
    const Rows& input = activations_.back();
    Rows next(samples_.size(),
              std::vector<float>(shards_[0].dense[layer]->rows().table_rows(), 0.0f));
    for (const Shard& shard : shards_) {
      const RowStore& store = *shard.dense[layer];
      ForEachRow(store, [&](int64_t row, LocalRow local) {
        const Vector weights = ReadRow(store, local);
        for (size_t s = 0; s < input.size(); ++s) {
          double sum = store.Bias(local);
          for (int64_t i = 0; i < store.dim(); ++i) sum += input[s][i] * weights[i];
          next[s][row] = std::max(0.0f, static_cast<float>(sum));
        }
      });
    }
    activations_.push_back(std::move(next));
  }
}

void ShardedNetwork::ForwardHead(uint64_t tail_key) {
  for (Shard& shard : shards_) {
    const ShardRows& rows = shard.head->store().rows();
    HeadBatch batch;
    batch.hidden = Flatten(hidden());
    if (named_) batch.explicit_rows = NamedOn(rows);
    if (const HashIndex* index = fingerprints_ ? shard.head->index() : nullptr) {
      batch.fingerprints.resize(samples_.size() * index->family().num_tables());
      index->family().HashQueries(batch.hidden, static_cast<int64_t>(samples_.size()), parallelism_,
                                  absl::MakeSpan(batch.fingerprints));
    }
    batch.label_offsets = {0};
    for (const Sample& sample : samples_) {
      std::vector<LocalRow> held;
      for (const int64_t label : sample.labels) {
        const RowId row(static_cast<uint32_t>(label));
        if (rows.Holds(row)) held.push_back(rows.ToLocal(row));
      }
      std::sort(held.begin(), held.end());
      batch.labels.insert(batch.labels.end(), held.begin(), held.end());
      batch.label_offsets.push_back(static_cast<uint32_t>(batch.labels.size()));
      const bool sigmoid = head_spec_->head.loss == HeadLoss::kSigmoid;
      const float count = static_cast<float>(sample.labels.size());
      batch.label_targets.push_back(sigmoid ? 1.0f : count == 0.0f ? 0.0f : 1.0f / count);
    }
    shard.head->Forward(std::move(batch), tail_key, parallelism_, shard.context, shard.output);
  }
}

ExplicitRows<LocalRow> ShardedNetwork::NamedOn(const ShardRows& rows) const {
  ExplicitRows<LocalRow> named;
  named.offsets = {0};
  for (const Sample& sample : samples_) {
    std::vector<std::pair<LocalRow, const HeadTerm*>> held;
    for (const HeadTerm& term : sample.named) {
      const RowId row(static_cast<uint32_t>(term.row));
      if (rows.Holds(row)) held.emplace_back(rows.ToLocal(row), &term);
    }
    std::sort(held.begin(), held.end());
    for (const auto& [row, term] : held) {
      named.rows.push_back(row);
      named.logit_offsets.push_back(static_cast<float>(term->logit_offset));
      named.weights.push_back(static_cast<float>(term->weight));
    }
    named.offsets.push_back(static_cast<uint32_t>(named.rows.size()));
  }
  return named;
}

double ShardedNetwork::CombineSoftmax() {
  log_partitions_.assign(samples_.size(), 0.0f);
  double loss = 0.0;
  const bool sigmoid = head_spec_->head.loss == HeadLoss::kSigmoid;
  for (size_t s = 0; s < samples_.size(); ++s) {
    double max_logit = -INFINITY;
    for (const Shard& shard : shards_) {
      max_logit = std::max<double>(max_logit, shard.output.max_logits[s]);
    }
    double sum = 0.0;
    for (const Shard& shard : shards_) {
      const double part = shard.output.exp_sums[s];
      if (part > 0.0) sum += part * std::exp(shard.output.max_logits[s] - max_logit);
    }
    const double log_partition = max_logit + std::log(sum);
    if (!sigmoid) log_partitions_[s] = static_cast<float>(log_partition);
    if (sigmoid) loss += sum;
    for (const Shard& shard : shards_) {
      const HeadBatch& batch = shard.context.batch;
      for (uint32_t i = batch.label_offsets[s]; i < batch.label_offsets[s + 1]; ++i) {
        const double logit = shard.output.label_logits[i];
        loss += sigmoid ? -logit : batch.label_targets[s] * (log_partition - logit);
      }
    }
  }
  return loss;
}

int64_t ShardedNetwork::Backward() {
  const int64_t width = static_cast<int64_t>(hidden()[0].size());
  const float bound = static_cast<float>(spec_.magnitude_bound);
  int64_t rejected = 0;
  Rows gradient(samples_.size(), std::vector<float>(width, 0.0f));
  for (Shard& shard : shards_) {
    std::vector<float> partial(samples_.size() * width);
    rejected += shard.head->Backward(shard.context, log_partitions_, scale_, bound, parallelism_,
                                     absl::MakeSpan(partial));
    for (size_t s = 0; s < samples_.size(); ++s) {
      for (int64_t i = 0; i < width; ++i) gradient[s][i] += partial[s * width + i];
    }
  }
  gradient = BackwardDense(std::move(gradient));
  for (size_t s = 0; s < samples_.size(); ++s) {
    for (size_t i = 0; i < gradient[s].size(); ++i) {
      if (activations_[0][s][i] <= 0.0f) gradient[s][i] = 0.0f;
    }
  }
  const std::vector<float> flat = Flatten(gradient);
  for (Shard& shard : shards_) {
    int64_t refused = 0;
    shard.embedding->Backward(shard.features, flat, bound, parallelism_, &refused);
    rejected += refused;
  }
  return rejected;
}

Rows ShardedNetwork::BackwardDense(Rows gradient) {
  for (size_t layer = dense_steps_.size(); layer > 0; --layer) {
    const Rows& input = activations_[layer - 1];
    Rows input_gradient(input.size(), std::vector<float>(input[0].size(), 0.0f));
    const dslide::Step step(++dense_steps_[layer - 1]);
    for (Shard& shard : shards_) {
      RowStore& store = *shard.dense[layer - 1];
      const RowUpdate update = store.BeginUpdate(step, static_cast<float>(spec_.magnitude_bound));
      ForEachRow(store, [&](int64_t row, LocalRow local) {
        AlignedFloats row_gradient;
        row_gradient.Resize(store.dim());
        const Vector weights = ReadRow(store, local);
        float bias_gradient = 0.0f;
        for (size_t s = 0; s < input.size(); ++s) {
          if (activations_[layer][s][row] <= 0.0f) continue;
          bias_gradient += gradient[s][row];
          for (int64_t i = 0; i < store.dim(); ++i) {
            row_gradient.data()[i] += gradient[s][row] * input[s][i];
            input_gradient[s][i] += gradient[s][row] * weights[i];
          }
        }
        store.ApplyGradient(local, row_gradient.data(), bias_gradient, update);
      });
    }
    gradient = std::move(input_gradient);
  }
  return gradient;
}

std::vector<Sample> ShardedNetwork::SamplesWithTerms() const {
  const auto offset_of = [this](const Sample& sample, int64_t row) {
    for (const HeadTerm& term : sample.named) {
      if (named_ && term.row == row) return term.logit_offset;
    }
    return 0.0;
  };
  std::vector<Sample> samples = samples_;
  for (Sample& sample : samples) sample.terms.clear();
  for (const Shard& shard : shards_) {
    const HeadContext& context = shard.context;
    for (size_t i = 0; i < context.rows.size(); ++i) {
      const int64_t row = shard.head->store().rows().ToGlobal(context.rows[i]).value();
      for (size_t s = 0; s < samples.size(); ++s) {
        const auto active = context.SamplesOf(static_cast<int64_t>(i));
        const auto found = std::find(active.begin(), active.end(), s);
        if (found != active.end()) {
          const auto k = static_cast<uint32_t>(context.pair_offsets[i] + (found - active.begin()));
          samples[s].terms.push_back({row, context.PairWeight(k), offset_of(samples[s], row)});
        } else if (context.is_shared[i] != 0) {
          samples[s].terms.push_back({row, context.tail_weights[s]});
        }
      }
    }
  }
  return samples;
}

Network ShardedNetwork::Weights() const {
  Network network;
  network.sigmoid = head_spec_->head.loss == HeadLoss::kSigmoid;
  network.embedding.resize(shards_[0].embedding->store().rows().table_rows());
  network.dense.resize(dense_steps_.size());
  network.head.weights.resize(head_spec_->rows);
  network.head.bias.resize(head_spec_->rows);
  for (const Shard& shard : shards_) {
    CopyWeights(shard.embedding->store(), network.embedding, nullptr);
    for (size_t layer = 0; layer < network.dense.size(); ++layer) {
      const int64_t rows = shard.dense[layer]->rows().table_rows();
      network.dense[layer].weights.resize(rows);
      network.dense[layer].bias.resize(rows);
      CopyWeights(*shard.dense[layer], network.dense[layer].weights, &network.dense[layer].bias);
    }
    CopyWeights(shard.head->store(), network.head.weights, &network.head.bias);
  }
  return network;
}

uint64_t ShardedNetwork::Digest() const {
  uint64_t digest = 0;
  for (const Shard& shard : shards_) {
    // Multipliers tell the tables apart; the sum over shards stays independent of the shard count.
    digest += 3 * shard.embedding->store().Digest(parallelism_);
    for (size_t layer = 0; layer < shard.dense.size(); ++layer) {
      digest += (5 + 2 * layer) * shard.dense[layer]->Digest(parallelism_);
    }
    digest += shard.head->store().Digest(parallelism_);
  }
  return digest;
}

}  // namespace dslide::reference
