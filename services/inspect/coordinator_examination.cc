// The directory of a coordinator (docs/operate/checkpoint.md has its layout).

#include <filesystem>
#include <string>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "services/coordinator/assets/asset_inspection.h"
#include "services/coordinator/checkpoints/manifest_store.h"
#include "services/coordinator/jobs/job_store.h"
#include "services/coordinator/models/catalog_store.h"
#include "services/inspect/directory_examination.h"
#include "services/inspect/directory_use.h"
#include "services/inspect/disk_room.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

constexpr char kCheckpoints[] = "checkpoints";

void ExamineCatalog(const std::string& path, Findings& findings) {
  const std::string where = absl::StrCat(path, "/catalog");
  const absl::StatusOr<int64_t> models = coordinator::InspectCatalog(path);
  if (absl::IsNotFound(models.status())) {
    findings.Note(where, "there is no catalogue",
                  "nothing, if no coordinator was started with it yet");
  } else if (!models.ok()) {
    findings.Error(where, models.status(),
                   RemedyFor(models.status(),
                             "put the directory back from a copy, or move catalog and "
                             "catalog-summary away: shards bring their models with them when they "
                             "register"));
  } else {
    findings.Ok(where, absl::StrCat(*models, " models, every record as it was written"));
  }
}

void ExamineJobs(const std::string& path, Findings& findings) {
  const std::string where = absl::StrCat(path, "/jobs");
  const absl::StatusOr<int64_t> jobs = coordinator::InspectJobs(path);
  if (jobs.ok()) {
    findings.Ok(where, absl::StrCat(*jobs, " training jobs"));
  } else if (!absl::IsNotFound(jobs.status())) {
    findings.Error(where, jobs.status(),
                   RemedyFor(jobs.status(),
                             "put that file back from a copy, or remove it: the job then begins "
                             "again with its first epoch"));
  }
}

void ExamineAssets(const std::string& path, Findings& findings) {
  const std::string where = absl::StrCat(path, "/assets");
  const absl::StatusOr<int64_t> sets = coordinator::InspectAssets(path);
  if (sets.ok() && *sets > 0) {
    findings.Ok(where, absl::StrCat(*sets, " sets of names and words of models"));
  } else if (!sets.ok() && !absl::IsNotFound(sets.status())) {
    findings.Error(where, sets.status(),
                   RemedyFor(sets.status(),
                             "train with the data of that model again, which mends them, or put "
                             "the directory back from a copy"));
  }
}

void ExamineManifests(const std::string& directory, const coordinator::ManifestStore& store,
                      Findings& findings) {
  int64_t whole = 0;
  for (const uint64_t checkpoint_id : store.List()) {
    const auto manifest = store.Read(checkpoint_id);
    const std::string damage = store.Damage(checkpoint_id);
    if (!manifest.ok()) {
      findings.Error(directory, manifest.status(),
                     RemedyFor(manifest.status(),
                               "put the file back from a copy (dslide checkpoint restore --from "
                               "DIR), or remove it to give that checkpoint up"));
    } else if (!damage.empty()) {
      findings.Error(directory,
                     absl::DataLossError(absl::StrCat("cluster checkpoint ", checkpoint_id,
                                                      " is damaged: ", damage)),
                     "bring it back from a copy, or give it up (dslide checkpoint prune)");
    } else {
      ++whole;
    }
  }
  if (store.RestoreCount() > 0) {
    findings.Note(directory, absl::StrCat("the cluster was taken back to a checkpoint ",
                                          store.RestoreCount(), " times"));
  }
  if (whole > 0) {
    findings.Ok(directory, absl::StrCat(whole, " manifests of cluster checkpoints"));
  } else {
    // As beside a model that was trained in one process, whose shards keep the rows.
    findings.Note(directory, "there is no cluster checkpoint to go back to",
                  "of a cluster: dslide checkpoint create, or leave --checkpoint-interval on");
  }
}

void ExamineLeftovers(const std::string& directory, Findings& findings) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (!absl::EndsWith(entry.path().filename().string(), ".new")) continue;
    findings.Note(entry.path().string(), "was being written when the process ended",
                  "nothing: it counts for nothing, and is written again");
  }
}

}  // namespace

DirectoryKind KindOfDirectory(const std::string& path) {
  const auto has = [&](const char* name) {
    std::error_code error;
    return fs::exists(fs::path(path) / name, error);
  };
  if (has("catalog") || has("catalog-summary") || has(kCheckpoints)) {
    return DirectoryKind::kCoordinator;
  }
  if (has("LOCK") || has("command_log") || has("images")) {
    return DirectoryKind::kShard;
  }
  return DirectoryKind::kUnknown;
}

Findings ExamineCoordinatorDirectory(const std::string& path) {
  Findings findings;
  const std::string directory = absl::StrCat(path, "/", kCheckpoints);
  const bool used = CoordinatorUses(path);
  if (used) {
    findings.Note(path, "a coordinator uses this directory: its catalogue is not examined",
                  "stop it, or examine a copy, for the rest");
  } else {
    ExamineCatalog(path, findings);
    ExamineLeftovers(path, findings);
    ExamineLeftovers(directory, findings);
  }
  ExamineJobs(path, findings);
  ExamineAssets(path, findings);
  std::error_code error;
  if (fs::is_directory(directory, error)) {
    const auto store = coordinator::ManifestStore::OpenExisting(path);
    if (store.ok()) {
      ExamineManifests(directory, **store, findings);
    } else {
      findings.Error(directory, store.status(),
                     RemedyFor(store.status(),
                               "put that file back from a copy; a coordinator does not start "
                               "with a damaged one"));
    }
  }
  ExamineRoom(path, 0, findings);
  return findings;
}

}  // namespace dslide
