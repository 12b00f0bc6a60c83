// How often each label of a model occurs in training.

#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/cli/train/model_session.h"
#include "core/engine/data/dataset.h"
#include "core/engine/data/dataset_info.h"

namespace dslide::cli {

// Of the training file, or of what was kept with the model where that is ""; no points when neither
// says so. Errors: those of the file; InvalidArgument when it is of another shape than `test`.
absl::StatusOr<LabelCounts> TrainingCounts(const ModelSession& session,
                                           const std::string& training_data, const Dataset& test);

}  // namespace dslide::cli
