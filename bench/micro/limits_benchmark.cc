// What the machine itself can do: the other side of every kernel's bandwidth.
//
//   LimitRead/BYTES     reads a buffer in order, again and again: from the nearest cache that holds
//   it LimitCopy/BYTES     memcpy of a buffer, likewise; BYTES read and BYTES written
//   LimitGather/BYTES/RECORDS   reads records at random out of a table, the next ones prefetched
//   LimitUpdate/BYTES/RECORDS   the same, and writes them back
//
// Bytes processed are those read plus those written.

#include <cstdint>
#include <cstring>

#include "bench/micro/random_buffer.h"
#include "benchmark/benchmark.h"
#include "core/base/counter_rng.h"

namespace dslide::bench {
namespace {

// Records ahead of their use at which a gather prefetches: 8 of 512 bytes keep the line-fill
// buffers of a core busy.
constexpr int64_t kAhead = 8;
constexpr int64_t kLine = 64;

using Words __attribute__((vector_size(64))) = uint64_t;

[[gnu::always_inline]] inline uint64_t FoldWords(const char* data, int64_t bytes) {
  Words sum0{};
  Words sum1{};
  for (int64_t at = 0; at + 2 * kLine <= bytes; at += 2 * kLine) {
    sum0 ^= *reinterpret_cast<const Words*>(data + at);
    sum1 ^= *reinterpret_cast<const Words*>(data + at + kLine);
  }
  sum0 ^= sum1;
  return sum0[0] ^ sum0[7];
}

// Reads all of data; bytes is a multiple of 128 and data aligned to 64.
uint64_t FoldPlain(const char* data, int64_t bytes) { return FoldWords(data, bytes); }
#if defined(__x86_64__)
[[gnu::target("avx2")]] uint64_t FoldAvx2(const char* data, int64_t bytes) {
  return FoldWords(data, bytes);
}
[[gnu::target("avx512f")]] uint64_t FoldAvx512(const char* data, int64_t bytes) {
  return FoldWords(data, bytes);
}
using Fold = uint64_t (*)(const char*, int64_t);
Fold BestFold() {
  if (__builtin_cpu_supports("avx512f")) return FoldAvx512;
  return __builtin_cpu_supports("avx2") ? FoldAvx2 : FoldPlain;
}
#else
using Fold = uint64_t (*)(const char*, int64_t);
Fold BestFold() { return FoldPlain; }
#endif

void LimitRead(benchmark::State& state) {
  const int64_t bytes = state.range(0);
  const auto* const data = reinterpret_cast<const char*>(BigTable().data());
  const Fold fold = BestFold();
  for (auto _ : state) benchmark::DoNotOptimize(fold(data, bytes));
  state.SetBytesProcessed(state.iterations() * bytes);
}
BENCHMARK(LimitRead)->Arg(512)->Arg(1024)->Arg(16 << 10)->Arg(128 << 10)->Arg(1 << 30);

void LimitCopy(benchmark::State& state) {
  const int64_t bytes = state.range(0);
  auto* const data = reinterpret_cast<char*>(BigTable().data());
  for (auto _ : state) {
    std::memcpy(data + bytes, data, bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * 2 * bytes);
}
BENCHMARK(LimitCopy)->Arg(512)->Arg(1024)->Arg(2048)->Arg(4096)->Arg(8192)->Arg(1 << 29);

class Table {
 public:
  // record * records bytes at most 1 GiB.
  Table(int64_t record, int64_t records)
      : record_(record), records_(records), data_(reinterpret_cast<char*>(BigTable().data())) {}

  char* At(int64_t index) const { return data_ + CounterBits(7, index) % records_ * record_; }
  void Prefetch(int64_t index) const {
    const char* const record = At(index);
    for (int64_t at = 0; at < record_; at += kLine) __builtin_prefetch(record + at);
  }

 private:
  const int64_t record_;
  const int64_t records_;
  char* const data_;
};

void LimitGather(benchmark::State& state) {
  const int64_t record = state.range(0);
  const Table table(record, state.range(1));
  const Fold fold = BestFold();
  int64_t index = 0;
  for (auto _ : state) {
    table.Prefetch(index + kAhead);
    benchmark::DoNotOptimize(fold(table.At(index), record));
    ++index;
  }
  state.SetBytesProcessed(state.iterations() * record);
}
BENCHMARK(LimitGather)->Args({512, 2'000'000});

void LimitUpdate(benchmark::State& state) {
  const int64_t record = state.range(0);
  const Table table(record, state.range(1));
  AlignedBuffer copy = RandomFloats(record / 4, 4);
  int64_t index = 0;
  for (auto _ : state) {
    table.Prefetch(index + kAhead);
    char* const at = table.At(index);
    std::memcpy(copy.data(), at, record);
    benchmark::ClobberMemory();
    std::memcpy(at, copy.data(), record);
    benchmark::ClobberMemory();
    ++index;
  }
  state.SetBytesProcessed(state.iterations() * 2 * record);
}
// As large as the table of OptimizerApplyBenchmark with Adam, and one larger than any cache.
BENCHMARK(LimitUpdate)->Args({1600, 200'000})->Args({1600, 640'000});

}  // namespace
}  // namespace dslide::bench
