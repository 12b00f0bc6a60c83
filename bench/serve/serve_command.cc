#include "bench/serve/serve_command.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "bench/common/foreign_load.h"
#include "bench/common/machine.h"
#include "bench/common/run_command.h"
#include "bench/common/statistics.h"
#include "bench/serve/memory_speed.h"
#include "bench/serve/predict_client.h"
#include "client/cli/serve/predict_server.h"
#include "client/trainer/recall_tuner.h"
#include "core/base/status_macros.h"
#include "core/engine/data/sparse_dataset.h"

namespace dslide::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kWarmUp = 20;
// Queries that the server learns from how many rows a recall takes; none of those that are
// measured, where the data has others.
constexpr int64_t kLearnt = RecallTuner::kSampleQueries;

struct ServeCommand {
  std::string model_dir;
  std::string data;
  int64_t queries = 500;
  int64_t batch = 32;
  int64_t k = 10;
  double recall = 0.95;
  std::string output = "text";
};

// Latencies of one kind of request, and what was answered to it.
struct Measured {
  std::vector<double> seconds;  // of each request
  std::vector<PredictAnswer> answers;

  Json ToJson(int64_t queries_per_request) const {
    double scored = 0;
    int64_t results = 0;
    for (const PredictAnswer& answer : answers) {
      for (const double rows : answer.scored_rows) scored += rows;
      results += static_cast<int64_t>(answer.scored_rows.size());
    }
    uint32_t checksum = 0;
    for (const PredictAnswer& answer : answers) checksum = checksum * 31 + answer.checksum;
    return {{"p50_ms", 1e3 * Median(seconds)},
            {"p99_ms", 1e3 * Quantile(seconds, 0.99)},
            {"requests", seconds.size()},
            {"queries_per_request", queries_per_request},
            {"scored_rows", results == 0 ? 0 : scored / static_cast<double>(results)},
            {"checksum", checksum},
            {"exact", !answers.empty() && answers.front().exact}};
  }
};

absl::StatusOr<Measured> Measure(const PredictClient& client, const SparseBatch& points,
                                 const ServeCommand& options, int64_t batch, v1::PredictMode mode) {
  Measured measured;
  for (int64_t first = 0; first + batch <= points.samples(); first += batch) {
    const absl::Time start = absl::Now();
    ASSIGN_OR_RETURN(PredictAnswer answer, client.Predict(points, first, batch, options.k, mode));
    measured.seconds.push_back(absl::ToDoubleSeconds(absl::Now() - start));
    measured.answers.push_back(std::move(answer));
  }
  return measured;
}

// A call that ranks nothing.
absl::StatusOr<double> MedianCall(const PredictClient& client) {
  constexpr int kCalls = 200;
  std::vector<double> seconds;
  for (int i = 0; i < kCalls; ++i) {
    const absl::Time start = absl::Now();
    RETURN_IF_ERROR(client.Describe());
    seconds.push_back(absl::ToDoubleSeconds(absl::Now() - start));
  }
  return Median(seconds);
}

// How many of the exact answers' labels the hashed answers have.
double RecallOf(const Measured& hashed, const Measured& exact) {
  int64_t wanted = 0;
  int64_t found = 0;
  for (size_t i = 0; i < exact.answers.size(); ++i) {
    const std::vector<std::vector<uint32_t>>& labels = exact.answers[i].labels;
    for (size_t q = 0; q < labels.size(); ++q) {
      const std::vector<uint32_t>& mine = hashed.answers[i].labels[q];
      const absl::flat_hash_set<uint32_t> have(mine.begin(), mine.end());
      wanted += static_cast<int64_t>(labels[q].size());
      for (const uint32_t label : labels[q]) found += have.contains(label) ? 1 : 0;
    }
  }
  return wanted == 0 ? 0 : static_cast<double>(found) / static_cast<double>(wanted);
}

Json WithBandwidth(Json figures, double head_bytes, double bytes_per_second) {
  const double speed = head_bytes / (1e-3 * figures["p50_ms"].get<double>());
  figures["bytes_per_second"] = speed;
  figures["bandwidth_share"] = speed / bytes_per_second;
  return figures;
}

void SayFigures(const std::string& name, const Json& figures) {
  const std::string share = figures.contains("bandwidth_share")
                                ? absl::StrFormat(", %.0f %% of the memory's speed",
                                                  100 * figures["bandwidth_share"].get<double>())
                                : "";
  Say(absl::StrFormat("%-16s p50 %8.3f ms, p99 %8.3f ms, %9.0f rows scored%s", name,
                      figures["p50_ms"].get<double>(), figures["p99_ms"].get<double>(),
                      figures["scored_rows"].get<double>(), share));
}

// The points [first, first + count), beginning again after the last one.
absl::StatusOr<SparseBatch> ReadQueries(const SparseDataset& data, int64_t first, int64_t count) {
  std::vector<int64_t> ids;
  for (int64_t i = first; i < first + count; ++i) ids.push_back(i % data.num_points());
  SparseBatch points;
  RETURN_IF_ERROR(data.ReadSamples(ids, &points));
  return points;
}

absl::Status WarmUp(const PredictClient& client, const SparseBatch& points,
                    const ServeCommand& options, absl::Span<const v1::PredictMode> modes) {
  for (int64_t i = 0; i < std::min(kWarmUp, points.samples()); ++i) {
    for (const v1::PredictMode mode : modes) {
      RETURN_IF_ERROR(client.Predict(points, i, 1, options.k, mode).status());
    }
  }
  return absl::OkStatus();
}

// Exact predictions beside those among what hashing finds.
absl::StatusOr<Json> MeasureHead(const ServeCommand& options, const PredictClient& client,
                                 const SparseDataset& data, const SparseBatch& points) {
  constexpr v1::PredictMode kExact = v1::PREDICT_MODE_EXACT;
  constexpr v1::PredictMode kHashed = v1::PREDICT_MODE_HASHED;
  ASSIGN_OR_RETURN(const SparseBatch learnt, ReadQueries(data, points.samples(), kLearnt));
  RETURN_IF_ERROR(client.Predict(learnt, 0, kLearnt, options.k, kHashed).status());
  RETURN_IF_ERROR(WarmUp(client, points, options, {kExact, kHashed}));
  ASSIGN_OR_RETURN(const Measured exact, Measure(client, points, options, 1, kExact));
  ASSIGN_OR_RETURN(const Measured hashed, Measure(client, points, options, 1, kHashed));
  ASSIGN_OR_RETURN(const Measured exact_batch,
                   Measure(client, points, options, options.batch, kExact));
  ASSIGN_OR_RETURN(const Measured hashed_batch,
                   Measure(client, points, options, options.batch, kHashed));
  const double speed = MemoryBytesPerSecond();
  const auto bytes = static_cast<double>(client.head().bytes);
  Json json;
  json["head_bytes"] = client.head().bytes;
  json["memory_bytes_per_second"] = speed;
  json["exact"] = WithBandwidth(exact.ToJson(1), bytes, speed);
  json["hashed"] = hashed.ToJson(1);
  json["exact_batch"] = WithBandwidth(exact_batch.ToJson(options.batch), bytes, speed);
  json["hashed_batch"] = hashed_batch.ToJson(options.batch);
  json["wanted_recall"] = options.recall;
  json["recall_at_k"] = RecallOf(hashed, exact);
  return json;
}

// Of a model with a memory: its candidates are its neighbours' labels, however they are asked for.
absl::StatusOr<Json> MeasureMemory(const ServeCommand& options, const PredictClient& client,
                                   const SparseBatch& points) {
  constexpr v1::PredictMode kMode = v1::PREDICT_MODE_NEIGHBOURS;
  RETURN_IF_ERROR(WarmUp(client, points, options, {kMode}));
  ASSIGN_OR_RETURN(const Measured single, Measure(client, points, options, 1, kMode));
  ASSIGN_OR_RETURN(const Measured batch, Measure(client, points, options, options.batch, kMode));
  return Json{{"neighbours", single.ToJson(1)}, {"neighbours_batch", batch.ToJson(options.batch)}};
}

absl::StatusOr<Json> MeasureServer(const ServeCommand& options, cli::PredictServer& server) {
  const PredictClient client = PredictClient::Open(server);
  ASSIGN_OR_RETURN(const auto data, SparseDataset::Open(options.data, {}));
  const int64_t queries = std::min(options.queries, data->num_points());
  ASSIGN_OR_RETURN(const SparseBatch points, ReadQueries(*data, 0, queries));
  Json json = {{"rows", client.head().rows}, {"dim", client.head().dim}, {"k", options.k}};
  absl::StatusOr<Json> measured = client.head().dim > 0
                                      ? MeasureHead(options, client, *data, points)
                                      : MeasureMemory(options, client, points);
  RETURN_IF_ERROR(measured.status());
  json.update(*measured);
  ASSIGN_OR_RETURN(const double call, MedianCall(client));
  json["empty_call_p50_ms"] = 1e3 * call;
  return json;
}

void SayAll(const Json& json) {
  if (json["dim"] == 0) {
    Say(absl::StrFormat("%d labels scored by a memory, one thread", json["rows"].get<int64_t>()));
  } else {
    Say(absl::StrFormat("%d rows of %d numbers, one thread; the memory reads %.1f GB/s",
                        json["rows"].get<int64_t>(), json["dim"].get<int64_t>(),
                        json["memory_bytes_per_second"].get<double>() / 1e9));
  }
  for (const auto& [name, figures] : json.items()) {
    if (figures.is_object()) SayFigures(name, figures);
  }
  if (!json.contains("recall_at_k")) return;
  Say(absl::StrFormat("recall@%d of hashed against exact: %.4f", json["k"].get<int64_t>(),
                      json["recall_at_k"].get<double>()));
}

absl::Status Run(const ServeCommand& options) {
  const ForeignLoad foreign;
  cli::PredictServerOptions server;
  server.server.binary = "dslide-bench serve";
  server.server.listen = "127.0.0.1:0";
  server.model.model.model_dir = options.model_dir;
  server.model.model.threads = 1;
  server.model.model.recall = options.recall;
  const cli::GlobalOptions global;
  ASSIGN_OR_RETURN(const auto running, cli::PredictServer::Start(global, server));
  RETURN_IF_ERROR(running->StartModel());
  ASSIGN_OR_RETURN(Json json, MeasureServer(options, *running));
  SayAll(json);
  json.update(DescribeMachine());
  json["foreign_load"] = foreign.Processors();
  if (options.output == "json") PrintResult(json);
  return absl::OkStatus();
}

}  // namespace

void AddServeCommand(CliCommand app, int* exit_code) {
  const CliCommand command = app.AddSubcommand(
      "serve", "Predictions of a model directory, one thread: time, recall, rows scored");
  auto options = std::make_shared<ServeCommand>();  // shared with the callback
  command.Add("--model-dir", options->model_dir, "Directory that train --model-dir wrote")
      .Required();
  command.Add("--data", options->data, "Sparse text; its points are the queries").Required();
  command.Add("--queries", options->queries, "Points that are asked for").Positive();
  command.Add("--batch", options->batch, "Queries of a request where they are several").Positive();
  command.Add("-k", options->k, "Labels of each query").Positive();
  command.Add("--recall", options->recall, "What hashed predictions must find of exact ones");
  command.Add("-o,--output", options->output, "Form of the result: text or json")
      .OneOf({"text", "json"});
  command.OnChosen([options, exit_code] { *exit_code = ExitCode("serve", Run(*options)); });
}

}  // namespace dslide::bench
