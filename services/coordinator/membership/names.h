// Names of models, jobs and checkpoints: [a-z0-9-]{1,64}.

#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace dslide::coordinator {

// Errors: InvalidArgument (reason BAD_NAME) naming the field and showing the name.
absl::Status CheckName(absl::string_view field, absl::string_view name);

}  // namespace dslide::coordinator
