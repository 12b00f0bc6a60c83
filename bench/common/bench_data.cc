#include "bench/common/bench_data.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "bench/common/run_command.h"
#include "core/base/status_macros.h"
#include "core/engine/data/sources/synthetic.h"

namespace dslide::bench {
namespace {

// GenerateSynthetic() gives a file its name when it is whole.
absl::Status MakeFile(const SyntheticOptions& options, const std::string& path) {
  std::error_code error;
  if (std::filesystem::exists(path, error)) return absl::OkStatus();
  Say(absl::StrCat("Generating ", path, ": ", options.points, " points"));
  return GenerateSynthetic(options, path);
}

}  // namespace

void AddShapeOptions(CliCommand app, DataShape& shape) {
  app.Add("--features", shape.features, "Features of generated data");
  app.Add("--labels", shape.labels, "Labels of generated data");
  app.Add("--points", shape.points, "Training points of generated data");
  app.Add("--eval-points", shape.eval_points, "Test points of generated data; 0: none");
  app.Add("--features-per-point", shape.features_per_point, "Mean");
  app.Add("--labels-per-point", shape.labels_per_point, "Mean");
  app.Add("--data-dir", shape.directory, "Where generated data is kept");
}

absl::StatusOr<DataFiles> MakeData(const DataShape& shape, Parallelism parallelism) {
  SyntheticOptions options;
  options.points = shape.points;
  options.features = shape.features;
  options.labels = shape.labels;
  options.features_per_point = shape.features_per_point;
  options.labels_per_point = shape.labels_per_point;
  options.parallelism = parallelism;
  // Every number that the bytes depend on is in the name.
  const std::string directory =
      absl::StrCat(shape.directory, "/", shape.features, "-", shape.labels, "-", shape.points, "-",
                   shape.features_per_point, "-", shape.labels_per_point);
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return absl::InternalError(absl::StrCat(directory, ": ", error.message()));
  DataFiles files{.train = absl::StrCat(directory, "/train.txt"), .eval = ""};
  RETURN_IF_ERROR(MakeFile(options, files.train));
  if (shape.eval_points > 0) {
    options.first_point = shape.points;
    options.points = shape.eval_points;
    files.eval = absl::StrCat(directory, "/test-", shape.eval_points, ".txt");
    RETURN_IF_ERROR(MakeFile(options, files.eval));
  }
  return files;
}

}  // namespace dslide::bench
