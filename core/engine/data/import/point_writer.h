// The second pass of an import: points with their final ids.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/engine/data/import/importer.h"
#include "core/engine/data/import/point_spill.h"

namespace dslide {

// Thread safety: immutable.
class PointWriter {
 public:
  // The id of each number, or NameCounts::Ranking::kLeftOut; they outlive the writer. keep_all:
  // also points of which nothing is known.
  PointWriter(absl::Span<const uint32_t> feature_ids, absl::Span<const uint32_t> label_ids,
              bool keep_all)
      : feature_ids_(feature_ids), label_ids_(label_ids), keep_all_(keep_all) {}

  // Adds what each part will hold to report->train and report->test.
  absl::Status Count(PointSpill* spill, ImportReport* report) const;
  // Writes one part in the sparse text format. Errors: system errors naming the path.
  absl::Status Write(PointSpill* spill, const ImportReport& report, bool is_test,
                     const std::string& path) const;

 private:
  // Final ids, ascending, of what is kept.
  SpilledPoint Renumber(const SpilledPoint& point) const;

  absl::Span<const uint32_t> feature_ids_;
  absl::Span<const uint32_t> label_ids_;
  bool keep_all_;
};

// One name a line. Errors: system errors naming the path.
absl::Status WriteNameList(const std::string& path, absl::Span<const absl::string_view> names);

}  // namespace dslide
