#include "services/coordinator/checkpoints/restore_mark.h"

#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "core/base/status_macros.h"
#include "core/system/format_version.h"
#include "core/system/sealed_text.h"
#include "services/common/files/durable_files.h"

namespace dslide::coordinator {
namespace {

constexpr absl::string_view kWord = "restoring ";
// What the file begins with from format 2 on, and the version behind it; format 1 has no such line.
constexpr absl::string_view kHeadWord = "dslide restoring ";

std::string EncodeMark(uint64_t checkpoint_id) {
  return SealText(absl::StrCat(kWord, checkpoint_id, "\n"));
}

class DiskMark final : public RestoreMark {
 public:
  DiskMark(std::string path, std::optional<uint64_t> checkpoint_id)
      : RestoreMark(checkpoint_id), path_(std::move(path)) {}

 private:
  absl::Status Write(std::optional<uint64_t> checkpoint_id) override {
    if (checkpoint_id.has_value()) return ReplaceFile(path_, EncodeMark(*checkpoint_id));
    RETURN_IF_ERROR(RemoveAll(path_));
    return SyncDirectory(std::filesystem::path(path_).parent_path());
  }

  const std::string path_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RestoreMark>> RestoreMark::Open(const std::string& directory) {
  const std::string path = absl::StrCat(directory, "/RESTORING");
  const absl::StatusOr<std::string> text = ReadFile(path);
  std::optional<uint64_t> checkpoint_id;
  if (!absl::IsNotFound(text.status())) {
    RETURN_IF_ERROR(text.status());
    const std::vector<absl::string_view> lines = absl::StrSplit(*text, '\n');
    RETURN_IF_ERROR(CheckSealedFormat(path, *text, kHeadWord, {}));
    uint64_t number = 0;
    // Whatever was changed encodes differently.
    if (!absl::StartsWith(lines[0], kWord) ||
        !absl::SimpleAtoi(lines[0].substr(kWord.size()), &number) || EncodeMark(number) != *text) {
      return absl::DataLossError(
          absl::StrCat(path,
                       " does not have its checksum; remove it and restore the checkpoint that all "
                       "shards shall go back to"));
    }
    checkpoint_id = number;
  }
  return std::make_unique<DiskMark>(path, checkpoint_id);
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
