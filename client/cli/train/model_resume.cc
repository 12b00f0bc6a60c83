#include "client/cli/train/model_resume.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/cluster/cluster_session.h"
#include "client/cli/cluster/connect.h"
#include "client/cli/model/text_assets.h"
#include "client/components/component_spec.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/protocol/coordinator_reason_words.h"
#include "core/protocol/reason_words.h"
#include "core/spec/model_growth.h"
#include "core/spec/spec_difference.h"

namespace dslide::cli {
namespace {

// What stands in *values for places that `kept` has nothing for stays.
template <typename T>
void Continue(std::vector<T> kept, std::vector<T>* values) {
  if (kept.size() > values->size()) kept.resize(values->size());
  for (size_t i = 0; i < kept.size(); ++i) {
    if (kept[i] != T()) (*values)[i] = std::move(kept[i]);
  }
}

// Null: there is none of that name.
const ModelSpec* ModelNamed(const std::vector<ModelSpec>& models, const std::string& name) {
  const auto found = std::find_if(models.begin(), models.end(),
                                  [&](const ModelSpec& spec) { return spec.name == name; });
  return found == models.end() ? nullptr : &*found;
}

}  // namespace

absl::StatusOr<KnownModels> FindInDirectory(const std::string& path) {
  KnownModels known;
  ASSIGN_OR_RETURN(known.continued, LoadModel(path));
  known.specs = {known.continued->spec};
  return known;
}

absl::StatusOr<std::string> ChooseModel(const std::vector<ModelSpec>& models,
                                        const std::string& name) {
  if (!name.empty()) return name;
  if (models.size() == 1) return models.front().name;
  if (models.empty()) {
    return StatusWithReason(absl::StatusCode::kInvalidArgument, reason::kUnknownModel,
                            "the cluster has no model: train one first");
  }
  std::vector<std::string> names;
  for (const ModelSpec& spec : models) names.push_back(spec.name);
  return absl::InvalidArgumentError(absl::StrCat(
      "the cluster has several models, choose one with --name: ", absl::StrJoin(names, ", ")));
}

absl::StatusOr<KnownModels> FindInCluster(const GlobalOptions& global, const std::string& cluster,
                                          const std::string& name) {
  KnownModels known;
  if (cluster.empty()) return known;
  ASSIGN_OR_RETURN(const auto coordinator, ConnectToCoordinator(global, cluster));
  ASSIGN_OR_RETURN(known.specs, coordinator->ListModels());
  for (const ModelSpec& spec : known.specs) {
    if (spec.name != name) continue;
    StoredModel model;
    model.spec = spec;
    const absl::StatusOr<bool> fetched = FetchTexts(*coordinator, &model);
    if (absl::IsDataLoss(fetched.status())) continue;  // a training mends them
    RETURN_IF_ERROR(fetched.status());
    if (*fetched) known.continued = std::move(model);
  }
  return known;
}

absl::Status CheckFeatures(const KnownModels& known, const ModelSpec& spec, const Dataset& data) {
  // An embedding has rows for features, which may be too few.
  const bool counted = HasComponents(spec) && spec.FindRole(TableRole::kEmbedding) == nullptr;
  if (!counted || !known.continued.has_value()) return absl::OkStatus();
  const auto features = static_cast<int64_t>(known.continued->features.idf.size());
  if (features == 0 || data.num_features() <= features) return absl::OkStatus();
  return StatusWithReason(
      absl::StatusCode::kFailedPrecondition, reason::kModelDiffers,
      absl::StrCat("model \"", spec.name, "\" has ", features, " features, but ", data.path(),
                   " has ", data.num_features(), ": --grow takes in the others"));
}

bool HasGrown(const KnownModels& then, const KnownModels& now, const std::string& name) {
  const ModelSpec* const before = ModelNamed(then.specs, name);
  const ModelSpec* const after = ModelNamed(now.specs, name);
  if (after == nullptr) return false;
  if (before == nullptr || IsGrownFrom(*before, *after)) return true;
  if (!now.continued.has_value()) return false;
  return !then.continued.has_value() || then.continued->labels != now.continued->labels ||
         then.continued->features.names != now.continued->features.names;
}

int64_t EmbeddedShards(const KnownModels& known) {
  const int64_t stored = known.continued.has_value() ? known.continued->origin.shards : 0;
  return stored > 0 ? stored : EmbeddedOptions().shards;
}

absl::Status CheckResume(const StoredModel& stored, const std::string& path,
                         const StoredModel& wanted) {
  if (const auto difference = FirstDifference(stored.spec, wanted.spec);
      difference.has_value() && !IsGrownFrom(stored.spec, wanted.spec)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--resume: the model in ", path, " was made with other settings: its ",
                     Describe(*difference),
                     "; give the same --model and flags, except those of the training itself"));
  }
  if (const std::string difference = TextsDiffer(stored, wanted); !difference.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--resume: the model in ", path, " learns from other data: ", difference,
                     ": make the data with the model's names (dslide data import --model-dir ",
                     path, "), or train a model of its own"));
  }
  if (stored.origin.shards < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--resume: ", path, " was trained on a cluster, which holds its rows: train ",
                     "it further there, with --cluster HOST:PORT"));
  }
  if (stored.origin.shards != wanted.origin.shards) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--resume: the rows in ", path, " are those of ", stored.origin.shards, " shards, not of ",
        wanted.origin.shards, ": give --shards ", stored.origin.shards));
  }
  return CheckRowsKept(path, stored);
}

void ContinueTexts(StoredModel kept, StoredModel* model) {
  std::vector<float>& idf = model->features.idf;
  for (size_t i = 0; i < std::min(kept.features.idf.size(), idf.size()); ++i) {
    // A weight of 0 stands where a feature has a name: every point had it.
    const bool known = i < kept.features.names.size() && !kept.features.names[i].empty();
    if (known || kept.features.idf[i] != 0.0f) idf[i] = kept.features.idf[i];
  }
  Continue(std::move(kept.features.names), &model->features.names);
  Continue(std::move(kept.labels), &model->labels);
  model->tokenizer = kept.tokenizer;
  if (kept.label_counts.points == 0) return;
  Continue(std::move(kept.label_counts.of_label), &model->label_counts.of_label);
  model->label_counts.points = kept.label_counts.points;
}

absl::Status PrepareJob(ClusterClient& cluster, bool continues) {
  if (!continues) cluster.coordinator().CancelJob(cluster.options().job).IgnoreError();
  absl::Status deleted = cluster.coordinator().DeleteJob(cluster.options().job);
  const bool goes_on = ReasonOf(deleted) == reason::kJobRuns;
  return goes_on || absl::IsNotFound(deleted) ? absl::OkStatus() : deleted;
}

}  // namespace dslide::cli
