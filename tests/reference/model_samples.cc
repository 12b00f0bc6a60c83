#include "tests/reference/model_samples.h"

#include <set>
#include <string>

#include "core/base/counter_rng.h"

namespace dslide::reference {
namespace {

std::set<int64_t> DrawIds(int64_t count, int64_t bound, CounterRng& rng) {
  std::set<int64_t> ids;
  for (int64_t i = 0; i < count; ++i) ids.insert(static_cast<int64_t>(rng.NextBelow(bound)));
  return ids;
}

}  // namespace

ModelSpec MakeSpec(const ModelShape& shape) {
  TableSpec base;
  base.num_slots = 16;
  base.optimizer.kind = shape.optimizer;
  base.optimizer.learning_rate = shape.learning_rate;
  ModelSpec spec;
  spec.name = "test";
  spec.seed = shape.seed;

  TableSpec input = base;
  input.name = "input";
  input.rows = shape.features + 1;
  input.dim = shape.width;
  input.bias_row = true;
  spec.tables.push_back(input);
  int64_t width = shape.width;
  for (size_t layer = 0; layer < shape.dense.size(); ++layer) {
    TableSpec dense = base;
    dense.name = "dense-" + std::to_string(layer);
    dense.role = TableRole::kDense;
    dense.rows = shape.dense[layer];
    dense.dim = width;
    width = dense.rows;
    spec.tables.push_back(dense);
  }
  TableSpec output = base;
  output.name = "output";
  output.role = TableRole::kHead;
  output.rows = shape.labels;
  output.dim = width;
  output.head.loss = shape.loss;
  output.head.max_active = shape.max_active;
  output.head.tail_rows = shape.tail_rows;
  output.head.sampled_candidates = shape.sampled_candidates;
  output.head.hash.rebuild_every_steps = 5;
  output.head.hash.codes_per_table = 4;
  output.head.hash.num_tables = 4;
  spec.tables.push_back(output);
  return spec;
}

std::vector<Sample> MakeSamples(const ModelShape& shape, int64_t count, uint64_t key) {
  CounterRng rng(key);
  std::vector<Sample> samples(count);
  for (Sample& sample : samples) {
    for (const int64_t id : DrawIds(1 + rng.NextBelow(5), shape.features, rng)) {
      sample.features.push_back(id);
      sample.values.push_back(static_cast<float>(0.5 + rng.NextUniform()));
    }
    sample.features.push_back(shape.features);
    sample.values.push_back(1.0);
    const int64_t num_labels = rng.NextBelow(8) == 0 ? 0 : 1 + rng.NextBelow(3);
    for (const int64_t id : DrawIds(num_labels, shape.labels, rng)) sample.labels.push_back(id);
  }
  CounterRng named_rng(DeriveKey(key, 1));
  for (Sample& sample : samples) {
    std::set<int64_t> rows = DrawIds(shape.named, shape.labels, named_rng);
    if (shape.named > 0 && !sample.labels.empty()) rows.insert(sample.labels[0]);
    for (const int64_t row : rows) {
      const double weight = 0.5 * static_cast<double>(named_rng.NextBelow(7));
      sample.named.push_back({row, weight, named_rng.NextGaussian()});
    }
  }
  return samples;
}

void UseAllRows(int64_t rows, std::vector<Sample>& samples) {
  for (Sample& sample : samples) {
    sample.terms.clear();
    for (int64_t row = 0; row < rows; ++row) sample.terms.push_back({row, 1.0});
  }
}

}  // namespace dslide::reference
