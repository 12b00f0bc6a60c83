// The file of `dslide report`: how a model was trained and what it reaches, as one HTML document.

#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "client/cli/report/frequency_accuracy.h"
#include "client/cli/report/run_record.h"
#include "core/engine/data/dataset_info.h"
#include "core/protocol/cluster_status.h"
#include "core/spec/model_spec.h"

namespace dslide::cli {

// What is known; the page says what is not.
struct RunReport {
  ModelSpec spec = {};
  std::string trained_by = {};                     // version and revision; "" when unknown
  std::optional<RunRecord> record = std::nullopt;  // of a model directory
  std::optional<JobStatus> job = std::nullopt;     // of a cluster
  LabelCounts label_counts = {};                   // of the training data; points = 0: unknown
  // The fields of AddAccuracy(), and where they were measured; null when nothing was.
  nlohmann::ordered_json accuracy = nullptr;
  std::string measured_on = {};
  std::vector<FrequencyBucket> frequency = {};  // empty without a test file

  // The curves: of the job, else of the record.
  const std::vector<EpochResult>& epochs() const;
};

// A whole document that loads nothing, runs no script, and is readable on a phone, light or dark.
std::string RenderRunReport(const RunReport& report);

}  // namespace dslide::cli
