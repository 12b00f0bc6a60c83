// Points on disk between the two passes of an import, so that their number is no matter of memory.

#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/engine/data/file_output.h"

namespace dslide {

// Labels and features by the numbers of a NameCounts.
struct SpilledPoint {
  bool is_test = false;
  std::vector<uint32_t> labels;                      // distinct
  std::vector<std::pair<uint32_t, float>> features;  // distinct
};

// A temporary file: 12 bytes a point, 4 a label, 8 a feature. Not thread-safe.
class PointSpill {
 public:
  // Errors: those of TemporaryFile::Create().
  static absl::StatusOr<PointSpill> Create(const std::string& directory);

  // Errors: ResourceExhausted when the disk is full.
  absl::Status Add(const SpilledPoint& point);
  // Gives all points in order; ends at the first error that `take` returns.
  absl::Status ForEach(absl::FunctionRef<absl::Status(const SpilledPoint&)> take);

 private:
  explicit PointSpill(TemporaryFile file) : file_(std::move(file)) {}
  absl::Status Flush();

  TemporaryFile file_;
  std::vector<uint32_t> buffer_;
};

}  // namespace dslide
