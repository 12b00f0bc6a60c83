#include "client/cli/report/training_counts.h"

#include <memory>

#include "core/base/status_macros.h"
#include "core/engine/data/sparse_dataset.h"

namespace dslide::cli {

absl::StatusOr<LabelCounts> TrainingCounts(const ModelSession& session,
                                           const std::string& training_data, const Dataset& test) {
  if (training_data.empty()) return session.model().label_counts;
  ASSIGN_OR_RETURN(const std::unique_ptr<Dataset> training, session.OpenDataset(training_data));
  RETURN_IF_ERROR(CheckSameShape(*training, test));
  return CountLabels(*training, session.parallelism());
}

}  // namespace dslide::cli
