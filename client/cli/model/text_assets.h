// The texts of a model - names, weights of words, vocabulary, tokenizer - as the assets of a model
// of a cluster: the files of a model directory (model_dir.h), and one more:
//
//   data.json    {"format": 1, "data": "sparse"}, or "text" and the "window" of such data

#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cli/cluster/model_assets.h"
#include "client/cli/model/model_dir.h"
#include "client/cpp/coordinator_client.h"

namespace dslide::cli {

inline constexpr char kLabelCounts[] = "label_counts.txt";

// The files of the directory. Errors: InvalidArgument for a name that holds a tab or a line end.
absl::StatusOr<AssetFiles> EncodeTexts(const StoredModel& model);

// A label_counts.txt of any number of labels; `path` names it in errors. Errors: InvalidArgument.
absl::StatusOr<LabelCounts> ParseLabelCounts(absl::string_view text, const std::string& path);

// Takes the texts of model->spec from its cluster; false when that has none. Rows beyond the names,
// as a model that has grown has them, have none. Errors: those of the calls and of ReadAssets();
// InvalidArgument when they do not fit the model; FailedPrecondition when a newer version has
// written them. The model is as it was then.
absl::StatusOr<bool> FetchTexts(CoordinatorClient& coordinator, StoredModel* model);

// Makes the texts those of the model of the cluster, which all trainers of it share: the first
// gives them; whoever comes later takes weights and counts as they are there, since rows were
// learnt with them. Rows that the model has grown by get the texts of whoever knows them first.
// Errors: those of the calls; FailedPrecondition naming what is called otherwise there.
absl::Status ShareTexts(CoordinatorClient& coordinator, StoredModel* model);

// Before a model of the cluster grows to `model`: refuses what ShareTexts() would refuse then.
absl::Status CheckTexts(CoordinatorClient& coordinator, const StoredModel& model);

// In which way `here`, with as many rows as `there` or more, learns from other data: label 3 is "a"
// there, "b" here. "": in none that is known.
std::string TextsDiffer(StoredModel there, StoredModel here);

// For a new model of a cluster. Errors: those of the calls.
absl::Status GiveTexts(CoordinatorClient& coordinator, const StoredModel& model);

}  // namespace dslide::cli
