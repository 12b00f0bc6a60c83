#include "core/engine/memory/point_record.h"

#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/base/byte_fields.h"

namespace dslide {
namespace {

absl::Status Damaged(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("the record of a training point ", what));
}

bool Ascending(absl::Span<const RowId> ids) {
  for (size_t i = 1; i < ids.size(); ++i) {
    if (ids[i] <= ids[i - 1]) return false;
  }
  return true;
}

}  // namespace

std::string EncodePoint(absl::Span<const RowId> features, absl::Span<const float> values,
                        absl::Span<const RowId> labels, PointStamp stamp) {
  ByteWriter record;
  record.Number(stamp.number);
  record.Number(stamp.time);
  record.Number(static_cast<uint32_t>(features.size()));
  record.Number(static_cast<uint32_t>(labels.size()));
  for (const RowId feature : features) record.Number(feature);
  for (const RowId label : labels) record.Number(label);
  for (const float value : values) record.Number(ToBFloat16(value));
  return std::move(record).Take();
}

absl::Status CheckPointRecord(absl::string_view record) {
  if (record.size() < PointView::kHeaderBytes) return Damaged("is cut");
  const PointView point(record.data());
  if (record.size() != PointView::kHeaderBytes + uint64_t{6} * point.num_features() +
                           uint64_t{4} * point.num_labels()) {
    return Damaged(absl::StrCat("has ", record.size(), " bytes, which do not fit ",
                                point.num_features(), " features and ", point.num_labels(),
                                " labels"));
  }
  if (!Ascending(point.features())) return Damaged("has features that do not ascend");
  if (!Ascending(point.labels())) return Damaged("has labels that do not ascend");
  for (const BFloat16 value : point.values()) {
    if (!std::isfinite(ToFloat(value))) return Damaged("has a value that is not finite");
  }
  return absl::OkStatus();
}

float SquaredLength(PointView point) {
  float sum = 0;
  for (const BFloat16 value : point.values()) sum += ToFloat(value) * ToFloat(value);
  return sum;
}

}  // namespace dslide
