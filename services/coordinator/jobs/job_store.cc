#include "services/coordinator/jobs/job_store.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/hex.h"
#include "core/base/status_macros.h"
#include "core/system/files/system_error.h"
#include "core/system/format_version.h"
#include "core/system/sealed_text.h"
#include "services/common/files/durable_files.h"
#include "services/coordinator/jobs/job_record_json.h"

namespace dslide::coordinator {
namespace {

namespace fs = std::filesystem;

constexpr int kJobFormat = 1;

fs::path JobsIn(const std::string& data_dir) { return fs::path(data_dir) / "jobs"; }

std::string EncodeState(const JobState& state) {
  OrderedJson leases = OrderedJson::array();
  for (const JobState::Lease& lease : state.leases) {
    leases.push_back({{"lease", lease.lease},
                      {"client", ClientIdToHex(lease.client)},
                      {"chunk", lease.chunk},
                      {"over", lease.over}});
  }
  const OrderedJson json = {{"format", kJobFormat},
                            {"number", state.number},
                            {"record", JobRecordToJson(state.record)},
                            {"next_lease", state.next_lease},
                            {"leases", std::move(leases)}};
  return SealOpenText(json.dump(1));
}

absl::StatusOr<JobState> StateFromJson(const std::string& path, const OrderedJson& json) {
  RETURN_IF_ERROR(CheckFormat(path, json.at("format").get<int64_t>(),
                              {.oldest = kJobFormat, .newest = kJobFormat}));
  JobState state;
  json.at("number").get_to(state.number);
  ASSIGN_OR_RETURN(state.record, JobRecordFromJson(json.at("record")));
  json.at("next_lease").get_to(state.next_lease);
  for (const OrderedJson& entry : json.at("leases")) {
    JobState::Lease lease;
    entry.at("lease").get_to(lease.lease);
    entry.at("chunk").get_to(lease.chunk);
    entry.at("over").get_to(lease.over);
    const auto client = ClientIdFromHex(entry.at("client").get<std::string>());
    if (!client.has_value()) return absl::DataLossError("a lease's client is no id");
    lease.client = *client;
    state.leases.push_back(lease);
  }
  return state;
}

absl::StatusOr<JobState> ReadState(const fs::path& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  const std::optional<absl::string_view> content = UnsealOpenText(text);
  if (!content.has_value()) {
    return absl::DataLossError(absl::StrCat(path.string(), " does not have its checksum"));
  }
  // The library reports through exceptions; they end here. Checksummed text that does not fit is a
  // bug or a forgery, and in both cases not to be trusted.
  try {
    absl::StatusOr<JobState> state = StateFromJson(path.string(), OrderedJson::parse(*content));
    if (state.ok() && state->record.spec.job != path.filename().string()) {
      return absl::DataLossError(absl::StrCat(path.string(), " is of job ", state->record.spec.job,
                                              ": files were swapped"));
    }
    return state;
  } catch (const OrderedJson::exception& error) {
    return absl::DataLossError(absl::StrCat(path.string(), ": ", error.what()));
  }
}

absl::StatusOr<std::vector<JobState>> LoadFrom(const fs::path& directory) {
  std::vector<JobState> states;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    // ReplaceFile() had not come to its end.
    if (absl::EndsWith(entry.path().filename().string(), ".new")) continue;
    ASSIGN_OR_RETURN(JobState state, ReadState(entry.path()));
    states.push_back(std::move(state));
  }
  if (error) return SystemError("read", directory.string(), error.value());
  std::sort(states.begin(), states.end(),
            [](const JobState& a, const JobState& b) { return a.number < b.number; });
  return states;
}

class DiskJobs final : public JobStore {
 public:
  explicit DiskJobs(fs::path directory) : directory_(std::move(directory)) {}

  absl::StatusOr<std::vector<JobState>> Load() const override { return LoadFrom(directory_); }
  absl::Status Put(const JobState& state) override {
    return ReplaceFile(directory_ / state.record.spec.job, EncodeState(state));
  }
  absl::Status Remove(const std::string& job) override {
    RETURN_IF_ERROR(RemoveAll(directory_ / job));
    return SyncDirectory(directory_);
  }

 private:
  const fs::path directory_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<JobStore>> OpenJobStore(const std::string& data_dir) {
  const fs::path directory = JobsIn(data_dir);
  RETURN_IF_ERROR(MakeDirectory(directory));
  RETURN_IF_ERROR(SyncDirectory(data_dir));
  return std::make_unique<DiskJobs>(directory);
}

absl::StatusOr<int64_t> InspectJobs(const std::string& data_dir) {
  const fs::path directory = JobsIn(data_dir);
  std::error_code error;
  if (!fs::is_directory(directory, error)) {
    if (error && error != std::errc::no_such_file_or_directory) {
      return SystemError("read", directory.string(), error.value());
    }
    return absl::NotFoundError(absl::StrCat("there is no directory ", directory.string()));
  }
  ASSIGN_OR_RETURN(const std::vector<JobState> states, LoadFrom(directory));
  return static_cast<int64_t>(states.size());
}

}  // namespace dslide::coordinator
