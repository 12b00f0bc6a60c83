#include "services/shard/image/image_label.h"

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace dslide::shard {
namespace {

constexpr char kCheckpointWord[] = "checkpoint-";
constexpr char kLogWord[] = "log-";

}  // namespace

std::string CheckpointLabel(uint64_t checkpoint_id) {
  return absl::StrFormat("%s%020d", kCheckpointWord, checkpoint_id);
}

std::optional<uint64_t> CheckpointOf(absl::string_view label) {
  uint64_t checkpoint_id = 0;
  absl::string_view digits = label;
  if (!absl::ConsumePrefix(&digits, kCheckpointWord) || !absl::SimpleAtoi(digits, &checkpoint_id) ||
      CheckpointLabel(checkpoint_id) != label) {
    return std::nullopt;
  }
  return checkpoint_id;
}

std::string LogLabel(const LogImage& image) {
  return absl::StrFormat("%s%020d-%020d", kLogWord, image.root, image.lsn);
}

std::optional<LogImage> LogImageOf(absl::string_view label) {
  LogImage image;
  absl::string_view digits = label;
  if (!absl::ConsumePrefix(&digits, kLogWord)) return std::nullopt;
  const std::vector<absl::string_view> numbers = absl::StrSplit(digits, '-');
  if (numbers.size() != 2 || !absl::SimpleAtoi(numbers[0], &image.root) ||
      !absl::SimpleAtoi(numbers[1], &image.lsn) || LogLabel(image) != label) {
    return std::nullopt;
  }
  return image;
}

absl::StatusOr<std::vector<LogImage>> CountingImages(const std::vector<std::string>& labels,
                                                     absl::string_view directory) {
  std::vector<LogImage> images;
  for (const std::string& label : labels) {
    const std::optional<LogImage> image = LogImageOf(label);
    if (!image.has_value()) continue;
    if (!images.empty() && images.front().root != image->root) images.clear();
    images.insert(images.begin(), *image);
  }
  if (!images.empty()) return images;
  return absl::DataLossError(absl::StrCat(directory, " has no image: all are missing"));
}

std::string ModelLabel(const ModelRows& rows) {
  return absl::StrCat(rows.model, ".", rows.checkpoint);
}

std::optional<ModelRows> ModelRowsOf(absl::string_view label) {
  const std::vector<absl::string_view> names = absl::StrSplit(label, '.');
  if (names.size() != 2 || names[0].empty() || names[1].empty()) return std::nullopt;
  return ModelRows{.model = std::string(names[0]), .checkpoint = std::string(names[1])};
}

}  // namespace dslide::shard
