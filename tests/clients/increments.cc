// Adds 1 to four rows for each line of stdin, and says of every update what became of it: of five
// such programs, one for each language of client/, this is that of C++.
//
//   dslide_client_increments COORDINATOR FIRST_ROW TIMEOUT_SECONDS [CA CERT KEY]
//
// Update n, from 0, is of the rows FIRST_ROW + 4 n and the three after it. stdout: a line of JSON
// for each update, {"update", "outcome", "reason"}.
//
// A line "step 2" asks for two operations of a step stream at once instead, updates n and n + 1:
// each the sum of row n of another model, which the answer has as "value".

#include <dslide/client.h>

#include <cstdint>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "core/base/reason.h"

namespace dslide {
namespace {

constexpr int64_t kRows = 200'000;
constexpr uint32_t kRowsOfUpdate = 4;
constexpr const char* kCells = "cells";  // the model, and its only table
constexpr const char* kSteps = "steps";  // the model of the operations

TableSpec Table(const char* name, TableRole role, int64_t rows) {
  TableSpec table;
  table.name = name;
  table.role = role;
  table.rows = rows;
  table.dim = 1;
  table.init.kind = InitKind::kZero;
  table.optimizer.kind = OptimizerKind::kSgd;
  return table;
}

ModelSpec Cells() {
  ModelSpec model;
  model.name = kCells;
  model.tables = {Table(kCells, TableRole::kEmbedding, kRows)};
  return model;
}

ModelSpec StepsModel() {
  ModelSpec model;
  model.name = kSteps;
  model.tables = {Table(kCells, TableRole::kEmbedding, kRows), Table("head", TableRole::kHead, 8)};
  model.tables[1].head.max_active = 0;
  return model;
}

RowBlock RowsOf(uint32_t first_row, uint32_t update) {
  RowBlock rows;
  rows.dim = 1;
  for (uint32_t i = 0; i < kRowsOfUpdate; ++i) {
    rows.rows.emplace_back(first_row + kRowsOfUpdate * update + i);
    rows.values.push_back(1.0f);
  }
  return rows;
}

const char* WordOf(Outcome outcome) {
  if (outcome == Outcome::kApplied) return "applied";
  return outcome == Outcome::kNotApplied ? "refused" : "unknown";
}

void Say(uint32_t update, Outcome outcome, const absl::Status& status, double value) {
  const nlohmann::ordered_json said = {{"update", update},
                                       {"outcome", WordOf(outcome)},
                                       {"reason", std::string(ReasonOf(status))},
                                       {"value", value}};
  std::cout << said.dump() << std::endl;
}

// Operations of a stream to the only shard, each a step of its own.
class Operations {
 public:
  explicit Operations(ClusterClient& cluster) : cluster_(cluster) {}

  ~Operations() { CloseStreams(streams_); }

  // Sends those of rows [first, first + count), before it takes the answers.
  absl::Status Run(uint32_t first, uint32_t count) {
    if (streams_.empty()) {
      const absl::Status opened = Open();
      if (!opened.ok()) return opened;
    }
    std::vector<std::shared_ptr<PendingStep>> sent;
    for (uint32_t row = first; row < first + count; ++row) {
      EmbedForwardOp op;
      op.table = kCells;
      op.offsets = {0, 1};
      op.rows = {RowId(row)};
      op.values = {1.0f};
      sent.push_back(streams_[0]->Send(row + 1, row + 1, std::move(op)));
    }
    for (uint32_t i = 0; i < count; ++i) {
      const absl::StatusOr<ReplyBody> answer = sent[i]->Take();
      const auto* const sum = answer.ok() ? std::get_if<EmbedForwardReply>(&*answer) : nullptr;
      Say(first + i, sent[i]->outcome(), answer.status(),
          sum == nullptr ? 0.0 : sum->partial.data.at(0));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Open() {
    const absl::StatusOr<bool> created = cluster_.CreateModel(StepsModel());
    if (!created.ok()) return created.status();
    absl::StatusOr<ModelSpec> spec = cluster_.FindModel(kSteps);
    if (!spec.ok()) return spec.status();
    auto streams = cluster_.OpenStreams(*spec, NewClientId());
    if (!streams.ok()) return streams.status();
    streams_ = *std::move(streams);
    return absl::OkStatus();
  }

  ClusterClient& cluster_;
  std::vector<std::unique_ptr<ShardStream>> streams_;
};

absl::Status AddOnes(const std::string& coordinator, uint32_t first_row, double timeout_seconds,
                     const TlsFiles& tls) {
  ClientOptions options;
  options.timeout = absl::Seconds(timeout_seconds);
  ChannelOptions channels;
  channels.tls = tls;
  auto cluster = ClusterClient::Connect(coordinator, NetworkChannels(channels), options);
  if (!cluster.ok()) return cluster.status();
  const absl::StatusOr<bool> created = (*cluster)->CreateModel(Cells());
  if (!created.ok()) return created.status();
  Operations operations(**cluster);
  std::string line;
  for (uint32_t update = 0; std::getline(std::cin, line);) {
    absl::string_view count = line;
    if (absl::ConsumePrefix(&count, "step ")) {
      uint32_t operations_now = 0;
      if (!absl::SimpleAtoi(count, &operations_now)) return absl::InvalidArgumentError(line);
      const absl::Status run = operations.Run(update, operations_now);
      if (!run.ok()) return run;
      update += operations_now;
      continue;
    }
    const ClusterScatterResult done =
        (*cluster)->Scatter(kCells, kCells, ScatterMode::kAdd, RowsOf(first_row, update));
    Say(update++, done.outcome, done.status, 0.0);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace dslide

int main(int argc, char** argv) {
  uint32_t first_row = 0;
  double timeout_seconds = 0;
  if ((argc != 4 && argc != 7) || !absl::SimpleAtoi(argv[2], &first_row) ||
      !absl::SimpleAtod(argv[3], &timeout_seconds)) {
    std::fprintf(stderr, "usage: %s COORDINATOR FIRST_ROW TIMEOUT_SECONDS [CA CERT KEY]\n",
                 argv[0]);
    return 2;
  }
  dslide::TlsFiles tls;
  if (argc == 7) tls = {.cert = argv[5], .key = argv[6], .ca = argv[4]};
  const absl::Status ended = dslide::AddOnes(argv[1], first_row, timeout_seconds, tls);
  if (ended.ok()) return 0;
  std::fprintf(stderr, "error: %s\n", std::string(ended.message()).c_str());
  return 1;
}
