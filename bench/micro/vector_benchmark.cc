// The small vector kernels, those that convert, and the row kernel on random rows of a large table;
// where a slow reference exists, beside it under NAMEReferenceBenchmark.

#include <cstdint>
#include <vector>

#include "bench/micro/random_buffer.h"
#include "benchmark/benchmark.h"
#include "core/base/bfloat16.h"
#include "core/engine/math/kernels.h"
#include "core/engine/math/kernels_sketch.h"
#include "tests/reference/math_reference.h"
#include "tests/reference/optim_reference.h"
#include "tests/reference/vector_reference.h"

namespace dslide::bench {
namespace {

constexpr int64_t kDim = 128;

std::vector<double> RandomDoubles(int64_t n, uint64_t key) {
  const AlignedBuffer floats = RandomFloats(n, key);
  return {floats.span().begin(), floats.span().end()};
}

void SumOfSquaresBenchmark(benchmark::State& state) {
  const AlignedBuffer a = RandomFloats(kDim, 1);
  for (auto _ : state) benchmark::DoNotOptimize(SumOfSquares(a.data(), kDim));
}
BENCHMARK(SumOfSquaresBenchmark);
void SumOfSquaresReferenceBenchmark(benchmark::State& state) {
  const AlignedBuffer a = RandomFloats(kDim, 1);
  for (auto _ : state) benchmark::DoNotOptimize(reference::SumOfSquares(a.span()));
}
BENCHMARK(SumOfSquaresReferenceBenchmark);

// The factor keeps y bounded: alpha flips its sign in every call.
void AxpyBenchmark(benchmark::State& state) {
  const AlignedBuffer x = RandomFloats(kDim, 1);
  AlignedBuffer y = RandomFloats(kDim, 2);
  float alpha = 0.5f;
  for (auto _ : state) {
    Axpy(alpha, x.data(), y.data(), kDim);
    benchmark::ClobberMemory();
    alpha = -alpha;
  }
}
BENCHMARK(AxpyBenchmark);
void AxpyReferenceBenchmark(benchmark::State& state) {
  const AlignedBuffer x = RandomFloats(kDim, 1);
  std::vector<double> y = RandomDoubles(kDim, 2);
  double alpha = 0.5;
  for (auto _ : state) {
    reference::Axpy(alpha, x.span(), absl::MakeSpan(y));
    benchmark::ClobberMemory();
    alpha = -alpha;
  }
}
BENCHMARK(AxpyReferenceBenchmark);

void AddToBenchmark(benchmark::State& state) {
  const AlignedBuffer x = RandomFloats(kDim, 1);
  AlignedBuffer y = RandomFloats(kDim, 2);
  for (auto _ : state) {
    AddTo(x.data(), y.data(), kDim);
    benchmark::ClobberMemory();
  }
}
BENCHMARK(AddToBenchmark);
void AddToReferenceBenchmark(benchmark::State& state) {
  const AlignedBuffer x = RandomFloats(kDim, 1);
  std::vector<double> y = RandomDoubles(kDim, 2);
  for (auto _ : state) {
    reference::AddTo(x.span(), absl::MakeSpan(y));
    benchmark::ClobberMemory();
  }
}
BENCHMARK(AddToReferenceBenchmark);

void AddWithinBenchmark(benchmark::State& state) {
  const AlignedBuffer x = RandomFloats(kDim, 1);
  AlignedBuffer y = RandomFloats(kDim, 2);
  for (auto _ : state) {
    const auto* const bytes = reinterpret_cast<const char*>(x.data());
    benchmark::DoNotOptimize(AddWithin(bytes, y.data(), kDim, 1e30f));
    benchmark::ClobberMemory();
  }
}
BENCHMARK(AddWithinBenchmark);
void AddWithinReferenceBenchmark(benchmark::State& state) {
  const AlignedBuffer x = RandomFloats(kDim, 1);
  std::vector<double> y = RandomDoubles(kDim, 2);
  for (auto _ : state) {
    benchmark::DoNotOptimize(reference::AddWithin(x.span(), absl::MakeSpan(y), 1e30));
    benchmark::ClobberMemory();
  }
}
BENCHMARK(AddWithinReferenceBenchmark);

void AllWithinBenchmark(benchmark::State& state) {
  const AlignedBuffer x = RandomFloats(kDim, 1);
  for (auto _ : state) benchmark::DoNotOptimize(AllWithin(x.data(), kDim, 2.0f));
}
BENCHMARK(AllWithinBenchmark);
void AllWithinReferenceBenchmark(benchmark::State& state) {
  const AlignedBuffer x = RandomFloats(kDim, 1);
  for (auto _ : state) benchmark::DoNotOptimize(reference::AllWithin(x.span(), 2.0));
}
BENCHMARK(AllWithinReferenceBenchmark);

void ToBFloat16Benchmark(benchmark::State& state) {
  const AlignedBuffer x = RandomFloats(kDim, 1);
  std::vector<BFloat16> out(kDim);
  for (auto _ : state) {
    FloatsToBFloat16(x.data(), kDim, out.data());
    benchmark::ClobberMemory();
  }
}
BENCHMARK(ToBFloat16Benchmark);
void ToBFloat16ReferenceBenchmark(benchmark::State& state) {
  const AlignedBuffer x = RandomFloats(kDim, 1);
  std::vector<BFloat16> out(kDim);
  for (auto _ : state) {
    for (int64_t i = 0; i < kDim; ++i) out[i] = reference::ToBFloat16(x.data()[i]);
    benchmark::ClobberMemory();
  }
}
BENCHMARK(ToBFloat16ReferenceBenchmark);

void FromBFloat16Benchmark(benchmark::State& state) {
  const std::vector<BFloat16> in(kDim, BFloat16{0x3f80});
  AlignedBuffer out = RandomFloats(kDim, 1);
  for (auto _ : state) {
    BFloat16ToFloats(in.data(), kDim, out.data());
    benchmark::ClobberMemory();
  }
}
BENCHMARK(FromBFloat16Benchmark);
void FromBFloat16ReferenceBenchmark(benchmark::State& state) {
  const std::vector<BFloat16> in(kDim, BFloat16{0x3f80});
  AlignedBuffer out = RandomFloats(kDim, 1);
  for (auto _ : state) {
    for (int64_t i = 0; i < kDim; ++i) {
      benchmark::DoNotOptimize(out.data()[i] = ToFloat(in[i]));
    }
  }
}
BENCHMARK(FromBFloat16ReferenceBenchmark);

void ExpReferenceBenchmark(benchmark::State& state) {
  const AlignedBuffer x = RandomFloats(state.range(0), 1);
  for (auto _ : state) {
    for (const float value : x.span()) {
      benchmark::DoNotOptimize(reference::ClampedExp(value - 1.0f));
    }
  }
}
BENCHMARK(ExpReferenceBenchmark)->Arg(1000);

// The rows that one sample finds, with the equal codes of each, and a bound that a tenth reaches.
struct SplitWork {
  SplitWork() {
    for (int64_t i = 0; i < kIds; ++i) {
      ids.push_back(static_cast<uint32_t>(CounterBits(1, i)));
      counts.push_back(static_cast<uint16_t>(CounterBits(2, i) % 100));
    }
  }
  static constexpr int64_t kIds = 6000;
  static constexpr uint16_t kBound = 90;
  std::vector<uint32_t> ids, above = std::vector<uint32_t>(kIds), equal = above;
  std::vector<uint16_t> counts;
};

void SplitByCountBenchmark(benchmark::State& state) {
  SplitWork work;
  for (auto _ : state) {
    benchmark::DoNotOptimize(SplitByCount(work.ids.data(), work.counts.data(), SplitWork::kIds,
                                          SplitWork::kBound, work.above.data(), work.equal.data()));
    benchmark::ClobberMemory();
  }
}
BENCHMARK(SplitByCountBenchmark);
void SplitByCountReferenceBenchmark(benchmark::State& state) {
  const SplitWork work;
  for (auto _ : state) {
    benchmark::DoNotOptimize(reference::SplitByCount(work.ids, work.counts, SplitWork::kBound));
  }
}
BENCHMARK(SplitByCountReferenceBenchmark);

// What one sample reads of its buckets: rows and their sketches, of which one in seven is near.
struct SketchWork {
  SketchWork() {
    for (int64_t i = 0; i < SplitWork::kIds; ++i) {
      words.push_back(CounterBits(1, i));
      counts.push_back(static_cast<uint8_t>(CounterBits(3, i) % 45));
    }
  }
  static constexpr uint64_t kQuery = 0x123456789abcdef;
  static constexpr int kIdBits = 20;
  static constexpr uint8_t kBound = 26;
  std::vector<uint64_t> words;
  std::vector<uint32_t> ids = std::vector<uint32_t>(SplitWork::kIds);
  std::vector<uint8_t> counts;
};

void ReadNearBenchmark(benchmark::State& state) {
  SketchWork work;
  for (auto _ : state) {
    benchmark::DoNotOptimize(ReadNear(work.words.data(), SplitWork::kIds, SketchWork::kQuery,
                                      SketchWork::kIdBits, SketchWork::kBound, work.ids.data(),
                                      work.counts.data()));
    benchmark::ClobberMemory();
  }
}
BENCHMARK(ReadNearBenchmark);
void ReadNearReferenceBenchmark(benchmark::State& state) {
  const SketchWork work;
  for (auto _ : state) {
    benchmark::DoNotOptimize(reference::ReadNear(work.words, SketchWork::kQuery,
                                                 SketchWork::kIdBits, SketchWork::kBound));
  }
}
BENCHMARK(ReadNearReferenceBenchmark);

void CountAtLeastBenchmark(benchmark::State& state) {
  const SketchWork work;
  for (auto _ : state) {
    benchmark::DoNotOptimize(CountAtLeast(work.counts.data(), SplitWork::kIds, SketchWork::kBound));
  }
}
BENCHMARK(CountAtLeastBenchmark);
void CountAtLeastReferenceBenchmark(benchmark::State& state) {
  const SketchWork work;
  for (auto _ : state) {
    benchmark::DoNotOptimize(reference::CountAtLeast(work.counts, SketchWork::kBound));
  }
}
BENCHMARK(CountAtLeastReferenceBenchmark);

// The codes of a pool's rows, 120 of one bit in two words, against a query's.
struct PoolWork {
  static constexpr int64_t kRows = 4096;
  static constexpr int64_t kWords = 2;
  static constexpr int64_t kCodesPerWord = 60;
  PoolWork() {
    shape.lowest_bits = (uint64_t{1} << kCodesPerWord) - 1;
    for (int64_t i = 0; i < kWords * kRows; ++i) {
      words.push_back(CounterBits(5, i) & shape.lowest_bits);
    }
  }
  std::vector<uint64_t> words;
  std::vector<uint64_t> query = {CounterBits(6, 0), CounterBits(6, 1)};
  CodeShape shape = {kWords * kCodesPerWord, 1, 0};
  std::vector<uint16_t> equal = std::vector<uint16_t>(kRows);
};

void CountEqualCodesBenchmark(benchmark::State& state) {
  PoolWork work;
  for (auto _ : state) {
    CountEqualCodes({work.words.data(), PoolWork::kRows, PoolWork::kRows, PoolWork::kWords},
                    work.shape, work.query.data(), work.equal.data());
    benchmark::ClobberMemory();
  }
}
BENCHMARK(CountEqualCodesBenchmark);
void CountEqualCodesReferenceBenchmark(benchmark::State& state) {
  PoolWork work;
  for (auto _ : state) {
    for (int64_t i = 0; i < PoolWork::kRows; ++i) {
      const uint64_t row[] = {work.words[i], work.words[PoolWork::kRows + i]};
      work.equal[i] =
          static_cast<uint16_t>(reference::EqualCodes(row, work.query, PoolWork::kCodesPerWord, 1));
    }
    benchmark::ClobberMemory();
  }
}
BENCHMARK(CountEqualCodesReferenceBenchmark);

// One row's update in double precision, one parameter at a time; arg: the optimizer.
void OptimizerReferenceBenchmark(benchmark::State& state) {
  OptimizerSpec spec;
  spec.kind = static_cast<OptimizerKind>(state.range(0));
  reference::Row row;
  row.parameters.resize(kDim + 1);
  row.parameters.back().decays = false;
  const std::vector<double> gradients(kDim + 1, 0.01);
  int64_t step = 1;
  for (auto _ : state) {
    reference::DenseStep(spec, step++, gradients, &row);
    benchmark::ClobberMemory();
  }
}
BENCHMARK(OptimizerReferenceBenchmark)->DenseRange(0, 3);

// Logits of rows at random places of a table that no cache holds, two samples each, as a step of
// training reads them; compare LimitGather.
void RowLogitsTableBenchmark(benchmark::State& state) {
  constexpr int64_t kRows = 2'000'000;
  constexpr int64_t kAhead = 8;
  const AlignedBuffer& table = BigTable();
  const AlignedBuffer hidden = RandomFloats(256 * kDim, 2);
  const std::vector<uint32_t> samples = {17, 201};
  std::vector<float> logits(samples.size());
  const auto row = [&](int64_t index) {
    return table.data() + CounterBits(7, index) % kRows * kDim;
  };
  int64_t index = 0;
  for (auto _ : state) {
    for (int64_t i = 0; i < kDim; i += 16) __builtin_prefetch(row(index + kAhead) + i);
    RowLogits(row(index), 0.5f, hidden.data(), kDim, kDim, samples, logits.data());
    benchmark::ClobberMemory();
    ++index;
  }
}
BENCHMARK(RowLogitsTableBenchmark);

}  // namespace
}  // namespace dslide::bench
