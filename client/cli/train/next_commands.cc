#include "client/cli/train/next_commands.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/cli/console/shell_word.h"
#include "client/cli/train/prediction_text.h"
#include "core/base/status_macros.h"
#include "core/engine/data/sparse_batch.h"

namespace dslide::cli {
namespace {

// Names of features of one of the first points; "" when they have no names, or such as no text has.
absl::StatusOr<std::string> ExampleText(const StoredModel& model, const Dataset& data) {
  constexpr int64_t kLooked = 100;
  constexpr size_t kWords = 5;
  const absl::StatusOr<TextEncoder> encoder = EncoderOf(model);
  if (!encoder.ok()) return std::string();  // features without names
  for (int64_t point = 0; point < std::min(kLooked, data.num_points()); ++point) {
    SparseBatch batch;
    RETURN_IF_ERROR(data.ReadSamples({&point, 1}, &batch));
    const absl::Span<const RowId> features = batch.FeaturesOf(0);
    const bool named = std::all_of(features.begin(), features.end(), [&](RowId feature) {
      return !model.features.names[feature.value()].empty();
    });
    if (!named || features.empty()) continue;
    std::string text = DescribeInput(model, features, batch.ValuesOf(0), kWords);
    const absl::StatusOr<TextQuery> query = encoder->Encode(text);
    if (query.ok() && query->unknown.empty()) return text;
  }
  return std::string();
}

}  // namespace

absl::StatusOr<std::string> NextCommands(const TrainedFrom& from, const StoredModel& model,
                                         const Dataset& data) {
  std::string text;
  const auto flag = [](absl::string_view name, const std::string& value) {
    return value.empty() ? "" : absl::StrCat(" ", name, " ", ShellWord(value));
  };
  if (!from.model_dir.empty()) {
    ASSIGN_OR_RETURN(const std::string example, ExampleText(model, data));
    absl::StrAppend(&text, "\nThe model is in ", from.model_dir, ". Predict with it:\n",
                    "  dslide predict", flag("--model-dir", from.model_dir),
                    flag("--cluster", from.cluster), flag("--text", example),
                    example.empty() ? flag("--data", from.data) : "");
  } else if (!from.cluster.empty()) {
    ASSIGN_OR_RETURN(const std::string example, ExampleText(model, data));
    absl::StrAppend(&text, "\nThe model is in the cluster, with its names. Predict with it:\n",
                    "  dslide predict", flag("--cluster", from.cluster),
                    flag("--name", model.spec.name), flag("--text", example),
                    example.empty() ? flag("--data", from.data) : "");
  } else {
    absl::StrAppend(&text, "\nThe model was not kept; add --model-dir DIR to keep it.");
  }
  if (from.cluster.empty()) {
    absl::StrAppend(&text, "\nTrain over a cluster of processes instead:\n  dslide up --shards ",
                    from.shards, "\n  dslide train", flag("--data", from.data),
                    flag("--eval", from.eval), " --cluster 127.0.0.1:7000");
  }
  return text;
}

}  // namespace dslide::cli
