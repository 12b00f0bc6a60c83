#include "bench/neighbours/neighbours_command.h"

#include <omp.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "bench/common/bench_data.h"
#include "bench/common/foreign_load.h"
#include "bench/common/machine.h"
#include "bench/common/run_command.h"
#include "bench/neighbours/search_growth.h"
#include "bench/neighbours/word_points.h"
#include "core/base/status_macros.h"
#include "core/engine/data/sparse_dataset.h"

namespace dslide::bench {
namespace {

using Json = nlohmann::ordered_json;

struct NeighboursCommand {
  std::string data;
  DataShape shape;
  std::vector<int64_t> sizes = {10000, 30000, 100000, 300000, 1000000};
  SearchGrowthOptions growth;
  std::string output = "text";
};

absl::StatusOr<SparseBatch> ReadPoints(const std::string& path, int64_t most) {
  SparseDatasetOptions options;
  options.parallelism = {.threads = omp_get_num_procs()};
  ASSIGN_OR_RETURN(const auto data, SparseDataset::Open(path, options));
  std::vector<int64_t> ids(static_cast<size_t>(std::min(most, data->num_points())));
  std::iota(ids.begin(), ids.end(), 0);
  SparseBatch points;
  RETURN_IF_ERROR(data->ReadSamples(ids, &points));
  return points;
}

// The sizes that there are points for, and all points where a size is larger.
std::vector<int64_t> SizesUpTo(int64_t points, std::vector<int64_t> sizes) {
  for (int64_t& size : sizes) size = std::min(size, points);
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

Json MeasureSet(const std::string& name, const SparseBatch& points,
                const NeighboursCommand& options) {
  Json sizes = Json::array();
  for (const int64_t size : SizesUpTo(points.samples(), options.sizes)) {
    sizes.push_back(MeasureSearches(points, size, options.growth));
    const Json& json = sizes.back();
    Say(absl::StrFormat("%s, %d points of %.1f features", name, size,
                        json["features_per_point"].get<double>()));
    Say(absl::StrFormat("  scan   %8.1f us a query, %6.1f MB", json["scan"]["us"].get<double>(),
                        json["scan"]["bytes"].get<double>() / 1e6));
    for (const std::string way : {"exact", "impact", "hashed"}) {
      const Json& figures = json[way];
      Say(absl::StrFormat(
          "  %s %8.1f us a query, %6.1f MB, recall %.4f, %d of %d queries differ, %.1f us to add",
          way, figures["us"].get<double>(), figures["bytes"].get<double>() / 1e6,
          figures["recall"].get<double>(), figures["differing"].get<int64_t>(),
          options.growth.queries, figures["add_us"].get<double>()));
    }
  }
  return sizes;
}

absl::Status Run(NeighboursCommand& options) {
  const ForeignLoad foreign;
  Json json;
  const int64_t most = *std::max_element(options.sizes.begin(), options.sizes.end());
  if (options.data.empty()) {
    options.shape.points = most;
    options.shape.eval_points = 0;
    ASSIGN_OR_RETURN(const DataFiles files,
                     MakeData(options.shape, {.threads = omp_get_num_procs()}));
    ASSIGN_OR_RETURN(const SparseBatch generated, ReadPoints(files.train, most));
    json["sets"]["generated"] = MeasureSet("generated", generated, options);
    SparseBatch words;
    AppendWordPoints(0, most, words);
    json["sets"]["words"] = MeasureSet("words", words, options);
  } else {
    ASSIGN_OR_RETURN(const SparseBatch points, ReadPoints(options.data, most));
    json["sets"][options.data] = MeasureSet(options.data, points, options);
  }
  json.update(DescribeMachine());
  json["foreign_load"] = foreign.Processors();
  if (options.output == "json") PrintResult(json);
  return absl::OkStatus();
}

}  // namespace

void AddNeighboursCommand(CliCommand app, int* exit_code) {
  const CliCommand command =
      app.AddSubcommand("neighbours", "Searches of the memory's index beside a plain scan");
  auto options = std::make_shared<NeighboursCommand>();  // shared with the callback
  command.Add("--data", options->data, "Sparse text; without it data is generated");
  AddShapeOptions(command, options->shape);
  command.Add("--sizes", options->sizes, "Numbers of points").Delimiter(',');
  command.Add("--queries", options->growth.queries, "Points that are looked for").Positive();
  command.Add("--neighbours", options->growth.k, "Neighbours of each").Positive();
  command.Add("--rounds", options->growth.rounds, "Times that each is looked for").Positive();
  command.Add("-o,--output", options->output, "Form of the result: text or json")
      .OneOf({"text", "json"});
  command.OnChosen([options, exit_code] { *exit_code = ExitCode("neighbours", Run(*options)); });
}

}  // namespace dslide::bench
