// Adds 1 to four rows for each line of stdin, and says of every update what became of it: of five
// such programs, one for each language of client/, this is that of C++.
//
//   dslide_client_increments COORDINATOR FIRST_ROW TIMEOUT_SECONDS [CA CERT KEY]
//
// Update n, from 0, is of the rows FIRST_ROW + 4 n and the three after it. stdout: a line of JSON
// for each update, {"update", "outcome", "reason"}.

#include <dslide/client.h>

#include <cstdint>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/numbers.h"
#include "core/base/reason.h"

namespace dslide {
namespace {

constexpr int64_t kRows = 200'000;
constexpr uint32_t kRowsOfUpdate = 4;
constexpr const char* kCells = "cells";  // the model, and its only table

ModelSpec Cells() {
  TableSpec table;
  table.name = kCells;
  table.rows = kRows;
  table.dim = 1;
  table.init.kind = InitKind::kZero;
  table.optimizer.kind = OptimizerKind::kSgd;
  ModelSpec model;
  model.name = kCells;
  model.tables = {table};
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
  std::string line;
  for (uint32_t update = 0; std::getline(std::cin, line); ++update) {
    const ClusterScatterResult done =
        (*cluster)->Scatter(kCells, kCells, ScatterMode::kAdd, RowsOf(first_row, update));
    const nlohmann::ordered_json said = {{"update", update},
                                         {"outcome", WordOf(done.outcome)},
                                         {"reason", std::string(ReasonOf(done.status))}};
    std::cout << said.dump() << std::endl;
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
