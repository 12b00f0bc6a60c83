// Times one head's training step by stage, on made-up samples that drift to their labels.
//
//   head_step_benchmark --rows 670091 --threads 2
//
// Samples come from clusters: a cluster has a random non-negative hidden vector (half zeros, like a
// ReLU output) and three labels of a skewed distribution. Times are medians over the steps, wall
// clock and CPU of all threads; on a busy machine only the latter means something.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "core/base/counter_rng.h"
#include "core/base/status_macros.h"
#include "core/engine/lsh/hash_index.h"
#include "core/engine/model/batch_selector.h"
#include "core/engine/model/head_scores.h"
#include "core/engine/model/head_update.h"
#include "core/engine/rows/row_store.h"

namespace dslide {
namespace {

struct Options {
  int64_t rows = 41000;
  int64_t dim = 128;
  int64_t batch = 256;
  int64_t max_active = 300;
  int64_t tail_rows = 512;
  int64_t num_tables = 12;
  int64_t codes = 0;
  int64_t steps = 60;
  int64_t rebuild = 20;
  int threads = 1;
  RowPrecision precision = RowPrecision::kF32;
  OptimizerKind optimizer = OptimizerKind::kAdam;
};

double Now() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double CpuNow() { return static_cast<double>(std::clock()) * (1e3 / CLOCKS_PER_SEC); }

// What was seen of one stage or count. `cpu` is empty for counts.
struct Series {
  std::vector<double> wall;
  std::vector<double> cpu;
};
using Times = std::map<std::string, Series>;

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

template <typename Body>
void Timed(Times& times, const char* stage, const Body& body) {
  const double begin = Now();
  const double cpu_begin = CpuNow();
  body();
  times[stage].wall.push_back(Now() - begin);
  times[stage].cpu.push_back(CpuNow() - cpu_begin);
}

HeadBatch MakeBatch(const Options& options, int64_t step) {
  constexpr int64_t kClusters = 5000;
  CounterRng rng(DeriveKey(1, step));
  HeadBatch batch;
  batch.label_offsets = {0};
  for (int64_t s = 0; s < options.batch; ++s) {
    CounterRng cluster(DeriveKey(2, rng.NextBelow(kClusters)));
    for (int64_t i = 0; i < options.dim; ++i) {
      const float value = cluster.NextGaussian() + 0.3f * rng.NextGaussian();
      batch.hidden.push_back(std::max(0.0f, value));
    }
    std::vector<LocalRow> labels;
    for (int64_t i = 0; i < 3; ++i) {
      const double skewed = std::pow(cluster.NextUniform(), 3.0);
      labels.push_back(LocalRow(static_cast<uint32_t>(skewed * (options.rows - 1))));
    }
    std::sort(labels.begin(), labels.end());
    labels.erase(std::unique(labels.begin(), labels.end()), labels.end());
    batch.labels.insert(batch.labels.end(), labels.begin(), labels.end());
    batch.label_offsets.push_back(static_cast<uint32_t>(batch.labels.size()));
    batch.label_targets.push_back(1.0f / static_cast<float>(labels.size()));
  }
  return batch;
}

std::vector<float> LogPartitions(const HeadForwardOutput& output) {
  std::vector<float> result;
  for (size_t s = 0; s < output.max_logits.size(); ++s) {
    result.push_back(output.max_logits[s] + std::log(output.exp_sums[s]));
  }
  return result;
}

double MeanLoss(const HeadBatch& batch, const HeadForwardOutput& output,
                const std::vector<float>& log_partitions) {
  double loss = 0.0;
  for (int64_t s = 0; s < batch.batch(); ++s) {
    for (uint32_t i = batch.label_offsets[s]; i < batch.label_offsets[s + 1]; ++i) {
      loss += batch.label_targets[s] * (log_partitions[s] - output.label_logits[i]);
    }
  }
  return loss / static_cast<double>(batch.batch());
}

TableSpec SpecOf(const Options& options) {
  TableSpec spec;
  spec.name = "head";
  spec.role = TableRole::kHead;
  spec.rows = options.rows;
  spec.dim = options.dim;
  spec.precision = options.precision;
  spec.optimizer.kind = options.optimizer;
  spec.head.hash.num_tables = options.num_tables;
  spec.head.hash.codes_per_table = options.codes;
  return spec;
}

// One head, and what its steps leave behind.
struct HeadBench {
  explicit HeadBench(const Options& given)
      : options(given),
        parallelism{given.threads},
        spec(SpecOf(given)),
        dirty(given.rows, 0),
        hidden_gradient(given.batch * given.dim),
        scratch(given.threads),
        selections(given.batch) {}

  const Options& options;
  const Parallelism parallelism;
  const TableSpec spec;
  std::unique_ptr<RowStore> store;
  std::unique_ptr<HashIndex> index;
  Times times;
  BatchSelector selector;
  HeadScorer scorer;
  HeadUpdater updater;
  HeadContext context;
  HeadForwardOutput output;
  std::vector<uint8_t> dirty;  // [rows]
  std::vector<float> hidden_gradient;
  std::vector<SelectScratch> scratch;
  std::vector<Selection> selections;
  std::vector<HashQuery> queries;
};

absl::Status Prepare(HeadBench& bench) {
  const double weight = 1.0;
  ASSIGN_OR_RETURN(const SlotMap map, SlotMap::Deal(kDefaultNumSlots, {&weight, 1}));
  double begin = Now();
  ASSIGN_OR_RETURN(bench.store,
                   RowStore::Create(bench.spec, 1, ShardRows(map, ShardId(0), bench.spec.rows),
                                    bench.parallelism));
  std::printf("create rows          %9.2f ms\n", Now() - begin);
  ASSIGN_OR_RETURN(bench.index, HashIndex::Create(ResolvedHead(bench.spec).hash, bench.spec.dim));
  begin = Now();
  bench.index->Build(*bench.store, {}, Refresh::kYes, bench.parallelism);
  std::printf("first build          %9.2f ms\n", Now() - begin);
  return absl::OkStatus();
}

void SelectRows(HeadBench& bench, int64_t step) {
  const Options& options = bench.options;
  HeadBatch batch = MakeBatch(options, step);
  batch.fingerprints.resize(options.batch * options.num_tables);
  Timed(bench.times, "1 hash queries", [&] {
    bench.index->family().HashQueries(batch.hidden, options.batch, bench.parallelism,
                                      absl::MakeSpan(batch.fingerprints));
  });
  Timed(bench.times, "2 select alone", [&] {
    bench.queries.clear();
    for (int64_t s = 0; s < options.batch; ++s) {
      bench.queries.push_back({absl::MakeConstSpan(batch.fingerprints)
                                   .subspan(s * options.num_tables, options.num_tables),
                               batch.LabelsOf(s)});
    }
    bench.index->SelectEach(bench.queries, options.max_active, bench.parallelism,
                            absl::MakeSpan(bench.scratch), absl::MakeSpan(bench.selections));
  });
  bench.context.batch = std::move(batch);
  const SelectionPlan plan{.index = options.max_active == 0 ? nullptr : bench.index.get(),
                           .every_row = options.max_active == 0,
                           .num_rows = bench.spec.rows,
                           .max_active = options.max_active,
                           .tail_rows = options.tail_rows,
                           .tail_key = static_cast<uint64_t>(step)};
  Timed(bench.times, "3 select+invert", [&] {
    bench.output.active_pairs = bench.selector.Select(plan, bench.parallelism, bench.context);
  });
}

// Returns the mean loss.
double Learn(HeadBench& bench, int64_t step) {
  Timed(bench.times, "4 logits+softmax", [&] {
    bench.scorer.Score(*bench.store, HeadLoss::kSoftmax, {}, bench.parallelism, bench.context,
                       bench.output);
  });
  const std::vector<float> log_partitions = LogPartitions(bench.output);
  const double loss = MeanLoss(bench.context.batch, bench.output, log_partitions);
  const HeadUpdate update{.loss = HeadLoss::kSoftmax,
                          .log_partitions = log_partitions,
                          .scale = 1.0f / static_cast<float>(bench.options.batch),
                          .magnitude_bound = 1e4f,
                          .step = Step(step + 1)};
  Timed(bench.times, "5 gradients+update", [&] {
    bench.updater.Run(update, bench.context, bench.parallelism, *bench.store,
                      absl::MakeSpan(bench.dirty), absl::MakeSpan(bench.hidden_gradient));
  });
  const auto count = [&](const char* what, double value) {
    bench.times[what].wall.push_back(value);
  };
  count("distinct rows", static_cast<double>(bench.context.rows.size()));
  count("active per sample",
        static_cast<double>(bench.output.active_pairs) / static_cast<double>(bench.options.batch));
  count("scores", static_cast<double>(bench.context.scores.size()));
  return loss;
}

void BuildTables(HeadBench& bench) {
  std::vector<LocalRow> rows;
  for (int64_t row = 0; row < bench.spec.rows; ++row) {
    if (bench.dirty[row] != 0) rows.push_back(LocalRow(static_cast<uint32_t>(row)));
  }
  std::fill(bench.dirty.begin(), bench.dirty.end(), 0);
  bench.times["dirty rows"].wall.push_back(static_cast<double>(rows.size()));
  Timed(bench.times, "6 build, dirty rows",
        [&] { bench.index->Build(*bench.store, rows, Refresh::kNo, bench.parallelism); });
  Timed(bench.times, "7 build, refreshed",
        [&] { bench.index->Build(*bench.store, {}, Refresh::kYes, bench.parallelism); });
}

void Print(const Times& times, double loss) {
  std::printf("%-20s %9s %9s\n", "median", "wall ms", "CPU ms");
  for (const auto& [stage, series] : times) {
    if (series.cpu.empty()) {
      std::printf("%-20s %9.0f\n", stage.c_str(), Median(series.wall));
    } else {
      std::printf("%-20s %9.2f %9.2f\n", stage.c_str(), Median(series.wall), Median(series.cpu));
    }
  }
  std::printf("loss                 %9.4f\n", loss);
}

int Run(const Options& options) {
  HeadBench bench(options);
  if (const absl::Status prepared = Prepare(bench); !prepared.ok()) {
    std::fprintf(stderr, "%s\n", prepared.ToString().c_str());
    return 1;
  }
  double loss = 0.0;
  for (int64_t step = 0; step < options.steps; ++step) {
    SelectRows(bench, step);
    loss = Learn(bench, step);
    if ((step + 1) % options.rebuild == 0) BuildTables(bench);
  }
  Print(bench.times, loss);
  return 0;
}

}  // namespace
}  // namespace dslide

int main(int argc, char** argv) {
  dslide::Options options;
  CLI::App app("Times one head's training step by stage (milliseconds, medians)");
  app.add_option("--rows", options.rows, "labels");
  app.add_option("--dim", options.dim, "hidden width");
  app.add_option("--batch", options.batch, "samples of a step");
  app.add_option("--max-active", options.max_active, "active rows of a sample; 0: all");
  app.add_option("--tail-rows", options.tail_rows, "rows shared by a batch");
  app.add_option("--tables", options.num_tables, "hash tables");
  app.add_option("--codes", options.codes, "codes per table; 0: from the rows");
  app.add_option("--steps", options.steps, "steps to run");
  app.add_option("--rebuild", options.rebuild, "steps between builds");
  app.add_option("--threads", options.threads, "threads");
  using Precisions = std::map<std::string, dslide::RowPrecision>;
  app.add_option("--precision", options.precision, "storage of the rows")
      ->transform(
          CLI::CheckedTransformer(Precisions{{"f32", dslide::RowPrecision::kF32},
                                             {"bf16_weights", dslide::RowPrecision::kBf16Weights},
                                             {"bf16", dslide::RowPrecision::kBf16}}));
  using Optimizers = std::map<std::string, dslide::OptimizerKind>;
  app.add_option("--optimizer", options.optimizer, "optimizer")
      ->transform(CLI::CheckedTransformer(
          Optimizers{{"sgd", dslide::OptimizerKind::kSgd},
                     {"adagrad", dslide::OptimizerKind::kAdagrad},
                     {"row-wise-adagrad", dslide::OptimizerKind::kRowWiseAdagrad},
                     {"adam", dslide::OptimizerKind::kAdam}}));
  CLI11_PARSE(app, argc, argv);
  return dslide::Run(options);
}
