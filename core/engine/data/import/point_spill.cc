#include "core/engine/data/import/point_spill.h"

#include <bit>

#include "core/base/status_macros.h"
#include "core/engine/data/data_file.h"

namespace dslide {
namespace {

constexpr size_t kSpillBufferWords = 1 << 18;  // 1 MiB a write

}  // namespace

absl::StatusOr<PointSpill> PointSpill::Create(const std::string& directory) {
  ASSIGN_OR_RETURN(TemporaryFile file, TemporaryFile::Create(directory));
  return PointSpill(std::move(file));
}

absl::Status PointSpill::Add(const SpilledPoint& point) {
  buffer_.insert(buffer_.end(),
                 {point.is_test ? 1u : 0u, static_cast<uint32_t>(point.labels.size()),
                  static_cast<uint32_t>(point.features.size())});
  buffer_.insert(buffer_.end(), point.labels.begin(), point.labels.end());
  for (const auto& [number, value] : point.features) {
    buffer_.insert(buffer_.end(), {number, std::bit_cast<uint32_t>(value)});
  }
  return buffer_.size() < kSpillBufferWords ? absl::OkStatus() : Flush();
}

absl::Status PointSpill::Flush() {
  if (buffer_.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(file_.Append(
      {reinterpret_cast<const char*>(buffer_.data()), buffer_.size() * sizeof(uint32_t)}));
  buffer_.clear();
  return absl::OkStatus();
}

absl::Status PointSpill::ForEach(absl::FunctionRef<absl::Status(const SpilledPoint&)> take) {
  RETURN_IF_ERROR(Flush());
  ASSIGN_OR_RETURN(const DataFile file, file_.Map("the points of an import"));
  const auto* at = reinterpret_cast<const uint32_t*>(file.bytes().data());
  const uint32_t* end = at + file.bytes().size() / sizeof(uint32_t);
  SpilledPoint point;
  while (at < end) {
    point.is_test = at[0] != 0;
    const uint32_t labels = at[1];
    const uint32_t features = at[2];
    at += 3;
    point.labels.assign(at, at + labels);
    at += labels;
    point.features.clear();
    for (uint32_t f = 0; f < features; ++f, at += 2) {
      point.features.emplace_back(at[0], std::bit_cast<float>(at[1]));
    }
    RETURN_IF_ERROR(take(point));
  }
  return absl::OkStatus();
}

}  // namespace dslide
