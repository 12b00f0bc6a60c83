#include "services/coordinator/checkpoints/restore_mark.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/status_macros.h"
#include "services/common/files/durable_files.h"
#include "services/common/files/sealed_number.h"

namespace dslide::coordinator {
namespace {

constexpr absl::string_view kWord = "dslide restoring";

class DiskMark final : public RestoreMark {
 public:
  DiskMark(std::string path, std::optional<uint64_t> checkpoint_id)
      : RestoreMark(checkpoint_id), path_(std::move(path)) {}

 private:
  absl::Status Write(std::optional<uint64_t> checkpoint_id) override {
    if (checkpoint_id.has_value()) return ReplaceFile(path_, SealNumber(kWord, *checkpoint_id));
    RETURN_IF_ERROR(RemoveAll(path_));
    return SyncDirectory(std::filesystem::path(path_).parent_path());
  }

  const std::string path_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RestoreMark>> RestoreMark::Open(const std::string& directory) {
  const std::string path = absl::StrCat(directory, "/RESTORING");
  absl::StatusOr<std::optional<uint64_t>> checkpoint_id = ReadSealedNumber(path, kWord);
  if (absl::IsDataLoss(checkpoint_id.status())) {
    return absl::DataLossError(
        absl::StrCat(checkpoint_id.status().message(),
                     "; remove it and restore the checkpoint that all shards shall go back to"));
  }
  RETURN_IF_ERROR(checkpoint_id.status());
  return std::make_unique<DiskMark>(path, *checkpoint_id);
}

absl::Status RestoreMark::Set(std::optional<uint64_t> checkpoint_id) {
  RETURN_IF_ERROR(Write(checkpoint_id));
  checkpoint_id_ = checkpoint_id;
  return absl::OkStatus();
}

absl::Status RestoreMark::Want() {
  const absl::MutexLock lock(&mu_);
  return checkpoint_id_.has_value() ? absl::OkStatus() : Set(kNewest);
}

absl::Status RestoreMark::Begin(uint64_t checkpoint_id) {
  const absl::MutexLock lock(&mu_);
  return Set(checkpoint_id);
}

absl::Status RestoreMark::Clear() {
  const absl::MutexLock lock(&mu_);
  return checkpoint_id_.has_value() ? Set(std::nullopt) : absl::OkStatus();
}

std::optional<uint64_t> RestoreMark::checkpoint_id() const {
  const absl::MutexLock lock(&mu_);
  return checkpoint_id_;
}

}  // namespace dslide::coordinator
