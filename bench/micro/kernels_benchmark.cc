// Vector kernels beside their plain-loop references, in one run: compare ratios, not times.
//
//   kernels_benchmark --benchmark_filter=RowLogits
//   DSLIDE_MAX_ISA=avx2 kernels_benchmark
//
// Sizes are those of training: dim 128, a batch of 256 hidden vectors, 1 to 256 samples per row.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "core/base/counter_rng.h"
#include "core/engine/math/kernels.h"
#include "core/engine/optim/optimizer.h"
#include "core/system/aligned_buffer.h"
#include "tests/reference/math_reference.h"

namespace dslide {
namespace {

constexpr int64_t kDim = 128;
constexpr int64_t kBatch = 256;

AlignedBuffer RandomBuffer(int64_t n, uint64_t key) {
  AlignedBuffer buffer = AlignedBuffer::Create(n).value();
  CounterRng rng(key);
  for (float& x : buffer.span()) x = 2.0f * rng.NextUniform() - 1.0f;
  return buffer;
}

// `count` sorted positions in a batch, spread at random; another choice for each key.
std::vector<uint32_t> RandomSamples(int64_t count, uint64_t key) {
  CounterRng rng(key);
  std::vector<uint32_t> all(kBatch);
  for (uint32_t i = 0; i < kBatch; ++i) all[i] = i;
  for (uint32_t i = 0; i < count; ++i) std::swap(all[i], all[i + rng.NextBelow(kBatch - i)]);
  std::sort(all.begin(), all.begin() + count);
  return {all.begin(), all.begin() + count};
}

// A batch and some rows, each with samples of its own, so that branches and caches see variety.
struct RowWork {
  explicit RowWork(int64_t samples_per_row)
      : weights(RandomBuffer(kRows * kDim, 1)),
        hidden(RandomBuffer(kBatch * kDim, 2)),
        hidden_grad(RandomBuffer(kBatch * kDim, 3)),
        g(RandomBuffer(kBatch, 4)),
        out(RandomBuffer(kBatch, 5)),
        row_grad(RandomBuffer(kDim, 6)) {
    for (int64_t row = 0; row < kRows; ++row) {
      samples.push_back(RandomSamples(samples_per_row, static_cast<uint64_t>(row)));
    }
  }
  const float* Weights(int64_t row) const { return weights.data() + row % kRows * kDim; }
  const std::vector<uint32_t>& Samples(int64_t row) const { return samples[row % kRows]; }

  static constexpr int64_t kRows = 64;
  AlignedBuffer weights, hidden, hidden_grad, g, out, row_grad;
  std::vector<std::vector<uint32_t>> samples;
};

void DotBenchmark(benchmark::State& state) {
  const int64_t n = state.range(0);
  const AlignedBuffer a = RandomBuffer(n, 1);
  const AlignedBuffer b = RandomBuffer(n, 2);
  for (auto _ : state) benchmark::DoNotOptimize(Dot(a.data(), b.data(), n));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(DotBenchmark)->Arg(64)->Arg(128)->Arg(1024);

void DotReferenceBenchmark(benchmark::State& state) {
  const AlignedBuffer a = RandomBuffer(state.range(0), 1);
  const AlignedBuffer b = RandomBuffer(state.range(0), 2);
  for (auto _ : state) benchmark::DoNotOptimize(reference::Dot(a.span(), b.span()));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(DotReferenceBenchmark)->Arg(128);

void RowLogitsBenchmark(benchmark::State& state) {
  RowWork work(state.range(0));
  int64_t row = 0;
  for (auto _ : state) {
    RowLogits(work.Weights(row), 0.5f, work.hidden.data(), kDim, kDim, work.Samples(row),
              work.out.data());
    benchmark::ClobberMemory();
    ++row;
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));  // one dot product each
}
BENCHMARK(RowLogitsBenchmark)->Arg(1)->Arg(2)->Arg(4)->Arg(7)->Arg(32)->Arg(256);

void RowLogitsReferenceBenchmark(benchmark::State& state) {
  RowWork work(state.range(0));
  int64_t row = 0;
  for (auto _ : state) {
    const absl::Span<const float> weights(work.Weights(row), kDim);
    for (const uint32_t sample : work.Samples(row)) {
      benchmark::DoNotOptimize(
          reference::Dot(weights, work.hidden.span().subspan(sample * kDim, kDim)));
    }
    ++row;
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(RowLogitsReferenceBenchmark)->Arg(32);

void RowGradientsBenchmark(benchmark::State& state) {
  RowWork work(state.range(0));
  int64_t row = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(RowGradients(work.Weights(row), work.hidden.data(), kDim, kDim,
                                          work.Samples(row), work.g.data(), work.row_grad.data(),
                                          work.hidden_grad.data()));
    benchmark::ClobberMemory();
    ++row;
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(RowGradientsBenchmark)->Arg(1)->Arg(2)->Arg(4)->Arg(7)->Arg(32)->Arg(256);

void RowGradientsReferenceBenchmark(benchmark::State& state) {
  RowWork work(state.range(0));
  int64_t row = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(reference::RowGradients(
        {work.Weights(row), kDim}, work.hidden.span(), kDim, work.Samples(row),
        work.g.span().first(work.Samples(row).size()), work.hidden_grad.span()));
    ++row;
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(RowGradientsReferenceBenchmark)->Arg(256);

// One optimizer update of a row. Arg 0: the rows visited at random, 64 to stay in the L2 cache,
// 200,000 (310 MB) for what training does. Arg 1: the kind.
void OptimizerApplyBenchmark(benchmark::State& state) {
  const int64_t rows = state.range(0);
  OptimizerSpec spec;
  spec.kind = static_cast<OptimizerKind>(state.range(1));
  const auto optimizer = Optimizer::Create(spec).value();
  const int64_t record = kDim * (1 + optimizer->state_vectors()) + 16;
  AlignedBuffer table = RandomBuffer(rows * record, 1);
  for (float& x : table.span()) x *= x;  // second moments are not negative
  const AlignedBuffer gradient = RandomBuffer(kDim, 2);
  const RowShape shape{.dim = kDim, .stride = kDim, .magnitude_bound = 1e4f};
  int64_t step = 1;
  for (auto _ : state) {
    float* const row = table.data() + CounterBits(1, step) % rows * record;
    float* const tail = row + record - 16;
    const RowView view{.weights = row,
                       .state = row + kDim,
                       .bias = tail,
                       .bias_state = tail + 1,
                       .row_state = tail + 3};
    optimizer->Apply(optimizer->BeginStep(Step(step + 7), std::nullopt), shape,
                     {.weights = gradient.data(), .bias = 0.5f, .last_step = Step(step)},
                     view.AsSource(), view);
    ++step;
  }
  state.SetItemsProcessed(state.iterations());
  state.SetLabel(std::vector<std::string>{"sgd", "adagrad", "row-wise adagrad",
                                          "adam"}[static_cast<size_t>(state.range(1))]);
}
BENCHMARK(OptimizerApplyBenchmark)->ArgsProduct({{64, 200'000}, {0, 1, 2, 3}});

// gradient_scale 10^-arg: squares of small gradients are subnormal numbers.
void AdamUpdateBenchmark(benchmark::State& state) {
  AlignedBuffer w = RandomBuffer(kDim, 1);
  AlignedBuffer m = AlignedBuffer::Create(kDim).value();
  AlignedBuffer v = AlignedBuffer::Create(kDim).value();
  AlignedBuffer g = RandomBuffer(kDim, 2);
  for (int64_t i = 0; i < state.range(0); ++i) {
    for (float& x : g.span()) x *= 0.1f;
  }
  const AdamFactors factors{.decay1 = 0.9f,
                            .decay2 = 0.999f,
                            .blend1 = 0.1f,
                            .blend2 = 0.001f,
                            .rate = 0.001f / 0.9f,
                            .inverse2 = 1.0f / 0.9f,
                            .epsilon = 1e-8f,
                            .keep = 0.9999f};
  for (auto _ : state) {
    AdamUpdate({w.data(), w.data()}, {m.data(), m.data()}, {v.data(), v.data()}, g.data(), kDim,
               factors, 1e4f);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(AdamUpdateBenchmark)->Arg(0)->Arg(21);

// Stochastic rounding of a row, and what nearest rounding of it costs.
void RoundToBFloat16Benchmark(benchmark::State& state) {
  const AlignedBuffer x = RandomBuffer(kDim, 1);
  std::vector<BFloat16> out(kDim);
  uint32_t key = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(RoundToBFloat16(x.data(), kDim, {++key, 7}, out.data()));
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(RoundToBFloat16Benchmark);

void FloatsToBFloat16Benchmark(benchmark::State& state) {
  const AlignedBuffer x = RandomBuffer(kDim, 1);
  std::vector<BFloat16> out(kDim);
  for (auto _ : state) {
    FloatsToBFloat16(x.data(), kDim, out.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(FloatsToBFloat16Benchmark);

void SignedHadamardLanesBenchmark(benchmark::State& state) {
  const std::vector<float> signs(state.range(0), -1.0f);
  AlignedBuffer x = RandomBuffer(state.range(0) * kHadamardLanes, 1);
  for (auto _ : state) {
    SignedHadamardLanes(x.data(), signs.data(), x.data(), state.range(0));
    for (float& value : x.span().first(1)) value = 1.0f;
    benchmark::ClobberMemory();
    if (!(x.data()[1] < 1e30f)) {
      for (float& value : x.span()) value = 0.5f;
    }
  }
  state.SetItemsProcessed(state.iterations() * kHadamardLanes);  // transforms
}
BENCHMARK(SignedHadamardLanesBenchmark)->Arg(128)->Arg(256);

void HadamardReferenceBenchmark(benchmark::State& state) {
  const AlignedBuffer x = RandomBuffer(state.range(0), 1);
  for (auto _ : state) benchmark::DoNotOptimize(reference::HadamardButterflies(x.span()));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(HadamardReferenceBenchmark)->Arg(128);

void ExpShiftedBenchmark(benchmark::State& state) {
  const AlignedBuffer x = RandomBuffer(state.range(0), 1);
  AlignedBuffer y = AlignedBuffer::Create(state.range(0)).value();
  for (auto _ : state) {
    std::copy(x.span().begin(), x.span().end(), y.data());
    ExpShifted(y.data(), state.range(0), 1.0f);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(ExpShiftedBenchmark)->Arg(1000);

}  // namespace
}  // namespace dslide
