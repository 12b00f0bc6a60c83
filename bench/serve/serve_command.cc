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
    return {{"p50_ms", 1e3 * Median(seconds)},
            {"p99_ms", 1e3 * Quantile(seconds, 0.99)},
            {"requests", seconds.size()},
            {"queries_per_request", queries_per_request},
            {"scored_rows", results == 0 ? 0 : scored / static_cast<double>(results)},
            {"exact", !answers.empty() && answers.front().exact}};
  }
};

absl::StatusOr<Measured> Measure(const PredictClient& client, const SparseBatch& points,
                                 const ServeCommand& options, int64_t batch, bool hashed) {
  Measured measured;
  for (int64_t first = 0; first + batch <= points.samples(); first += batch) {
    const absl::Time start = absl::Now();
    ASSIGN_OR_RETURN(PredictAnswer answer, client.Predict(points, first, batch, options.k, hashed));
    measured.seconds.push_back(absl::ToDoubleSeconds(absl::Now() - start));
    measured.answers.push_back(std::move(answer));
  }
  return measured;
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
  Say(absl::StrFormat("%-13s p50 %8.3f ms, p99 %8.3f ms, %9.0f rows scored%s", name,
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

absl::StatusOr<Json> MeasureServer(const ServeCommand& options, cli::PredictServer& server) {
  ASSIGN_OR_RETURN(const PredictClient client, PredictClient::Open(server));
  const HeadShape head = client.head();
  ASSIGN_OR_RETURN(const auto data, SparseDataset::Open(options.data, {}));
  const int64_t queries = std::min(options.queries, data->num_points());
  ASSIGN_OR_RETURN(const SparseBatch points, ReadQueries(*data, 0, queries));
  ASSIGN_OR_RETURN(const SparseBatch learnt, ReadQueries(*data, queries, kLearnt));
  RETURN_IF_ERROR(client.Predict(learnt, 0, kLearnt, options.k, true).status());
  for (int64_t i = 0; i < std::min(kWarmUp, points.samples()); ++i) {
    for (const bool hashed : {false, true}) {
      RETURN_IF_ERROR(client.Predict(points, i, 1, options.k, hashed).status());
    }
  }
  ASSIGN_OR_RETURN(const Measured exact, Measure(client, points, options, 1, false));
  ASSIGN_OR_RETURN(const Measured hashed, Measure(client, points, options, 1, true));
  ASSIGN_OR_RETURN(const Measured exact_batch,
                   Measure(client, points, options, options.batch, false));
  ASSIGN_OR_RETURN(const Measured hashed_batch,
                   Measure(client, points, options, options.batch, true));
  const double speed = MemoryBytesPerSecond();
  const auto bytes = static_cast<double>(head.bytes);
  Json json;
  json["rows"] = head.rows;
  json["dim"] = head.dim;
  json["head_bytes"] = head.bytes;
  json["memory_bytes_per_second"] = speed;
  json["exact"] = WithBandwidth(exact.ToJson(1), bytes, speed);
  json["hashed"] = hashed.ToJson(1);
  json["exact_batch"] = WithBandwidth(exact_batch.ToJson(options.batch), bytes, speed);
  json["hashed_batch"] = hashed_batch.ToJson(options.batch);
  json["wanted_recall"] = options.recall;
  json["recall_at_k"] = RecallOf(hashed, exact);
  json["k"] = options.k;
  return json;
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
  Say(absl::StrFormat("%d rows of %d numbers, one thread; the memory reads %.1f GB/s",
                      json["rows"].get<int64_t>(), json["dim"].get<int64_t>(),
                      json["memory_bytes_per_second"].get<double>() / 1e9));
  for (const char* name : {"exact", "hashed", "exact_batch", "hashed_batch"}) {
    SayFigures(name, json[name]);
  }
  Say(absl::StrFormat("recall@%d of hashed against exact: %.4f", options.k,
                      json["recall_at_k"].get<double>()));
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
