#include "core/engine/data/import/point_writer.h"

#include <algorithm>
#include <charconv>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/engine/data/file_output.h"
#include "core/engine/data/import/name_counts.h"

namespace dslide {
namespace {

// The shortest digits that read back bit-equal.
void AppendValue(float value, std::string* line) {
  char digits[32];
  const auto written = std::to_chars(digits, digits + sizeof(digits), value);
  line->append(digits, static_cast<size_t>(written.ptr - digits));
}

std::string PointLine(const SpilledPoint& point) {
  std::string line;
  for (size_t i = 0; i < point.labels.size(); ++i) {
    absl::StrAppend(&line, i == 0 ? "" : ",", point.labels[i]);
  }
  // A line begins with a blank where there is no label, and an empty one is none.
  if (point.labels.empty() && point.features.empty()) line += ' ';
  for (const auto& [id, value] : point.features) {
    absl::StrAppend(&line, " ", id, ":");
    AppendValue(value, &line);
  }
  line += '\n';
  return line;
}

// What becomes of a point. Counts it where `part` is not null.
bool IsKept(const SpilledPoint& renumbered, ImportPart* part) {
  const bool no_labels = renumbered.labels.empty();
  const bool no_features = !renumbered.is_test && renumbered.features.empty();
  const bool is_kept = !no_labels && !no_features;
  if (part == nullptr) return is_kept;
  if (is_kept) {
    ++part->points;
    part->labels += static_cast<int64_t>(renumbered.labels.size());
    part->features += static_cast<int64_t>(renumbered.features.size());
  } else {
    ++(no_labels ? part->without_labels : part->without_features);
  }
  return is_kept;
}

}  // namespace

SpilledPoint PointWriter::Renumber(const SpilledPoint& point) const {
  SpilledPoint result;
  result.is_test = point.is_test;
  for (const uint32_t number : point.labels) {
    if (label_ids_[number] != NameCounts::Ranking::kLeftOut) {
      result.labels.push_back(label_ids_[number]);
    }
  }
  for (const auto& [number, value] : point.features) {
    if (feature_ids_[number] != NameCounts::Ranking::kLeftOut) {
      result.features.emplace_back(feature_ids_[number], value);
    }
  }
  std::sort(result.labels.begin(), result.labels.end());
  std::sort(result.features.begin(), result.features.end());
  return result;
}

absl::Status PointWriter::Count(PointSpill* spill, ImportReport* report) const {
  return spill->ForEach([&](const SpilledPoint& point) {
    IsKept(Renumber(point), point.is_test ? &report->test : &report->train);
    return absl::OkStatus();
  });
}

absl::Status PointWriter::Write(PointSpill* spill, const ImportReport& report, bool is_test,
                                const std::string& path) const {
  const ImportPart& part = is_test ? report.test : report.train;
  ASSIGN_OR_RETURN(FileOutput out, FileOutput::Create(path));
  RETURN_IF_ERROR(
      out.Append(absl::StrCat(part.points, " ", report.features, " ", report.labels, "\n")));
  RETURN_IF_ERROR(spill->ForEach([&](const SpilledPoint& point) {
    if (point.is_test != is_test) return absl::OkStatus();
    const SpilledPoint renumbered = Renumber(point);
    return keep_all_ || IsKept(renumbered, nullptr) ? out.Append(PointLine(renumbered))
                                                    : absl::OkStatus();
  }));
  return out.Commit();
}

absl::Status WriteNameList(const std::string& path, absl::Span<const absl::string_view> names) {
  ASSIGN_OR_RETURN(FileOutput out, FileOutput::Create(path));
  for (const absl::string_view name : names) RETURN_IF_ERROR(out.Append(absl::StrCat(name, "\n")));
  return out.Commit();
}

}  // namespace dslide
