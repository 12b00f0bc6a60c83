// What the images of a shard are called. Each lies in a directory of that name:
//
//   checkpoint-<20 digits>        this shard's part of a cluster checkpoint
//   log-<20 digits>-<20 digits>   the state after a record of the command log
//   <model>.<name>                the rows of one model; names have no dot
//   stopped                       what a clean stop keeps besides those

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dslide::shard {

inline constexpr char kStoppedLabel[] = "stopped";

std::string CheckpointLabel(uint64_t checkpoint_id);
// Nothing for other labels, as below.
std::optional<uint64_t> CheckpointOf(absl::string_view label);

// The log leads from an image to later ones of the same root. Where rows came from elsewhere it
// leads no further: the image of these rows is a root, and images of lower roots do not count.
struct LogImage {
  uint64_t root = 0;
  uint64_t lsn = 0;
  friend bool operator==(const LogImage&, const LogImage&) = default;
};
std::string LogLabel(const LogImage& image);
std::optional<LogImage> LogImageOf(absl::string_view label);
// Those of sorted labels that count, newest first. Errors: DataLoss when there is none in
// `directory`, where the labels are.
absl::StatusOr<std::vector<LogImage>> CountingImages(const std::vector<std::string>& labels,
                                                     absl::string_view directory);

struct ModelRows {
  std::string model;
  std::string checkpoint;
  friend bool operator==(const ModelRows&, const ModelRows&) = default;
};
std::string ModelLabel(const ModelRows& rows);
std::optional<ModelRows> ModelRowsOf(absl::string_view label);

}  // namespace dslide::shard
