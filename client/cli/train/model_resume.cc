#include "client/cli/train/model_resume.h"

#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/protocol/coordinator_reason_words.h"
#include "core/spec/model_growth.h"
#include "core/spec/spec_difference.h"

namespace dslide::cli {

absl::StatusOr<StoredModel> LoadForResume(const std::string& path, const ModelSpec& wanted,
                                          int64_t shards) {
  ASSIGN_OR_RETURN(StoredModel stored, LoadModel(path));
  if (const auto difference = FirstDifference(stored.spec, wanted);
      difference.has_value() && !IsGrownFrom(stored.spec, wanted)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--resume: the model in ", path, " was made with other settings: its ",
                     Describe(*difference),
                     "; give the same --model and flags, except those of the training itself"));
  }
  if (stored.origin.shards < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--resume: ", path, " was trained on a cluster, which holds its rows: train ",
                     "it further there, with --cluster HOST:PORT"));
  }
  if (stored.origin.shards != shards) {
    return absl::InvalidArgumentError(absl::StrCat("--resume: the rows in ", path, " are those of ",
                                                   stored.origin.shards, " shards, not of ", shards,
                                                   ": give --shards ", stored.origin.shards));
  }
  RETURN_IF_ERROR(CheckRowsKept(path, stored));
  return stored;
}

FeatureStats Continued(FeatureStats kept, const FeatureStats& data) {
  for (size_t i = kept.idf.size(); i < data.idf.size(); ++i) kept.idf.push_back(data.idf[i]);
  for (size_t i = kept.names.size(); i < data.names.size(); ++i) {
    kept.names.push_back(data.names[i]);
  }
  return kept;
}

absl::Status PrepareJob(ClusterClient& cluster, bool continues) {
  if (!continues) cluster.coordinator().CancelJob(cluster.options().job).IgnoreError();
  absl::Status deleted = cluster.coordinator().DeleteJob(cluster.options().job);
  const bool goes_on = ReasonOf(deleted) == reason::kJobRuns;
  return goes_on || absl::IsNotFound(deleted) ? absl::OkStatus() : deleted;
}

}  // namespace dslide::cli
